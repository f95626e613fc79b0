//! The editor of workflows: check, save, publish.

use axum::response::Response;
use maud::{Markup, html};

use super::{Tab, head};
use crate::http::path::PathId;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::workflows::{RevisionParams, find_workflow};
use crate::pages::form::{area, hidden, select};
use crate::pages::layout::Page;
use crate::pages::page_context::PageContext;

/// The example that a new workflow begins with. It works as it is.
const EXAMPLE: &str = r#"name: hello
description: Says good morning on weekdays.

triggers:
  - id: mornings
    type: schedule
    cron: "0 9 * * 1-5"
    timezone: Europe/Berlin
    payload: { greeting: "Good morning" }

steps:
  - id: wait
    type: timer
    delay: 2s
  - id: greet
    type: script
    depends_on: [wait]
    source: |
      return { said: `${input.greeting}, it is ${ctx.now()}` };

outputs:
  - name: said
    source: "{{ steps.greet.output.said }}"
"#;

/// The languages of definitions: content type and name.
pub(super) const KINDS: [(&str, &str); 2] =
    [("application/yaml", "YAML or JSON"), ("application/javascript", "JavaScript")];

pub(super) async fn new(context: PageContext, Query(()): Query<()>) -> Result<Response, Problem> {
    let content = html! {
        div.head { div.trail { a href="/workflows" { "Workflows" } } h1 { "New workflow" } }
        (form(&context, EXAMPLE, KINDS[0].0, html! {}))
    };
    Ok(context.show(Page::new("New workflow", content)))
}

pub(super) async fn edit(
    context: PageContext,
    PathId(id): PathId,
    Query(RevisionParams { revision }): Query<RevisionParams>,
) -> Result<Response, Problem> {
    let newest = find_workflow(&context.app, &id, None).await?.workflow.newest;
    let revision = revision.unwrap_or(newest);
    let view = find_workflow(&context.app, &id, Some(revision)).await?;
    let is_script = view.definition.script.is_some();
    let content = html! {
        (head(&context, &view, Tab::Source))
        @if revision < newest {
            div.said.is-warn { p { "This is revision " (revision) ", and there is a newer one: " (newest) ". What you save becomes the newest." } }
        }
        (form(&context, &view.source, KINDS[usize::from(is_script)].0, html! {}))
    };
    Ok(context.show(Page::new(format!("Edit {}", view.workflow.name), content)))
}

/// The form with the text and its buttons. `found` is the result of a check.
pub(super) fn form(context: &PageContext, text: &str, kind: &str, found: Markup) -> Markup {
    let rows = u32::try_from(text.lines().count() + 4).unwrap_or(40).clamp(16, 40);
    html! {
        form.form method="post" action="/forms/workflows" {
            (hidden(context, "/workflows/{name}", Some("Revision {revision} is saved."), None))
            div.fields { (select("Written in", "_type", kind, &KINDS)) }
            (area("Definition", "_body", text, rows, "Its name says which workflow it is: another name makes another workflow."))
            div.row {
                button type="submit" formaction="/workflows/check" data-into="found" { "Check" }
                button type="submit" { "Save as a draft" }
                button.main type="submit" formaction="/forms/workflows?publish=true" { "Save and publish" }
            }
        }
        section.card id="found" aria-live="polite" aria-label="What the check says" {
            (found)
            @if text == EXAMPLE { p.muted { "Check says what is wrong, with its place, before anything is saved." } }
        }
    }
}
