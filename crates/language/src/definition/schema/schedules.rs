//! The keys of a schedule: one table for definitions, the API, its OpenAPI document, `--help` and
//! what is read.

use std::ops::RangeInclusive;

use serde_json::{Map, Value, json};

use super::keys::{Default, INCIDENT_ACTIONS, Key, Shape, may};
use super::rules::{CATCH_UP, DAILY, DST, MONTHLY, PERIOD, RETRY, SECONDS, TEXTS, WEEKLY};
use super::{object, shared};
use crate::schedule::DEFAULT_QUEUE_LIMIT;
use crate::schedule::keys::{QUEUE, REPEATS, RETRIES, TIMEOUT};

const fn whole(range: &RangeInclusive<u64>) -> Shape {
    Shape::Whole(*range.start(), *range.end())
}

/// The keys of a rule: one of them gives the rule, the others are its options. An edit that
/// contains any of them replaces them all.
const RULE: &[Key] = &[
    may("cron", Shape::Text, "A cron expression, or a preset such as daily"),
    may("expression", Shape::Text, "The same as cron, beside pattern: CRON"),
    may("preset", Shape::Text, "daily, hourly, weekly, monthly, yearly, weekdays, every_5min, …"),
    may("interval", SECONDS, "Elapsed time, such as 5m; at least 100ms"),
    may("every", SECONDS, "The same as interval"),
    may("interval_seconds", Shape::Whole(1, u32::MAX as u64), "The same in seconds"),
    may(
        "from",
        Shape::Choice("What an interval is counted from", &["anchor", "completion"]),
        "anchor: a fixed grid; completion: the interval counts from the end of the previous run",
    ),
    may("anchor", Shape::Text, "Where an interval is counted from"),
    may("at", Shape::Text, "Once: 2026-03-01T09:00, or with an offset"),
    may("rrule", Shape::Text, "A rule of RFC 5545"),
    may("dtstart", Shape::Text, "Where the rrule begins"),
    may("exdate", TEXTS, "Times that the rrule leaves out"),
    may("rdate", TEXTS, "Times besides the rrule's"),
    may("daily", DAILY, "{ at: \"09:00\", days: [MON, WED] }"),
    may("weekly", WEEKLY, "A day of the week and a time"),
    may("monthly", MONTHLY, "{ day: last, at: \"17:00\" } or { working_day: -1, … }"),
    may("quarterly", PERIOD, "As monthly, of a quarter"),
    may("yearly", PERIOD, "As monthly, of a year"),
    may("rules", Shape::List(&Shape::Is("rule")), "Several rules: the union of their times"),
    may(
        "pattern",
        Shape::Text,
        "The kind of the rule, such as CRON; alone a preset, such as DAILY",
    ),
    may("result", Shape::Text, "What the author expects of a pattern; nothing follows from it"),
    may("dst", DST, "{ gap: shift | skip, fold: first | last | both }"),
];

/// The keys that move or bound the times of a rule.
const OPTIONS: &[Key] = &[
    may("timezone", Shape::Text, "An IANA zone; the workflow's if left out"),
    may(
        "calendar",
        Shape::Either(&[Shape::Text, Shape::Nothing]),
        "A calendar; the workflow's if left out, null for none",
    ),
    may(
        "roll",
        Shape::Choice(
            "What happens on a day off",
            &["skip", "next", "previous", "nearest", "modified_next", "modified_previous"],
        ),
        "What happens on a day off",
    ),
    may(
        "fit",
        Shape::Choice("Whether the time of day moves", &["hours"]),
        "hours: moved into working hours",
    ),
    may("start", Shape::Text, "Nothing before this"),
    may("end", Shape::Text, "Nothing after this"),
    may("spread", SECONDS, "Moved by a stable amount inside of this window"),
];

/// The keys that do not affect when the schedule is due: overlap, catch-up, retries, payload.
const POLICIES: &[Key] = &[
    may("description", Shape::Text, "What it is for"),
    may("name", Shape::Text, "What the schedule is called"),
    may(
        "overlap",
        Shape::Choice(
            "What happens while a run is active",
            &["skip", "queue", "queue_all", "cancel", "allow", "error"],
        ),
        "What happens while a run is active",
    )
    .or(Default::Word("skip")),
    may(
        "catch_up",
        CATCH_UP,
        "none, last, all (the latest 100), or { policy, window, limit (up to 10000), pace }",
    )
    .or(Default::Word("last")),
    may("total_repeats", whole(&REPEATS), "It ends after so many that succeeded; 0 for no end")
        .or(Default::Number(0)),
    may(
        "max_retries",
        whole(&RETRIES),
        "How often a failed run is tried again: 0 if a definition leaves it out, 3 through the API",
    ),
    may(
        "on_exhausted",
        Shape::Choice("What follows when an occurrence has failed", &["continue", "die"]),
        "When an occurrence has failed: continue with the next one (definitions), or die (the API)",
    ),
    may(
        "timeout_seconds",
        whole(&TIMEOUT),
        "For how long a run may be performed, waiting apart; 0 for no limit. The workflow's timeout \
         if left out, else none in a definition and 600 through the API",
    ),
    may("retry", RETRY, "{ delay, max_delay, jitter } between runs"),
    may("payload", Shape::Any, "What the run works on"),
    may("queue_limit", whole(&QUEUE), "How many may wait")
        .or(Default::Number(DEFAULT_QUEUE_LIMIT as u64)),
    may("pause_on_failure", Shape::Bool, "Whether a failure pauses the schedule")
        .or(Default::Flag(false)),
    may("retention", SECONDS, "How long ended runs are kept"),
    may("on_failure", INCIDENT_ACTIONS, "What happens when it fails; the workflow's if left out"),
    may("on_recovery", INCIDENT_ACTIONS, "What happens when it succeeds again"),
];

