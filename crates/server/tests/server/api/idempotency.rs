//! A repeated request with the same key is carried out once.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{NOOP, Node, Reply, send};

async fn post(node: &Node, path: &str, key: &str, body: Value) -> Reply {
    let request = node.request(Method::POST, path).header("Idempotency-Key", key);
    send(if body.is_null() { request } else { request.json(&body) }).await
}

const SCHEDULES: &str = "/api/v1/schedules";

fn daily(name: &str) -> Value {
    json!({"name": name, "workflow_id": "nothing", "cron": "@daily"})
}

#[tokio::test]
async fn a_key_does_once() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let first = post(&node, SCHEDULES, "k", daily("a")).await;
    let again = post(&node, SCHEDULES, "k", daily("a")).await;
    assert_eq!(first.expect(201), again.expect(201));
    assert_eq!(first.header("idempotency-replayed"), None);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(first.header("location"), again.header("location"));
    let other = post(&node, SCHEDULES, "k", daily("b")).await;
    other.problem(422);
    assert_eq!(other.json()["title"], "Idempotency-Key used before");
    assert_eq!(node.get(SCHEDULES).await.expect(200)["total"], 1);
    // A refusal is not stored: the corrected request may use the same key.
    post(&node, SCHEDULES, "r", json!({"name": "r"})).await.problem(422);
    post(&node, SCHEDULES, "r", daily("r")).await.expect(201);
}

#[tokio::test]
async fn every_post_takes_a_key() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let path = node.schedule(daily("a")).await;
    let range = json!({"from": "2026-01-01T00:00:00Z", "to": "2026-01-03T00:00:00Z"});
    for (path, status, body) in [
        (format!("{path}/pause"), 200, Value::Null),
        (format!("{path}/resume"), 200, Value::Null),
        (format!("{path}/disable"), 200, Value::Null),
        (format!("{path}/enable"), 200, Value::Null),
        (format!("{path}/trigger"), 200, Value::Null),
        (format!("{path}/backfill"), 200, range),
        (format!("{SCHEDULES}/batch"), 201, json!([daily("b"), daily("c")])),
        (format!("{SCHEDULES}/batch-delete"), 204, json!({"schedule_ids": ["2"]})),
    ] {
        let first = post(&node, &path, &path, body.clone()).await;
        assert_eq!(first.status, status, "{path}: {}", first.text);
        let again = post(&node, &path, &path, body).await;
        assert_eq!(again.status, status, "{path}: {}", again.text);
        assert_eq!(again.header("idempotency-replayed"), Some("true"), "{path}");
        if path.ends_with("trigger") {
            assert_eq!(first.json()["run_id"], again.json()["run_id"]);
        }
    }
    let long = "x".repeat(256);
    for key in ["", &long, "ä", "a b"] {
        post(&node, SCHEDULES, key, daily("k")).await.problem(400);
    }
}

#[tokio::test]
async fn a_key_used_by_many_at_once_does_once() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let replies =
        futures_util::future::join_all((0..50).map(|_| post(&node, SCHEDULES, "k", daily("a"))))
            .await;
    let ids: Vec<String> =
        replies.iter().map(|reply| reply.expect(201)["id"].to_string()).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let first = replies.iter().filter(|reply| reply.header("idempotency-replayed").is_none());
    assert_eq!(first.count(), 1);
    assert_eq!(node.get(SCHEDULES).await.expect(200)["total"], 1);
}
