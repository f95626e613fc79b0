//! Converts the fields of a form to the JSON that the API takes.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};
use serde_json::Value;

use super::values::{Said, Values};
use crate::http::access::local_path;
use crate::http::problem::Wrong;

/// The characters that stay as they are in an address: letters, digits, `-`, `_`, `.` and `~`.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A form that was sent.
#[derive(Debug, Default)]
pub(in crate::pages) struct Form {
    /// The key that shows that one of our own pages made the form.
    pub(in crate::pages) key: String,
    /// The method, if it is not POST: HTML forms cannot send others.
    pub(in crate::pages) method: Option<String>,
    pub(in crate::pages) next: Option<String>,
    /// The message to show there.
    pub(in crate::pages) said: Option<String>,
    /// A body that is sent as it is, with its content type.
    pub(in crate::pages) body: Option<String>,
    pub(in crate::pages) content_type: Option<String>,
    /// The fields of the request.
    pub(in crate::pages) values: Values,
}

/// Reads a form. The name of a field may name the kind of its value, as in
/// `timeout_seconds:number`: `number`, `flag` (a checkbox), `json`, `list` (each value of that
/// name), `lines`, `parts` (separated by commas). `a.b` is `b` in `a`. Empty fields are not sent,
/// except those of kind `text`; those of kind `null`, or `number-or-null` and the like, are sent as
/// null.
pub(super) fn read(pairs: impl Iterator<Item = (String, String)>) -> Result<Form, Vec<Wrong>> {
    let mut form = Form::default();
    let mut wrong = Vec::new();
    for (name, value) in pairs {
        match &*name {
            "_key" => form.key = value,
            "_method" => form.method = Some(value),
            "_next" => form.next = Some(value),
            "_said" => form.said = Some(value),
            "_body" => form.body = Some(value.replace("\r\n", "\n")),
            "_type" => form.content_type = Some(value),
            // Names with `_` are choices that only the page itself uses.
            name if name.starts_with('_') => {}
            name => {
                let (path, kind) = name.split_once(':').unwrap_or((name, ""));
                match converted(kind, &value) {
                    Ok(Some(value)) => form.values.put(path, value, kind == "list"),
                    Ok(None) => {}
                    Err(message) => wrong.push(Wrong::new(path, "value", message)),
                }
            }
        }
    }
    if wrong.is_empty() { Ok(form) } else { Err(wrong) }
}

/// The suffix of kinds whose empty values are sent as null.
const OR_NULL: &str = "-or-null";

fn converted(kind: &str, value: &str) -> Result<Option<Said>, String> {
    let value = value.replace("\r\n", "\n");
    let said = match kind.strip_suffix(OR_NULL).unwrap_or(kind) {
        _ if kind == "text" && value.trim().is_empty() => Value::String(String::new()),
        _ if value.trim().is_empty() => {
            let is_sent = kind == "null" || kind.ends_with(OR_NULL);
            return Ok(is_sent.then_some(Said::Value(Value::Null)));
        }
        "json" => {
            let written = serde_json::from_str(&value).map(|json| Some(Said::Written(json)));
            return written.map_err(|error| format!("is not JSON: {error}"));
        }
        // A value that is not a number is passed on: the API knows what is allowed, and refuses it.
        "number" => value.trim().parse::<i64>().map_or(Value::String(value), Value::from),
        "flag" => Value::Bool(value == "true"),
        "lines" => {
            let lines = value.lines().map(str::trim).filter(|line| !line.is_empty());
            lines.map(Value::from).collect()
        }
        "parts" => {
            let parts = value.split(',').map(str::trim).filter(|part| !part.is_empty());
            parts.map(Value::from).collect()
        }
        _ => Value::String(value),
    };
    Ok(Some(Said::Value(said)))
}

/// The next page, with `{name}` filled in; only addresses on this node.
pub(super) fn destination(next: &str, answer: &Value) -> String {
    let encoded = |text: &str| percent_encoding::utf8_percent_encode(text, PLAIN).to_string();
    local_path(&fill(next, answer, encoded)).to_owned()
}

/// The message, with `{name}` filled in.
pub(super) fn filled(said: &str, answer: &Value) -> String {
    fill(said, answer, str::to_owned)
}

/// A text with each `{name}` replaced by that field of the response.
fn fill(text: &str, answer: &Value, written: impl Fn(&str) -> String) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else { break };
        filled.push_str(before);
        match &answer[name] {
            Value::String(text) => filled.push_str(&written(text)),
            Value::Number(number) => filled.push_str(&number.to_string()),
            _ => {}
        }
        rest = after;
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn values(fields: &[(&str, &str)]) -> Value {
        let pairs = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        serde_json::from_str(&read(pairs).unwrap().values.json()).unwrap()
    }

    #[test]
    fn names_say_what_values_are() {
        for (fields, expected) in [
            (&[("name", "a")][..], json!({"name": "a"})),
            (&[("name", ""), ("note:text", "")], json!({"note": ""})),
            (&[("calendar:null", "")], json!({"calendar": null})),
            (&[("n:number", "5"), ("m:number", "x")], json!({"n": 5, "m": "x"})),
            (&[("payload:json", r#"{"a": [1]}"#)], json!({"payload": {"a": [1]}})),
            (&[("ids:list", "1"), ("ids:list", "2")], json!({"ids": ["1", "2"]})),
            (&[("n:number-or-null", "5")], json!({"n": 5})),
            (&[("n:number-or-null", ""), ("p:json-or-null", " ")], json!({"n": null, "p": null})),
            (&[("at:parts", "09:00, 2nd TUE,")], json!({"at": ["09:00", "2nd TUE"]})),
            (&[("r:json", "{}"), ("r.a", "x"), ("r.b", "")], json!({"r": {"a": "x"}})),
            (&[("f:flag", "false"), ("f:flag", "true")], json!({"f": true})),
            (&[("lines:lines", "a\r\n\r\n b ")], json!({"lines": ["a", "b"]})),
            (&[("a.b:flag", "true"), ("a.c", "x")], json!({"a": {"b": true, "c": "x"}})),
            (&[("_rule", "cron"), ("_key", "k")], json!({})),
        ] {
            assert_eq!(values(fields), expected, "{fields:?}");
        }
        let wrong = read([("payload:json".to_owned(), "{".to_owned())].into_iter()).unwrap_err();
        assert_eq!(wrong[0].path, "payload");
    }

    #[test]
    fn json_stays_as_it_is_written() {
        let written =
            r#"{"amount": 0.1000000000000000055511151231257827, "n": 12345678901234567890123}"#;
        let fields = [("payload:json", written), ("retry:json", r#"{"a":1.10}"#), ("retry.b", "x")];
        let pairs = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let expected = format!(r#"{{"payload":{written},"retry":{{"a":1.10,"b":"x"}}}}"#);
        assert_eq!(read(pairs).unwrap().values.json(), expected);
    }

    #[test]
    fn one_goes_only_to_own_pages() {
        for (next, expected) in [
            ("/schedules/{id}", "/schedules/42"),
            ("/runs/{run_id}?a=1", "/runs/r%2F1?a=1"),
            ("/x/{missing}", "/x/"),
            ("//evil.test/", "/"),
            ("/\\evil.test/", "/"),
            ("https://evil.test/", "/"),
            ("/a\r\nb", "/"),
            ("", "/"),
        ] {
            assert_eq!(destination(next, &json!({"id": 42, "run_id": "r/1"})), expected, "{next}");
        }
    }
}
