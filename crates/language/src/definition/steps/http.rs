//! Steps of type `http`.

use std::collections::BTreeMap;

use calendar::Problem;
use serde_json::Value;
use url::{ParseError, Url};

use super::action::HttpAction;
use crate::definition::limits;
use crate::definition::reading::{Field, Fields, Reading};
use crate::definition::templates::Place;
use crate::definition::text::{Flaw, Kind, cut};

const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

/// Headers that belong to the connection. The sender of the request sets them; no step, script or
/// mutation may.
pub const CONNECTION_HEADERS: [&str; 12] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "te",
    "trailer",
    "upgrade",
    "http2-settings",
    "expect",
];

/// Headers of the answer that are kept in the output, because later steps may need them. Cookies
/// are left out, because they are credentials.
pub const ANSWER_HEADERS: [&str; 9] = [
    "content-encoding",
    "content-type",
    "date",
    "etag",
    "last-modified",
    "link",
    "location",
    "retry-after",
    "x-request-id",
];

pub(crate) fn read(reading: &mut Reading<'_>, fields: &mut Fields<'_>) -> Option<HttpAction> {
    let method = match fields.take("method") {
        Some(field) => method(reading, &field),
        None => Some("GET".to_owned()),
    };
    let url = fields.require("url", "url: https://example.com/");
    let url = url.and_then(|field| match &field.node.kind {
        Kind::Text(text) if text.contains("{{") => address_template(reading, &field),
        _ => address(reading, &field),
    });
    let headers = fields.take("headers").map(|field| headers(reading, &field));
    let body = fields.take("body");
    let body = body.and_then(|field| body_value(reading, &field));
    let expect = fields.take("expect").map(|field| statuses(reading, &field));
    let redirects = fields.whole(reading, "redirects", 0..=limits::REDIRECTS);
    let most = limits::PAYLOAD_BYTES as u64;
    let max_bytes = fields.whole(reading, "max_bytes", 1..=most);
    Some(HttpAction {
        method: method?,
        url: url?,
        headers: headers.unwrap_or_default(),
        body,
        expect: expect.unwrap_or_default(),
        redirects: redirects.map_or(0, |n| n as u8),
        max_bytes: max_bytes.unwrap_or(most),
    })
}

/// Refuses an empty `body:`, which could mean no body, an empty one, or the JSON value `null`.
fn body_value(reading: &mut Reading<'_>, field: &Field<'_>) -> Option<Value> {
    if matches!(field.node.kind, Kind::Null) {
        let flaw = Flaw::new("type", "expected a body, found nothing")
            .suggest("leave it out to send the run's input, or \"\" for an empty body");
        reading.refuse(field, flaw);
        return None;
    }
    Some(reading.filled_value(field, Place::Performed))
}

fn method(reading: &mut Reading<'_>, field: &Field<'_>) -> Option<String> {
    let written = reading.text(field)?;
    if METHODS.contains(&written) {
        return Some(written.to_owned());
    }
    let flaw = Flaw::new("method", format!("{} is not a method", cut(written)))
        .allow(METHODS.join(", "))
        .did_you_mean(written, METHODS);
    reading.refuse(field, flaw);
    None
}

pub(crate) fn address(reading: &mut Reading<'_>, field: &Field<'_>) -> Option<String> {
    let written = reading.text_such_as(field, "a text such as https://example.com/")?;
    match check_address(written) {
        Ok(()) => Some(written.to_owned()),
        Err(problem) => {
            reading.problem(field, *problem);
            None
        }
    }
}

