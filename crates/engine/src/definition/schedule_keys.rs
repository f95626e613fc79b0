//! The keys of a schedule that do not say when it is due: overlap, catch-up, retries, payload.

use std::ops::RangeInclusive;

use calendar::{CatchUpSpec, Mistake, Problem, nearest};
use serde_json::{Map, Value};

use super::duration;
use super::limits;
use super::shape;

/// All of them.
pub(super) const KEYS: [&str; 12] = [
    "name",
    "description",
    "overlap",
    "catch_up",
    "total_repeats",
    "max_retries",
    "timeout_seconds",
    "retry",
    "payload",
    "queue_limit",
    "pause_on_failure",
    "retention",
];

const OVERLAPS: [&str; 6] = ["skip", "queue", "queue_all", "cancel", "allow", "error"];

/// A billion repeats of one second are more than thirty years.
const REPEATS: RangeInclusive<u64> = 0..=1_000_000_000;
const RETRIES: RangeInclusive<u64> = 0..=1_000;
const QUEUE: RangeInclusive<u64> = 1..=10_000;

/// Everything that is wrong with them.
pub(super) fn check(map: &Map<String, Value>) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let longest = limits::DURATION.as_secs().unsigned_abs();
    for (key, value) in map {
        let found = match key.as_str() {
            "name" | "description" => text(value),
            "overlap" => overlap(value),
            "total_repeats" => whole(value, &REPEATS),
            "max_retries" => whole(value, &RETRIES),
            "queue_limit" => whole(value, &QUEUE),
            "timeout_seconds" => whole(value, &(1..=longest)),
            "pause_on_failure" => boolean(value),
            "retention" => time(value),
            "payload" => payload(value),
            "catch_up" => {
                mistakes.extend(catch_up(value).into_iter().map(|m| under(key, m)));
                None
            }
            "retry" => {
                mistakes.extend(retry(value).into_iter().map(|m| under(key, m)));
                None
            }
            _ => None,
        };
        mistakes.extend(found.map(|problem| Mistake::new(key, problem)));
    }
    mistakes
}

fn under(key: &str, mistake: Mistake) -> Mistake {
    if mistake.path.is_empty() { Mistake::new(key, mistake.problem) } else { mistake.under(key) }
}

fn written(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn expected(what: &str, value: &Value) -> Problem {
    let found = super::tree::cut(&written(value));
    Problem::whole("type", "", format!("expected {what}, found {found}"))
}

fn text(value: &Value) -> Option<Problem> {
    (!value.is_string()).then(|| expected("a text", value))
}

fn boolean(value: &Value) -> Option<Problem> {
    (!value.is_boolean()).then(|| expected("true or false", value))
}

fn whole(value: &Value, allowed: &RangeInclusive<u64>) -> Option<Problem> {
    let good = value.as_u64().is_some_and(|number| allowed.contains(&number));
    let range = format!("{} to {}", allowed.start(), allowed.end());
    (!good).then(|| expected("a whole number", value).allow(range))
}

/// A duration of more than nothing.
fn time(value: &Value) -> Option<Problem> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Some(expected("a duration such as 30s, 5m or 1h30m", value)),
    };
    match duration::parse(&text) {
        Ok(duration) if duration.is_zero() => {
            Some(Problem::whole("duration", &text, "a duration of nothing").allow("at least 1ms"))
        }
        Ok(_) => None,
        Err(problem) => Some(problem),
    }
}

fn overlap(value: &Value) -> Option<Problem> {
    let written = value.as_str().unwrap_or("");
    if OVERLAPS.contains(&written) {
        return None;
    }
    let problem = expected("an overlap policy", value).allow(OVERLAPS.join(", "));
    Some(match nearest(written, OVERLAPS).first() {
        Some(close) => problem.suggest(*close),
        None => problem,
    })
}

fn payload(value: &Value) -> Option<Problem> {
    let bytes = value.to_string().len();
    let allowed = format!("at most {}", limits::PAYLOAD_BYTES);
    (bytes > limits::PAYLOAD_BYTES)
        .then(|| Problem::whole("limit", "", format!("{bytes} bytes as JSON")).allow(allowed))
}

fn catch_up(value: &Value) -> Vec<Mistake> {
    const DETAILS: [&str; 4] = ["policy", "window", "limit", "pace"];
    if let Value::Object(map) = value {
        let unknown = map.keys().filter(|key| !DETAILS.contains(&key.as_str()));
        let unknown: Vec<Mistake> =
            unknown.map(|key| shape::unknown_key(key, DETAILS.into_iter())).collect();
        if !unknown.is_empty() {
            return unknown;
        }
    }
    match serde_json::from_value::<CatchUpSpec>(value.clone()) {
        Ok(spec) => spec.build().err().unwrap_or_default(),
        Err(_) => {
            let problem = expected("a catch-up policy", value)
                .allow("none, last or all, or an entry with policy, window, limit and pace");
            vec![Mistake::new("", problem)]
        }
    }
}

/// `{ delay: 60s, jitter: 0.1 }`: the wait before the first retry, and the part of it by which
/// retries are scattered.
fn retry(value: &Value) -> Vec<Mistake> {
    const DETAILS: [&str; 2] = ["delay", "jitter"];
    let Value::Object(map) = value else {
        let problem = expected("a mapping", value).suggest("retry: { delay: 60s }");
        return vec![Mistake::new("", problem)];
    };
    let check = |(key, value): (&String, &Value)| match key.as_str() {
        "delay" => time(value).map(|problem| Mistake::new(key, problem)),
        "jitter" => {
            let good = value.as_f64().is_some_and(|part| (0.0..=1.0).contains(&part));
            (!good).then(|| Mistake::new(key, expected("a number", value).allow("0 to 1")))
        }
        _ => Some(shape::unknown_key(key, DETAILS.into_iter())),
    };
    map.iter().filter_map(check).collect()
}
