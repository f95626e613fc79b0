//! The fields of a form, as the JSON that the API takes.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Fields by their names.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub(in crate::pages) struct Values(BTreeMap<String, Said>);

/// The value of a field.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Said {
    /// A text, a number, a list of lines.
    Value(Value),
    /// JSON that somebody wrote. It stays as it was written, to the last digit.
    Written(Box<RawValue>),
    /// All values of a field that occurs several times.
    Many(Vec<Said>),
    /// An object with fields.
    Inside(Values),
}

impl Values {
    pub(in crate::pages) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text of a field; empty if it is something else, or not there.
    pub(in crate::pages) fn text(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some(Said::Value(Value::String(text))) => text,
            _ => "",
        }
    }

    /// All fields, as JSON.
    pub(in crate::pages) fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Adds a value at its path: `a.b` is `b` in `a`.
    pub(super) fn put(&mut self, path: &str, value: Said, is_one_of_many: bool) {
        match path.split_once('.') {
            Some((first, rest)) => {
                let inner =
                    self.0.entry(first.to_owned()).or_insert(Said::Inside(Values::default()));
                if let Some(inner) = inner.inside() {
                    inner.put(rest, value, is_one_of_many);
                }
            }
            None if is_one_of_many => {
                let list = self.0.entry(path.to_owned()).or_insert(Said::Many(Vec::new()));
                if let Said::Many(list) = list {
                    list.push(value);
                }
            }
            None => {
                self.0.insert(path.to_owned(), value);
            }
        }
    }
}

impl Said {
    /// The fields of an object, if this is one.
    fn inside(&mut self) -> Option<&mut Values> {
        if let Said::Written(json) = self {
            let written: BTreeMap<String, Box<RawValue>> = serde_json::from_str(json.get()).ok()?;
            let fields = written.into_iter().map(|(name, value)| (name, Said::Written(value)));
            *self = Said::Inside(Values(fields.collect()));
        }
        match self {
            Said::Inside(values) => Some(values),
            _ => None,
        }
    }
}
