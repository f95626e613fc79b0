//! Every route with every role, and without a token.

use reqwest::Method;
use serde_json::{Value, json};

use super::closed;
use crate::harness::{Node, send};

/// Routes that need no token.
const PUBLIC: [&str; 5] =
    ["/healthz", "/readyz", "/openapi.json", "/schema.json", "/punctual.d.ts"];
/// A signature, or the permission to operate, admits a call. Without either, a caller must not
/// learn which triggers exist.
const HOOKS: &str = "/api/v1/hooks/{workflow}/{trigger}";

/// The roles that the documentation allows: written here again, so that a slip in the table shows.
fn allowed(method: &Method, path: &str) -> &'static [&'static str] {
    const ANY: &[&str] = &["viewer", "operator", "approver", "designer", "worker", "admin"];
    const READERS: &[&str] = &["viewer", "operator", "approver", "designer", "admin"];
    let last = path.rsplit('/').next().unwrap();
    if path == "/api/v1/me" {
        return ANY;
    }
    if path.contains("/tokens") || path.contains("/audit") {
        return &["admin"];
    }
    if path.contains("/attempts/") {
        return &["worker", "admin"];
    }
    if *method == Method::GET || matches!(last, "preview" | "add") {
        return READERS;
    }
    if path.contains("/approvals/") {
        return &["approver", "admin"];
    }
    match last {
        "trigger" | "pause" | "resume" | "enable" | "disable" | "revive" | "backfill"
        | "batch-control" => &["operator", "admin"],
        "cancel" | "retry" | "resolve" | "runs" | "events" | "skip" | "{nominal}" | "{trigger}" => {
            &["operator", "admin"]
        }
        _ => &["designer", "admin"],
    }
}

/// Whether the response never ends, because it is a stream.
fn is_endless(path: &str) -> bool {
    path.ends_with("/stream")
}

#[tokio::test]
async fn every_route_is_for_some_roles_and_for_nobody_without_one() {
    let node = closed().await;
    let roles = ["viewer", "operator", "approver", "designer", "worker", "admin"];
    let mut holders = Vec::new();
    for role in roles {
        holders.push((role, node.token(&format!("the-{role}"), &[role]).await));
    }
    let operations = node.operations().await;
    assert!(operations.len() > 75, "{}", operations.len());
    for (method, path, filled) in &operations {
        let without = node.send_with(None, method.clone(), filled, Value::Null).await;
        if PUBLIC.contains(&path.as_str()) {
            assert_eq!(without.status, 200, "{method} {path}");
            continue;
        }
        assert_eq!(without.status, 401, "{method} {path}: {}", without.text);
        assert_eq!(without.header("www-authenticate"), Some("Bearer realm=\"punctual\""));
        for (role, secret) in &holders {
            let is_allowed = allowed(method, path).contains(role);
            if is_allowed && is_endless(path) {
                continue;
            }
            // An admitted request is refused for its empty body, or because the object does not
            // exist.
            let request = node.client.request(method.clone(), node.url(filled));
            let request = request.bearer_auth(secret).header("content-type", "text/plain");
            let reply = send(request.body("?")).await;
            if is_allowed {
                assert!(
                    !matches!(reply.status, 401 | 403 | 500),
                    "{role} may {method} {path}: {} {}",
                    reply.status,
                    reply.text
                );
            } else if path == HOOKS {
                assert_eq!(reply.status, 403, "{role} {path}");
            } else {
                let detail = reply.problem(403);
                assert!(detail.contains("needs the permission"), "{detail}");
                assert!(detail.contains(&format!("the-{role} has {role}")), "{detail}");
            }
        }
    }
}

