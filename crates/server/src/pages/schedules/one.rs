//! The page of one schedule: its status, upcoming occurrences, history, and explanations.

use axum::response::Response;
use calendar::Zone;
use engine::schedule::{Schedule, Status};
use jiff::Timestamp;
use language::schedule::Plan;
use maud::{Markup, html};
use store::{IncidentQuery, ScheduleView};

use super::{backfill, coming, controls, drawings, facts, ledger, why};
use crate::http::access::Permission;
use crate::http::path::SchedulePath;
use crate::http::problem::Problem;
use crate::http::query::{Parameters, Query, Values};
use crate::http::schedules::list::view;
use crate::http::schedules::object;
use crate::http::schedules::occurrences::OccurrenceListParams;
use crate::pages::form::{self, Action};
use crate::pages::layout::Page;
use crate::pages::page_context::PageContext;
use crate::pages::{badge, incidents, when};

/// A schedule with what its pages show.
pub(super) struct Looked {
    pub(super) view: ScheduleView,
    /// What its declaration means; `None` if it can no longer be read.
    pub(super) plan: Option<Plan>,
    /// The schedule's own zone.
    pub(super) zone: Zone,
}

impl Looked {
    /// Reads the schedule with this id, or responds that there is none.
    pub(super) async fn at(
        context: &PageContext,
        id: engine::ScheduleId,
    ) -> Result<Looked, Problem> {
        let view = view(&context.app, id).await?;
        let rules = context.app.rules();
        let plan = object::plan(&view.schedule, &rules);
        let zone = object::zone(&view.schedule, &rules);
        Ok(Looked { view, plan, zone })
    }

    pub(super) fn schedule(&self) -> &Schedule {
        &self.view.schedule
    }

    pub(super) fn name(&self) -> &str {
        &self.view.schedule.declared.name
    }

    /// The address of its page.
    pub(super) fn address(&self) -> String {
        format!("/schedules/{}", self.view.schedule.id)
    }
}

/// The query parameters of the page.
pub(super) struct SchedulePageParams {
    pub(super) at: Option<String>,
    pub(super) range: backfill::Range,
    pub(super) occurrences: OccurrenceListParams,
}

impl Parameters for SchedulePageParams {
    fn read(values: &mut Values) -> SchedulePageParams {
        SchedulePageParams {
            at: values.text("at"),
            range: backfill::Range::read(values),
            occurrences: OccurrenceListParams::read(values),
        }
    }
}

pub(super) async fn show(
    context: PageContext,
    SchedulePath(id): SchedulePath,
    Query(params): Query<SchedulePageParams>,
) -> Result<Response, Problem> {
    let looked = Looked::at(&context, id).await?;
    let runs = facts::last_runs(&context, &looked).await?;
    let of_schedule = IncidentQuery { schedule: Some(id), ..IncidentQuery::default() };
    let incidents = incidents::card(&context, of_schedule).await?;
    let content = html! {
        (head(&context, &looked))
        (tabs(&looked, "schedule"))
        (standing(&context, &looked))
        (facts::figures(&context, &looked, &runs))
        div.columns {
            (facts::card(&context, &looked))
            (coming::card(&context, &looked))
        }
        (drawings::cards(&context, &looked, &runs))
        (incidents)
        (ledger::card(&context, &looked, &params.occurrences).await?)
        div.columns {
            (why::card(&context, &looked, params.at.as_deref()).await?)
            (backfill::card(&context, &looked, &params.range))
        }
    };
    let page = Page::new(looked.name(), content).live(format!("schedule:{id}"));
    Ok(context.show(page))
}

