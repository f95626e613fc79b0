//! Statuses as coloured words.

use engine::ledger::Outcome;
use engine::run::RunStatus;
use engine::schedule::Status;
use engine::turn::WorkflowStatus;
use maud::{Markup, html};

/// A word with a colour: `is-ok`, `is-bad`, `is-warn`, `is-run`, `is-wait` or `is-idle`.
pub(super) fn badge(word: &str, class: &str) -> Markup {
    html! { span class={ "badge " (class) } { (word.replace('_', " ")) } }
}

pub(super) fn run(status: RunStatus) -> Markup {
    badge(status.name(), run_class(status))
}

/// The colour of a run's status, also in drawings.
pub(super) fn run_class(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Pending => "is-idle",
        RunStatus::Running => "is-run",
        RunStatus::Waiting => "is-wait",
        RunStatus::Suspended => "is-warn",
        RunStatus::Succeeded => "is-ok",
        RunStatus::Failed | RunStatus::TimedOut => "is-bad",
        RunStatus::Cancelled => "is-idle",
    }
}

pub(super) fn schedule(status: Status) -> Markup {
    badge(status.name(), schedule_class(status))
}

fn schedule_class(status: Status) -> &'static str {
    match status {
        Status::Active => "is-ok",
        Status::Paused => "is-warn",
        Status::Done => "is-idle",
        Status::Dead => "is-bad",
    }
}

pub(super) fn outcome(outcome: Outcome) -> Markup {
    badge(outcome.name(), outcome_class(outcome))
}

/// The colour of an occurrence's outcome, also in drawings.
pub(super) fn outcome_class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Started => "is-ok",
        Outcome::Moved => "is-run",
        Outcome::Queued => "is-wait",
        Outcome::Skipped | Outcome::Coalesced => "is-idle",
        Outcome::Missed | Outcome::Dropped => "is-warn",
        Outcome::Failed => "is-bad",
    }
}

/// The status of a workflow. Paused takes precedence over published.
pub(super) fn workflow(status: WorkflowStatus, is_paused: bool) -> Markup {
    match (status, is_paused) {
        (_, true) => badge("paused", "is-warn"),
        (WorkflowStatus::Published, false) => badge("published", "is-ok"),
        (status, false) => badge(status.name(), "is-idle"),
    }
}
