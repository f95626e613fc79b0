//! The list of schedules, with search, filters and actions on several at once.

use axum::response::Response;
use engine::schedule::Status;
use language::Rules;
use maud::{Markup, html};
use store::{ScheduleView, WorkflowQuery};

use super::controls;
use crate::http::access::Permission;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::schedules::list::ScheduleListParams;
use crate::http::schedules::object;
use crate::pages::form::{self, Action};
use crate::pages::layout::Page;
use crate::pages::listing::{empty, pager};
use crate::pages::page_context::PageContext;
use crate::pages::{badge, when};

/// How many schedules a page shows at most.
const LARGEST: usize = 100;
/// How many workflows are offered to choose from.
const OFFERED: usize = 50;
/// The id of the form that the checkboxes in the table belong to.
const CHOSEN: &str = "chosen";
/// The name of those checkboxes.
const BOXES: &str = "schedule_ids:list";

fn is_filtered(params: &ScheduleListParams) -> bool {
    params.status.is_some() || params.workflow.is_some() || params.search.is_some()
}

pub(super) async fn show(
    context: PageContext,
    Query(params): Query<ScheduleListParams>,
) -> Result<Response, Problem> {
    let found = params.find(&context.app, LARGEST).await?;
    let workflows = names(&context).await?;
    let rules = context.app.rules();
    let content = html! {
        div.head {
            h1 { "Schedules" }
            div.row {
                a.button href="/schedules/month" { "Month" }
                @if context.may(Permission::Design) {
                    a.button.main href="/schedules/new" { "New schedule" }
                }
            }
        }
        (filters(&params, &workflows))
        section.card.flush #schedules {
            @if found.items.is_empty() {
                (nothing(&context, &params))
            } @else {
                (bulk(&context))
                div.scroll tabindex="0" role="region" aria-label="Schedules" {
                    (table(&context, &found.items, &rules))
                }
                (pager(&context, found.total, found.next.as_ref()))
            }
        }
    };
    Ok(context.show(Page::new("Schedules", content).live("all")))
}

/// Names of workflows to choose from.
pub(super) async fn names(context: &PageContext) -> Result<Vec<String>, Problem> {
    let query = WorkflowQuery { limit: OFFERED, ..WorkflowQuery::default() };
    let views = context.app.store().workflows(query).await?.items;
    Ok(views.into_iter().map(|view| view.workflow.name).collect())
}

/// A list of names to choose from; a field refers to it by `id`.
pub(super) fn choices(id: &str, names: &[String]) -> Markup {
    html! { datalist id=(id) { @for name in names { option value=(name) {} } } }
}

fn filters(params: &ScheduleListParams, workflows: &[String]) -> Markup {
    let status = params.status.map_or("", Status::name);
    let all = [
        ("", "Any state"),
        ("active", "Active"),
        ("paused", "Paused"),
        ("done", "Done"),
        ("dead", "Dead"),
    ];
    html! {
        form.search method="get" action="/schedules" role="search" {
            (grow(form::field("Search", "q", "", html! {
                input type="search" id="q" name="q" value=[params.search.as_deref()]
                    placeholder="Beginnings of words in the name" maxlength="200";
            })))
            (form::select("State", "status", status, &all))
            (form::field("Workflow", "workflow", "", html! {
                input id="workflow" name="workflow_id" list="workflows" value=[params.workflow.as_deref()]
                    placeholder="Any";
            }))
            (choices("workflows", workflows))
            button type="submit" { "Show" }
            @if is_filtered(params) { a.button href="/schedules" { "All" } }
        }
    }
}

/// A field that takes the remaining width.
fn grow(field: Markup) -> Markup {
    html! { div.field.grow { (field) } }
}

fn nothing(context: &PageContext, params: &ScheduleListParams) -> Markup {
    if is_filtered(params) || params.paging.after.is_some() {
        return empty(
            "No schedule is like that.",
            html! { p { a href="/schedules" { "Show all" } } },
        );
    }
    empty(
        "There are no schedules yet.",
        html! {
            p { "A schedule starts a workflow whenever it is due." }
            @if context.may(Permission::Design) {
                p { a.button.main href="/schedules/new" { "New schedule" } }
            }
        },
    )
}

