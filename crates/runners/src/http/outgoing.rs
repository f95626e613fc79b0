//! An HTTP request: as it is sent, and with its secrets masked as messages show it.

use std::fmt;

use language::definition::{CONNECTION_HEADERS, HttpAction};
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use serde_json::Value;
use url::Url;

use crate::mask::Mask;
use crate::{Code, Ended, Work};

const AGENT: &str = concat!("punctual/", env!("CARGO_PKG_VERSION"));
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const RUN_ID: HeaderName = HeaderName::from_static("punctual-run-id");

/// A request as it is sent at one hop.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub(super) method: Method,
    pub(super) url: Url,
    /// The whole URL with its secrets masked. Messages show a part of it, which is cut off only
    /// after masking.
    pub(super) masked_url: Url,
    pub(super) mask: Mask,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Vec<u8>>,
    /// Anyone who knows the path may send requests to the URL, so messages do not show it.
    pub(super) path_is_secret: bool,
}

impl Outgoing {
    /// Builds a request from an action. An action that can never be sent fails without a retry.
    pub(super) fn prepare(
        action: &HttpAction,
        work: &Work,
        mask: &Mask,
    ) -> Result<Outgoing, Ended> {
        let url = read_url(&action.url)?;
        let method = Method::from_bytes(action.method.as_bytes()).map_err(|_| {
            Ended::for_good(
                Code::InvalidMethod,
                format!("`{}` is not a method; write GET, POST, …", action.method.escape_debug()),
            )
        })?;
        let mut headers = read_headers(action)?;
        let body = body(action, &method, &work.input);
        if let Some((_, kind)) = &body {
            headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(kind));
        }
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
        if !headers.contains_key(IDEMPOTENCY_KEY) {
            headers.insert(IDEMPOTENCY_KEY, own_value("idempotency key", &work.idempotency_key)?);
        }
        if let Some(span) = work.traceparent.as_ref().filter(|_| !headers.contains_key(TRACEPARENT))
        {
            headers.insert(TRACEPARENT, own_value("span", span)?);
        }
        headers.insert(RUN_ID, own_value("run id", &work.run_id)?);
        let body = body.map(|(bytes, _)| bytes);
        let masked_url = masked(&url, &action.url, mask);
        let mask = mask.clone();
        Ok(Outgoing { method, url, masked_url, mask, headers, body, path_is_secret: false })
    }

    /// Builds a request without a body and without effects, which belongs to no attempt.
    pub(super) fn reading(
        action: &HttpAction,
        method: Method,
        mask: &Mask,
    ) -> Result<Outgoing, Ended> {
        let url = read_url(&action.url)?;
        let mut headers = read_headers(action)?;
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
        let masked_url = masked(&url, &action.url, mask);
        let mask = mask.clone();
        Ok(Outgoing { method, url, masked_url, mask, headers, body: None, path_is_secret: false })
    }

    /// The target, as messages may show it.
    pub(super) fn peer(&self) -> String {
        if self.path_is_secret { origin(&self.masked_url) } else { shown(&self.masked_url) }
    }
}

/// Omits query, fragment and password, any of which may be secret.
impl fmt::Display for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.peer())
    }
}

/// Masks the secrets of a URL. They are searched for in the URL as written, because parsing would
/// split and escape a secret that contains `?` or `#`.
pub(super) fn masked(url: &Url, written: &str, mask: &Mask) -> Url {
    let masked = mask.apply(written);
    if masked == written {
        return url.clone();
    }
    Url::parse(&masked).unwrap_or_else(|_| hidden(url))
}

/// Reduces a URL that cannot be parsed once masked to its scheme.
pub(super) fn hidden(url: &Url) -> Url {
    let bare = format!("{}://***", url.scheme());
    Url::parse(&bare).unwrap_or_else(|_| url.clone())
}

/// A URL without query, fragment and password, any of which may be secret.
pub(super) fn shown(url: &Url) -> String {
    format!("{}{}", origin(url), url.path())
}

fn origin(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{host}{port}", url.scheme())
}

fn read_url(text: &str) -> Result<Url, Ended> {
    let refused = |why: String| Err(Ended::for_good(Code::InvalidUrl, why));
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
        Ok(url) => refused(format!(
            "requests go to http:// and https:// only, not to {}:; correct `url`",
            url.scheme()
        )),
        Err(error) => refused(format!("the URL cannot be read: {error}; correct `url`")),
    }
}

fn read_headers(action: &HttpAction) -> Result<HeaderMap, Ended> {
    let refused = |why: String| Ended::for_good(Code::InvalidHeader, why);
    let mut headers = HeaderMap::new();
    for (name, value) in &action.headers {
        let shown = name.escape_debug();
        let read_name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| refused(format!("`{shown}` is not the name of a header")))?;
        if CONNECTION_HEADERS.contains(&read_name.as_str()) {
            return Err(refused(format!("the header `{shown}` is set by Punctual; remove it")));
        }
        let read_value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| {
            refused(format!(
                "the value of the header `{shown}` has a line break or another control character"
            ))
        })?;
        headers.append(read_name, read_value);
    }
    Ok(headers)
}

fn own_value(what: &str, text: &str) -> Result<HeaderValue, Ended> {
    HeaderValue::from_bytes(text.as_bytes()).map_err(|_| {
        let message = format!("the {what} has a character that no header may have");
        Ended::for_good(Code::InvalidHeader, message)
    })
}

/// The body and its content type.
fn body(action: &HttpAction, method: &Method, input: &str) -> Option<(Vec<u8>, &'static str)> {
    let sends_input = matches!(*method, Method::POST | Method::PUT | Method::PATCH);
    match &action.body {
        Some(Value::String(text)) => Some((text.clone().into_bytes(), "text/plain; charset=utf-8")),
        Some(value) => Some((value.to_string().into_bytes(), "application/json")),
        None if sends_input => Some((input.as_bytes().to_vec(), "application/json")),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRETS: [&str; 4] = ["Abc123secret?tail99", "Abc123secret#tail99", "a{b?c{d", "8/?x"];

    fn shown_of(written: &str) -> String {
        let mask = Mask::new(|text| {
            let hide = |text: String, secret: &&str| text.replace(secret, "***");
            SECRETS.iter().fold(text.to_owned(), hide)
        });
        shown(&masked(&Url::parse(written).unwrap(), written, &mask))
    }

    #[test]
    fn a_secret_is_masked_before_the_url_is_cut() {
        for (written, expected) in [
            ("http://h.test/fail/Abc123secret?tail99", "http://h.test/fail/***"),
            ("http://h.test/fail/Abc123secret#tail99", "http://h.test/fail/***"),
            ("http://h.test/a{b?c{d/next?q=1", "http://h.test/***/next"),
            ("http://h.test/x?key=Abc123secret?tail99", "http://h.test/x"),
            // Without the secret, the port cannot be parsed.
            ("http://h.test:8/?x", "http://***/"),
            ("http://h.test/plain?q=1#f", "http://h.test/plain"),
        ] {
            assert_eq!(shown_of(written), expected, "{written}");
        }
    }
}
