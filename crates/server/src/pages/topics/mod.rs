//! The pages of topics: their backlog, their subscribers, and their events.

mod events;

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};
use store::TopicView;

use super::layout::Page;
use super::listing::{empty, grouped, pager};
use super::page_context::PageContext;
use super::when;
use crate::http::App;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::topics::TopicListParams;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/topics", get(list)).route("/topics/{topic}", get(events::list))
}

async fn list(
    context: PageContext,
    Query(params): Query<TopicListParams>,
) -> Result<Response, Problem> {
    let page = context.app.store().topics(params.query()).await?;
    let content = html! {
        div.head { h1 { "Topics" } }
        p.lead { "What producers publish, and consumers, processes and people work on." }
        form.search method="get" role="search" {
            div.field.grow {
                label for="name" { "Name" }
                input type="search" id="name" name="name" value=[params.name.as_deref()];
            }
            div.field.grow {
                label for="workflow" { "Workflow" }
                input type="text" id="workflow" name="workflow" value=[params.workflow.as_deref()];
            }
            button type="submit" { "Show" }
        }
        section.card.flush id="topics" {
            @if page.items.is_empty() {
                (empty("No topic is declared here.", html! {
                    p { "A workflow declares its topics under " code { "topics" } ". See " a href="/workflows/new" { "a new workflow" } "." }
                }))
            } @else {
                (rows(&context, &page.items))
                (pager(&context, page.total, page.next.as_ref()))
            }
        }
    };
    Ok(context.show(Page::new("Topics", content).live("all")))
}

/// The address of a topic's page.
pub(super) fn address(view: &TopicView) -> String {
    format!("/topics/{}", view.topic.id)
}

/// Topics in a table, also for the page of their workflow.
pub(super) fn rows(context: &PageContext, topics: &[TopicView]) -> Markup {
    html! {
        table.cards {
            thead {
                tr {
                    th scope="col" { "Topic" }
                    th scope="col" { "Whose" }
                    th.number scope="col" { "Pending" }
                    th.number scope="col" { "Being worked on" }
                    th.number scope="col" { "Done" }
                    th.number scope="col" { "Skipped" }
                    th scope="col" { "Oldest pending" }
                }
            }
            tbody {
                @for view in topics {
                    @let counts = &view.topic.counts;
                    tr id={ "topic-" (view.topic.id) } {
                        td { a.name href=(address(view)) { (view.topic.name) } }
                        td data-label="whose" {
                            @match &view.workflow {
                                Some(name) => a href={ "/workflows/" (name) } { (name) },
                                None => span.tag { "shared" },
                            }
                        }
                        td.number data-label="pending" { (grouped(counts.pending)) }
                        td.number data-label="being worked on" { (grouped(counts.reserved)) }
                        td.number data-label="done" { (grouped(counts.consumed)) }
                        td.number data-label="skipped" { (grouped(counts.skipped)) }
                        td data-label="oldest pending" {
                            @match view.oldest_pending_at {
                                Some(at) => (when::age(context, at)),
                                None => span.muted { "–" },
                            }
                        }
                    }
                }
            }
        }
    }
}
