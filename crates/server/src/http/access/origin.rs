//! Where a request comes from and which host it names, as browsers report it.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Method, Uri};

pub(super) fn host(request: &Request) -> Option<&str> {
    let header = request.headers().get(HOST).and_then(|value| value.to_str().ok());
    header.or_else(|| request.uri().authority().map(|authority| authority.as_str()))
}

/// Whether a page of another site sends the request. Browsers send `Origin` with requests that may
/// change something and with streams; programs do not send it.
pub(super) fn is_foreign(headers: &HeaderMap, host: Option<&str>) -> bool {
    headers.get_all(ORIGIN).iter().any(|origin| {
        let origin = origin.to_str().ok().and_then(|text| text.split_once("://"));
        origin.map(|(_, authority)| authority) != host
    })
}

/// Whether a request with this method changes nothing.
pub(super) fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Whether the page that sends the request was loaded over TLS.
pub(super) fn is_secure(headers: &HeaderMap) -> bool {
    let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
    origin.is_some_and(|origin| origin.starts_with("https://"))
}

/// Whether a host, with or without a port, names this machine's loopback.
pub(super) fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(address, _)| address),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Where to continue after signing in: a path on this node, or `/` if anything else was asked for.
pub fn local_path(asked: &str) -> &str {
    let is_ours = asked.starts_with('/')
        && !asked.starts_with("//")
        && !asked.contains('\\')
        && asked.bytes().all(|byte| byte.is_ascii_graphic())
        && asked.parse::<Uri>().is_ok_and(|uri| uri.authority().is_none());
    if is_ours { asked } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_loopback() {
        for (host, expected) in [
            ("localhost", true),
            ("LOCALHOST:80", true),
            ("127.0.0.1:4000", true),
            ("127.9.9.9", true),
            ("[::1]:80", true),
            ("[::1]", true),
            ("", false),
            ("evil.example:80", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("[::2]", false),
            ("[::1", false),
            ("0.0.0.0", false),
            ("192.168.0.1", false),
        ] {
            assert_eq!(is_loopback(host), expected, "{host}");
        }
    }

    #[test]
    fn one_goes_on_to_paths_of_ours_alone() {
        for (asked, expected) in [
            ("/", "/"),
            ("/runs?status=failed&q=a%20b", "/runs?status=failed&q=a%20b"),
            ("", "/"),
            ("runs", "/"),
            ("//evil.example", "/"),
            ("/\\evil.example", "/"),
            ("https://evil.example/", "/"),
            ("javascript:alert(1)", "/"),
            ("/a\r\nSet-Cookie: x", "/"),
            ("/ä", "/"),
        ] {
            assert_eq!(local_path(asked), expected, "{asked}");
        }
    }
}
