//! Ready means that due wakeups are driven and commands are stored, not just that the process runs.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};
use server::Clock as _;
use store::PostgresClock;

use crate::ahead::Ahead;
use crate::gated::{Gate, GatedStore};
use crate::ground::Ground;
use crate::harness::{NOOP, Node, PATIENCE};

async fn gated() -> (Node, Arc<GatedStore>, Arc<Ahead>) {
    let ground = Ground::new();
    let store = ground.open_with(|options| options.clock = PostgresClock::Caller).await;
    let store = GatedStore::new(store);
    let clock = Arc::new(Ahead::default());
    let given = clock.clone();
    let node = Node::start_over(ground, store.clone(), |options| options.clock = given).await;
    node.workflow(NOOP).await;
    (node, store, clock)
}

/// Polls `/readyz` until it answers with the status, and returns the reason.
async fn readyz(node: &Node, status: u16) -> String {
    let answered = async {
        loop {
            let reply = node.get("/readyz").await;
            if reply.status == status {
                return if status == 200 { reply.text } else { reply.problem(status) };
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, answered).await.unwrap()
}

async fn figure(node: &Node, name: &str) -> f64 {
    let text = node.get("/metrics").await.text;
    let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_turn_that_does_not_come_back_is_told() {
    let (node, store, clock) = gated().await;
    readyz(&node, 200).await;
    store.turns.send_replace(Gate::Stuck);
    let soon = clock.now() + SignedDuration::from_secs(1);
    node.schedule(json!({"name": "s", "workflow_id": "nothing", "at": soon.to_string()})).await;
    while figure(&node, "punctual_turn_in_flight_seconds").await == 0.0 {
        tokio::task::yield_now().await;
    }
    readyz(&node, 200).await;
    clock.pass(SignedDuration::from_mins(2));
    let why = readyz(&node, 503).await;
    assert!(why.contains("A turn has not come back for 12") && why.contains("since 20"), "{why}");
    assert!(figure(&node, "punctual_turn_in_flight_seconds").await >= 120.0);
    assert_eq!(figure(&node, "punctual_node_ready").await, 0.0);
    assert_eq!(node.get("/healthz").await.status, 200, "it is alive");
    store.turns.send_replace(Gate::Open);
    readyz(&node, 200).await;
    node.until("/api/v1/runs?status=succeeded", |runs| runs["total"] == 1).await;
}

#[tokio::test]
async fn a_command_that_does_not_come_back_is_told() {
    let (node, store, clock) = gated().await;
    store.commands.send_replace(Gate::Stuck);
    let asked = node.request(reqwest::Method::POST, "/api/v1/workflows/nothing/runs").send();
    let asked = tokio::spawn(asked);
    while node.server.hub().commands_in_flight() == 0 {
        tokio::task::yield_now().await;
    }
    readyz(&node, 200).await;
    clock.pass(SignedDuration::from_mins(2));
    // A turn that was in flight when the clock moved returns soon; the command does not.
    let mut why = readyz(&node, 503).await;
    while why.contains("A turn has not come back") {
        why = readyz(&node, 503).await;
    }
    assert!(why.contains("A command has not come back for 12"), "{why}");
    store.commands.send_replace(Gate::Open);
    assert_eq!(asked.await.unwrap().unwrap().status(), 201);
    readyz(&node, 200).await;
}

#[tokio::test]
async fn commits_that_fail_are_told_until_one_succeeds_or_nobody_tries() {
    let (node, store, clock) = gated().await;
    let run = async || node.post("/api/v1/workflows/nothing/runs", Value::Null).await;
    store.commands.send_replace(Gate::Full);
    run().await.problem(503);
    let why = readyz(&node, 503).await;
    assert!(why.contains("Nothing has been committed since 20"), "{why}");
    assert!(why.contains("disk is full"), "{why}");
    clock.pass(SignedDuration::from_mins(1));
    readyz(&node, 200).await;
    run().await.problem(503);
    readyz(&node, 503).await;
    store.commands.send_replace(Gate::Open);
    run().await.expect(201);
    readyz(&node, 200).await;
}

#[tokio::test]
async fn what_is_due_and_not_driven_is_told() {
    let (node, store, clock) = gated().await;
    store.turns.send_replace(Gate::Full);
    let soon = clock.now() + SignedDuration::from_secs(1);
    node.schedule(json!({"name": "s", "workflow_id": "nothing", "at": soon.to_string()})).await;
    clock.pass(SignedDuration::from_mins(1));
    let mut why = readyz(&node, 503).await;
    // A turn that began before the clock was moved may still be on its way.
    while why.contains("A turn has not come back") {
        tokio::task::yield_now().await;
        why = readyz(&node, 503).await;
    }
    assert!(why.contains("Nothing can be decided") && why.contains("disk is full"), "{why}");
    assert!(figure(&node, "punctual_due_oldest_seconds").await >= 59.0);
    store.turns.send_replace(Gate::Open);
    readyz(&node, 200).await;
}

/// The process was suspended while a turn was in flight: what fell due meanwhile was missed, and is
/// not merely late. Everything of this test runs on one thread, so a thread that sleeps stops the
/// node as SIGSTOP does.
#[tokio::test]
async fn a_node_that_was_suspended_in_a_turn_was_not_awake() {
    let (node, store, _) = gated().await;
    let each = json!({"name": "s", "workflow_id": "nothing", "every": "1s", "catch_up": "last"});
    let schedule = node.schedule(each).await;
    store.turns.send_replace(Gate::Stuck);
    while figure(&node, "punctual_turn_in_flight_seconds").await == 0.0 {
        tokio::task::yield_now().await;
    }
    std::thread::sleep(Duration::from_secs(8));
    store.turns.send_replace(Gate::Open);
    let ledger = format!("{schedule}/occurrences?outcome=coalesced");
    node.until(&ledger, |page| {
        let items = page["items"].as_array().unwrap();
        items.iter().map(|item| item["count"].as_u64().unwrap()).sum::<u64>() >= 4
    })
    .await;
}
