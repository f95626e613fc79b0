//! Mutations that scripts request: checked before they are stored, with marks in place of secrets,
//! and classified after they were tried.

use std::collections::BTreeMap;

use engine::run::AttemptEnd;
use language::definition::{Action, HttpAction, limits};
use runners::{Code, Ended};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::dispatch::raw;
use crate::secrets::Secrets;

/// The largest response to a mutation that is read.
const MOST_BYTES: u64 = limits::PAYLOAD_BYTES as u64;
const METHODS: [&str; 4] = ["POST", "PUT", "PATCH", "DELETE"];

/// Placeholders for secrets in a stored mutation. They are random, so the author of an event cannot
/// forge one.
pub(super) struct Marks(Option<String>);

impl Marks {
    pub(super) fn new(are_used: bool) -> Marks {
        Marks(are_used.then(|| uuid::Uuid::now_v7().simple().to_string()))
    }

    /// The placeholder for a secret; `None` if this phase gets the values themselves.
    pub(super) fn instead_of(&self, name: &str) -> Option<String> {
        self.0.as_ref().map(|mark| mark_of(mark, name))
    }

    /// Adds to the mutation the random part that its placeholders share, so that they are found
    /// again.
    pub(super) fn signed(&self, mut asked: Value) -> Value {
        if let Some(mark) = &self.0 {
            asked["mark"] = json!(mark);
        }
        asked
    }
}

fn mark_of(mark: &str, name: &str) -> String {
    format!("[secret {name} {mark}]")
}

#[derive(Deserialize)]
struct MutationRequest {
    http: Option<HttpMutation>,
    worker: Option<WorkerMutation>,
    mark: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpMutation {
    url: String,
    method: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<Value>,
    #[serde(default)]
    expect: Vec<u16>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkerMutation {
    queue: String,
    input: Option<Value>,
}

/// Checks that a mutation can be performed, or says why not.
pub(super) fn check(asked: &Value) -> Result<(), String> {
    let read = |error: serde_json::Error| format!("the mutation cannot be read: {error}");
    let asked: MutationRequest = serde_json::from_value(asked.clone()).map_err(read)?;
    if let Some(worker) = &asked.worker {
        let length = worker.queue.len();
        if !(1..=limits::QUEUE_LENGTH).contains(&length) {
            return Err(format!("a queue's name has 1 to {} bytes", limits::QUEUE_LENGTH));
        }
    }
    match &asked.http {
        Some(http) => checked(http),
        None => Ok(()),
    }
}

fn checked(http: &HttpMutation) -> Result<(), String> {
    let method = http.method.as_deref().unwrap_or("POST");
    if !METHODS.contains(&method) {
        return Err(format!("a mutation is sent by {}, not by {method}", METHODS.join(", ")));
    }
    if !http.url.starts_with("http://") && !http.url.starts_with("https://") {
        return Err("the url of a mutation begins with http:// or https://".to_owned());
    }
    Ok(())
}

/// The HTTP request of a stored mutation, with placeholders replaced by secrets.
pub(crate) fn http_action(
    mutation: Option<&RawValue>,
    secrets: &Secrets,
) -> Result<Action, String> {
    let asked = read(mutation, secrets)?;
    let Some(http) = asked.http else { return Err("this mutation is for a worker".to_owned()) };
    checked(&http)?;
    Ok(Action::Http(HttpAction {
        method: http.method.unwrap_or_else(|| "POST".to_owned()),
        url: http.url,
        headers: http.headers,
        body: Some(http.body.unwrap_or_default()),
        expect: http.expect,
        redirects: 0,
        max_bytes: MOST_BYTES,
    }))
}

/// The queue and the input of a stored mutation for a worker, with placeholders replaced by
/// secrets.
pub(crate) fn asked_worker(
    mutation: Option<&RawValue>,
    secrets: &Secrets,
) -> Option<(String, Box<RawValue>)> {
    let worker = read(mutation, secrets).ok()?.worker?;
    Some((worker.queue, raw(&worker.input.unwrap_or_default())))
}

fn read(mutation: Option<&RawValue>, secrets: &Secrets) -> Result<MutationRequest, String> {
    let text = mutation.map_or("null", RawValue::get);
    let wrong = |error: serde_json::Error| format!("the mutation cannot be read: {error}");
    let stored: MutationRequest = serde_json::from_str(text).map_err(wrong)?;
    let Some(mark) = stored.mark.clone() else { return Ok(stored) };
    let mut value: Value = serde_json::from_str(text).map_err(wrong)?;
    for name in secrets.names() {
        if let Some(secret) = secrets.get(name) {
            replace(&mut value, &mark_of(&mark, name), secret);
        }
    }
    serde_json::from_value(value).map_err(wrong)
}

fn replace(value: &mut Value, mark: &str, secret: &str) {
    match value {
        Value::String(text) if text.contains(mark) => *text = text.replace(mark, secret),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, mark, secret)),
        Value::Object(fields) => fields.values_mut().for_each(|item| replace(item, mark, secret)),
        _ => {}
    }
}

