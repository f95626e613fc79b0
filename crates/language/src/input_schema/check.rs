//! Checks payloads against an input schema.

use calendar::{Mistake, Problem, nearest};
use serde_json::{Map, Value};

use super::{Additional, InputSchema, JsonType, MISTAKES};
use crate::definition::cut;

impl InputSchema {
    /// The mistakes in a payload, each with its path from `payload`. Values are not shown, since
    /// one may be a secret.
    ///
    /// A missing payload counts as an empty mapping where a mapping is expected.
    pub fn check(&self, payload: &Value) -> Vec<Mistake> {
        let empty = Value::Object(Map::new());
        let is_empty = payload.is_null() && self.takes_none_for_empty();
        let mut mistakes = Vec::new();
        self.check_at("payload", if is_empty { &empty } else { payload }, &mut mistakes);
        mistakes.truncate(MISTAKES);
        mistakes
    }

    /// Whether this schema accepts an object but not null. A run without a payload then gets `{}`.
    pub fn takes_none_for_empty(&self) -> bool {
        self.types.contains(&JsonType::Object) && !self.types.contains(&JsonType::Null)
    }

    fn check_at(&self, path: &str, value: &Value, mistakes: &mut Vec<Mistake>) {
        if mistakes.len() >= MISTAKES {
            return;
        }
        if !self.types.is_empty() && !self.types.iter().any(|kind| kind.is_of(value)) {
            let expected: Vec<&str> = self.types.iter().map(|kind| kind.words()).collect();
            let message = format!("expected {}, found {}", expected.join(" or "), found(value));
            mistakes.push(wrong("type", path, message));
            return;
        }
        if !self.choices.is_empty() && !self.choices.contains(value) {
            let allowed: Vec<String> = self.choices.iter().map(Value::to_string).collect();
            let mut mistake = wrong("enum", path, "is none of the values that are possible");
            mistake.problem = mistake.problem.allow(cut(&allowed.join(", ")));
            mistakes.push(mistake);
        }
        if let Some(only) = &self.only
            && only != value
        {
            let message = format!("has to be {}", cut(&only.to_string()));
            mistakes.push(wrong("const", path, message));
        }
        match value {
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or(f64::NAN);
                mistakes.extend(self.out_of_bounds(number).map(|why| wrong("range", path, why)));
            }
            Value::String(text) => {
                let length = text.chars().count() as u64;
                let bounds = (self.min_length, self.max_length);
                mistakes.extend(
                    size(length, bounds, "characters").map(|why| wrong("length", path, why)),
                );
            }
            Value::Array(items) => {
                let bounds = (self.min_items, self.max_items);
                let count = items.len() as u64;
                mistakes.extend(size(count, bounds, "items").map(|why| wrong("length", path, why)));
                if let Some(each) = &self.items {
                    for (at, item) in items.iter().enumerate() {
                        each.check_at(&format!("{path}[{at}]"), item, mistakes);
                        if mistakes.len() >= MISTAKES {
                            return;
                        }
                    }
                }
            }
            Value::Object(fields) => self.check_fields(path, fields, mistakes),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn check_fields(&self, path: &str, fields: &Map<String, Value>, mistakes: &mut Vec<Mistake>) {
        for name in self.required.iter().filter(|name| !fields.contains_key(*name)) {
            mistakes.push(wrong(
                "missing",
                &format!("{path}.{name}"),
                format!("{name} is missing"),
            ));
        }
        for (name, value) in fields {
            if mistakes.len() >= MISTAKES {
                return;
            }
            let below = format!("{path}.{}", cut(name));
            match (self.properties.get(name), &self.additional_properties) {
                (Some(field), _) => field.check_at(&below, value, mistakes),
                (None, Some(Additional::Each(each))) => each.check_at(&below, value, mistakes),
                (None, Some(Additional::Allowed(false))) => {
                    let message = format!("{} is not expected", cut(name));
                    let mut mistake = wrong("unknown-key", &below, message);
                    let known = self.properties.keys().map(String::as_str);
                    if let Some(close) = nearest(name, known).first() {
                        mistake.problem = mistake.problem.suggest(*close);
                    }
                    mistakes.push(mistake);
                }
                (None, _) => {}
            }
        }
    }

    fn out_of_bounds(&self, number: f64) -> Option<String> {
        if let Some(least) = self.minimum.filter(|least| number < *least) {
            return Some(format!("has to be at least {least}"));
        }
        if let Some(most) = self.maximum.filter(|most| number > *most) {
            return Some(format!("has to be at most {most}"));
        }
        if let Some(bound) = self.exclusive_minimum.filter(|bound| number <= *bound) {
            return Some(format!("has to be more than {bound}"));
        }
        let bound = self.exclusive_maximum.filter(|bound| number >= *bound)?;
        Some(format!("has to be less than {bound}"))
    }
}

impl JsonType {
    pub(super) fn is_of(self, value: &Value) -> bool {
        match self {
            JsonType::Object => value.is_object(),
            JsonType::Array => value.is_array(),
            JsonType::String => value.is_string(),
            JsonType::Number => value.is_number(),
            JsonType::Integer => {
                value.is_i64()
                    || value.is_u64()
                    || value.as_f64().is_some_and(|number| number.fract() == 0.0)
            }
            JsonType::Boolean => value.is_boolean(),
            JsonType::Null => value.is_null(),
        }
    }
}

fn size(size: u64, (least, most): (Option<u64>, Option<u64>), what: &str) -> Option<String> {
    if let Some(least) = least.filter(|least| size < *least) {
        return Some(format!("has {size} {what}, and needs at least {least}"));
    }
    let most = most.filter(|most| size > *most)?;
    Some(format!("has {size} {what}, and may have at most {most}"))
}

fn found(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(true) => "true",
        Value::Bool(false) => "false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

fn wrong(code: &'static str, path: &str, message: impl Into<String>) -> Mistake {
    Mistake::new(path, Problem::whole(code, "", message))
}
