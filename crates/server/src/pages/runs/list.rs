//! The list of runs.

use axum::response::Response;
use engine::run::{RunStatus, TriggeredBy};
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use store::{RunQuery, RunView};

use super::{born, in_a_line};
use crate::http::problem::Problem;
use crate::http::query::{Parameters, Query, Values};
use crate::http::runs::RunListParams;
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

/// The query parameters of the page: those of the list, and its period in words.
pub(super) struct RunPageParams {
    since: Option<Since>,
    until: Option<Timestamp>,
    list: RunListParams,
}

/// The beginning of the listed period.
#[derive(Clone, Copy)]
enum Since {
    /// An index into [`RECENT`].
    Recent(usize),
    At(Timestamp),
}

impl Parameters for RunPageParams {
    fn read(values: &mut Values) -> RunPageParams {
        RunPageParams {
            // Taken before the list asks for it, because the list knows no words.
            since: values.text("since").and_then(|text| since(values, &text)),
            until: values.instant("until"),
            list: RunListParams::read(values),
        }
    }
}

fn since(values: &mut Values, text: &str) -> Option<Since> {
    if let Some(index) = RECENT.iter().position(|(word, ..)| *word == text) {
        return Some(Since::Recent(index));
    }
    let at = text.parse().ok().map(Since::At);
    if at.is_none() {
        let allowed = "hour, day, week, or a time such as 2026-03-08T09:00:00Z";
        values.refuse("since", "value", "cannot be read", Some(allowed));
    }
    at
}

impl RunPageParams {
    async fn query(&self, context: &PageContext) -> Result<RunQuery, Problem> {
        let since = self.since.and_then(|since| match since {
            Since::At(at) => Some(at),
            Since::Recent(index) => {
                context.now.checked_sub(SignedDuration::from_hours(RECENT[index].2)).ok()
            }
        });
        let query = self.list.query(&context.app).await?;
        Ok(RunQuery { since, until: self.until, limit: query.limit.min(MOST), ..query })
    }

    fn is_filtered(&self) -> bool {
        let RunListParams { workflow, schedule, status, triggered_by, overdue, parent, .. } =
            &self.list;
        let any = workflow.is_some() || schedule.is_some() || triggered_by.is_some();
        let in_period = self.since.is_some() || self.until.is_some();
        any || !status.is_empty() || overdue.is_some() || parent.is_some() || in_period
    }

    fn form(&self) -> Markup {
        let status: Vec<&str> = self.list.status.iter().map(|status| status.name()).collect();
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
            Some(Since::Recent(index)) => RECENT[index].0.to_owned(),
            None => String::new(),
        };
        let mut times = vec![("", "any time")];
        times.extend(RECENT.iter().map(|(word, label, _)| (*word, *label)));
        if times.iter().all(|(value, _)| *value != at) {
            times.push((&at, &at));
        }
        let schedule = self.list.schedule.map(|id| id.to_string()).unwrap_or_default();
        html! {
            form.search method="get" action="/runs" role="search" {
                (text("Workflow", "workflow", self.list.workflow.as_deref().unwrap_or_default(), ""))
                (text("Schedule", "schedule_id", &schedule, ""))
                (select("Status", "status", &status, &statuses))
                (select("Born from", "triggered_by", self.list.triggered_by.map_or("", TriggeredBy::name), &origins))
                (select("Since", "since", &at, &times))
                (check("Past its deadline", "overdue", self.list.overdue == Some(true)))
                @if let Some(parent) = &self.list.parent {
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
    Query(params): Query<RunPageParams>,
) -> Result<Response, Problem> {
    let page = context.app.views().runs(params.query(&context).await?).await?;
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
