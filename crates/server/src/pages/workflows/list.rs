//! The list of workflows.

use std::collections::HashMap;

use axum::response::Response;
use engine::WorkflowId;
use maud::{Markup, html};
use store::{RunView, WorkflowView};

use super::address;
use crate::http::access::Permission;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::workflows::WorkflowListParams;
use crate::pages::layout::Page;
use crate::pages::listing::{empty, grouped, pager};
use crate::pages::page_context::PageContext;
use crate::pages::runs::in_a_line;
use crate::pages::{badge, when};

/// How many workflows a page shows at most.
const MOST: usize = 50;

pub(super) async fn show(
    context: PageContext,
    Query(params): Query<WorkflowListParams>,
) -> Result<Response, Problem> {
    let mut query = params.query();
    query.limit = query.limit.min(MOST);
    let page = context.app.views().workflows(query).await?;
    let ids = page.items.iter().map(|view| view.workflow.id).collect();
    let last: HashMap<WorkflowId, RunView> =
        context.app.store().last_runs(ids).await?.into_iter().collect();
    let rows: Vec<(&WorkflowView, Option<&RunView>)> =
        page.items.iter().map(|view| (view, last.get(&view.workflow.id))).collect();
    let content = html! {
        div.head {
            h1 { "Workflows" }
            @if context.may(Permission::Design) { a.button.main href="/workflows/new" { "New workflow" } }
        }
        form.search method="get" action="/workflows" role="search" {
            div.field.grow {
                label for="search" { "Name" }
                input type="search" id="search" name="search" value=(params.search.as_deref().unwrap_or_default());
            }
            button type="submit" { "Show" }
        }
        section.card.flush aria-label="Workflows" {
            (table(&context, &rows, params.search.is_some()))
            @if !rows.is_empty() { (pager(&context, page.total, page.next.as_ref())) }
        }
    };
    Ok(context.show(Page::new("Workflows", content).live("all")))
}

fn table(
    context: &PageContext,
    rows: &[(&WorkflowView, Option<&RunView>)],
    is_search: bool,
) -> Markup {
    if rows.is_empty() && is_search {
        return empty(
            "No workflow is called like that.",
            html! { p { a href="/workflows" { "All workflows" } } },
        );
    }
    if rows.is_empty() {
        let remedy = html! {
            p { "A workflow says what is done, and when. " a href="/workflows/new" { "Write the first one" } "." }
        };
        return empty("There is no workflow yet.", remedy);
    }
    html! {
        table.cards {
            thead {
                tr {
                    th scope="col" { "Workflow" } th scope="col" { "State" }
                    th scope="col" { "Last run" } th.number scope="col" { "Schedules" }
                    th.number scope="col" { "Version" }
                }
            }
            tbody { @for (view, last) in rows { (row(context, view, *last)) } }
        }
    }
}

fn row(context: &PageContext, view: &WorkflowView, last: Option<&RunView>) -> Markup {
    let workflow = &view.workflow;
    html! {
        tr id={ "workflow-" (workflow.id) } {
            td {
                a.name href=(address(workflow)) { (workflow.name) }
                @if let Some(text) = &view.definition.description {
                    div.small.muted { (in_a_line(text)) }
                }
            }
            td data-label="State" {
                (badge::workflow(workflow.status, workflow.paused))
                @if let Some(reason) = workflow.paused_reason.as_ref().filter(|_| workflow.paused) {
                    div.small.muted { (in_a_line(reason)) }
                }
            }
            td data-label="Last run" {
                @match last {
                    Some(RunView { run, .. }) => {
                        (badge::run(run.status)) " "
                        a.small href={ "/runs/" (run.id) } { (when::age(context, run.ended_at.unwrap_or(run.created_at))) }
                    }
                    None => span.muted { "never" },
                }
            }
            td.number data-label="Schedules" { (grouped(view.schedules)) }
            td.number data-label="Version" { (view.definition.version) }
        }
    }
}
