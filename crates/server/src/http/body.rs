//! Request bodies: texts of limited size that must arrive in limited time.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, Method, StatusCode};
use engine::trace::TraceContext;
use futures_util::StreamExt as _;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;
use sha2::{Digest as _, Sha256};
use store::Idempotency;

use super::problem::{Problem, Wrong};
use super::repeated;

pub const LARGEST_BODY: usize = 1024 * 1024;
/// The largest body of a batch.
pub const LARGEST_BATCH: usize = 16 * 1024 * 1024;
/// A body must arrive within this time, or the connection is closed.
const BODY_TIME: Duration = Duration::from_secs(30);
/// How deeply JSON may be nested: any accepted JSON can be parsed again later.
const DEEPEST: usize = 127;
/// The longest idempotency key: keys are stored and compared.
const LONGEST_KEY: usize = 255;

/// A body as text, of any content type, with the caller's idempotency key.
#[derive(Debug)]
pub struct RawBody<const LIMIT: usize = LARGEST_BODY> {
    pub text: String,
    /// Its content type without parameters, in lower case.
    pub content_type: Option<String>,
    /// The `Idempotency-Key` with a fingerprint of the whole request.
    pub idempotency: Option<Idempotency>,
    /// The caller's span, if `traceparent` names one.
    pub trace: Option<TraceContext>,
}

/// A JSON body, or an empty one.
#[derive(Debug)]
pub struct JsonBody {
    /// The text, which is JSON or empty.
    pub text: String,
    /// The `Idempotency-Key` with a fingerprint of the whole request.
    pub idempotency: Option<Idempotency>,
    /// The caller's span, if `traceparent` names one.
    pub trace: Option<TraceContext>,
}

impl<S: Sync, const LIMIT: usize> FromRequest<S> for RawBody<LIMIT> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<RawBody<LIMIT>, Problem> {
        let (parts, body) = request.into_parts();
        let key = idempotency_key(&parts.method, &parts.headers)?;
        refuse_encoded(&parts.headers)?;
        let announced = parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        if announced.and_then(|text| text.parse().ok()).is_some_and(|size: u64| size > LIMIT as u64)
        {
            return Err(Problem::too_large(LIMIT));
        }
        let bytes = tokio::time::timeout(BODY_TIME, read_whole(body, LIMIT))
            .await
            .map_err(|_| too_slow())??;
        let idempotency = key.map(|key| {
            let target = parts.uri.path_and_query().map_or("", |target| target.as_str());
            let head = format!("{} {target}\n", parts.method);
            let fingerprint = Sha256::new().chain_update(head).chain_update(&bytes).finalize();
            Idempotency { key, fingerprint: fingerprint.into() }
        });
        let text = String::from_utf8(bytes)
            .map_err(|_| Problem::bad_request("The body is not UTF-8 text."))?;
        let content_type = content_type(&parts.headers);
        let trace = trace(&parts.headers);
        Ok(RawBody { text, content_type, idempotency, trace })
    }
}

impl<S: Sync> FromRequest<S> for JsonBody {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<JsonBody, Problem> {
        let raw = RawBody::<LARGEST_BODY>::from_request(request, state).await?;
        raw.require_json()?;
        let RawBody { text, idempotency, trace, .. } = raw;
        if !text.is_empty() {
            serde_json::from_str::<IgnoredAny>(&text).map_err(|error| unreadable(&error))?;
        }
        Ok(JsonBody { text, idempotency, trace })
    }
}

impl<const LIMIT: usize> RawBody<LIMIT> {
    /// Refuses a body that is not declared as JSON, is nested too deeply, or has a key twice.
    pub fn require_json(&self) -> Result<(), Problem> {
        if self.text.is_empty() {
            return Ok(());
        }
        let kind = self.content_type.as_deref().unwrap_or("nothing");
        if kind != "application/json" && !kind.ends_with("+json") {
            let detail = format!("The body is {kind}. Send Content-Type: application/json.");
            return Err(Problem::wrong_type(detail));
        }
        if is_deeper_than(&self.text, DEEPEST) {
            let detail = format!("The body is nested more than {DEEPEST} levels deep.");
            return Err(Problem::bad_request(detail));
        }
        repeated::refuse(&self.text)
    }
}

impl JsonBody {
    /// The text, which must not be empty.
    pub fn required(&self) -> Result<&str, Problem> {
        match &*self.text {
            "" => Err(Problem::bad_request("The body is empty. Send a JSON object.")),
            text => Ok(text),
        }
    }

