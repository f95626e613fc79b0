//! A schedule as programs write it: one flat JSON object with the rule among the other keys.

use std::borrow::Cow;
use std::fmt;

use calendar::{CatchUpSpec, Mistake, Problem, TimingSpec, nearest, without_type_names};
use serde::de::{self, Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::declared::Declared;
use super::keys;
use crate::definition::{
    IncidentAction, read_incident_actions, rule_keys, schedule_keys, timing_keys,
};

/// Keys that are shown but cannot be written, and the request that changes what they show. `{id}`
/// stands for the schedule's id.
const READ_ONLY: [(&[&str], &str); 7] = [
    (
        &["status", "enabled", "renewed_at", "lives_again"],
        "POST /api/v1/schedules/{id}/pause, …/resume or …/revive",
    ),
    (
        &["next_run_at", "next_nominal_at"],
        "another rule, or PUT /api/v1/schedules/{id}/occurrences/{nominal} to skip or move one time",
    ),
    (
        &["current_repeat", "current_retry", "last_error"],
        "POST /api/v1/schedules/{id}/revive, which begins anew",
    ),
    (&["run_id", "active", "queued"], "POST /api/v1/schedules/{id}/trigger starts a run by hand"),
    (&["workflow_paused"], "POST /api/v1/workflows/{workflow_id}/pause or …/resume"),
    (&["zone"], "timezone, which is where a zone is written; zone shows the one that counts"),
    (
        &[
            "id",
            "rule",
            "words",
            "warnings",
            "last_run_at",
            "last_outcome",
            "run_count",
            "error_count",
            "created_at",
            "updated_at",
            "workflow_name",
            "n",
        ],
        "leave it out: it says what has happened",
    ),
];

/// The request that changes a read-only key.
fn read_only(key: &str) -> Option<&'static str> {
    READ_ONLY.iter().find(|(keys, _)| keys.contains(&key)).map(|(_, remedy)| *remedy)
}

/// Whether this key is shown but cannot be written.
pub fn is_read_only(key: &str) -> bool {
    read_only(key).is_some()
}

/// A schedule as a caller sent it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// The workflow's id or name.
    pub workflow: Option<String>,
    /// The same workflow once more: an object that was read has both its id and its name.
    pub also_workflow: Option<String>,
    /// The trigger of the workflow that it stands for.
    pub trigger: Option<String>,
    pub declared: Box<Declared>,
}

/// The fields of an object in order, with their values as written.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields<'a>, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with the schedule's fields")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields: Self::Value = Vec::new();
                while let Some(Key(key)) = map.next_key()? {
                    if fields.iter().any(|(known, _)| *known == key) {
                        return Err(de::Error::custom(format!("the field {key} is given twice")));
                    }
                    fields.push((key, map.next_value()?));
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Visit).map(Fields)
    }
}

/// A key that borrows from the text if possible.
struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key<'a>, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Cow<'de, str>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field's name")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }
        }
        deserializer.deserialize_str(Visit).map(Key)
    }
}

/// Reads a new schedule from a JSON object.
pub fn read_written(text: &str) -> Result<Written, Vec<Mistake>> {
    let mut written = Written::default();
    apply(&mut written, text)?;
    Ok(written)
}

/// The schedule after an edit: given fields replace old ones, `null` removes a field, a new rule
/// replaces the old rule.
pub fn patch(before: &Written, text: &str) -> Result<Written, Vec<Mistake>> {
    let mut written = before.clone();
    apply(&mut written, text)?;
    Ok(written)
}

fn apply(written: &mut Written, text: &str) -> Result<(), Vec<Mistake>> {
    let Fields(fields) = serde_json::from_str(text).map_err(|error| {
        let problem = Problem::whole("json", "", without_type_names(&error.to_string()));
        vec![Mistake::new("", problem)]
    })?;
    let mut mistakes: Vec<Mistake> = contradictions(&fields).collect();
    let mut timing = Vec::new();
    for (key, value) in &fields {
        if timing_keys().any(|known| known == key) {
            timing.push((&**key, *value));
        } else if let Err(found) = set(written, key, value) {
            mistakes.extend(explained(key, value, *found));
        }
    }
    if !timing.is_empty() {
        match with_timing(&written.declared.timing, &timing) {
            Ok(timing) => written.declared.timing = timing,
            Err(more) => mistakes.extend(more),
        }
    }
    if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
}

