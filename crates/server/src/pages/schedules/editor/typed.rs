//! The values of the form: typed so far, or from a schedule's declaration.

use language::schedule::Declared;
use serde_json::{Map, Value};
use url::form_urlencoded;

/// The kinds of rules: key, name, and the fields that show which kind is used.
pub(super) const KINDS: [Kind; 10] = [
    Kind::new("cron", "Cron expression", &["cron"]),
    Kind::new("interval", "Every so often", &["interval", "from", "anchor"]),
    Kind::new("daily", "Every day, or on some weekdays", &["daily"]),
    Kind::new("weekly", "Every week", &["weekly"]),
    Kind::new("monthly", "Days of the month", &["monthly"]),
    Kind::new("quarterly", "A working day of the quarter", &["quarterly"]),
    Kind::new("yearly", "A working day of the year", &["yearly"]),
    Kind::new("at", "Once", &["at"]),
    Kind::new("rrule", "Recurrence rule (RFC 5545)", &["rrule", "dtstart", "exdate", "rdate"]),
    Kind::new("rules", "Several rules", &["rules"]),
];

/// A kind of rule.
pub(super) struct Kind {
    pub(super) key: &'static str,
    pub(super) name: &'static str,
    fields: &'static [&'static str],
}

impl Kind {
    const fn new(key: &'static str, name: &'static str, fields: &'static [&'static str]) -> Kind {
        Kind { key, name, fields }
    }

    fn has(&self, path: &str) -> bool {
        let first = path.split('.').next().unwrap_or(path);
        self.fields.contains(&first)
    }
}

/// Fields by their paths, in the order in which they were sent.
#[derive(Debug, Default)]
pub(super) struct Typed(Vec<(String, String)>);

impl Typed {
    /// Reads a query or a form body.
    pub(super) fn parse(text: &str) -> Typed {
        let pairs = form_urlencoded::parse(text.as_bytes());
        Typed(pairs.map(|(name, value)| (path_of(&name).to_owned(), value.into_owned())).collect())
    }

    /// The fields that a schedule declares, without defaults.
    pub(super) fn of(declared: &Declared) -> Typed {
        let mut typed = Typed::default();
        let Ok(Value::Object(mut fields)) = serde_json::to_value(declared) else { return typed };
        fields.remove("payload");
        if let Some(Value::Object(timing)) = fields.remove("timing") {
            fields.extend(timing);
        }
        // Two spellings for which the form has one field.
        if let Some(preset) = fields.remove("preset") {
            fields.insert("cron".to_owned(), preset);
        }
        if let Some(seconds) = fields.remove("interval_seconds") {
            fields.insert("interval".to_owned(), Value::String(format!("{seconds}s")));
        }
        if let Some(Value::String(policy)) = fields.get("catch_up") {
            let policy = Map::from_iter([("policy".to_owned(), Value::String(policy.clone()))]);
            fields.insert("catch_up".to_owned(), Value::Object(policy));
        }
        typed.flatten("", &fields);
        if let Some(payload) = &declared.payload {
            typed.0.push(("payload".to_owned(), payload.get().to_owned()));
        }
        typed
    }

    fn flatten(&mut self, above: &str, fields: &Map<String, Value>) {
        for (key, value) in fields {
            let path = format!("{above}{key}");
            let text = match value {
                Value::Null => continue,
                Value::Object(inner) => {
                    self.flatten(&format!("{path}."), inner);
                    continue;
                }
                Value::Array(_) if path == "rules" => {
                    serde_json::to_string_pretty(value).unwrap_or_default()
                }
                Value::Array(items) => {
                    let between = if matches!(&*path, "exdate" | "rdate") { "\n" } else { ", " };
                    items.iter().map(plain).collect::<Vec<_>>().join(between)
                }
                value => plain(value),
            };
            self.0.push((path, text));
        }
    }

    /// Sets a field that has no value.
    pub(super) fn or(mut self, path: &str, value: &str) -> Typed {
        if !self.0.iter().any(|(known, _)| known == path) {
            self.0.push((path.to_owned(), value.to_owned()));
        }
        self
    }

    /// The value of a field; empty if it is not there.
    pub(super) fn get(&self, path: &str) -> &str {
        let found = self.0.iter().rev().find(|(known, _)| known == path);
        found.map_or("", |(_, value)| value)
    }

    /// The kind of rule that was chosen, or otherwise the kind whose fields are filled in.
    pub(super) fn kind(&self) -> &'static str {
        let chosen = self.get("_rule");
        let chosen = KINDS.iter().find(|kind| kind.key == chosen);
        chosen.map_or_else(|| self.filled().unwrap_or(KINDS[0].key), |kind| kind.key)
    }

    /// Whether another kind was chosen than the one whose fields were sent.
    pub(super) fn is_another_kind(&self) -> bool {
        self.filled().is_some_and(|filled| filled != self.kind())
    }

    fn filled(&self) -> Option<&'static str> {
        let has = |kind: &&Kind| {
            self.0.iter().any(|(path, value)| kind.has(path) && !value.trim().is_empty())
        };
        KINDS.iter().find(has).map(|kind| kind.key)
    }
}

/// The name of a field without the kind of its value.
fn path_of(name: &str) -> &str {
    name.split_once(':').map_or(name, |(path, _)| path)
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use language::schedule::read_written;

    #[test]
    fn what_is_declared_stands_in_the_form() {
        let written = r#"{"name": "n", "interval_seconds": 90, "timezone": "Europe/Berlin",
            "catch_up": "all", "retry": {"jitter": 0.5}, "payload": {"a": 1}, "max_retries": 0}"#;
        let typed = Typed::of(&read_written(written).unwrap().declared);
        for (path, expected) in [
            ("interval", "90s"),
            ("timezone", "Europe/Berlin"),
            ("catch_up.policy", "all"),
            ("retry.jitter", "0.5"),
            ("payload", r#"{"a": 1}"#),
            ("max_retries", "0"),
            ("timeout_seconds", ""),
        ] {
            assert_eq!(typed.get(path), expected, "{path}");
        }
        assert_eq!(typed.kind(), "interval");
    }

    #[test]
    fn lists_stand_in_one_field() {
        for (written, path, expected) in [
            (r#"{"daily": {"at": ["09:00", "17:00"]}}"#, "daily.at", "09:00, 17:00"),
            (r#"{"monthly": {"day": [1, "last"], "at": "09:00"}}"#, "monthly.day", "1, last"),
            (r#"{"rrule": "FREQ=DAILY", "exdate": ["a", "b"]}"#, "exdate", "a\nb"),
            (r#"{"preset": "daily"}"#, "cron", "daily"),
        ] {
            let typed = Typed::of(&read_written(written).unwrap().declared);
            assert_eq!(typed.get(path), expected, "{written}");
        }
    }

    #[test]
    fn a_kind_is_chosen_or_follows_from_what_is_filled_in() {
        for (query, expected, is_another) in [
            ("", "cron", false),
            ("cron=&interval=5m", "interval", false),
            ("_rule=at", "at", false),
            ("_rule=at&cron=x", "at", true),
            ("monthly.at:parts=9&_rule=monthly", "monthly", false),
            ("_rule=nonsense", "cron", false),
        ] {
            let typed = Typed::parse(query);
            assert_eq!((typed.kind(), typed.is_another_kind()), (expected, is_another), "{query}");
        }
    }
}