/// The head of each of its pages.
pub(super) fn head(context: &PageContext, looked: &Looked) -> Markup {
    let schedule = looked.schedule();
    html! {
        div.head {
            nav.trail aria-label="Trail" { a href="/schedules" { "Schedules" } " / " (schedule.id) }
            div.title {
                h1 { (looked.name()) }
                (badge::schedule(schedule.status))
                @if looked.view.workflow_is_paused { " " (badge::badge("workflow paused", "is-warn")) }
            }
            div.row #actions {
                (controls(context, schedule))
                @if context.may(Permission::Operate) { (start(context, looked)) }
                @if context.may(Permission::Design) {
                    a.button href={ (looked.address()) "/edit" } { "Edit" }
                    // A schedule that a definition declares can only be removed with its trigger.
                    @if schedule.declared_by.is_none() {
                        (Action::new(format!("schedules/{}", schedule.id), "Delete")
                            .method("DELETE")
                            .next("/schedules")
                            .said("The schedule was deleted.")
                            .ask("Delete this schedule? Its history stays until it is too old.")
                            .show(context))
                    }
                }
            }
        }
    }
}

/// Links between the pages of a schedule.
pub(super) fn tabs(looked: &Looked, here: &str) -> Markup {
    let address = looked.address();
    let tabs =
        [("schedule", "", "Schedule"), ("month", "/month", "Month"), ("year", "/year", "Year")];
    html! {
        nav.tabs aria-label="Pages of this schedule" {
            @for (key, end, name) in tabs {
                a href={ (address) (end) } aria-current=[(key == here).then_some("page")] { (name) }
            }
        }
    }
}

fn start(context: &PageContext, looked: &Looked) -> Markup {
    let path = format!("schedules/{}/trigger", looked.schedule().id);
    let payload = looked.schedule().declared.payload.as_ref().map(|payload| payload.get());
    html! {
        (Action::new(path.clone(), "Run now").class("main").next("/runs/{run_id}").show(context))
        details.inline #start {
            summary { "Run with a payload" }
            form.form method="post" action={ "/forms/" (path) } {
                (form::hidden(context, "/runs/{run_id}", None, None))
                (form::area("Payload", "payload:json", payload.unwrap_or("{}"), 5,
                    "JSON, for this run alone"))
                div.row { button.main type="submit" { "Run" } }
            }
        }
    }
}

/// What people must know at once, such as an unreadable rule or a failure.
fn standing(context: &PageContext, looked: &Looked) -> Markup {
    let (schedule, progress) = (looked.schedule(), &looked.schedule().progress);
    let error = progress.last_error.as_deref();
    html! {
        @if looked.plan.is_none() {
            div.said.is-bad #standing-rule role="alert" {
                p {
                    "Its rule cannot be read any more: "
                    (error.unwrap_or("a calendar or a zone that it names is gone"))
                    ". Edit the rule, or bring back what it names."
                }
            }
        }
        @match schedule.status {
            Status::Dead => div.said.is-bad #standing {
                p {
                    strong { "It is dead" } ": "
                    (cut(error.unwrap_or("its retries are exhausted"))) ". It was last changed "
                    (when::at(context, schedule.updated_at)) ". Revive gives it a new life."
                }
            },
            Status::Done => div.said #standing {
                p {
                    "It is done: all its occurrences are over, or its rule has no later time. It was last changed "
                    (when::at(context, schedule.updated_at)) ". Revive begins again."
                }
            },
            Status::Paused => div.said.is-warn #standing {
                p {
                    "It is paused: nothing starts but by hand. It was last changed "
                    (when::at(context, schedule.updated_at)) "."
                }
                @if let Some(error) = error { p { "Its last run did not end well: " (cut(error)) } }
            },
            Status::Active => @if let (Some(error), Some(_)) = (error, &looked.plan) {
                div.said.is-warn #standing { p { "Its last run did not end well: " (cut(error)) } }
            } @else if let Some(at) = renewed(schedule) {
                div.said #standing {
                    p { "It lives again since " (when::at(context, at)) ": a change of its declaration gave it a next time." }
                }
            },
        }
    }
}

/// The beginning of a text that may be long.
pub(super) fn cut(text: &str) -> String {
    const SHOWN: usize = 400;
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// When a change made a done or dead schedule active again, if it has not run since.
fn renewed(schedule: &Schedule) -> Option<Timestamp> {
    let progress = &schedule.progress;
    progress.renewed_at.filter(|at| progress.last_run_at.is_none_or(|run| run < *at))
}