/// The actions on all selected schedules.
fn bulk(context: &PageContext) -> Markup {
    let control = |action: &str, label: &str| {
        html! {
            button type="submit" formaction="/forms/schedules/batch-control" name="action" value=(action) {
                (label)
            }
        }
    };
    let (may_operate, may_design) =
        (context.may(Permission::Operate), context.may(Permission::Design));
    if !may_operate && !may_design {
        return html! {};
    }
    html! {
        form.row.pad.bulk id=(CHOSEN) method="post" action="/forms/schedules/batch-control" {
            (form::hidden(context, &context.address, Some("{summary}"), None))
            div.check {
                input type="checkbox" id="choose-all" data-all=(BOXES);
                label for="choose-all" { "All on this page" }
            }
            span.muted.small { "With those chosen:" }
            @if may_operate {
                (control("pause", "Pause"))
                (control("resume", "Resume"))
                (control("revive", "Revive"))
                (control("trigger", "Run now"))
            }
            @if may_design {
                button.danger type="submit" formaction="/forms/schedules/batch-delete" name="_said"
                    value="The chosen schedules were deleted."
                    data-ask="Delete the chosen schedules? Their history stays until it is too old." {
                    "Delete"
                }
            }
        }
    }
}

fn table(context: &PageContext, items: &[ScheduleView], rules: &Rules) -> Markup {
    let may_choose = context.may(Permission::Operate) || context.may(Permission::Design);
    html! {
        table.cards {
            caption.hidden { "Schedules" }
            thead {
                tr {
                    @if may_choose { th scope="col" { span.hidden { "Chosen" } } }
                    th scope="col" { "Schedule" }
                    th scope="col" { "When" }
                    th scope="col" { "State" }
                    th scope="col" { "Next" }
                    th scope="col" { "Last run" }
                    th scope="col" { span.hidden { "Actions" } }
                }
            }
            tbody { @for view in items { (line(context, view, rules, may_choose)) } }
        }
    }
}

fn line(context: &PageContext, view: &ScheduleView, rules: &Rules, may_choose: bool) -> Markup {
    let schedule = &view.schedule;
    let (id, name) = (schedule.id, &schedule.declared.name);
    let words = object::plan(schedule, rules).map(|plan| plan.timing.words());
    html! {
        tr id={ "schedule-" (id) } {
            @if may_choose {
                td {
                    input type="checkbox" form=(CHOSEN) name=(BOXES) value=(id)
                        aria-label={ "Choose " (name) };
                }
            }
            td {
                a.name href={ "/schedules/" (id) } { (name) }
                div.small.muted {
                    "starts " a href={ "/workflows/" (schedule.workflow) } { (view.workflow_name) }
                }
            }
            td.when data-label="When" {
                @match &words {
                    Some(words) => { (words) },
                    None => span.wrong { "its rule cannot be read any more" },
                }
            }
            td data-label="State" { (badge::schedule(schedule.status)) }
            td data-label="Next" { (next(context, view, rules)) }
            td data-label="Last run" { (last(context, view)) }
            td.actions { (actions(context, view)) }
        }
    }
}

/// When it is due next in its own zone, and the distance to that.
fn next(context: &PageContext, view: &ScheduleView, rules: &Rules) -> Markup {
    let schedule = &view.schedule;
    let Some(at) = object::next(view, rules, context.now) else {
        let is_held = view.workflow_is_paused && schedule.status == Status::Active;
        return html! { span.muted { @if is_held { "workflow paused" } @else { "–" } } };
    };
    let zone = object::zone(schedule, rules);
    html! {
        (when::in_zone(context, &zone, at))
        div.small.muted {
            (when::age(context, at))
            @if zone.name() != context.zone.name() { ", " (zone.name()) }
        }
    }
}

fn last(context: &PageContext, view: &ScheduleView) -> Markup {
    let progress = &view.schedule.progress;
    html! {
        @match progress.last_outcome {
            Some(ending) => (badge::run(ending.status())),
            None => span.muted { "–" },
        }
        @if let Some(at) = progress.last_run_at {
            div.small.muted { (when::age(context, at)) }
        }
    }
}

fn actions(context: &PageContext, view: &ScheduleView) -> Markup {
    let id = view.schedule.id;
    html! {
        (controls(context, &view.schedule))
        @if context.may(Permission::Operate) {
            " "
            (Action::new(format!("schedules/{id}/trigger"), "Run now").said("Started: run {run_id}.").show(context))
        }
    }
}