/// Classifies the end of a mutation. It is a failure only if the mutation certainly had no effect;
/// otherwise its outcome is unknown.
pub(crate) fn judged(ended: Ended) -> Result<Ended, AttemptEnd> {
    let unknown = |message: String| Err(AttemptEnd::Unknown { message });
    match ended {
        Ended::TimedOut { message } => unknown(message),
        Ended::Cancelled { message } => unknown(format!("it was told to end: {message}")),
        Ended::Failed { code, message, retryable, output } => {
            let status = output.as_ref().and_then(|output| output.get("status"));
            let status = status.and_then(Value::as_u64);
            match verdict(code, status) {
                Verdict::Unknown => unknown(message),
                Verdict::Never => Ok(Ended::Failed { code, message, retryable: false, output }),
                Verdict::NotNow => Ok(Ended::Failed { code, message, retryable: true, output }),
                Verdict::AsSaid => Ok(Ended::Failed { code, message, retryable, output }),
            }
        }
        ended => Ok(ended),
    }
}

enum Verdict {
    /// The mutation may have had its effect.
    Unknown,
    /// The mutation had no effect, and a retry would have none either.
    Never,
    /// The mutation had no effect, and a retry may succeed.
    NotNow,
    /// The mutation had no effect; whether to retry is as the runner reported.
    AsSaid,
}

fn verdict(failure: Code, status: Option<u64>) -> Verdict {
    match (failure, status) {
        (Code::HttpStatus, Some(429)) => Verdict::NotNow,
        (Code::HttpStatus, Some(408)) => Verdict::Unknown,
        (Code::HttpStatus, Some(300..=499)) => Verdict::Never,
        (Code::Dns | Code::Connect | Code::ExecStart, _) => Verdict::NotNow,
        (
            Code::InvalidUrl
            | Code::InvalidMethod
            | Code::InvalidHeader
            | Code::EgressRefused
            | Code::RedirectRefused
            | Code::TooManyRedirects
            | Code::ExecNotAllowed
            | Code::InvalidCommand
            | Code::NotOurs,
            _,
        ) => Verdict::Never,
        // If a command's exit code reports a failure, that is believed.
        (Code::ExitCode, _) => Verdict::AsSaid,
        _ => Verdict::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(code: Code, status: Option<u16>) -> Ended {
        let output = status.map(|status| json!({ "status": status }));
        Ended::Failed { code, message: "no".to_owned(), retryable: true, output }
    }

    #[test]
    fn only_what_is_certain_is_a_failure() {
        let is_unknown = |ended| matches!(judged(ended), Err(AttemptEnd::Unknown { .. }));
        assert!(is_unknown(Ended::TimedOut { message: "late".to_owned() }));
        assert!(is_unknown(Ended::Cancelled { message: "stop".to_owned() }));
        for unknown in [
            failed(Code::Request, None),
            failed(Code::Body, None),
            failed(Code::HttpStatus, Some(500)),
            failed(Code::HttpStatus, Some(502)),
            failed(Code::HttpStatus, Some(503)),
            failed(Code::HttpStatus, Some(408)),
            failed(Code::Signal, None),
            failed(Code::Timeout, None),
        ] {
            assert!(is_unknown(unknown));
        }
        for (certain, again) in [
            (failed(Code::Dns, None), true),
            (failed(Code::Connect, None), true),
            (failed(Code::HttpStatus, Some(429)), true),
            (failed(Code::HttpStatus, Some(422)), false),
            (failed(Code::EgressRefused, None), false),
        ] {
            let Ok(Ended::Failed { retryable, .. }) = judged(certain) else { panic!() };
            assert_eq!(retryable, again);
        }
    }

    #[test]
    fn marks_become_secrets_only_where_the_script_put_them() {
        let secrets = Secrets::read(None, [("PUNCTUAL_SECRET_KEY".into(), "s3cret".into())]);
        let secrets = secrets.unwrap();
        let marks = Marks::new(true);
        let mark = marks.instead_of("KEY").unwrap();
        let asked = marks.signed(json!({"http": {
            "url": "https://example.com/", "headers": {"authorization": format!("Bearer {mark}")},
            "body": {"said": "[secret KEY 0000]", "too": "{{ secrets.KEY }}"},
        }}));
        assert_eq!(check(&asked), Ok(()));
        let stored = raw(&asked);
        assert!(!stored.get().contains("s3cret"));
        let Ok(Action::Http(http)) = http_action(Some(&stored), &secrets) else { panic!() };
        assert_eq!(http.headers["authorization"], "Bearer s3cret");
        assert_eq!(http.body.unwrap()["said"], "[secret KEY 0000]");
    }

    #[test]
    fn a_mutation_that_cannot_be_performed_is_a_mistake_of_the_script() {
        for (asked, wrong) in [
            (json!({"http": {}}), "missing field `url`"),
            (json!({"http": {"url": "gopher://x"}}), "begins with http://"),
            (json!({"http": {"url": "http://x", "method": "GET"}}), "not by GET"),
            (json!({"http": {"url": "http://x", "timeout": 1}}), "unknown field `timeout`"),
            (json!({"worker": {}}), "missing field `queue`"),
            (json!({"worker": {"queue": ""}}), "1 to 200 bytes"),
        ] {
            let error = check(&asked).unwrap_err();
            assert!(error.contains(wrong), "{error}");
        }
    }
}
