//! The list of a run's steps: their status, reason and output.

use engine::run::RunError;
use maud::{Markup, html};

use crate::http::runs::{PartObject, StepObject, WholeRun};
use crate::pages::badge::badge;
use crate::pages::listing::{grouped, with};
use crate::pages::page_context::PageContext;
use crate::pages::value::{self, Room};
use crate::pages::when;

/// How many steps a page shows.
pub(super) const ON_A_PAGE: usize = 60;
/// How many failed items are named beside their step.
const NAMED: usize = 5;

/// The colour of a step's status, also in drawings.
pub(super) fn class(status: &str) -> &'static str {
    match status {
        "completed" => "is-ok",
        "failed" => "is-bad",
        "running" => "is-run",
        "waiting" => "is-wait",
        "ready" => "is-warn",
        _ => "is-idle",
    }
}

/// The address of a step's page.
pub(super) fn address(whole: &WholeRun, step: &StepObject) -> String {
    format!("/runs/{}/steps/{}", whole.view.run.id, step.id)
}

/// A step's name, or its id if it has none.
pub(super) fn called(step: &StepObject) -> &str {
    step.name.as_deref().unwrap_or(&step.id)
}

/// The steps from the index `from` on.
pub(super) fn list(
    context: &PageContext,
    whole: &WholeRun,
    from: usize,
    room: &mut Room,
) -> Markup {
    let steps = whole.steps.iter().enumerate().skip(from).take(ON_A_PAGE);
    let what = if whole.view.run.handler.is_some() { "Phases" } else { "Steps" };
    html! {
        section.card id="steps" {
            header {
                h2 { (what) }
                @if whole.steps.len() > ON_A_PAGE { (windows(context, whole.steps.len(), from, "from")) }
            }
            ol.plain.lines {
                @for (index, step) in steps {
                    li.step id={ "step-" (index) } { (one(context, whole, step, index, room)) }
                }
            }
        }
    }
}

/// Links to the parts of a long list.
pub(super) fn windows(context: &PageContext, count: usize, from: usize, name: &str) -> Markup {
    let shown = |number: usize| grouped(number as u64);
    let last = shown((from + ON_A_PAGE).min(count));
    let label = format!("{} to {last} of {}", shown(from + 1), shown(count));
    let to = |index: usize| with(&context.address, name, Some(&index.to_string()));
    html! {
        span.row.small {
            span.muted { (label) }
            @if from > 0 { a href=(to(from.saturating_sub(ON_A_PAGE))) { "Earlier" } }
            @if from + ON_A_PAGE < count { a href=(to(from + ON_A_PAGE)) { "Later" } }
        }
    }
}

fn one(
    context: &PageContext,
    whole: &WholeRun,
    step: &StepObject,
    index: usize,
    room: &mut Room,
) -> Markup {
    let part = &step.part;
    html! {
        div.row {
            (badge(part.status, class(part.status)))
            a.name href=(address(whole, step)) { (called(step)) }
            span.tag { (step.kind) }
            @if part.attempts > 1 { span.small.muted { "attempt " (part.attempts) } }
            @if part.overdue { (badge("overdue", "is-warn")) }
            span.small.muted.end { (times(context, part)) }
        }
        @if let Some(reason) = &part.reason { p.small.muted { (super::in_a_line(reason)) } }
        (results(whole, step, index, room))
        (items(step, &address(whole, step)))
        (beside("Undone", step.compensation.as_ref()))
        (beside("Looked whether it was done", step.reconcile.as_ref()))
    }
}

/// When a part began, and how long it took.
pub(super) fn times(context: &PageContext, part: &PartObject) -> Markup {
    html! {
        @if let Some(started) = part.started_at {
            (when::at(context, started)) " · " (when::took_until(context, part.started_at, part.ended_at))
        }
    }
}

fn results(whole: &WholeRun, step: &StepObject, index: usize, room: &mut Room) -> Markup {
    let there = address(whole, step);
    html! {
        @if let Some(error) = &step.part.error {
            @if error.message.len() > super::LINE || error.message.contains('\n') {
                details id={ "error-" (index) } {
                    summary { "Error" }
                    (value::cut_text(&error.message, &there, room))
                }
            }
        }
        @if let Some(output) = &step.part.output {
            @let json = output.get();
            @if json.len() <= 80 && json != "null" && !json.contains("\\n") { p.small { "Output: " code { (json) } } }
            @else if json != "null" {
                (value::folded(&format!("output-{index}"), "Output", json, &there, room))
            }
        }
    }
}

/// How many items have which status, and the failed ones.
pub(super) fn items(step: &StepObject, address: &str) -> Markup {
    if step.items.is_empty() {
        return html! {};
    }
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for item in &step.items {
        match counts.iter_mut().find(|(status, _)| *status == item.status) {
            Some((_, count)) => *count += 1,
            None => counts.push((item.status, 1)),
        }
    }
    let failed = step.items.iter().filter(|item| item.error.is_some()).take(NAMED);
    html! {
        p.small.row {
            a href=(address) { (grouped(step.items.len() as u64)) " items" }
            @for (status, count) in counts {
                (badge(&format!("{} {status}", grouped(count as u64)), class(status)))
            }
        }
        ul.plain.small {
            @for item in failed {
                li {
                    "Item " (item.index.unwrap_or_default()) ": "
                    @if let Some(RunError { message, .. }) = &item.error {
                        (super::in_a_line(message))
                    }
                }
            }
        }
    }
}

/// The status of a step's compensation or check.
fn beside(what: &str, part: Option<&PartObject>) -> Markup {
    html! {
        @if let Some(part) = part {
            p.small.row {
                (what) ": " (badge(part.status, class(part.status)))
                @if let Some(reason) = &part.reason { span.muted { (super::in_a_line(reason)) } }
            }
        }
    }
}
