//! The text of a workflow, line by line.

use axum::response::Response;
use maud::{Markup, html};

use super::{Tab, address, head};
use crate::http::access::Permission;
use crate::http::path::PathId;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::workflows::{RevisionParams, find_workflow};
use crate::pages::layout::Page;
use crate::pages::page_context::PageContext;
use crate::pages::value::bytes;
use crate::pages::when;

/// How many bytes of a text are shown. The editor has all of it.
const LONGEST: usize = 64 * 1024;

pub(super) async fn show(
    context: PageContext,
    PathId(id): PathId,
    Query(RevisionParams { revision }): Query<RevisionParams>,
) -> Result<Response, Problem> {
    let view = find_workflow(&context.app, &id, revision).await?;
    let revision = view.revision;
    let here = address(&view.workflow);
    let content = html! {
        (head(&context, &view, Tab::Source))
        section.card id="source" {
            header {
                h2 { "Revision " (revision) }
                span.small.muted { "saved " (when::at_and_age(&context, view.saved_at)) }
                @if context.may(Permission::Design) {
                    a.button href={ (here) "/edit?revision=" (revision) } { "Edit" }
                }
            }
            (lines(&view.source, &format!("/api/v1/workflows/{}?revision={revision}", view.workflow.id)))
        }
    };
    Ok(context.show(Page::new(format!("Source of {}", view.workflow.name), content)))
}

/// A text with line numbers, cut if it is long.
fn lines(text: &str, whole: &str) -> Markup {
    let mut length = 0;
    let shown = text.lines().take_while(|line| {
        length += line.len() + 1;
        length <= LONGEST
    });
    html! {
        div.scroll tabindex="0" role="region" aria-label="Source" {
            ol.source { @for (number, line) in shown.enumerate() { li id={ "L" (number + 1) } { code { (line) } } } }
        }
        @if text.len() > LONGEST {
            p.small.muted { "The first " (bytes(LONGEST)) " of " (bytes(text.len())) ". " a href=(whole) { "All of it" } }
        }
    }
}