/// Fields with two names that are given with both, and with different values.
fn contradictions<'f>(
    fields: &'f [(Cow<'_, str>, &RawValue)],
) -> impl Iterator<Item = Mistake> + 'f {
    let of = |name: &str| {
        let value = fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.get());
        value.filter(|value| *value != "null")
    };
    let pairs = [("trigger_node_id", "trigger"), ("payload", "trigger_payload")];
    pairs.into_iter().filter_map(move |(name, other)| {
        let (value, others) = (of(name)?, of(other)?);
        let message = format!("{other} is the same field, and has another value");
        (value != others)
            .then(|| Mistake::new(name, Problem::whole("contradiction", value, message)))
    })
}

/// The mistakes that the shared checks find in a value, or else the one found while reading it.
fn explained(key: &str, value: &RawValue, found: Mistake) -> Vec<Mistake> {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(value.get()) else {
        return vec![found];
    };
    let said = keys::check(&serde_json::Map::from_iter([(key.to_owned(), value)]));
    if said.is_empty() { vec![found] } else { said }
}

fn set(written: &mut Written, key: &str, value: &RawValue) -> Result<(), Box<Mistake>> {
    let declared = &mut written.declared;
    match key {
        "name" => declared.name = read(key, value)?,
        "description" => declared.description = read(key, value)?,
        "owner" => declared.owner = read(key, value)?,
        "workflow_id" | "workflow" => {
            let named = read::<Option<NameOrNumber>>(key, value)?.map(|name| name.0);
            let before = std::mem::replace(&mut written.workflow, named.clone());
            written.also_workflow = before.filter(|_| named.is_some());
        }
        "trigger_node_id" => written.trigger = read(key, value)?,
        // The API shows `trigger` as `null` for a schedule that no definition declares.
        "trigger" => written.trigger = read::<Option<_>>(key, value)?.or(written.trigger.take()),
        "overlap" => declared.overlap = read::<Option<_>>(key, value)?.unwrap_or_default(),
        "queue_limit" => declared.queue_limit = read(key, value)?,
        "catch_up" => declared.catch_up = read::<Option<CatchUpSpec>>(key, value)?,
        "total_repeats" => declared.total_repeats = read::<Option<_>>(key, value)?.unwrap_or(0),
        "max_retries" => declared.max_retries = read(key, value)?,
        "on_exhausted" => declared.on_exhausted = read(key, value)?,
        "retry" => declared.retry = read::<Option<_>>(key, value)?.unwrap_or_default(),
        "timeout_seconds" => declared.timeout_seconds = read(key, value)?,
        "payload" | "trigger_payload" => declared.payload = payload(key, value)?,
        "pause_on_failure" => {
            declared.pause_on_failure = read::<Option<_>>(key, value)?.unwrap_or(false);
        }
        "retention" => declared.retention = read(key, value)?,
        "on_failure" => declared.on_failure = actions(key, value)?,
        "on_recovery" => declared.on_recovery = actions(key, value)?,
        other => {
            return Err(Box::new(match read_only(other) {
                Some(remedy) => {
                    let message = "this is shown, and cannot be written";
                    let problem = Problem::whole("read-only", "", message).suggest(remedy);
                    Mistake::new(other, problem)
                }
                None => unknown_key(other),
            }));
        }
    }
    Ok(())
}

/// An id that a program may send as a number.
struct NameOrNumber(String);

impl<'de> Deserialize<'de> for NameOrNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NameOrNumber, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged, expecting = "expected a workflow's id or name")]
        enum Either {
            Name(String),
            Number(i64),
        }
        Ok(NameOrNumber(match Either::deserialize(deserializer)? {
            Either::Name(name) => name,
            Either::Number(number) => number.to_string(),
        }))
    }
}

