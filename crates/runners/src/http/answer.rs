//! The response to a request: reads it up to a limit, checks its status, and turns it into an
//! output.

use std::collections::BTreeMap;

use language::definition::{ANSWER_HEADERS, HttpAction};
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Response, StatusCode};
use serde_json::{Map, Value, json};

use super::outgoing::Outgoing;
use crate::fitting::{TEXT_BYTES, cut_encoded};
use crate::mask::{self, BEYOND, Mask};
use crate::script::FetchAnswer;
use crate::{Code, Ended};

/// Headers that carry credentials. They are withheld from scripts, which have no use for them.
const SECRET_HEADERS: &[&str] = &["set-cookie", "set-cookie2"];

/// How much of an unexpected response a message quotes: enough to recognise what went wrong.
const QUOTED_CHARS: usize = 300;

pub(super) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    /// The body after decompression, and a little beyond the limit.
    bytes: Vec<u8>,
    limit: usize,
}

impl Answer {
    /// Reads a little more than `limit` bytes, counted after decompression, and leaves the rest
    /// unread.
    pub(super) async fn read(mut response: Response, limit: u64) -> Result<Answer, reqwest::Error> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut bytes = Vec::new();
        let most = limit.saturating_add(BEYOND);
        while let Some(chunk) = response.chunk().await? {
            let room = most - bytes.len();
            bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() > room {
                break;
            }
        }
        Ok(Answer {
            status: response.status(),
            headers: std::mem::take(response.headers_mut()),
            bytes,
            limit,
        })
    }

    fn is_cut(&self) -> bool {
        self.bytes.len() > self.limit
    }

    /// The response for a script, whatever its status; `None` if it was cut.
    pub(super) fn fetched(self) -> Option<FetchAnswer> {
        let mut headers: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in &self.headers {
            if SECRET_HEADERS.contains(&name.as_str()) {
                continue;
            }
            let text = String::from_utf8_lossy(value.as_bytes());
            let several = headers.entry(name.to_string()).or_default();
            if !several.is_empty() {
                several.push_str(", ");
            }
            several.push_str(&text);
        }
        let body = String::from_utf8_lossy(&self.bytes).into_owned();
        (!self.is_cut()).then(|| FetchAnswer { status: self.status.as_u16(), headers, body })
    }

    /// Checks the response against the status that the action expects, and returns the attempt's
    /// result.
    pub(super) fn judged(self, outgoing: &Outgoing, action: &HttpAction) -> Ended {
        if !is_expected(self.status, &action.expect) {
            return Ended::Failed {
                code: Code::HttpStatus,
                message: self.unexpected(outgoing, action),
                retryable: may_heal(self.status),
                output: Some(self.output(&outgoing.mask)),
            };
        }
        Ended::Succeeded { output: self.output(&outgoing.mask) }
    }

    fn unexpected(&self, outgoing: &Outgoing, action: &HttpAction) -> String {
        let wanted = if action.expect.is_empty() {
            "200 to 299".to_owned()
        } else {
            let statuses: Vec<_> = action.expect.iter().map(u16::to_string).collect();
            statuses.join(", ")
        };
        // Secrets are masked before the cut, because masking would not recognize half of a secret.
        let text = outgoing.mask.apply(&String::from_utf8_lossy(&self.bytes));
        let quoted: String = text.trim().chars().take(QUOTED_CHARS).collect();
        let separator = if quoted.is_empty() { "" } else { ": " };
        format!("{outgoing} answered {}, expected {wanted}{separator}{quoted}", self.status)
    }

    fn output(&self, mask: &Mask) -> Value {
        let mut headers = Map::new();
        for name in ANSWER_HEADERS {
            if let Some(value) = self.headers.get(name) {
                let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
                headers.insert(name.to_owned(), Value::String(text));
            }
        }
        let (body, is_cut) = self.body(mask);
        let status = self.status.as_u16();
        json!({ "status": status, "headers": headers, "body": body, "body_truncated": is_cut })
    }

    /// Returns the body, and whether it was cut. The body is JSON if it is complete and parses as
    /// JSON, and text otherwise. A cut body is no failure: the peer has done what it was asked to
    /// do.
    fn body(&self, mask: &Mask) -> (Value, bool) {
        let is_cut = self.is_cut();
        if self.is_json()
            && !is_cut
            && let Ok(json) = serde_json::from_slice::<Value>(&self.bytes)
            && json.to_string().len() <= TEXT_BYTES
        {
            return (json, false);
        }
        // Secrets are masked before the cut, because masking would not recognize half of a secret.
        let kept = &self.bytes[..self.bytes.len().min(self.limit)];
        let kept = String::from_utf8_lossy(whole(kept, is_cut));
        let read = String::from_utf8_lossy(&self.bytes);
        let mut text = mask::head(|text| mask.apply(text), &read, &kept);
        let is_longer = cut_encoded(&mut text, TEXT_BYTES);
        (text.into(), is_cut || is_longer)
    }

    fn is_json(&self) -> bool {
        let kind = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let essence = kind.unwrap_or_default().split(';').next().unwrap_or_default();
        let essence = essence.trim().to_ascii_lowercase();
        essence == "application/json" || essence.ends_with("+json")
    }
}

/// Removes an incomplete character that the limit left at the end.
fn whole(bytes: &[u8], is_cut: bool) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if is_cut && error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

fn is_expected(status: StatusCode, expect: &[u16]) -> bool {
    if expect.is_empty() { status.is_success() } else { expect.contains(&status.as_u16()) }
}

/// Whether a retry may succeed. The listed statuses say that the request itself is wrong.
fn may_heal(status: StatusCode) -> bool {
    !matches!(status.as_u16(), 400 | 401 | 403 | 404 | 405 | 410 | 422)
}
