//! Checks the text of a definition before it is saved: shows all errors, or the graph of its steps.

use axum::http::StatusCode;
use axum::response::Response;
use language::definition::{Definition, Flaw};
use maud::{Markup, html};

use super::editor::{self, KINDS};
use crate::http::body::{LARGEST_BODY, RawBody};
use crate::http::problem::Problem;
use crate::http::workflows::{Found, look};
use crate::pages::flow::{self, Look};
use crate::pages::layout::Page;
use crate::pages::page_context::PageContext;
use crate::pages::{badge, forms};

/// The largest form: form encoding makes the text longer, as in `%0A`.
const LARGEST_FORM: usize = 3 * LARGEST_BODY;

pub(super) async fn show(
    context: PageContext,
    body: RawBody<LARGEST_FORM>,
) -> Result<Response, Problem> {
    let form = forms::read(&context, &body.text)?;
    let text = form.body.unwrap_or_default();
    let kind = form.content_type.unwrap_or_else(|| KINDS[0].0.to_owned());
    let body = RawBody {
        text: text.clone(),
        content_type: Some(kind.clone()),
        idempotency: None,
        trace: None,
    };
    let found = look(&context.app, &body).await?;
    let status = match &found {
        Found::Good(..) => StatusCode::OK,
        Found::Wrong(_) => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let content = html! {
        div.head { div.trail { a href="/workflows" { "Workflows" } } h1 { "Check a workflow" } }
        (editor::form(&context, &text, &kind, told(&found)))
    };
    Ok(context.show_with(status, Page::new("Check a workflow", content)))
}

fn told(found: &Found) -> Markup {
    match found {
        Found::Wrong(flaws) => html! {
            h2 { (flaws.len()) @if flaws.len() == 1 { " problem" } @else { " problems" } }
            (list(flaws))
        },
        Found::Good(definition, warnings) => html! {
            h2 { "It can be saved" }
            p {
                (badge::badge("good", "is-ok")) " "
                strong { (definition.name) } ", version " (definition.version) ": " (summary(definition))
            }
            @if !warnings.is_empty() { h3 { "To know before relying on it" } (list(warnings)) }
            @if (1..=flow::MOST).contains(&definition.steps.len()) {
                (flow::graph("What follows what", definition, |_, _| Look::default()).draw())
            }
        },
    }
}

fn summary(definition: &Definition) -> String {
    let counted = |count: usize, one: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {one}s")),
    };
    let parts = [
        counted(definition.triggers.len(), "trigger"),
        counted(definition.steps.len(), "step"),
        counted(definition.producers.len(), "producer"),
        counted(definition.consumers.len(), "consumer"),
        counted(definition.topics.len(), "topic"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The errors with their position, the line and a caret.
fn list(flaws: &[Flaw]) -> Markup {
    html! {
        ol.plain.lines {
            @for flaw in flaws {
                li {
                    p.small {
                        @if flaw.line > 0 { strong { "Line " (flaw.line) ", column " (flaw.column) } " " }
                        @if !flaw.path.is_empty() { code { (flaw.path) } }
                    }
                    pre { (flaw) }
                }
            }
        }
    }
}