fn names(keys: &'static [Key]) -> impl Iterator<Item = &'static str> {
    keys.iter().map(|key| key.name)
}

/// The names of the keys of a rule.
pub(crate) fn rule_keys() -> impl Iterator<Item = &'static str> {
    names(RULE)
}

/// The names of the keys of a timing: a rule and its options.
pub(crate) fn timing_keys() -> impl Iterator<Item = &'static str> {
    names(RULE).chain(names(OPTIONS))
}

/// The names of the keys that do not affect when the schedule is due.
pub(crate) fn policy_keys() -> impl Iterator<Item = &'static str> {
    names(POLICIES)
}

/// The names of all keys of a schedule in the API.
pub fn schedule_keys() -> impl Iterator<Item = &'static str> {
    timing_keys().chain(policy_keys()).chain(names(API))
}

/// The keys of a schedule in a definition, with their descriptions.
pub(super) fn schedule() -> Vec<Key> {
    [RULE, OPTIONS, POLICIES].concat()
}

/// The JSON Schema of one rule in a list of rules.
pub(super) fn rule() -> Value {
    object(&[RULE, OPTIONS].concat())
}

/// The keys that only a schedule in the API has: what it belongs to.
const API: &[Key] = &[
    may("owner", Shape::Text, "Whose it is"),
    may("workflow_id", NAMED, "Id or name of the workflow that it starts"),
    may("workflow", NAMED, "The same as workflow_id"),
    may(
        "trigger_node_id",
        Shape::Text,
        "What the caller files it under, such as a trigger of the workflow: runs have it as `trigger_id`; it is not looked up",
    ),
    may("trigger", Shape::Text, "The same as trigger_node_id"),
    may("trigger_payload", Shape::Any, "The same as payload"),
];
const NAMED: Shape = Shape::Either(&[Shape::Text, Shape::Integer(i64::MIN, i64::MAX)]);

/// The JSON Schema of a schedule in the API: an object with the keys of a trigger and a few more.
/// Durations are texts there, and `null` stands for an omitted key, except for the name. `$defs`
/// has the referenced definitions.
pub fn schedule_schema() -> Value {
    let mut keys = schedule();
    keys.extend_from_slice(API);
    let mut schema = object(&keys);
    let mut rule = rule();
    for mapping in [&mut schema, &mut rule] {
        let properties = mapping["properties"].as_object_mut();
        for (name, value) in properties.into_iter().flatten() {
            texts_only(value);
            if name != "name" {
                or_null(value);
            }
        }
    }
    let referred = ["incident_action", "channel", "template", "name"];
    let mut defs: Map<String, Value> =
        shared().into_iter().filter(|(name, _)| referred.contains(&name.as_str())).collect();
    defs.insert("rule".to_owned(), rule);
    schema["$defs"] = Value::Object(defs);
    schema
}

/// Restricts durations to texts, also inside a mapping.
fn texts_only(value: &mut Value) {
    let seconds = &Shape::Seconds.value()["anyOf"];
    let as_text = |value: &mut Value| {
        let Some(fields) = value.as_object_mut() else { return };
        if fields.get("anyOf") == Some(seconds) {
            fields.remove("anyOf");
            fields.insert("type".into(), json!("string"));
        }
    };
    as_text(value);
    let inner = value.get_mut("properties").and_then(Value::as_object_mut);
    inner.into_iter().flatten().for_each(|(_, value)| as_text(value));
}

/// Allows `null` as well.
fn or_null(value: &mut Value) {
    let Some(fields) = value.as_object_mut() else { return };
    let said: Map<String, Value> = ["description", "default"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), fields.remove(name)?)))
        .collect();
    let nothing = Shape::Nothing.value();
    let kind = fields.get("type").and_then(Value::as_str).map(str::to_owned);
    let is_plain = !["enum", "properties", "items"].iter().any(|key| fields.contains_key(*key));
    if let (Some(kind), true) = (&kind, is_plain) {
        fields.insert("type".into(), json!([kind, "null"]));
    } else if let (None, Some(Value::Array(choices))) = (&kind, fields.get_mut("anyOf")) {
        choices.retain(|choice| *choice != nothing);
        choices.push(nothing);
    } else if !fields.is_empty() {
        let given = Value::Object(std::mem::take(fields));
        fields.insert("anyOf".into(), json!([given, nothing]));
    }
    fields.extend(said);
}
