//! The list of runs.

use axum::response::Response;
use engine::ScheduleId;
use engine::run::{RunStatus, TriggeredBy};
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use store::{RunQuery, RunView};

use super::{born, in_a_line};
use crate::http::problem::Problem;
use crate::http::query::{Paging, Parameters, Query, Values};
use crate::http::runs::found;
use crate::http::workflows::find_workflow;
use crate::pages::form::{check, select, text};
use crate::pages::layout::Page;
use crate::pages::listing::{empty, pager};
use crate::pages::page_context::PageContext;
use crate::pages::{badge, when};

/// How many runs a page shows at most.
const MOST: usize = 100;
/// Recent periods: name, label, and length in hours.
const RECENT: [(&str, &str, i64); 3] =
    [("hour", "the last hour", 1), ("day", "the last day", 24), ("week", "the last week", 168)];

/// The query parameters of the list.
pub(super) struct RunListParams {
    workflow: Option<String>,
    schedule: Option<ScheduleId>,
    status: Vec<RunStatus>,
    born: Option<TriggeredBy>,
    since: Option<Since>,
    until: Option<Timestamp>,
    overdue: bool,
    parent: Option<String>,
    system: bool,
    paging: Paging,
}

/// The beginning of the listed period.
#[derive(Clone, Copy)]
enum Since {
    /// An index into [`RECENT`].
    Recent(usize),
    At(Timestamp),
}

impl Parameters for RunListParams {
    const KNOWN: &'static [&'static str] = &[
        "workflow",
        "schedule_id",
        "status",
        "triggered_by",
        "since",
        "until",
        "overdue",
        "parent",
        "system",
        "limit",
        "cursor",
    ];

    fn read(values: &mut Values) -> RunListParams {
        RunListParams {
            workflow: values.text("workflow"),
            schedule: values.parsed("schedule_id", "the id of a schedule"),
            status: values.several_of("status", &RunStatus::ALL, RunStatus::name),
            born: values.one_of("triggered_by", &TriggeredBy::ALL, TriggeredBy::name),
            since: values.text("since").and_then(|text| since(values, &text)),
            until: values.instant("until"),
            overdue: values.flag("overdue"),
            parent: values.text("parent"),
            system: values.flag("system"),
            paging: values.paging(),
        }
    }
}

fn since(values: &mut Values, text: &str) -> Option<Since> {
    if let Some(place) = RECENT.iter().position(|(word, ..)| *word == text) {
        return Some(Since::Recent(place));
    }
    let at = text.parse().ok().map(Since::At);
    if at.is_none() {
        let allowed = "hour, day, week, or a time such as 2026-03-08T09:00:00Z";
        values.refuse("since", "value", "cannot be read", Some(allowed));
    }
    at
}

impl RunListParams {
    async fn query(&self, context: &PageContext) -> Result<RunQuery, Problem> {
        let workflow = match &self.workflow {
            Some(name) => Some(find_workflow(&context.app, name, None).await?.workflow.id),
            None => None,
        };
        let parent = match &self.parent {
            Some(id) => Some(found(&context.app, id).await?.view.run.key),
            None => None,
        };
        let since = self.since.and_then(|since| match since {
            Since::At(at) => Some(at),
            Since::Recent(place) => {
                context.now.checked_sub(SignedDuration::from_hours(RECENT[place].2)).ok()
            }
        });
        let asks_for_them =
            workflow.is_some() || parent.is_some() || self.born.is_some() || self.system;
        Ok(RunQuery {
            hides_system: !asks_for_them,
            workflow,
            schedule: self.schedule,
            status: self.status.clone(),
            triggered_by: self.born,
            since,
            until: self.until,
            parent,
            overdue: self.overdue,
            limit: self.paging.limit.min(MOST),
            after: self.paging.after.clone(),
        })
    }

    fn is_filtered(&self) -> bool {
        let RunListParams { workflow, schedule, status, born, since, overdue, parent, .. } = self;
        let any = workflow.is_some() || schedule.is_some() || born.is_some() || since.is_some();
        any || !status.is_empty() || *overdue || parent.is_some() || self.until.is_some()
    }

