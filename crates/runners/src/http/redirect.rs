//! Changes a request as a redirect asks.

use reqwest::header::HeaderName;
use reqwest::{Method, StatusCode};
use url::Url;

use super::outgoing::{Outgoing, hidden, masked, shown};
use crate::{Code, Ended};

/// The headers that are sent on to another origin. A token may be in a header of any name
/// (`X-Api-Key`, `Private-Token`, …), so all others are removed, not only those known to be secret.
const FOR_OTHERS: &[&str] = &[
    "accept",
    "accept-language",
    "content-encoding",
    "content-language",
    "content-type",
    "idempotency-key",
    "punctual-run-id",
    "user-agent",
];

const OF_A_BODY: &[&str] = &["content-encoding", "content-language", "content-type"];

/// Changes a request into the one that a redirect asks for. The sender checks afterwards whether
/// the target is admitted.
pub(super) fn follow(
    outgoing: &mut Outgoing,
    status: StatusCode,
    location: &[u8],
) -> Result<(), Ended> {
    let mut next = target(outgoing, location)?;
    let masked_next = masked_target(outgoing, &next, location);
    if outgoing.url.scheme() == "https" && next.scheme() == "http" {
        return Err(refused(format!(
            "{outgoing} redirects from https to {}, where anyone may listen",
            shown(&masked_next)
        )));
    }
    if outgoing.url.origin() != next.origin() {
        let kept = |name: &HeaderName| FOR_OTHERS.contains(&name.as_str());
        let left_behind: Vec<_> =
            outgoing.headers.keys().filter(|name| !kept(name)).cloned().collect();
        for name in left_behind {
            outgoing.headers.remove(name);
        }
        // A redirect must not make us sign in at another host. The two calls fail only for a URL
        // without a host.
        let _ = next.set_username("");
        let _ = next.set_password(None);
    }
    if becomes_get(status, &outgoing.method) {
        outgoing.method = Method::GET;
        outgoing.body = None;
        for name in OF_A_BODY {
            outgoing.headers.remove(*name);
        }
    }
    outgoing.url = next;
    outgoing.masked_url = masked_next;
    Ok(())
}

fn target(outgoing: &Outgoing, location: &[u8]) -> Result<Url, Ended> {
    let next = std::str::from_utf8(location).ok().and_then(|text| outgoing.url.join(text).ok());
    match next {
        Some(next) if matches!(next.scheme(), "http" | "https") => Ok(next),
        Some(next) => Err(refused(format!(
            "{outgoing} redirects to {}:; requests go to http:// and https:// only",
            next.scheme()
        ))),
        None => Err(refused(format!("{outgoing} redirects to what is not a URL"))),
    }
}

/// The masked form of the target. The redirect may repeat a secret, or keep a part of the path that
/// contained one.
fn masked_target(outgoing: &Outgoing, next: &Url, location: &[u8]) -> Url {
    let location = outgoing.mask.apply(&String::from_utf8_lossy(location));
    match outgoing.masked_url.join(&location) {
        Ok(joined) => masked(&joined, joined.as_str(), &outgoing.mask),
        Err(_) => hidden(next),
    }
}

fn refused(why: String) -> Ended {
    Ended::for_good(Code::RedirectRefused, why)
}

/// 303 always asks for a GET; 301 and 302 are treated so for POST, as browsers do.
fn becomes_get(status: StatusCode, method: &Method) -> bool {
    match status {
        StatusCode::SEE_OTHER => !matches!(*method, Method::GET | Method::HEAD),
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => *method == Method::POST,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};

    use super::*;
    use crate::mask::Mask;

    fn post(url: &str) -> Outgoing {
        let mut headers = HeaderMap::new();
        for name in ["authorization", "cookie", "x-api-key", "content-type", "host"] {
            let name = HeaderName::from_static(name);
            headers.insert(name, HeaderValue::from_static("v"));
        }
        let url = Url::parse(url).unwrap();
        let (method, body) = (Method::POST, Some(b"{}".to_vec()));
        let (masked_url, mask) = (url.clone(), Mask::default());
        Outgoing { method, url, masked_url, mask, headers, body, path_is_secret: false }
    }

    fn followed(from: &str, status: u16, location: &str) -> Result<Outgoing, Ended> {
        let mut outgoing = post(from);
        let status = StatusCode::from_u16(status).unwrap();
        follow(&mut outgoing, status, location.as_bytes()).map(|()| outgoing)
    }

    #[test]
    fn credentials_stay_with_their_origin() {
        for (from, to, kept) in [
            ("https://a.test/x", "/y", true),
            ("https://a.test/x", "https://A.test:443/y", true),
            ("https://u:p@a.test/x", "y", true),
            ("https://a.test/x", "https://b.test/x", false),
            ("https://a.test/x", "//b.test/x", false),
            ("https://a.test/x", "https://a.test:8443/x", false),
            ("http://a.test/x", "https://a.test/x", false),
            ("https://a.test/x", "https://sub.a.test/x", false),
        ] {
            let next = followed(from, 307, to).unwrap();
            assert_eq!(next.headers.contains_key(AUTHORIZATION), kept, "{from} -> {to}");
            assert_eq!(next.headers.len(), if kept { 5 } else { 1 }, "{from} -> {to}");
        }
    }

    #[test]
    fn a_host_does_not_choose_who_we_are_at_another() {
        let next = followed("https://a.test/", 307, "https://u:p@b.test/").unwrap();
        assert_eq!(next.url.as_str(), "https://b.test/");
    }

    #[test]
    fn the_method_follows_the_status() {
        for (status, method, has_body) in [
            (301, Method::GET, false),
            (302, Method::GET, false),
            (303, Method::GET, false),
            (307, Method::POST, true),
            (308, Method::POST, true),
        ] {
            let next = followed("http://a.test/", status, "/next").unwrap();
            assert_eq!((next.method, next.body.is_some()), (method, has_body), "{status}");
            assert_eq!(next.headers.contains_key(CONTENT_TYPE), has_body, "{status}");
        }
    }

    #[test]
    fn downgrades_and_other_schemes_are_refused() {
        for to in [
            "http://a.test/",
            "gopher://127.0.0.1:6379/_FLUSHALL",
            "data:text/plain,hi",
            "http://[",
        ] {
            let Err(Ended::Failed { code, retryable, .. }) = followed("https://a.test/", 302, to)
            else {
                panic!("{to} was followed");
            };
            assert_eq!((code, retryable), (Code::RedirectRefused, false), "{to}");
        }
    }

    #[test]
    fn a_redirect_brings_no_secret_into_what_is_shown() {
        for (from, location, expected) in [
            ("http://a.test/", "/k/half?half", "http://a.test/k/***"),
            ("http://a.test/", "http://b.test/half?half", "http://b.test/***"),
            // The redirect keeps the path of the first request, and with it a part of the secret.
            ("http://a.test/half?half", "?page=2", "http://a.test/***"),
        ] {
            let mask = Mask::new(|text| text.replace("half?half", "***"));
            let mut outgoing = post(from);
            outgoing.masked_url = masked(&outgoing.url, from, &mask);
            outgoing.mask = mask;
            follow(&mut outgoing, StatusCode::FOUND, location.as_bytes()).unwrap();
            assert_eq!(outgoing.peer(), expected, "{from} -> {location}");
        }
    }
}
