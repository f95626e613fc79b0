//! Facts about a run: its origin, its times, its alerts and its mutation.

use engine::RunId;
use engine::handlers::MutationStatus;
use engine::run::Watch;
use jiff::Timestamp;
use language::definition::{DeadlineAction, DeadlineEnd, TimeSpan, When};
use maud::{Markup, html};
use store::{AlertView, MutationView, RunView};

use super::{badge, born};
use crate::http::runs::WholeRun;
use crate::pages::page_context::PageContext;
use crate::pages::when::{at, at_and_age, took, took_until};

/// A run that began later than this after it was due is shown as late.
const PUNCTUAL: jiff::SignedDuration = jiff::SignedDuration::from_millis(1_000);

/// The facts as pairs of label and value.
pub(super) fn facts(context: &PageContext, whole: &WholeRun, children: &[RunView]) -> Markup {
    let run = &whole.view.run;
    let line = |label: &str, instant: Option<Timestamp>| {
        html! {
            @if let Some(instant) = instant { dt { (label) } dd { (at_and_age(context, instant)) } }
        }
    };
    html! {
        dl.facts {
            dt { "Run" } dd { code { (run.id) } }
            dt { "Born from" } dd { (born(&whole.view)) }
            @if let RunId::Occurrence { schedule, .. } = &run.id {
                dt { "Schedule" } dd { a href={ "/schedules/" (schedule) } { (schedule) } }
            }
            @if let Some(nominal) = run.nominal.filter(|_| run.nominal != run.effective) {
                dt { "By its rule" } dd { (at(context, nominal)) }
            }
            (line("Due", run.effective))
            (line("Created", Some(run.created_at)))
            (line("Started", run.started_at))
            @if let Some(late) = lateness(whole) { dt { "Late by" } dd { (took(late)) } }
            (line("Ended", run.ended_at))
            dt { "Took" } dd { (took_until(context, run.started_at, run.ended_at)) }
            @if let Some(limit) = run.time_limit().filter(|_| !run.status.has_ended()) {
                dt { "May take until" } dd { (at_and_age(context, limit)) }
            }
            @if run.overdue { dt { "Deadline" } dd { (badge::badge("overdue", "is-warn")) } }
            @if let Some(of) = &run.retry_of {
                dt { "Tries again" } dd { a href={ "/runs/" (of) } { (of) } }
            }
            @if !children.is_empty() { dt { "Has started" } dd { (started(whole, children)) } }
        }
    }
}

/// How late a run began, if it was late.
fn lateness(whole: &WholeRun) -> Option<jiff::SignedDuration> {
    let run = &whole.view.run;
    let late = run.started_at?.duration_since(run.effective?);
    (late > PUNCTUAL).then_some(late)
}

fn started(whole: &WholeRun, children: &[RunView]) -> Markup {
    html! {
        ul.plain {
            @for child in children {
                li {
                    a href={ "/runs/" (child.run.id) } { (child.workflow_name) } " "
                    (badge::run(child.run.status))
                }
            }
        }
        a.small href={ "/runs?parent=" (whole.view.run.id) } { "All that it has started" }
    }
}

/// The actions that deadlines have triggered.
pub(super) fn alerts(context: &PageContext, alerts: &[AlertView]) -> Markup {
    html! {
        @if !alerts.is_empty() {
            section.card.flush id="alerts" {
                header { h2 { "What deadlines have brought about" } }
                table.cards {
                    thead {
                        tr {
                            th scope="col" { "Of" } th scope="col" { "Deadline" }
                            th scope="col" { "Happened" } th scope="col" { "What" }
                        }
                    }
                    tbody {
                        @for (index, alert) in alerts.iter().enumerate().take(100) {
                            tr id={ "alert-" (index) } {
                                td data-label="Of" { (alert.step.as_deref().unwrap_or("the run")) }
                                td data-label="Deadline" { (at(context, alert.due)) }
                                td data-label="Happened" { (at_and_age(context, alert.happened_at)) }
                                td data-label="What" { (brought_about(alert)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn brought_about(alert: &AlertView) -> Markup {
    let ended = alert.ended.map(|end| match end {
        DeadlineEnd::Fail => "it has failed",
        DeadlineEnd::Cancel => "the run was cancelled",
        DeadlineEnd::Complete => "it counts as done",
        DeadlineEnd::Skip => "it was passed over",
    });
    html! {
        @if let Some(ended) = ended { (ended) " " }
        @for run in &alert.started { a href={ "/runs/" (run) } { "a run was started" } " " }
        @if let Some(why) = &alert.refused { span.wrong { (why) } }
        @if ended.is_none() && alert.started.is_empty() && alert.refused.is_none() {
            span.muted { "noted" }
        }
    }
}

/// The mutation that a consumer's run has made, or may have made.
pub(super) fn mutation(context: &PageContext, mutation: Option<&MutationView>) -> Markup {
    let Some(MutationView { mutation, .. }) = mutation else { return html! {} };
    let class = match mutation.status {
        MutationStatus::InFlight => "is-run",
        MutationStatus::Applied => "is-ok",
        MutationStatus::Failed => "is-bad",
        MutationStatus::Unknown => "is-warn",
        MutationStatus::Skipped => "is-idle",
    };
    html! {
        section.card id="mutation" {
            header { h2 { "What it changes outside" } (badge::badge(mutation.status.name(), class)) }
            dl.facts {
                dt { "Began" } dd { (at_and_age(context, mutation.started_at)) }
                dt { "Known since" } dd { (at_and_age(context, mutation.updated_at)) }
                @if let Some(by) = &mutation.said_by { dt { "Says" } dd { (by) } }
                @if let Some(note) = &mutation.note { dt { "Note" } dd { (note) } }
            }
        }
    }
}

/// When an action of a deadline happens, in words.
pub(super) fn action_words(action: &DeadlineAction) -> String {
    match action.when {
        When::Share(percent) => format!("{percent} % of the time is over"),
        When::Before(span) => format!("{} before", span_words(span)),
        When::Deadline => "at the deadline".to_owned(),
        When::After(span) => format!("{} after", span_words(span)),
    }
}

fn span_words(span: TimeSpan) -> String {
    match span {
        TimeSpan::Elapsed(time) => took(time),
        TimeSpan::Working(time) => format!("{} of working time", took(time)),
        TimeSpan::WorkingDays(days) => format!("{days} working days"),
    }
}

/// When an active deadline is due, in words.
pub(super) fn watched(context: &PageContext, watch: &Watch) -> Markup {
    html! {
        "due " (at_and_age(context, watch.due))
        @if watch.held_since.is_some() { span.muted { "; its clock stands" } }
        @if watch.overdue { " " (badge::badge("overdue", "is-warn")) }
    }
}
