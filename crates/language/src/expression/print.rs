//! How values are printed inside a text.

use serde_json::Value;

/// Appends a text as it is, and any other value as JSON.
pub(super) fn onto(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => out.push_str(text),
        other => out.push_str(&other.to_string()),
    }
}

/// The value as a text.
pub(super) fn text(value: &Value) -> String {
    let mut out = String::new();
    onto(&mut out, value);
    out
}

/// The number of bytes of a value as JSON. As a text it has no more.
pub(super) fn length(value: &Value) -> usize {
    let mut counted = Counted(0);
    // A writer that only counts bytes never fails.
    let _ = serde_json::to_writer(&mut counted, value);
    counted.0
}

struct Counted(usize);

impl std::io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The approximate memory of a value, in bytes.
pub(super) fn weight(value: &Value) -> usize {
    let below = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(map) => map.iter().map(|(key, value)| 64 + key.len() + weight(value)).sum(),
    };
    32 + below
}

/// The type of a value, for people.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}
