//! Whoever has signed in to the pages: a cookie, and a key that only our pages know.

use std::sync::Arc;

use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::SignedDuration;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use store::{NewSignIn, SignedInWith, Store};

use super::{SECRET, closed};
use crate::harness::{Node, Reply, send};

/// As long as ours are.
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

    /// Somebody has signed in with the cookie.
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
    // The key is no permission.
    let refused = node.with_cookie(Method::POST, "/api/v1/workflows", Some(&key)).await;
    assert!(refused.problem(403).contains("design"), "{}", refused.text);
    // A page of another site does not get through even with it.
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
    // What is sent as a token is no cookie, and the other way round.
    node.get_with(COOKIE, "/api/v1/me").await.problem(401);
    let Node { server, ground, .. } = node;
    server.stop().await.unwrap();
    let another = |options: &mut server::serve::ServerOptions| {
        options.token = Some("another".to_owned());
    };
    let node = Node::start_on(ground, another).await;
    node.with_cookie(Method::GET, "/api/v1/me", None).await.problem(401);
}
