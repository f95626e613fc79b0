//! The pages of runs: lists, and one run with its history.

mod actions;
mod drawn;
mod facts;
mod list;
mod said;
mod show;
mod step;
mod steps;

use axum::Router;
use axum::routing::get;
use engine::RunId;
use engine::run::TriggeredBy;
use maud::{Markup, html};
use store::RunView;

pub(super) use self::actions::decision;
use super::listing::empty;
use super::page_context::PageContext;
use super::{badge, when};
use crate::http::App;

/// How many characters of an error are shown in a line.
const LINE: usize = 160;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/runs", get(list::show))
        .route("/runs/{id}", get(show::show))
        .route("/runs/{id}/steps/{step}", get(step::show))
}

/// A short list of runs, for a section of a page.
pub(super) fn lines(context: &PageContext, runs: &[RunView], none: &str) -> Markup {
    if runs.is_empty() {
        return empty(none, html! {});
    }
    html! {
        div.scroll {
            table {
                thead.hidden { tr { th { "Run" } th { "Status" } th { "Since" } } }
                tbody {
                    @for view in runs {
                        tr id={ "run-" (view.run.id) } {
                            td {
                                a.name href={ "/runs/" (view.run.id) } { (view.workflow_name) }
                                @if let Some(error) = &view.run.error {
                                    div.small.muted { (in_a_line(&error.message)) }
                                }
                            }
                            td { (badge::run(view.run.status)) }
                            td.number.small {
                                @let since = view.run.ended_at.unwrap_or(view.run.created_at);
                                (when::age(context, since))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The first line of a text, cut if it is long.
pub(super) fn in_a_line(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    let mut cut: String = first.chars().take(LINE).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

/// What started a run, in a few words with a link.
fn born(view: &RunView) -> Markup {
    let run = &view.run;
    let by = |whom: &str| match &run.by {
        Some(by) if by != "anyone" => format!("{whom}, by {by}"),
        _ => whom.to_owned(),
    };
    let schedule = run.schedule.map(|id| format!("/schedules/{id}"));
    html! {
        @match (run.triggered_by, &run.id) {
            (TriggeredBy::Schedule, RunId::Occurrence { n, retry, .. }) => {
                a href=[schedule] { "occurrence " (n) }
                @if *retry > 0 { ", retry " (retry) }
            }
            (TriggeredBy::Schedule, _) => { a href=[schedule] { "schedule" } }
            (TriggeredBy::Manual, _) => {
                (by("by hand"))
                @if schedule.is_some() { ", of " a href=[schedule] { "a schedule" } }
            }
            (TriggeredBy::Retry, _) => {
                (by("retry"))
                @if let Some(of) = &run.retry_of { " of " a href={ "/runs/" (of) } { "a run" } }
            }
            (TriggeredBy::SubProcess, _) => { (parent(view, "a step of")) }
            (TriggeredBy::Deadline, _) => { (parent(view, "the deadline of")) }
            (TriggeredBy::Webhook, _) => { (by("webhook")) }
            (TriggeredBy::Event, _) => { "an event" }
            (TriggeredBy::Wakeup, _) => { "its sleep was over" }
            (TriggeredBy::Incident, _) if view.parent.is_none() => { "an incident" }
            (TriggeredBy::Incident, _) => { (parent(view, "an incident of")) }
        }
    }
}

fn parent(view: &RunView, what: &str) -> Markup {
    html! {
        (what) " "
        @match &view.parent {
            Some(id) => a href={ "/runs/" (id) } { "another run" },
            None => "a run that was removed",
        }
    }
}
