//! Writes answers. The frequent kinds are written by hand, because `calc` writes hundreds of
//! thousands a second.

use std::io::Write as _;

use calendar::Problem;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

/// Writes `{"id":…,"result":`. The caller adds the result and closes the object.
pub(super) fn begin(into: &mut Vec<u8>, id: Option<&RawValue>) {
    write_id(into, id);
    into.extend_from_slice(b",\"result\":");
}

fn write_id(into: &mut Vec<u8>, id: Option<&RawValue>) {
    into.extend_from_slice(b"{\"id\":");
    into.extend_from_slice(id.map_or("null", RawValue::get).as_bytes());
}

#[derive(Serialize)]
struct Error<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<&'a str>,
}

pub(super) fn error(into: &mut Vec<u8>, id: Option<&RawValue>, problem: &Problem) {
    let error = Error {
        code: problem.code,
        message: &problem.message,
        text: Some(&*problem.text),
        column: Some(problem.column()),
        allowed: problem.allowed.as_deref(),
        remedy: problem.remedy.as_deref(),
    };
    write_error(into, id, &error);
}

pub(super) fn plain_error(into: &mut Vec<u8>, id: Option<&RawValue>, code: &str, message: &str) {
    let error = Error { code, message, text: None, column: None, allowed: None, remedy: None };
    write_error(into, id, &error);
}

fn write_error(into: &mut Vec<u8>, id: Option<&RawValue>, error: &Error<'_>) {
    write_id(into, id);
    into.extend_from_slice(b",\"error\":");
    json(into, error);
    into.push(b'}');
}

/// Writes any value as JSON.
pub(super) fn json(into: &mut Vec<u8>, value: &impl Serialize) {
    // Writing to memory does not fail, and these values contain no maps with keys that JSON lacks.
    let _ = serde_json::to_writer(into, value);
}

/// Writes a list of instants: `["2026-03-08T07:00:00Z",…]`.
pub(super) fn instants(into: &mut Vec<u8>, instants: impl IntoIterator<Item = Timestamp>) {
    list(into, instants, |into, instant| {
        let _ = write!(into, "\"{instant}\"");
    });
}

/// Writes a list of strings that need no escaping.
pub(super) fn plain_strings<T: std::fmt::Display>(
    into: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
) {
    list(into, items, |into, item| {
        let _ = write!(into, "\"{item}\"");
    });
}

fn list<T>(
    into: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    write: impl Fn(&mut Vec<u8>, T),
) {
    into.push(b'[');
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            into.push(b',');
        }
        write(into, item);
    }
    into.push(b']');
}
