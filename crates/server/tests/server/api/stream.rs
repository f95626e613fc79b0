//! Server-sent events.

use futures_util::StreamExt as _;
use serde_json::{Value, json};

use crate::harness::{NOOP, Node};

#[tokio::test]
async fn what_happens_is_told() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let stream = node.request(reqwest::Method::GET, "/api/v1/stream").send().await.unwrap();
    assert_eq!(stream.status(), 200);
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let body = json!({"name": "s", "workflow_id": "nothing", "at": "2020-01-01T00:00:00Z"});
    let created = node.post("/api/v1/schedules", body).await.expect(201);
    let mut text = String::new();
    let mut chunks = stream.bytes_stream();
    while !text.contains("\"succeeded\"") {
        let chunk = chunks.next().await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    let events: Vec<(&str, Value)> = text
        .split("\n\n")
        .filter_map(|event| {
            let (name, data) = event.split_once("\ndata: ")?;
            Some((name.strip_prefix("event: ")?, serde_json::from_str(data).ok()?))
        })
        .collect();
    let of = |kind: &str| events.iter().find(|(name, _)| *name == kind).unwrap().1.clone();
    assert_eq!(of("schedule"), json!({"id": created["id"], "status": "active"}));
    assert_eq!(of("occurrence")["outcome"], "started");
    assert_eq!(of("run")["schedule_id"], created["id"]);
    // An open stream does not delay a stop.
    let Node { server, .. } = node;
    server.stop().await.unwrap();
    while let Some(chunk) = chunks.next().await {
        chunk.unwrap();
    }
}

#[tokio::test]
async fn streams_are_limited() {
    let node = Node::start().await;
    let mut open = Vec::new();
    for _ in 0..64 {
        let stream = node.request(reqwest::Method::GET, "/api/v1/stream").send().await.unwrap();
        assert_eq!(stream.status(), 200);
        open.push(stream);
    }
    let refused = node.get("/api/v1/stream").await;
    refused.problem(503);
    assert!(refused.header("retry-after").is_some());
}