/// The payload as written, except for white space. Numbers that JSON cannot represent exactly stay
/// as they are.
fn payload(key: &str, value: &RawValue) -> Result<Option<Box<RawValue>>, Box<Mistake>> {
    match value.get() {
        "null" => Ok(None),
        _ => read::<Box<RawValue>>(key, value).map(Some),
    }
}

/// Reads the actions of an incident. The shared checks explain mistakes.
fn actions(key: &str, value: &RawValue) -> Result<Option<Vec<IncidentAction>>, Box<Mistake>> {
    let Some(value) = read::<Option<serde_json::Value>>(key, value)? else { return Ok(None) };
    let first = |mistakes: Vec<Mistake>| mistakes.into_iter().next();
    read_incident_actions(&value).map(Some).map_err(|mistakes| {
        let problem = || Problem::whole("type", "", "not a list of actions");
        Box::new(first(mistakes).unwrap_or_else(|| Mistake::new(key, problem())))
    })
}

fn read<T: DeserializeOwned>(key: &str, value: &RawValue) -> Result<T, Box<Mistake>> {
    serde_json::from_str(value.get()).map_err(|error| {
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(&*message, |(text, _)| text);
        let message = without_type_names(message);
        Box::new(Mistake::new(key, Problem::whole("type", value.get(), message)))
    })
}

fn unknown_key(key: &str) -> Mistake {
    let mut problem = Problem::whole("unknown-field", key, "unknown field");
    if let Some(close) = nearest(key, schedule_keys()).first() {
        problem = problem.suggest(*close);
    }
    Mistake::new(key, problem)
}

/// The timing with these fields. If one of them is a rule, the old rule is removed.
fn with_timing(
    before: &TimingSpec,
    fields: &[(&str, &RawValue)],
) -> Result<TimingSpec, Vec<Mistake>> {
    if *before == TimingSpec::default()
        && let Some(timing) = read_at_once(fields)
    {
        return Ok(timing);
    }
    let mut object = serde_json::Map::new();
    if *before != TimingSpec::default()
        && let Ok(serde_json::Value::Object(known)) = serde_json::to_value(before)
    {
        object = known;
    }
    let is_rule = |key: &str| rule_keys().any(|known| known == key);
    if fields.iter().any(|(key, value)| is_rule(key) && value.get() != "null") {
        object.retain(|key, _| !is_rule(key));
    }
    let mut mistakes = Vec::new();
    for (key, value) in fields {
        match read::<serde_json::Value>(key, value) {
            Ok(serde_json::Value::Null) => drop(object.remove(*key)),
            Ok(value) => drop(object.insert((*key).to_owned(), value)),
            Err(mistake) => mistakes.push(*mistake),
        }
    }
    // One by one, so that each mistake is reported with its field.
    for (key, value) in &object {
        let alone = serde_json::Map::from_iter([(key.clone(), value.clone())]);
        if let Err(error) = TimingSpec::deserialize(serde_json::Value::Object(alone)) {
            let message = without_type_names(&error.to_string());
            let problem = Problem::whole("type", &value.to_string(), message);
            mistakes.push(Mistake::new(key, problem));
        }
    }
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    TimingSpec::deserialize(serde_json::Value::Object(object)).map_err(|error| {
        let message = without_type_names(&error.to_string());
        vec![Mistake::new("", Problem::whole("type", "", message))]
    })
}

/// The fast path for a new schedule without mistakes, for batches of thousands.
fn read_at_once(fields: &[(&str, &RawValue)]) -> Option<TimingSpec> {
    let mut text = String::from("{");
    for (key, value) in fields {
        let comma = if text.len() == 1 { "" } else { "," };
        text.push_str(comma);
        text.push('"');
        text.push_str(key);
        text.push_str("\":");
        text.push_str(value.get());
    }
    text.push('}');
    serde_json::from_str(&text).ok()
}