#[tokio::test]
async fn no_suffix_and_no_header_lets_anybody_in() {
    let node = closed().await;
    let suffixes = ["/", "/configs", "%2f", "%2F..%2f..", "?", ".json", "/./", "//", ";x=1", "%00"];
    let headers = [
        ("authorization", "Bearer "),
        ("authorization", "Bearer"),
        ("authorization", "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9."),
        ("authorization", "Basic YWRtaW46YWRtaW4="),
        ("authorization", "bearer null"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-real-ip", "127.0.0.1"),
        ("x-http-method-override", "GET"),
        ("x-original-url", "/healthz"),
        (
            "cookie",
            "punctual_sign_in=; punctual_anyone=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        ),
        ("cookie", "punctual_sign_in=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
    ];
    for (method, path, filled) in node.operations().await {
        if PUBLIC.contains(&path.as_str()) {
            continue;
        }
        for suffix in suffixes {
            let filled = format!("{filled}{suffix}");
            let reply = node.send_with(None, method.clone(), &filled, Value::Null).await;
            assert_eq!(reply.status, 401, "{method} {filled}: {}", reply.text);
        }
        for (name, value) in headers {
            let request = node.client.request(method.clone(), node.url(&filled));
            let reply = send(request.header(name, value)).await;
            assert_eq!(reply.status, 401, "{method} {filled} {name}: {value}");
        }
    }
    // A public route does not give access to others.
    for path in ["/healthz/../api/v1/runs", "/openapi.json/../metrics", "/healthz/x", "/nowhere"] {
        assert_eq!(
            node.send_with(None, Method::GET, path, Value::Null).await.status,
            401,
            "{path}"
        );
    }
}

#[tokio::test]
async fn two_headers_are_none() {
    let node = closed().await;
    let request = node.client.get(node.url("/api/v1/runs"));
    let request = request.bearer_auth("wrong").bearer_auth(super::SECRET);
    assert_eq!(send(request).await.status, 401);
}

#[tokio::test]
async fn what_changes_something_cannot_be_got() {
    let node = closed().await;
    let operations = node.operations().await;
    let has = |method: Method, path: &str| {
        operations.iter().any(|(known, of, _)| *known == method && of == path)
    };
    let mut seen = 0;
    for (method, path, filled) in &operations {
        if *method == Method::GET || has(Method::GET, path) || path == "/api/v1/schedules/batch" {
            continue;
        }
        // A part of a path may be the name of another route's object.
        let reply = node.get(filled).await;
        assert!(matches!(reply.status, 405 | 404), "{path}: {}", reply.text);
        seen += usize::from(reply.status == 405);
        let without = node.send_with(None, Method::GET, filled, Value::Null).await;
        assert_eq!(without.status, 401, "{path}");
    }
    assert!(seen > 25, "{seen}");
    let overridden = node.request(Method::GET, "/api/v1/tokens");
    let overridden = overridden.header("x-http-method-override", "DELETE");
    assert_eq!(send(overridden).await.status, 200, "the method is what it is");
}

#[tokio::test]
async fn who_is_known_learns_what_is_not_there() {
    let node = closed().await;
    for path in ["/nowhere", "/api/v1/nothing", "/api", "/api/v2/runs"] {
        node.get(path).await.problem(404);
    }
    let worker = node.token("w", &["worker"]).await;
    node.get_with(&worker, "/api/v1/nothing").await.problem(404);
    let me = node.get_with(&worker, "/api/v1/me").await.expect(200);
    assert_eq!(me, json!({ "name": "w", "roles": ["worker"] }));
    assert_eq!(node.get("/api/v1/me").await.expect(200)["name"], "node");
}

#[tokio::test]
async fn without_tokens_anyone_on_this_machine_may_do_everything() {
    let node = Node::start().await;
    let me = node.get("/api/v1/me").await.expect(200);
    assert_eq!(me, json!({ "name": "anyone", "roles": ["admin"] }));
    node.get("/nowhere").await.problem(404);
    let request = node.client.get(node.url("/api/v1/me")).header("host", "evil.example");
    assert_eq!(send(request).await.status, 421);
}

#[tokio::test]
async fn people_are_asked_to_sign_in() {
    let node = closed().await;
    let client =
        runners::http_client().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let asked = |path: &str, accept: &'static str| {
        send(client.get(node.url(path)).header("accept", accept))
    };
    const HTML: &str = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8";
    let reply = asked("/runs?status=failed&q=a%20b", HTML).await;
    assert_eq!(reply.status, 303);
    let next = "/sign-in?next=%2Fruns%3Fstatus%3Dfailed%26q%3Da%2520b";
    assert_eq!(reply.header("location"), Some(next));
    let elsewhere = asked("//evil.example/x", HTML).await;
    assert_eq!(elsewhere.header("location"), Some("/sign-in?next=%2F"));
    assert_eq!(asked("/runs", "application/json").await.status, 401);
    assert_eq!(asked("/api/v1/runs", HTML).await.status, 401);
}