/// Checks that a request can be sent to this URL.
pub(crate) fn check_address(written: &str) -> Result<(), Box<Problem>> {
    let why = match Url::parse(written) {
        // The URL parser would silently drop these.
        _ if written.chars().any(|c| c.is_control() || c.is_whitespace()) => {
            "a URL has no spaces and no control characters".to_owned()
        }
        _ if written.len() > limits::URL_BYTES => format!("a URL of {} bytes", written.len()),
        Ok(url) if !matches!(url.scheme(), "http" | "https") => {
            format!("{}: is not sent over HTTP", cut(url.scheme()))
        }
        Ok(url) if url.host_str().is_none_or(str::is_empty) => "the URL has no host".to_owned(),
        Ok(_) if !has_authority(written) => "a URL begins with http:// or https://".to_owned(),
        Ok(_) => return Ok(()),
        Err(ParseError::RelativeUrlWithoutBase) => {
            "a URL begins with http:// or https://".to_owned()
        }
        Err(error) => format!("not a URL: {error}"),
    };
    let problem = Problem::whole("url", "", why)
        .allow(format!("http:// or https://, at most {} bytes", limits::URL_BYTES));
    let bare = !written.contains("://") && written.contains('.') && !written.contains(' ');
    let better = format!("https://{written}");
    let remedy = Some(better).filter(|better| bare && Url::parse(better).is_ok());
    Err(Box::new(problem.suggest(remedy.unwrap_or_else(|| "https://example.com/".into()))))
}

/// Reads a URL with templates. Its target is checked when it is filled in, its beginning now.
pub(crate) fn address_template(reading: &mut Reading<'_>, field: &Field<'_>) -> Option<String> {
    let written = reading.template(field, Place::Performed)?;
    let begins = ["http://", "https://", "{{"].iter().any(|begin| written.starts_with(begin));
    let before = written.split("{{").next().unwrap_or("");
    if begins && !before.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Some(written);
    }
    let flaw = Flaw::new("url", "a URL begins with http:// or https://, or with a template")
        .suggest("https://example.com/{{ input.id }}");
    reading.report(&field.path, field.node.span, flaw);
    None
}

/// Whether `//` follows the scheme. The parser accepts `http:example.com`, which is almost always a
/// typo.
fn has_authority(written: &str) -> bool {
    let rest = written.split_once(':').map_or("", |(_, rest)| rest);
    rest.starts_with("//") && !rest.starts_with("///")
}

fn headers(reading: &mut Reading<'_>, field: &Field<'_>) -> BTreeMap<String, String> {
    let mut headers = BTreeMap::new();
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for (name, key_span, value_field, value) in reading.texts(field) {
        let lower = name.to_ascii_lowercase();
        let problem = if !is_token(name) {
            Some(Flaw::new("header", format!("{} is not the name of a header", cut(name))))
        } else if CONNECTION_HEADERS.contains(&lower.as_str()) {
            let message = format!("the header {name} is set by whoever sends the request");
            Some(Flaw::new("header", message).suggest("leave it out"))
        } else {
            let first = seen.insert(lower, name);
            first.map(|first| Flaw::new("header", format!("{name} and {first} are one header")))
        };
        if let Some(flaw) = problem {
            reading.report(&value_field.path, key_span, flaw);
        } else if reading.check_template(&value_field, value, Place::Performed).is_none() {
            continue;
        } else if value.chars().any(|c| c.is_control() && c != '\t') || value.trim() != value {
            let flaw = Flaw::new("header", "not a value of a header")
                .allow("one line without control characters, no space at either end");
            reading.refuse(&value_field, flaw);
        } else {
            headers.insert(name.to_owned(), value.to_owned());
        }
    }
    headers
}

/// Whether this is a token of RFC 9110, section 5.6.2.
fn is_token(name: &str) -> bool {
    let tchar = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !name.is_empty() && name.len() <= 256 && name.bytes().all(tchar)
}

fn statuses(reading: &mut Reading<'_>, field: &Field<'_>) -> Vec<u16> {
    let items = reading.one_or_many(field, 500).unwrap_or_default();
    if matches!(&field.node.kind, Kind::List(list) if list.is_empty()) {
        reading.refuse(field, Flaw::new("expect", "no status is named").suggest("expect: 200"));
    }
    let mut statuses: Vec<u16> = items
        .iter()
        .filter_map(|item| reading.whole(item, 100..=599))
        .map(|status| status as u16)
        .collect();
    statuses.sort_unstable();
    statuses.dedup();
    statuses
}
