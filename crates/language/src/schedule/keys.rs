//! The keys of a schedule's declaration, in the API and as a trigger of a definition.

use std::ops::RangeInclusive;

use calendar::{CatchUpSpec, Mistake, Problem, nearest};
use serde_json::{Map, Value};

use super::declared::{
    LARGEST_MAX_RETRIES, LARGEST_PAYLOAD, LARGEST_QUEUE, LONGEST_TIMEOUT_SECONDS,
};
use crate::definition::{cut, duration, read_incident_actions, shape};
use crate::policy::overlap::Overlap;
use crate::policy::retry::OnExhausted;

/// The repeat counts that a store can hold.
pub(crate) const REPEATS: RangeInclusive<u64> = 0..=i64::MAX as u64;
pub(crate) const RETRIES: RangeInclusive<u64> = 0..=LARGEST_MAX_RETRIES as u64;
pub(crate) const QUEUE: RangeInclusive<u64> = 1..=LARGEST_QUEUE as u64;
/// The allowed timeouts in seconds; 0 means no limit.
pub(crate) const TIMEOUT: RangeInclusive<u64> = 0..=LONGEST_TIMEOUT_SECONDS;

/// All mistakes in these keys.
pub(crate) fn check(map: &Map<String, Value>) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for (key, value) in map {
        let found = match key.as_str() {
            "name" | "description" => text(value),
            "overlap" => choice("an overlap policy", value, &Overlap::ALL.map(Overlap::name)),
            "on_exhausted" => {
                let known = OnExhausted::ALL.map(OnExhausted::name);
                choice("what follows when retries are exhausted", value, &known)
            }
            "total_repeats" => whole(value, &REPEATS),
            "max_retries" => whole(value, &RETRIES),
            "queue_limit" => whole(value, &QUEUE),
            "timeout_seconds" => whole(value, &TIMEOUT),
            "pause_on_failure" => boolean(value),
            "retention" => time(value),
            "payload" => payload(value),
            "catch_up" => {
                mistakes.extend(catch_up(value).into_iter().map(|m| under(key, m)));
                None
            }
            "on_failure" | "on_recovery" if !value.is_null() => {
                let found = read_incident_actions(value).err().unwrap_or_default();
                mistakes.extend(found.into_iter().map(|m| under(key, m)));
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
    match &*mistake.path {
        "" => Mistake::new(key, mistake.problem),
        item if item.starts_with('[') => Mistake::new(format!("{key}{item}"), mistake.problem),
        _ => mistake.under(key),
    }
}

fn written(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn expected(what: &str, value: &Value) -> Problem {
    let found = cut(&written(value));
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

/// Checks a duration, which must be more than zero.
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

fn choice(what: &str, value: &Value, known: &[&'static str]) -> Option<Problem> {
    let written = value.as_str().unwrap_or("");
    if known.iter().any(|name| name.eq_ignore_ascii_case(written)) {
        return None;
    }
    let problem = expected(what, value).allow(known.join(", "));
    Some(match nearest(written, known.iter().copied()).first() {
        Some(close) => problem.suggest(*close),
        None => problem,
    })
}

fn payload(value: &Value) -> Option<Problem> {
    let bytes = value.to_string().len();
    let allowed = format!("at most {}", LARGEST_PAYLOAD);
    (bytes > LARGEST_PAYLOAD)
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

/// Checks `{ delay: 60s, max_delay: 10m, jitter: 0.1 }`: the wait before the first retry, the
/// longest wait, and the fraction by which retries are scattered.
fn retry(value: &Value) -> Vec<Mistake> {
    const DETAILS: [&str; 3] = ["delay", "max_delay", "jitter"];
    let Value::Object(map) = value else {
        let problem = expected("a mapping", value).suggest("retry: { delay: 60s }");
        return vec![Mistake::new("", problem)];
    };
    let check = |(key, value): (&String, &Value)| match key.as_str() {
        "delay" | "max_delay" => time(value).map(|problem| Mistake::new(key, problem)),
        "jitter" => {
            let good = value.as_f64().is_some_and(|part| (0.0..=1.0).contains(&part));
            (!good).then(|| Mistake::new(key, expected("a number", value).allow("0 to 1")))
        }
        _ => Some(shape::unknown_key(key, DETAILS.into_iter())),
    };
    map.iter().filter_map(check).collect()
}

#[cfg(test)]
mod tests {
    use crate::definition::timing_keys;

    /// A key that is added to timings must be added here as well.
    #[test]
    fn all_keys_of_a_timing_are_known() {
        let error = serde_json::from_str::<calendar::TimingSpec>(r#"{"nonsense": 1}"#).unwrap_err();
        let error = error.to_string();
        let known: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
        for key in &known {
            assert!(timing_keys().any(|ours| ours == *key), "{key} is missing");
        }
        for key in timing_keys() {
            assert!(
                known.contains(&key) || ["every", "expression"].contains(&key),
                "{key} is not known"
            );
        }
    }
}