impl Declared {
    /// The flat form: the declaration with its defaults filled in.
    pub fn to_written(&self) -> serde_json::Map<String, serde_json::Value> {
        let mut object = match serde_json::to_value(&self.timing) {
            Ok(serde_json::Value::Object(timing)) => timing,
            _ => serde_json::Map::new(),
        };
        let mut put =
            |key: &str, value: serde_json::Value| drop(object.insert(key.to_owned(), value));
        put("name", self.name.clone().into());
        put("description", self.description.clone().into());
        put("owner", self.owner.clone().into());
        put("trigger_node_id", self.trigger_node_id.clone().into());
        put("overlap", self.overlap.name().into());
        put("queue_limit", self.queue_limit().into());
        put(
            "catch_up",
            serde_json::to_value(
                self.catch_up.clone().unwrap_or(CatchUpSpec::Policy(calendar::Policy::Last)),
            )
            .unwrap_or_default(),
        );
        put("total_repeats", self.total_repeats.into());
        put("max_retries", self.max_retries().into());
        put("on_exhausted", self.on_exhausted().name().into());
        put("timeout_seconds", self.timeout_seconds.into());
        put("retry", serde_json::to_value(&self.retry).unwrap_or_default());
        put("pause_on_failure", self.pause_on_failure.into());
        put("retention", self.retention.clone().into());
        put("on_failure", serde_json::to_value(&self.on_failure).unwrap_or_default());
        put("on_recovery", serde_json::to_value(&self.on_recovery).unwrap_or_default());
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(text: &str) -> Vec<String> {
        let mistakes = read_written(text).unwrap_err();
        mistakes.iter().map(|m| format!("{}: {}", m.path, m.problem.message)).collect()
    }

    #[test]
    fn fields_find_their_places() {
        let text = r#"{"name": "n", "workflow_id": 7, "interval_seconds": 300, "overlap": "queue",
            "payload": {"c": 9007199254740993, "a": 1e400}, "timezone": "Europe/Berlin"}"#;
        let written = read_written(text).unwrap();
        assert_eq!(written.workflow.as_deref(), Some("7"));
        assert_eq!(written.declared.timing.interval_seconds, Some(300));
        let payload = written.declared.payload.as_ref().unwrap();
        assert_eq!(payload.get(), r#"{"c": 9007199254740993, "a": 1e400}"#);
    }

    #[test]
    fn all_mistakes_are_told() {
        assert_eq!(
            mistakes(r#"{"name": 5, "overlpa": "skip", "overlap": "sometimes", "cron": 5}"#),
            [
                "name: expected a text, found 5",
                "overlpa: unknown field",
                "overlap: expected an overlap policy, found sometimes",
                "cron: invalid type: integer `5`, expected a string",
            ]
        );
        assert_eq!(
            mistakes(
                r#"{"payload": 1, "trigger_payload": 2, "trigger": "a", "trigger_node_id": "b"}"#
            ),
            [
                "trigger_node_id: trigger is the same field, and has another value",
                "payload: trigger_payload is the same field, and has another value",
            ]
        );
        assert_eq!(mistakes("[]").len(), 1);
        assert_eq!(mistakes(r#"{"name": "a", "name": "b"}"#).len(), 1);
    }

    #[test]
    fn every_key_of_the_table_is_read_and_no_other() {
        let is_unknown = |key: &str| {
            let read = read_written(&format!(r#"{{"{key}": [[]]}}"#));
            read.is_err_and(|found| found[0].problem.code == "unknown-field")
        };
        for key in schedule_keys() {
            assert!(!is_unknown(key), "{key}");
        }
        assert!(is_unknown("overlpa"));
    }

    #[test]
    fn an_edit_replaces_the_rule_and_keeps_the_rest() {
        let before =
            read_written(r#"{"name": "n", "cron": "@daily", "timezone": "Europe/Berlin"}"#)
                .unwrap();
        let after = patch(&before, r#"{"interval": "5m", "description": "d"}"#).unwrap();
        assert_eq!(after.declared.timing.cron, None);
        assert_eq!(after.declared.timing.interval.as_deref(), Some("5m"));
        assert_eq!(after.declared.timing.timezone.as_deref(), Some("Europe/Berlin"));
        let after = patch(&after, r#"{"description": null, "timezone": null}"#).unwrap();
        assert_eq!(after.declared.description, None);
        assert_eq!(after.declared.timing.timezone, None);
    }
}