    fn form(&self) -> Markup {
        let status: Vec<&str> = self.status.iter().map(|status| status.name()).collect();
        let status = status.join(",");
        let mut statuses = vec![
            ("", "any"),
            ("pending,running,waiting,suspended", "not ended"),
            ("failed,timed_out", "failed or timed out"),
        ];
        statuses.extend(RunStatus::ALL.map(|status| (status.name(), status.name())));
        if statuses.iter().all(|(value, _)| *value != status) {
            statuses.push((&status, &status));
        }
        let mut origins = vec![("", "anything")];
        origins.extend(TriggeredBy::ALL.map(|born| (born.name(), born.name())));
        let at = match self.since {
            Some(Since::At(at)) => at.to_string(),
            Some(Since::Recent(place)) => RECENT[place].0.to_owned(),
            None => String::new(),
        };
        let mut times = vec![("", "any time")];
        times.extend(RECENT.iter().map(|(word, label, _)| (*word, *label)));
        if times.iter().all(|(value, _)| *value != at) {
            times.push((&at, &at));
        }
        let schedule = self.schedule.map(|id| id.to_string()).unwrap_or_default();
        html! {
            form.search method="get" action="/runs" role="search" {
                (text("Workflow", "workflow", self.workflow.as_deref().unwrap_or_default(), ""))
                (text("Schedule", "schedule_id", &schedule, ""))
                (select("Status", "status", &status, &statuses))
                (select("Born from", "triggered_by", self.born.map_or("", TriggeredBy::name), &origins))
                (select("Since", "since", &at, &times))
                (check("Past its deadline", "overdue", self.overdue))
                @if let Some(parent) = &self.parent {
                    input type="hidden" name="parent" value=(parent);
                }
                @if let Some(until) = self.until {
                    input type="hidden" name="until" value=(until);
                }
                button type="submit" { "Show" }
                @if self.is_filtered() { a.button href="/runs" { "All runs" } }
            }
        }
    }
}

pub(super) async fn show(
    context: PageContext,
    Query(params): Query<RunListParams>,
) -> Result<Response, Problem> {
    let page = context.app.store().runs(params.query(&context).await?).await?;
    let content = html! {
        div.head { h1 { "Runs" } }
        (params.form())
        section.card.flush aria-label="Runs" {
            (table(&context, &page.items, params.is_filtered()))
            (pager(&context, page.total, page.next.as_ref()))
        }
    };
    Ok(context.show(Page::new("Runs", content).live("all")))
}

fn table(context: &PageContext, runs: &[RunView], is_filtered: bool) -> Markup {
    if runs.is_empty() && is_filtered {
        return empty("No run is like that.", html! {});
    }
    if runs.is_empty() {
        let remedy = html! {
            p { "A run begins when a schedule is due, or when you start a " a href="/workflows" { "workflow" } "." }
        };
        return empty("Nothing has run yet.", remedy);
    }
    html! {
        table.cards {
            thead {
                tr {
                    th scope="col" { "Workflow" }
                    th scope="col" { "Status" }
                    th scope="col" { "Why" }
                    th scope="col" { "Started" }
                    th.number scope="col" { "Took" }
                }
            }
            tbody { @for view in runs { (row(context, view)) } }
        }
    }
}

fn row(context: &PageContext, view: &RunView) -> Markup {
    let run = &view.run;
    html! {
        tr id={ "run-" (run.id) } {
            td {
                a.name href={ "/runs/" (run.id) } { (view.workflow_name) }
                @if let Some(handler) = &run.handler { " " span.tag { (handler) } }
                @if let Some(error) = &run.error { div.small.muted { (in_a_line(&error.message)) } }
            }
            td data-label="Status" {
                (badge::run(run.status))
                @if run.overdue { " " (badge::badge("overdue", "is-warn")) }
            }
            td.small data-label="Why" { (born(view)) }
            td.small data-label="Started" {
                @match run.started_at {
                    Some(at) => (when::at_and_age(context, at)),
                    None => span.muted { "created " (when::age(context, run.created_at)) },
                }
            }
            td.number.small data-label="Took" {
                (when::took_until(context, run.started_at, run.ended_at))
            }
        }
    }
}
