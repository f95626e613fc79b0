//! The keys of triggers, by their type.

use serde_json::{Map, Value};

use super::super::trigger::TYPES;
use super::keys::{CONDITION, ID, Key, Shape, TOPIC, may, must};
use super::{by_type, object};

/// The keys that all triggers have.
const COMMON: &[Key] = &[
    must("id", ID, "Unique in the workflow"),
    may("enabled", Shape::Bool, "Whether it starts the workflow at present; true if left out"),
    may("description", Shape::Text, "What it is for"),
];

const WEBHOOK: &[Key] = &[
    may("secret", ID, "The name of the secret that callers sign with"),
    may("payload", Shape::Any, "Made from input.body and input.headers; the body if left out"),
    may("publish", TOPIC, "It is published to this topic instead of starting a run"),
];

const EVENT: &[Key] = &[
    must("topic", TOPIC, "An event on this topic starts the workflow"),
    may("condition", CONDITION, "Which event does: an expression over event; any if left out"),
    may("payload", Shape::Any, "Made from event; its payload if left out"),
];

const SECONDS: Shape = Shape::Either(&[Shape::Text, Shape::Whole(1, u32::MAX as u64)]);
const TEXTS: Shape = Shape::OneOrMany(&Shape::Text);

const SCHEDULE: &[Key] = &[
    may("cron", Shape::Text, "A cron expression, or a preset such as daily"),
    may("preset", Shape::Text, "daily, hourly, weekly, monthly, yearly, weekdays, every_5min, …"),
    may("interval", SECONDS, "Elapsed time, such as 5m"),
    may("every", SECONDS, "The same as interval"),
    may("interval_seconds", Shape::Whole(1, u32::MAX as u64), "The same in seconds"),
    may("from", Shape::Text, "completion: the interval counts from the end of the previous run"),
    may("anchor", Shape::Text, "Where an interval is counted from"),
    may("at", Shape::Text, "Once: 2026-03-01T09:00, or with an offset"),
    may("rrule", Shape::Text, "A rule of RFC 5545"),
    may("dtstart", Shape::Text, "Where the rrule begins"),
    may("exdate", TEXTS, "Times that the rrule leaves out"),
    may("rdate", TEXTS, "Times besides the rrule's"),
    may("daily", Shape::Mapping, "{ at: \"09:00\", days: [MON, WED] }"),
    may("weekly", Shape::Mapping, "A day of the week and a time"),
    may("monthly", Shape::Mapping, "{ day: last, at: \"17:00\" } or { working_day: -1, … }"),
    may("quarterly", Shape::Mapping, "As monthly, of a quarter"),
    may("yearly", Shape::Mapping, "As monthly, of a year"),
    may("rules", Shape::List(&Shape::Mapping), "Several rules: the union of their times"),
    may("dst", Shape::Mapping, "{ gap: shift | skip, fold: first | last | both }"),
    may("timezone", Shape::Text, "An IANA zone; the workflow's if left out"),
    may("calendar", Shape::Any, "A calendar; the workflow's if left out, null for none"),
    may(
        "roll",
        Shape::Choice(
            "What happens on a day off",
            &["skip", "next", "previous", "nearest", "modified_next", "modified_previous"],
        ),
        "What happens on a day off",
    ),
    may("fit", Shape::Text, "hours: moved into working hours"),
    may("start", Shape::Text, "Nothing before this"),
    may("end", Shape::Text, "Nothing after this"),
    may("spread", SECONDS, "Moved by a stable amount inside of this window"),
    may("name", Shape::Text, "What the schedule is called"),
    may(
        "overlap",
        Shape::Choice(
            "What happens while a run is active",
            &["skip", "queue", "queue_all", "cancel", "allow", "error"],
        ),
        "What happens while a run is active",
    ),
    may("catch_up", Shape::Any, "none, last, all, or { policy, window, limit, pace }"),
    may("total_repeats", Shape::Whole(0, i64::MAX as u64), "How often it is due"),
    may("max_retries", Shape::Whole(0, 1_000), "How often a failed run is tried again"),
    may("timeout_seconds", Shape::Whole(1, i64::MAX as u64), "How long a run may take"),
    may("retry", Shape::Mapping, "{ delay, max_delay, jitter } between runs"),
    may("payload", Shape::Any, "What the run works on"),
    may("queue_limit", Shape::Whole(1, i64::MAX as u64), "How many may wait"),
    may("pause_on_failure", Shape::Bool, "Whether a failure pauses the schedule"),
    may("retention", SECONDS, "How long ended runs are kept"),
];

/// The keys of a schedule that is no trigger.
fn schedule() -> Vec<Key> {
    let mut keys = vec![may("description", Shape::Text, "What it is for")];
    keys.extend_from_slice(SCHEDULE);
    keys
}

pub(super) fn defs() -> Map<String, Value> {
    let mut defs = Map::new();
    for kind in TYPES {
        let own = match kind {
            "schedule" => SCHEDULE,
            "webhook" => WEBHOOK,
            "event" => EVENT,
            _ => &[],
        };
        let mut keys = vec![must("type", Shape::Const(kind), "What starts it")];
        keys.extend_from_slice(COMMON);
        keys.extend_from_slice(own);
        defs.insert(format!("{kind}_trigger"), object(&keys));
    }
    let types: Vec<(&str, String)> =
        TYPES.iter().map(|kind| (*kind, format!("{kind}_trigger"))).collect();
    defs.insert("producer_schedule".into(), object(&schedule()));
    defs.insert("trigger".into(), by_type("The type of a trigger", &types));
    defs
}
