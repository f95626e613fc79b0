//! Where spans are sent, read from the standard OpenTelemetry settings.

use std::fmt;

use percent_encoding::percent_decode_str;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use crate::secrets::shown_address;

/// The default service name in traces.
const SERVICE: &str = "punctual";

/// The collector that spans are sent to.
#[derive(Clone)]
pub struct TraceTarget {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) service: String,
}

/// Headers may hold keys, so they are not shown.
impl fmt::Debug for TraceTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (url, service) = (shown_address(self.url.as_str()), &self.service);
        f.debug_struct("TraceTarget").field("url", &url).field("service", service).finish()
    }
}

/// Why the settings name no collector.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TraceTargetError {
    /// The address is not an HTTP URL.
    #[error(
        "{0}: not an address\n  allowed: http:// or https:// and a host\n  try: http://127.0.0.1:4318"
    )]
    Url(String),
    /// A header is not `NAME=VALUE`. Holds its position, from 1.
    #[error("header {0}: not understood\n  allowed: NAME=VALUE, with commas in between")]
    Header(usize),
}

impl TraceTarget {
    /// Reads the address of a collector (`OTEL_EXPORTER_OTLP_ENDPOINT`), headers as in
    /// `OTEL_EXPORTER_OTLP_HEADERS`, and what the node is called in traces (`OTEL_SERVICE_NAME`).
    pub fn read(
        endpoint: &str,
        headers: Option<&str>,
        service: Option<&str>,
    ) -> Result<TraceTarget, TraceTargetError> {
        let wrong = || TraceTargetError::Url(shown_address(endpoint));
        let mut url = Url::parse(endpoint.trim()).map_err(|_| wrong())?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(wrong());
        }
        url.path_segments_mut().map_err(|()| wrong())?.pop_if_empty().extend(["v1", "traces"]);
        let service = service.map(str::trim).filter(|name| !name.is_empty());
        Ok(TraceTarget {
            url,
            headers: read_headers(headers.unwrap_or_default())?,
            service: service.unwrap_or(SERVICE).to_owned(),
        })
    }
}

fn read_headers(text: &str) -> Result<HeaderMap, TraceTargetError> {
    let mut headers = HeaderMap::new();
    for (at, one) in text.split(',').map(str::trim).enumerate().filter(|(_, one)| !one.is_empty()) {
        // The text may be a key, so the error holds only its position.
        let wrong = || TraceTargetError::Header(at + 1);
        let (name, value) = one.split_once('=').ok_or_else(wrong)?;
        let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| wrong())?;
        let value = percent_decode_str(value.trim()).decode_utf8().map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(&value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_traces_follows_the_address() {
        for (given, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("https://otlp.example.com/otlp", "https://otlp.example.com/otlp/v1/traces"),
        ] {
            let target = TraceTarget::read(given, None, None).unwrap();
            assert_eq!((target.url.as_str(), target.service.as_str()), (url, "punctual"));
        }
        for given in ["", "127.0.0.1:4318", "ftp://example.com", "file:///tmp/x"] {
            let refused = TraceTarget::read(given, None, None).unwrap_err();
            assert_eq!(refused, TraceTargetError::Url(given.to_owned()));
        }
    }

    #[test]
    fn headers_are_read_as_baggage_and_not_shown() {
        let headers = "api-key = a%20secret , x-team=ops,";
        let target = TraceTarget::read("http://h", Some(headers), Some("nightly")).unwrap();
        assert_eq!(target.headers["api-key"], "a secret");
        assert_eq!(target.headers["x-team"], "ops");
        assert_eq!(target.service, "nightly");
        assert!(!format!("{target:?}").contains("secret"));
        for (headers, at) in [("a", 1), ("a=b,c d=e", 2), ("a=%0a", 1)] {
            let refused = TraceTarget::read("http://h", Some(headers), None).unwrap_err();
            assert_eq!(refused, TraceTargetError::Header(at), "{headers}");
        }
    }
}
