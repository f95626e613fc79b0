//! Access: tokens, permissions, sign-ins and the audit log.

mod audit;
mod cookies;
mod hostile;
mod routes;
mod streams;
mod tokens;
mod workers;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Node, Reply, send};

pub(crate) const SECRET: &str = "the node's own";

/// A node with a token of its own, which its client sends.
pub(crate) async fn closed() -> Node {
    Node::start_with(|options| options.token = Some(SECRET.to_owned())).await
}

impl Node {
    /// Makes a token and returns its secret.
    pub(crate) async fn token(&self, name: &str, roles: &[&str]) -> String {
        let made = self.post("/api/v1/tokens", json!({ "name": name, "roles": roles })).await;
        made.expect(201)["secret"].as_str().unwrap().to_owned()
    }

    /// Sends a request with another token, or with none.
    pub(crate) async fn send_with(
        &self,
        secret: Option<&str>,
        method: Method,
        path: &str,
        body: Value,
    ) -> Reply {
        let request = self.client.request(method, self.url(path));
        let request = match secret {
            Some(secret) => request.bearer_auth(secret),
            None => request,
        };
        send(if body.is_null() { request } else { request.json(&body) }).await
    }

    pub(crate) async fn get_with(&self, secret: &str, path: &str) -> Reply {
        self.send_with(Some(secret), Method::GET, path, Value::Null).await
    }

    pub(crate) async fn post_with(&self, secret: &str, path: &str, body: Value) -> Reply {
        self.send_with(Some(secret), Method::POST, path, body).await
    }

    /// Every operation of the OpenAPI document: its method, its path, and the path with its
    /// parameters filled in.
    pub(crate) async fn operations(&self) -> Vec<(Method, String, String)> {
        let document = self.get("/openapi.json").await.expect(200);
        let mut operations = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for method in item.as_object().unwrap().keys() {
                let method = method.to_uppercase().parse().unwrap();
                let parts = path.split('/').map(|part| match part.strip_prefix('{') {
                    Some("nominal}") => "2026-03-02T09:00:00Z",
                    Some(_) => "1",
                    None => part,
                });
                let filled = parts.collect::<Vec<_>>().join("/");
                operations.push((method, path.clone(), filled));
            }
        }
        operations
    }
}
