//! Sign-ins to the pages: a cookie, and a form key that only our pages know.

use std::sync::Arc;

use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::SignedDuration;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use store::{NewSignIn, SignedInWith, Store};

use super::{SECRET, closed};
use crate::harness::{Node, Reply, send};

/// A cookie with the length of ours.
const COOKIE: &str = "0123456789012345678901234567890123456789abc";

fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

fn form_key(secret: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(b"forms");
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Node {
    fn store(&self) -> Arc<dyn Store> {
        self.server.hub().store().clone()
    }

    /// Stores a sign-in with the cookie.
    async fn sign_in(&self, with: SignedInWith, hours: i64) {
        let now = self.server.hub().now();
        let expires_at = now.checked_add(SignedDuration::from_hours(hours)).unwrap();
        let new = NewSignIn { hash: hash(COOKIE), with, expires_at };
        self.store().begin_sign_in(new, now, None).await.unwrap();
    }

    async fn with_cookie(&self, method: Method, path: &str, key: Option<&str>) -> Reply {
        let request = self.client.request(method, self.url(path));
        let request = request.header("cookie", format!("a=b; punctual_sign_in={COOKIE}"));
        send(match key {
            Some(key) => request.header("x-form-key", key),
            None => request,
        })
        .await
    }
}

#[tokio::test]
async fn a_change_needs_the_key_of_the_page() {
    let node = closed().await;
    node.publish(crate::harness::NOOP).await;
    node.token("ops", &["operator"]).await;
    node.sign_in(SignedInWith::Token(1), 12).await;
    let me = node.with_cookie(Method::GET, "/api/v1/me", None).await.expect(200);
    assert_eq!(me, json!({ "name": "ops", "roles": ["operator"] }));
    let start = "/api/v1/workflows/nothing/runs";
    let other = form_key("another");
    for wrong in [None, Some(""), Some("x"), Some(other.as_str()), Some(COOKIE)] {
        let refused = node.with_cookie(Method::POST, start, wrong).await;
        assert!(refused.problem(403).contains("X-Form-Key"), "{wrong:?} {}", refused.text);
    }
    let key = form_key(COOKIE);
    node.with_cookie(Method::POST, start, Some(&key)).await.expect(201);
    // The form key gives no permission.
    let refused = node.with_cookie(Method::POST, "/api/v1/workflows", Some(&key)).await;
    assert!(refused.problem(403).contains("design"), "{}", refused.text);
    // A page of another site is refused even with the form key.
    let request = node.client.post(node.url(start)).header("x-form-key", &key);
    let request = request.header("cookie", format!("punctual_sign_in={COOKIE}"));
    assert_eq!(send(request.header("origin", "https://evil.test")).await.status, 403);
}

#[tokio::test]
async fn a_sign_in_ends_with_its_time_and_its_token() {
    let node = closed().await;
    node.token("ops", &["operator"]).await;
    node.sign_in(SignedInWith::Token(1), 12).await;
    node.with_cookie(Method::GET, "/api/v1/me", None).await.expect(200);
    node.post("/api/v1/tokens/ops/revoke", Value::Null).await.expect(200);
    node.with_cookie(Method::GET, "/api/v1/me", None).await.problem(401);

    node.sign_in(SignedInWith::Token(1), 12).await;
    node.with_cookie(Method::GET, "/api/v1/me", None).await.problem(401);
    node.store().end_sign_in(hash(COOKIE)).await.unwrap();
    node.sign_in(SignedInWith::Node(hash(SECRET)), -1).await;
    node.with_cookie(Method::GET, "/api/v1/me", None).await.problem(401);
}

#[tokio::test]
async fn a_sign_in_with_the_nodes_own_token_is_for_that_token() {
    let node = closed().await;
    node.sign_in(SignedInWith::Node(hash(SECRET)), 12).await;
    let me = node.with_cookie(Method::GET, "/api/v1/me", None).await.expect(200);
    assert_eq!(me["name"], "node");
    // A cookie is not accepted as a token, nor a token as a cookie.
    node.get_with(COOKIE, "/api/v1/me").await.problem(401);
    let Node { server, ground, .. } = node;
    server.stop().await.unwrap();
    let another = |options: &mut server::serve::ServerOptions| {
        options.token = Some("another".to_owned());
    };
    let node = Node::start_on(ground, another).await;
    node.with_cookie(Method::GET, "/api/v1/me", None).await.problem(401);
}

/// A browser that does not follow redirects and keeps no cookies.
fn browser() -> reqwest::Client {
    runners::http_client().redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

fn form(node: &Node, path: &str, fields: &[(&str, &str)]) -> reqwest::RequestBuilder {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let request = browser().post(node.url(path)).header("accept", "text/html");
    request.header("content-type", "application/x-www-form-urlencoded").body(body)
}

/// The cookie of this name that the response sets, to be sent back.
fn set_cookie(reply: &Reply, name: &str) -> String {
    let all = reply.headers.get_all("set-cookie").iter().map(|value| value.to_str().unwrap());
    let mut ours = all.filter(|text| text.starts_with(&format!("{name}=")));
    let text = ours.next().unwrap_or_else(|| panic!("{name} is not set: {reply:?}"));
    assert!(text.contains("; HttpOnly") && text.contains("; SameSite=Lax"), "{text}");
    text.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn one_signs_in_on_the_page_and_out_again() {
    let node = closed().await;
    let secret = node.token("ops", &["operator"]).await;
    let wrong = send(form(&node, "/sign-in", &[("token", "wrong"), ("next", "/topics")])).await;
    assert_eq!(wrong.status, 401);
    assert!(wrong.headers.get("set-cookie").is_none());
    let fields = [("token", secret.as_str()), ("next", "//evil.test")];
    let reply = send(form(&node, "/sign-in", &fields)).await;
    assert_eq!((reply.status, reply.header("location")), (303, Some("/")));
    let cookie = set_cookie(&reply, "punctual_sign_in");
    let secret_of_cookie = cookie.split_once('=').unwrap().1.to_owned();
    let asks = async |path: &str| {
        let request = browser().get(node.url(path)).header("cookie", &cookie);
        send(request.header("accept", "text/html")).await
    };
    let page = asks("/").await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.text.contains(&form_key(&secret_of_cookie)) && !page.text.contains(&secret));
    assert_eq!(asks("/tokens").await.status, 403);
    // A page of another site, which does not know the form key, cannot sign anybody out.
    let out = |key: &str| form(&node, "/sign-out", &[("_key", key)]).header("cookie", &cookie);
    assert_eq!(send(out("x")).await.status, 403);
    assert_eq!(asks("/").await.status, 200);
    let reply = send(out(&form_key(&secret_of_cookie))).await;
    assert_eq!(reply.status, 303);
    assert_eq!(set_cookie(&reply, "punctual_sign_in"), "punctual_sign_in=");
    assert_eq!(asks("/").await.status, 303);
    let log = node.get("/api/v1/audit?who=ops").await.expect(200);
    assert_eq!(log["items"][0]["action"], "POST /sign-in");
    assert_eq!(log["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn forms_of_an_open_node_have_a_key_too() {
    let node = Node::start().await;
    node.publish(crate::harness::NOOP).await;
    let page = send(browser().get(node.url("/")).header("accept", "text/html")).await;
    assert_eq!(page.status, 200);
    let cookie = set_cookie(&page, "punctual_anyone");
    let key = form_key(cookie.split_once('=').unwrap().1);
    let start = |key: &str| form(&node, "/forms/workflows/nothing/runs", &[("_key", key)]);
    for refused in [start(&key), start("x").header("cookie", &cookie), start("")] {
        assert_eq!(send(refused).await.status, 403);
    }
    let started = send(start(&key).header("cookie", &cookie)).await;
    assert_eq!(started.status, 303, "{}", started.text);
    let log = node.get("/api/v1/audit?limit=1").await.expect(200);
    assert_eq!(log["items"][0]["action"], "POST /api/v1/workflows/{id}/runs");
    assert_eq!(
        (&log["items"][0]["who"], &log["items"][0]["from"]),
        (&json!("anyone"), &json!("127.0.0.1"))
    );
}

/// Behind a proxy everybody has the same address.
#[tokio::test]
async fn wrong_tokens_of_others_lock_nobody_out() {
    let node = closed().await;
    let secret = node.token("ops", &["operator"]).await;
    let sign_in =
        async |token: &str| send(form(&node, "/sign-in", &[("token", token)])).await.status;
    for _ in 0..10 {
        assert_eq!(sign_in("wrong").await, 401);
    }
    assert_eq!(sign_in("wrong").await, 429, "whoever guesses is told to wait");
    assert_eq!(sign_in(&secret).await, 303);
    for _ in 0..5 {
        node.get_with("wrong", "/api/v1/me").await.problem(401);
        node.get_with(&secret, "/api/v1/me").await.expect(200);
    }
}
