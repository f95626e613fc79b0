//! Callers that go away while the store works: what was stored takes effect all the same.

use std::sync::Arc;
use std::time::Duration;

use engine::run::RunStatus;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::gated::{Gate, GatedStore};
use crate::ground::Ground;
use crate::harness::{NOOP, Node, PATIENCE, SLOW};

/// How long a node gets to notice that a caller is gone. If it is too short, the tests pass without
/// testing anything.
const NOTICED: Duration = Duration::from_millis(300);

async fn gated() -> (Node, Arc<GatedStore>) {
    let ground = Ground::new();
    let store = GatedStore::new(ground.open().await);
    (Node::start_over(ground, store.clone(), |_| {}).await, store)
}

/// Sends requests whose callers go away after the command was stored, before it is answered.
async fn ask_and_hang_up(node: &Node, store: &GatedStore, requests: &[(&str, &str, Value)]) {
    let before = *store.unanswered.borrow();
    store.commands.send_replace(Gate::Unanswered);
    let mut callers = Vec::new();
    for (method, path, body) in requests {
        let mut stream = TcpStream::connect(node.server.address()).await.unwrap();
        let body = body.to_string();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        callers.push(stream);
    }
    tokio::time::timeout(PATIENCE, store.held(before + requests.len())).await.unwrap();
    drop(callers);
    tokio::time::sleep(NOTICED).await;
    store.commands.send_replace(Gate::Open);
}

#[tokio::test]
async fn schedules_whose_callers_are_gone_run() {
    let (node, store) = gated().await;
    node.workflow(NOOP).await;
    let at = node.server.hub().now() + jiff::SignedDuration::from_millis(500);
    let schedule = |number: usize| json!({"name": format!("s{number}"), "workflow_id": "nothing", "at": at.to_string()});
    let requests: Vec<_> = (0..20).map(|n| ("POST", "/api/v1/schedules", schedule(n))).collect();
    ask_and_hang_up(&node, &store, &requests).await;
    let path = "/api/v1/runs?status=succeeded";
    node.until(path, |runs| runs["total"] == requests.len()).await;
}

#[tokio::test]
async fn runs_whose_callers_are_gone_go_on_and_end() {
    let (node, store) = gated().await;
    for text in
        [NOOP, SLOW, "name: t\nsteps: [{id: a, type: worker, queue: q}, {id: b, type: noop}]\n"]
    {
        node.publish(text).await;
    }
    let slow = node.run("slow").await;
    node.run_until(&slow, |status| status == RunStatus::Running).await;
    let worked = node.run("t").await;
    let claim = json!({"queues": ["q"], "wait_seconds": 30});
    let claimed = node.post("/api/v1/attempts/claim", claim).await.expect(200);
    let attempt = &claimed["attempts"][0];
    let complete = format!("/api/v1/attempts/{}/complete", attempt["id"].as_str().unwrap());
    let cancel = format!("/api/v1/runs/{slow}/cancel");
    ask_and_hang_up(
        &node,
        &store,
        &[
            ("POST", "/api/v1/workflows/nothing/runs", json!({})),
            ("POST", &complete, json!({"token": attempt["token"]})),
            ("POST", &cancel, json!({})),
        ],
    )
    .await;
    node.until("/api/v1/runs?workflow=nothing&status=succeeded", |runs| runs["total"] == 1).await;
    assert_eq!(node.ended(&worked).await["status"], "succeeded");
    assert_eq!(node.ended(&slow).await["status"], "cancelled");
}

#[tokio::test]
async fn what_a_worker_that_is_gone_has_claimed_is_the_next_ones() {
    let (node, store) = gated().await;
    node.publish("name: t\nsteps: [{id: a, type: worker, queue: q}]\n").await;
    let run = node.run("t").await;
    node.run_until(&run, |status| status == RunStatus::Waiting || status == RunStatus::Running)
        .await;
    let claim = |wait: u64| json!({"queues": ["q"], "lease_seconds": 3_600, "wait_seconds": wait});
    let path = "/api/v1/attempts/claim";
    node.until("/api/v1/queues", |queues| queues["items"][0]["depth"] == 1).await;
    ask_and_hang_up(&node, &store, &[("POST", path, claim(0))]).await;
    let claimed = node.post(path, claim(50)).await.expect(200);
    let attempt = &claimed["attempts"][0];
    assert_eq!((&attempt["run_id"], &attempt["attempt"]), (&json!(run), &json!(1)), "{claimed}");
    let token = attempt["token"].as_str().unwrap();
    assert!(token.starts_with("0000000002."), "the one that was lost cannot report: {claimed}");
}

#[tokio::test]
async fn a_calendar_whose_caller_is_gone_moves_next_times() {
    let (node, store) = gated().await;
    node.workflow(NOOP).await;
    let open_on = |days: &str| json!({"timezone": "UTC", "hours": {days: ["09:00-17:00"]}});
    let path = "/api/v1/calendars/ours";
    node.send(reqwest::Method::PUT, path, open_on("mon-sat")).await.expect(201);
    let schedule = json!({"name": "s", "workflow_id": "nothing", "cron": "0 12 * * *",
        "timezone": "UTC", "calendar": "ours"});
    let schedule = node.schedule(schedule).await;
    let before = node.get(&schedule).await.expect(200)["next_run_at"].clone();
    ask_and_hang_up(&node, &store, &[("PUT", path, open_on("sun"))]).await;
    // The schedule's own notice is sent when it was recomputed.
    node.until(&schedule, |schedule| schedule["next_run_at"] != before).await;
}

#[tokio::test]
async fn a_node_that_stops_waits_for_what_was_asked() {
    let (node, store) = gated().await;
    node.workflow(NOOP).await;
    store.commands.send_replace(Gate::Stuck);
    let asked = node.client.post(node.url("/api/v1/workflows/nothing/runs")).json(&json!({}));
    let asked = tokio::spawn(asked.send());
    let hub = node.server.hub().clone();
    while hub.commands_in_flight() == 0 {
        tokio::task::yield_now().await;
    }
    asked.abort();
    let stopping = tokio::spawn(node.server.stop());
    tokio::time::sleep(NOTICED).await;
    assert!(!stopping.is_finished(), "it stopped before the store had answered");
    store.commands.send_replace(Gate::Open);
    tokio::time::timeout(PATIENCE, stopping).await.unwrap().unwrap().unwrap();
    let runs = store::RunQuery { limit: 10, ..store::RunQuery::default() };
    assert_eq!(store.runs(runs).await.unwrap().items.len(), 1);
}
