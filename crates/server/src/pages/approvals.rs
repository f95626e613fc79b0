//! The page of open approvals, with forms to decide them.

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};
use store::ApprovalView;

use super::layout::Page;
use super::listing::{empty, pager, with};
use super::page_context::PageContext;
use super::runs::decision;
use crate::http::App;
use crate::http::approvals::ApprovalListParams;
use crate::http::problem::Problem;
use crate::http::query::{Parameters, Query, Values};

/// How many approvals a page shows: each is a form.
const MOST: usize = 25;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/approvals", get(show))
}

struct ApprovalPageParams {
    mine: bool,
    list: ApprovalListParams,
}

impl Parameters for ApprovalPageParams {
    fn read(values: &mut Values) -> ApprovalPageParams {
        ApprovalPageParams { mine: values.flag("mine"), list: ApprovalListParams::read(values) }
    }
}

async fn show(
    context: PageContext,
    Query(ApprovalPageParams { mine, list }): Query<ApprovalPageParams>,
) -> Result<Response, Problem> {
    let mut query = list.query();
    query.limit = query.limit.min(MOST);
    if mine && list.assignee.is_none() {
        query.assignees = own_names(&context);
    }
    let is_filtered = !query.assignees.is_empty();
    let page = context.app.views().approvals(query).await?;
    let content = html! {
        div.head { h1 { "Approvals" } }
        p.lead { "What runs ask people. They wait until somebody decides, or a deadline does." }
        (filters(&context, mine, list.assignee.as_deref()))
        @if page.items.is_empty() { section.card { (none(is_filtered)) } }
        @for asked in &page.items { (one(&context, asked)) }
        @if !page.items.is_empty() { (pager(&context, page.total, page.next.as_ref())) }
    };
    Ok(context.show(Page::new("Approvals", content).live("all")))
}

/// The names by which approvals are assigned to the user: their own and those of their roles.
fn own_names(context: &PageContext) -> Vec<String> {
    let roles = context.caller.roles.iter().map(|role| role.name().to_owned());
    [context.caller.name.to_string()].into_iter().chain(roles).collect()
}

fn filters(context: &PageContext, mine: bool, assignee: Option<&str>) -> Markup {
    let first = with(&context.address, "cursor", None);
    let to = |mine: Option<&str>| with(&with(&first, "assignee", None), "mine", mine);
    let is_known = &*context.caller.name != "anyone";
    html! {
        @if is_known {
            nav.tabs aria-label="Whose" {
                a href=(to(None)) aria-current=[(!mine && assignee.is_none()).then_some("page")] { "All" }
                a href=(to(Some("true"))) aria-current=[mine.then_some("page")] { "For me" }
            }
        }
        form.search method="get" action="/approvals" role="search" {
            div.field {
                label for="assignee" { "May be decided by" }
                input type="search" id="assignee" name="assignee" value=(assignee.unwrap_or_default());
            }
            button type="submit" { "Show" }
        }
    }
}

fn none(is_filtered: bool) -> Markup {
    if is_filtered {
        empty(
            "Nothing waits for this person.",
            html! { p { a href="/approvals" { "What waits for others" } } },
        )
    } else {
        empty(
            "Nobody is asked anything.",
            html! {
                p { "When a step of type " code { "human_approval" } " is reached, it is found here." }
            },
        )
    }
}

fn one(context: &PageContext, asked: &ApprovalView) -> Markup {
    html! {
        section.card id={ "asked-" (asked.run) "-" (asked.step) } {
            header {
                h2 { (asked.title) }
                span.small.muted {
                    a href={ "/runs/" (asked.run) } { (asked.workflow_name) } ", step "
                    a href={ "/runs/" (asked.run) "/steps/" (asked.step) } { (asked.step) }
                }
            }
            (decision(context, asked))
        }
    }
}
