//! Declared policies in words.

use calendar::{CatchUp, Fold, Gap, Policy, Roll, format_duration};
use language::policy::overlap::Overlap;
use language::policy::retry::OnExhausted;
use language::schedule::Declared;

/// What happens when an occurrence is due while another one is still active.
pub(super) fn overlap(overlap: Overlap) -> &'static str {
    match overlap {
        Overlap::Skip => "the new one is skipped",
        Overlap::Queue => "one waits for its turn",
        Overlap::QueueAll => "all wait for their turn",
        Overlap::Cancel => "what runs is cancelled",
        Overlap::Allow => "they run side by side",
        Overlap::Error => "the schedule is dead",
    }
}

/// What happens to an occurrence on a day off.
pub(super) fn roll(roll: Roll) -> &'static str {
    match roll {
        Roll::Skip => "skipped on days off",
        Roll::Next => "on the next working day",
        Roll::Previous => "on the working day before",
        Roll::Nearest => "on the nearest working day",
        Roll::ModifiedNext => "on the next working day of the month, or else the one before",
        Roll::ModifiedPrevious => "on the working day before in the month, or else the next one",
    }
}

/// What happens to occurrences that were due while no node was running.
pub(super) fn catch_up(catch_up: &CatchUp) -> String {
    let mut words = match catch_up.policy {
        Policy::None => "is not made up for".to_owned(),
        Policy::Last => "the latest one runs, for all".to_owned(),
        Policy::All => format!("runs after all, up to {}", catch_up.limit),
    };
    if let Some(window) = catch_up.window {
        words.push_str(&format!(", if not older than {}", format_duration(window)));
    }
    if let Some(pace) = catch_up.pace {
        words.push_str(&format!(", one every {}", format_duration(pace)));
    }
    words
}

/// What happens to a time that the clock jumps over.
pub(super) fn gap(gap: Gap) -> &'static str {
    match gap {
        Gap::Shift => "a time that is jumped over happens right after",
        Gap::Skip => "a time that is jumped over is skipped",
    }
}

/// What happens to a time that the clock shows twice.
pub(super) fn fold(fold: Fold) -> &'static str {
    match fold {
        Fold::First => "a time that is shown twice happens the first time",
        Fold::Last => "a time that is shown twice happens the second time",
        Fold::Both => "a time that is shown twice happens both times",
    }
}

/// What follows a run that fails.
pub(super) fn failures(declared: &Declared) -> String {
    let tried = match declared.max_retries() {
        0 => "not tried again".to_owned(),
        1 => "tried again once".to_owned(),
        many => format!("tried again up to {many} times"),
    };
    let then = match (declared.pause_on_failure, declared.on_exhausted()) {
        (true, _) => "then the schedule is paused",
        (false, OnExhausted::Die) => "then the schedule is dead",
        (false, OnExhausted::Continue) => "then the next one comes as usual",
    };
    format!("{tried}, {then}")
}

/// The rule as it was written, one line per key.
pub(super) fn written(declared: &Declared) -> Vec<String> {
    const NOT_RULES: [&str; 7] = ["timezone", "calendar", "roll", "fit", "start", "end", "spread"];
    let Ok(serde_json::Value::Object(timing)) = serde_json::to_value(&declared.timing) else {
        return Vec::new();
    };
    let rule = timing.into_iter().filter(|(key, _)| !NOT_RULES.contains(&&**key));
    rule.map(|(key, value)| match value {
        serde_json::Value::String(text) => format!("{key}: {text}"),
        value => format!("{key}: {value}"),
    })
    .collect()
}
