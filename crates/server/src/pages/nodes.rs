//! The page of nodes and queues.

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use engine::turn::Recovered;
use maud::{Markup, html};
use store::{NodeView, QueueView};

use super::badge::badge;
use super::layout::Page;
use super::listing::{empty, grouped, heads};
use super::page_context::PageContext;
use super::when;
use crate::http::App;
use crate::http::problem::Problem;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/nodes", get(list))
}

async fn list(context: PageContext) -> Result<Response, Problem> {
    let store = context.app.store();
    let (nodes, queues, stats) =
        (store.nodes().await?, store.queues().await?, store.stats(context.now).await?);
    let content = html! {
        div.head { h1 { "Nodes and workers" } }
        @if let Some(why) = context.app.hub().why_not_ready() {
            div.said.is-bad role="alert" { "This node is not ready: " (why) }
        }
        section.card.flush id="nodes" {
            header { h2 { "Nodes" } }
            (node_rows(&context, &nodes))
        }
        section.card.flush id="queues" {
            header { h2 { "Waiting for workers" } }
            (queue_rows(&queues))
        }
        section.card {
            h2 { "Store" }
            dl.facts {
                dt { "Size" } dd { (megabytes(stats.bytes)) }
                dt { "Due and not taken up" } dd { (grouped(stats.due)) }
                dt { "Next wakeup" } dd { (when::or_dash(&context, stats.next_wakeup)) }
                dt { "Zone database" } dd { (context.app.rules().zones().version()) }
                dt { "Version" } dd { (env!("CARGO_PKG_VERSION")) }
            }
        }
    };
    Ok(context.show(Page::new("Nodes and workers", content).live("all")))
}

fn node_rows(context: &PageContext, nodes: &[NodeView]) -> Markup {
    html! {
        table.cards {
            (heads(&["Node", "State", "Attempts", "Since", "Last heard of", "Recovered"]))
            tbody {
                @for node in nodes { (node_row(context, node)) }
            }
        }
    }
}

fn node_row(context: &PageContext, node: &NodeView) -> Markup {
    let is_this = node.id == context.app.hub().node();
    // An embedded store has one node, which knows its capacity itself.
    let own = is_this.then(|| context.app.hub().metrics.capacity());
    let capacity = own.or(node.capacity);
    let is_late = node.lease_until.is_some_and(|until| until < context.now);
    html! {
        tr id={ "node-" (node.id) } {
            td {
                span.name { (node.name) } " "
                @if is_this { span.tag { "answers you" } }
            }
            td {
                @if is_late { (badge("not heard of", "is-bad")) } @else { (badge("alive", "is-ok")) }
            }
            td data-label="attempts" {
                (grouped(node.attempts))
                @if let Some(capacity) = capacity {
                    " of " (grouped(capacity)) " "
                    meter min="0" max=(capacity.max(1)) value=(node.attempts)
                        aria-label={ "Attempts of " (node.name) } {}
                }
            }
            td data-label="since" { (when::at_and_age(context, node.started_at)) }
            td data-label="last heard of" { (when::or_dash(context, node.seen_at)) }
            td.small data-label="recovered" { (recovered(node.recovered)) }
        }
    }
}

/// What this start of a node has recovered after downtime.
fn recovered(found: Recovered) -> String {
    let Recovered { missed, made_up, coalesced, taken_over } = found;
    let counts = [
        (missed, "missed"),
        (made_up, "made up for"),
        (coalesced, "coalesced"),
        (taken_over, "attempts taken over"),
    ];
    let told = counts.iter().filter(|(count, _)| *count > 0);
    let told: Vec<String> = told.map(|(n, what)| format!("{} {what}", grouped(*n))).collect();
    if told.is_empty() { "–".to_owned() } else { told.join(", ") }
}

fn queue_rows(queues: &[QueueView]) -> Markup {
    if queues.is_empty() {
        return empty(
            "Nothing waits for a worker.",
            html! { p { "Steps with a " code { "queue" } " wait here until a worker takes them: " code { "punctual worker --queue NAME -- COMMAND" } } },
        );
    }
    html! {
        table.cards {
            thead { tr { th scope="col" { "Queue" } th.number scope="col" { "Waiting" } } }
            tbody {
                @for queue in queues {
                    tr id={ "queue-" (queue.name) } {
                        td.name { (queue.name) }
                        td.number data-label="waiting" { (grouped(queue.waiting)) }
                    }
                }
            }
        }
    }
}

fn megabytes(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", grouped(bytes / 1_000)),
        _ => format!("{} MB", grouped(bytes / 1_000_000)),
    }
}
