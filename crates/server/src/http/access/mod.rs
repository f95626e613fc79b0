//! Who may ask: holders of the token, or whoever is on this machine if there is none.

mod caller;
mod role;

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};

pub use caller::Caller;
pub use role::{Permission, Role};

use super::problem::Problem;
use super::{App, hooks};

/// A secret that callers show, kept as a hash.
#[derive(Clone, Copy)]
pub(crate) struct Token([u8; 32]);

impl Token {
    pub(crate) fn new(secret: &str) -> Token {
        Token(Sha256::digest(secret).into())
    }

    /// Takes the same time wherever the difference is.
    fn is(&self, given: &str) -> bool {
        let given: [u8; 32] = Sha256::digest(given).into();
        self.0.iter().zip(given).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }
}

/// Lets through who may ask.
pub(super) async fn check(State(app): State<App>, mut request: Request, next: Next) -> Response {
    match refused(&app, &request) {
        // Calls of triggers that have a secret are let in by their signature, which their route looks at.
        Some(problem) if hooks::is_hook(request.uri().path()) => {
            request.extensions_mut().insert(Uninvited(problem));
            next.run(request).await
        }
        Some(problem) => problem.into_response(),
        None => {
            request.extensions_mut().insert(Caller::admin("anyone"));
            next.run(request).await
        }
    }
}

/// Marks a request that only its signature can let in.
#[derive(Clone)]
pub(super) struct Uninvited(pub(super) Problem);

fn refused(app: &App, request: &Request) -> Option<Problem> {
    let path = request.uri().path();
    if matches!(path, "/healthz" | "/readyz") {
        return None;
    }
    let headers = request.headers();
    let host = host(request);
    if is_from_elsewhere(request.method(), headers, host) {
        let detail = "The request comes from a page of another site.";
        return Some(Problem::new(StatusCode::FORBIDDEN, "forbidden", "Forbidden", detail));
    }
    match app.token() {
        Some(token) if is_protected(path) && !is_shown(token, headers) => Some(Problem::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "Unauthorized",
            "Send the node's token: Authorization: Bearer TOKEN.",
        )),
        Some(_) => None,
        // A page may have its own name resolve to this machine: its name gives it away.
        None if host.is_some_and(is_loopback) => None,
        None => Some(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "wrong-host",
            "Wrong host",
            "Without a token this node answers to localhost, 127.0.0.1 and [::1] only. \
             Start it with a token to use another name.",
        )),
    }
}

fn is_protected(path: &str) -> bool {
    path == "/metrics" || path == "/api" || path.starts_with("/api/")
}

fn is_shown(token: Token, headers: &HeaderMap) -> bool {
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    given.and_then(|value| value.split_once(' ')).is_some_and(|(scheme, secret)| {
        scheme.eq_ignore_ascii_case("bearer") && token.is(secret.trim())
    })
}

fn host(request: &Request) -> Option<&str> {
    let header = request.headers().get(HOST).and_then(|value| value.to_str().ok());
    header.or_else(|| request.uri().authority().map(|authority| authority.as_str()))
}

/// Browsers say where a request comes from; programs do not.
fn is_from_elsewhere(method: &Method, headers: &HeaderMap, host: Option<&str>) -> bool {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return false;
    }
    headers.get(ORIGIN).is_some_and(|origin| {
        let origin = origin.to_str().ok().and_then(|text| text.split_once("://"));
        origin.map(|(_, authority)| authority) != host
    })
}

/// Whether a host, with or without a port, is this machine's own name for itself.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(address, _)| address),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
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
    fn a_token_is_itself_and_nothing_else() {
        let token = Token::new("secret");
        assert!(token.is("secret"));
        for other in ["", "Secret", "secret ", "secre", "secrets"] {
            assert!(!token.is(other), "{other}");
        }
    }
}
