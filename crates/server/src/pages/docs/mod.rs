//! The API documentation, with forms to try it out, from the same document as `/openapi.json`.

mod attempt;
mod operation;
mod schema;

use std::collections::BTreeMap;

use axum::Router;
use axum::extract::Path;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};

use self::attempt::{Answer, answered};
use self::operation::{Operation, operations};
use super::layout::Page;
use super::page_context::PageContext;
use crate::http::App;
use crate::http::body::RawBody;
use crate::http::problem::Problem;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/docs", get(index)).route("/docs/{operation}", get(read).post(tried))
}

/// A text of the document; parts between backticks are shown as code.
fn prose(text: &str) -> Markup {
    html! {
        @for (index, piece) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (piece) } } @else { (piece) }
        }
    }
}

async fn index(context: PageContext) -> Result<Response, Problem> {
    let document = context.app.read_document()?;
    let mut by_tag: BTreeMap<&str, Vec<Operation<'_>>> = BTreeMap::new();
    for operation in operations(&document) {
        by_tag.entry(operation.tag()).or_default().push(operation);
    }
    let content = html! {
        div.head {
            h1 { "API" }
            div.row { a.button href="/openapi.json" { "OpenAPI document" } }
        }
        p.lead { (prose(document["info"]["description"].as_str().unwrap_or_default())) }
        p {
            "Programs show a token: " code { "Authorization: Bearer TOKEN" } ". "
            "What you try here is really done, as you."
        }
        @for (tag, operations) in &by_tag {
            section.card.flush id={ "tag-" (tag) } {
                header { h2 { (tag) } }
                (operation_rows(operations))
            }
        }
    };
    Ok(context.show(Page::new("API", content)))
}

fn operation_rows(operations: &[Operation<'_>]) -> Markup {
    html! {
        table.cards {
            thead.hidden { tr { th { "Request" } th { "What it does" } } }
            tbody {
                @for operation in operations {
                    tr {
                        td.path {
                            span.tag { (operation.method()) } " "
                            a.mono href={ "/docs/" (operation.id()) } { (operation.path) }
                        }
                        td { (prose(operation.text("summary"))) }
                    }
                }
            }
        }
    }
}

async fn read(context: PageContext, Path(id): Path<String>) -> Result<Response, Problem> {
    show(&context, &id, None, "").await
}

async fn tried(
    context: PageContext,
    Path(id): Path<String>,
    body: RawBody,
) -> Result<Response, Problem> {
    let answer = attempt::send(&context, &id, &body.text).await?;
    show(&context, &id, Some(&answer), &body.text).await
}

async fn show(
    context: &PageContext,
    id: &str,
    answer: Option<&Answer>,
    sent: &str,
) -> Result<Response, Problem> {
    let document = context.app.read_document()?;
    let all = operations(&document);
    let found = all.into_iter().find(|operation| operation.id() == id);
    let operation = found.ok_or_else(|| Problem::not_found("request in the API", id))?;
    let content = html! {
        div.head {
            div.trail { a href="/docs" { "API" } " / " (operation.tag()) }
            div.title { h1.mono { (operation.method()) " " (operation.path) } }
        }
        p { (prose(operation.text("summary"))) " " (prose(operation.text("description"))) }
        div.columns {
            section.card {
                h2 { "Try it" }
                (operation.form(context, sent))
            }
            section.card id="answer" {
                h2 { "Answer" }
                @match answer {
                    Some(answer) => (answered(answer)),
                    None => p.muted { "What comes back is shown here." },
                }
            }
        }
        (operation.parameters_shown())
        (operation.body_shown())
        (operation.responses_shown())
    };
    Ok(context.show(Page::new(format!("{} {}", operation.method(), operation.path), content)))
}
