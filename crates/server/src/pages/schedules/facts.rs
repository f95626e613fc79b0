//! The declaration of a schedule, and figures of its runs.

use calendar::Zone;
use engine::run::RunStatus;
use maud::{Markup, html};
use store::{RunQuery, RunView};

use super::one::Looked;
use super::words;
use crate::http::problem::Problem;
use crate::pages::listing::grouped;
use crate::pages::page_context::PageContext;
use crate::pages::when;

/// How many runs are read.
const LOOKED_AT: usize = 100;
/// How many bytes of a payload are shown.
const SHOWN: usize = 4_000;

/// The last runs, latest first.
pub(super) async fn last_runs(
    context: &PageContext,
    looked: &Looked,
) -> Result<Vec<RunView>, Problem> {
    let query =
        RunQuery { schedule: Some(looked.schedule().id), limit: LOOKED_AT, ..RunQuery::default() };
    Ok(context.app.views().runs(query).await?.items)
}

/// Figures of the schedule and its last runs.
pub(super) fn figures(context: &PageContext, looked: &Looked, runs: &[RunView]) -> Markup {
    let ended = runs.iter().filter(|view| view.run.status.has_ended()).count();
    let good = runs.iter().filter(|view| view.run.status == RunStatus::Succeeded).count();
    let (schedule, progress) = (looked.schedule(), &looked.schedule().progress);
    let plan = looked.plan.as_ref();
    let next = plan.and_then(|plan| looked.view.outlook(plan, context.now).next()?.effective);
    let of_it = format!("/runs?schedule_id={}", schedule.id);
    html! {
        div.figures #figures {
            div {
                strong { @match next { Some(at) => (when::age(context, at)), None => "–" } }
                span { "next" }
            }
            a href=(of_it) {
                strong { @if ended > 0 { (good * 100 / ended) " %" } @else { "–" } }
                span { "of the last " (ended) " runs succeeded" }
            }
            div { strong { (grouped(progress.run_count)) } span { "occurrences succeeded" } }
            div class=[(progress.error_count > 0).then_some("is-bad")] {
                strong { (grouped(progress.error_count)) } span { "runs failed" }
            }
            div { strong { (progress.active.len()) } span { "running or retrying" } }
            div { strong { (progress.queued.len()) } span { "waiting their turn" } }
        }
    }
}

pub(super) fn card(context: &PageContext, looked: &Looked) -> Markup {
    let (schedule, declared) = (looked.schedule(), &looked.schedule().declared);
    let timing = &declared.timing;
    html! {
        section.card #facts {
            h2 { "What it is" }
            @if let Some(description) = &declared.description { p { (description) } }
            dl.facts {
                dt { "When" } dd { (when_it_is(looked)) }
                dt { "Zone" } dd { (zone(looked.plan.as_ref().map_or(&looked.zone, |plan| plan.timing.zone()))) }
                @if let Some(calendar) = &timing.calendar {
                    dt { "Calendar" } dd { (by_calendar(looked, calendar)) }
                }
                @if let Some(dst) = timing.dst {
                    dt { "Clock changes" }
                    dd {
                        @if let Some(gap) = dst.gap { (words::gap(gap)) }
                        @if dst.gap.is_some() && dst.fold.is_some() { "; " }
                        @if let Some(fold) = dst.fold { (words::fold(fold)) }
                    }
                }
                @if timing.start.is_some() || timing.end.is_some() {
                    dt { "Bounds" }
                    dd {
                        @if let Some(start) = &timing.start { "from " (start) " " }
                        @if let Some(end) = &timing.end { "until " (end) }
                    }
                }
                @if let (Some(window), Some(plan)) = (&timing.spread, &looked.plan) {
                    dt { "Spread" }
                    dd { "over " (window) "; this one is " (when::took(plan.timing.moved_by())) " late" }
                }
                @if declared.total_repeats > 0 {
                    dt { "Repeats" } dd { (schedule.progress.current_repeat) " of " (declared.total_repeats) " succeeded" }
                }
                (policies(looked))
                dt { "Starts" }
                dd { a href={ "/workflows/" (schedule.workflow) } { (looked.view.workflow_name) } }
                (belongs(looked))
                dt { "Created" } dd { (when::at_and_age(context, schedule.created_at)) }
                dt { "Changed" } dd { (when::at_and_age(context, schedule.updated_at)) }
            }
            (payload(looked))
            p.small {
                a href={ "/api/v1/schedules.ics?schedule_id=" (schedule.id) } { "Coming times for your calendar (ICS)" }
            }
        }
    }
}

fn when_it_is(looked: &Looked) -> Markup {
    html! {
        @match &looked.plan {
            Some(plan) => (plan.timing.words()),
            None => span.wrong { "its rule cannot be read any more" },
        }
        @for line in words::written(&looked.schedule().declared) {
            div.small.muted { code { (line.chars().take(400).collect::<String>()) } }
        }
    }
}

fn zone(zone: &Zone) -> &str {
    zone.name()
}

fn by_calendar(looked: &Looked, calendar: &str) -> Markup {
    let fits = looked.schedule().declared.timing.fit.is_some();
    html! {
        a href={ "/calendars/" (calendar) } { (calendar) }
        @if let Some(plan) = &looked.plan { ": " (words::roll(plan.timing.roll())) }
        @if fits { ", and moved into working hours" }
    }
}

/// What happens when occurrences overlap, are missed, or fail.
fn policies(looked: &Looked) -> Markup {
    let declared = &looked.schedule().declared;
    html! {
        dt { "Due while it still runs" }
        dd {
            (words::overlap(declared.overlap))
            @if declared.overlap == language::policy::overlap::Overlap::QueueAll {
                ", up to " (declared.queue_limit())
            }
        }
        @if let Some(plan) = &looked.plan {
            dt { "Due while nobody is awake" } dd { (words::catch_up(&plan.catch_up)) }
        }
        dt { "A run that fails" } dd { (words::failures(declared)) }
        dt { "A run may be performed" }
        dd {
            @match declared.timeout() {
                Some(limit) => { "for " (when::took(limit)) ", waiting apart" },
                None => "without a limit of the schedule",
            }
        }
    }
}

fn belongs(looked: &Looked) -> Markup {
    let schedule = looked.schedule();
    html! {
        @if let Some(trigger) = &schedule.declared_by {
            dt { "Declared by" }
            dd {
                "trigger " code { (trigger) } " of its workflow: "
                a href={ "/workflows/" (schedule.workflow) } { "change it there" }
            }
        }
        @if let Some(owner) = &schedule.declared.owner { dt { "Owner" } dd { (owner) } }
        @if let Some(kept) = &schedule.declared.retention { dt { "History is kept" } dd { (kept) } }
    }
}

fn payload(looked: &Looked) -> Markup {
    let Some(payload) = &looked.schedule().declared.payload else { return html! {} };
    let text = payload.get();
    let shown: String = text.chars().take(SHOWN).collect();
    html! {
        details #payload {
            summary { "Payload" }
            pre tabindex="0" { (shown) }
            @if shown.len() < text.len() {
                p.small.muted {
                    "The first " (SHOWN) " characters. "
                    a href={ "/api/v1/schedules/" (looked.schedule().id) } { "All of it, as JSON" }
                }
            }
        }
    }
}