    /// The body, a JSON object, read as `T`. Text that is not JSON is a bad request; JSON that is
    /// not a `T` is invalid.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let text = self.required()?;
        // Serde would also accept a list of values in the order of the fields.
        if !text.trim_start().starts_with('{') {
            return Err(Problem::invalid([Wrong::new("", "type", "expected an object")]));
        }
        read_json(text)
    }

    /// Refuses a body that is neither empty nor an empty object.
    pub fn expect_nothing(&self) -> Result<(), Problem> {
        #[derive(Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Nothing {}
        self.read_or_default().map(|Nothing {}| ())
    }

    /// The body read as `T`, or the default if there is no body.
    pub fn read_or_default<T: DeserializeOwned + Default>(&self) -> Result<T, Problem> {
        if self.text.is_empty() { Ok(T::default()) } else { self.read() }
    }
}

/// The caller's span. A header that is malformed or repeated is ignored.
fn trace(headers: &HeaderMap) -> Option<TraceContext> {
    let mut told = headers.get_all("traceparent").iter();
    let only = told.next().filter(|_| told.next().is_none())?;
    only.to_str().ok()?.trim().parse().ok()
}

/// Reads JSON as `T`; an error names its path.
pub fn read_json<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = serde_path_to_error::deserialize(&mut deserializer);
    read.map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        if inner.classify() != Category::Data {
            return unreadable(&inner);
        }
        let path = if path == "." { String::new() } else { path };
        Problem::invalid([Wrong::new(path, "type", without_place(&inner))])
    })
}

/// The problem for a text that is not JSON.
pub fn unreadable(error: &serde_json::Error) -> Problem {
    let mut wrong = Wrong::new("", "json", without_place(error));
    (wrong.line, wrong.column) = (Some(error.line()), Some(error.column()));
    let mut problem = Problem::bad_query(vec![wrong]);
    problem.retitle("The body is not JSON");
    problem
}

fn without_place(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(&*message, |(text, _)| text);
    calendar::without_type_names(message)
}

async fn read_whole(body: Body, limit: usize) -> Result<Vec<u8>, Problem> {
    let mut chunks = body.into_data_stream();
    let mut whole = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Problem::bad_request("The body ended too early."))?;
        if whole.len() + chunk.len() > limit {
            return Err(Problem::too_large(limit));
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole)
}

fn too_slow() -> Problem {
    let detail = format!("The body did not arrive within {} s.", BODY_TIME.as_secs());
    Problem::new(StatusCode::REQUEST_TIMEOUT, "too-slow", "Too slow", detail)
}

/// Refuses compressed bodies: their size cannot be limited before they are unpacked.
fn refuse_encoded(headers: &HeaderMap) -> Result<(), Problem> {
    let encoded = headers.get_all(CONTENT_ENCODING).iter();
    let mut encoded = encoded.filter(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"));
    match encoded.next() {
        Some(_) => Err(Problem::wrong_type("Send the body as it is, without Content-Encoding.")),
        None => Ok(()),
    }
}

fn content_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next()?.trim().to_ascii_lowercase())
}

fn idempotency_key(method: &Method, headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut keys = headers.get_all("idempotency-key").iter();
    let Some(key) = keys.next().filter(|_| method == Method::POST) else { return Ok(None) };
    let key = key.to_str().unwrap_or_default();
    let visible = key.bytes().all(|byte| byte.is_ascii_graphic());
    if keys.next().is_some() || !visible || !(1..=LONGEST_KEY).contains(&key.len()) {
        return Err(Problem::bad_request(format!(
            "Idempotency-Key is given once and has 1 to {LONGEST_KEY} visible ASCII characters."
        )));
    }
    Ok(Some(key.to_owned()))
}

/// Whether brackets are nested more than `most` deep. It does not check that they match.
fn is_deeper_than(text: &str, most: usize) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > most {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_brackets_outside_of_strings() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        for (text, expected) in [
            (deep(127), false),
            (deep(128), true),
            (deep(100_000), true),
            (format!("\"{}\"", "[".repeat(1_000)), false),
            (format!("\"\\\"{}\"", "{".repeat(1_000)), false),
            ("[],".repeat(1_000), false),
        ] {
            assert_eq!(is_deeper_than(&text, DEEPEST), expected, "{text:.20}");
        }
        assert!(serde_json::from_str::<serde_json::Value>(&deep(DEEPEST)).is_ok());
    }
}
