//! Workers: they claim attempts, send heartbeats, report, and are fenced.

use std::sync::Arc;

use engine::run::RunStatus;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use server::Secrets;
use store::PostgresClock;

use super::{TWO_STEPS, claim, claim_one, say, start};
use crate::ahead::Ahead;
use crate::gated::GatedStore;
use crate::ground::Ground;
use crate::harness::{Node, PATIENCE};

#[tokio::test]
async fn a_worker_takes_a_run_from_step_to_step() {
    let node = Node::start().await;
    node.publish(TWO_STEPS).await;
    let run = start(&node, "t", json!({"n": 7})).await;
    let a = claim_one(&node, "q").await;
    let id = format!("{run}.1");
    for (field, expected) in [
        ("id", json!(id)),
        ("run_id", json!(run)),
        ("workflow", json!("t")),
        ("step_id", json!("a")),
        ("queue", json!("q")),
        ("payload", json!({"n": 7})),
        ("attempt", json!(1)),
        ("idempotency_key", json!(format!("{run}/a"))),
        ("timeout_seconds", json!(300.0)),
    ] {
        assert_eq!(a[field], expected, "{field}: {a}");
    }
    let until: Timestamp = a["lease_until"].as_str().unwrap().parse().unwrap();
    let left = until.duration_since(node.server.hub().now()).as_secs();
    assert!(left <= 30, "{left}");
    let shown = node.get(&format!("/api/v1/runs/{run}")).await.expect(200);
    assert!(shown["steps"][0]["reason"].as_str().unwrap().contains("worker ann"), "{shown}");
    assert_eq!(say(&node, &a, "complete", json!({"output": [1]})).await.expect(200)["run_id"], run);
    let b = claim_one(&node, "r").await;
    assert_eq!(b["payload"]["payload"], json!({"n": 7}), "the run's input: {b}");
    say(&node, &b, "complete", json!({})).await.expect(200);
    let run = node.ended(&run).await;
    assert_eq!((&run["status"], &run["steps"][0]["output"]), (&json!("succeeded"), &json!([1])));
    assert_eq!(run["steps"][1]["output"], Value::Null);
}

#[tokio::test]
async fn a_claim_waits_for_what_comes_and_no_longer_than_asked() {
    let ground = Ground::new();
    let store = GatedStore::new(ground.open().await);
    let node = Node::start_over(ground, store.clone(), |_| {}).await;
    node.publish(TWO_STEPS).await;
    assert!(claim(&node, "q", json!({"wait_seconds": 0})).await.is_empty());
    assert!(claim(&node, "q", json!({"wait_seconds": 0.2})).await.is_empty());
    let before = *store.unanswered.borrow();
    let waiting = [claim_one(&node, "q"), claim_one(&node, "q")];
    let starting = async {
        // Both claims have looked once, and found nothing.
        tokio::time::timeout(PATIENCE, store.held(before + 2)).await.unwrap();
        let first = start(&node, "t", json!({"n": 1})).await;
        let second = start(&node, "t", json!({"n": 2})).await;
        [first, second]
    };
    let [first, second] = waiting;
    let (first, second, runs) = tokio::join!(first, second, starting);
    let mut taken = [first, second].map(|attempt| attempt["run_id"].as_str().unwrap().to_owned());
    taken.sort();
    assert_eq!(taken, runs, "each once");
}

#[tokio::test]
async fn a_claim_that_waits_does_not_hold_up_a_stop() {
    let ground = Ground::new();
    let store = GatedStore::new(ground.open().await);
    let node = Node::start_over(ground, store.clone(), |_| {}).await;
    let body = json!({"queues": ["q"], "wait_seconds": 50});
    let claim = node.request(reqwest::Method::POST, "/api/v1/attempts/claim").json(&body);
    let waiting = tokio::spawn(crate::harness::send(claim));
    // The claim has looked once, and found nothing.
    tokio::time::timeout(PATIENCE, store.held(1)).await.unwrap();
    tokio::time::timeout(PATIENCE, node.server.stop()).await.unwrap().unwrap();
    assert_eq!(waiting.await.unwrap().expect(200), json!({"attempts": []}));
}

#[tokio::test]
async fn many_are_claimed_at_once() {
    let node = Node::start().await;
    node.publish(TWO_STEPS).await;
    for n in 0..20 {
        start(&node, "t", json!({ "n": n })).await;
    }
    let mut taken = Vec::new();
    while taken.len() < 20 {
        let more = claim(&node, "q", json!({"max": 1000})).await;
        assert!(!more.is_empty(), "{} came", taken.len());
        taken.extend(more);
    }
    let numbers: Vec<_> = taken.iter().map(|a| a["payload"]["n"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..20).collect::<Vec<_>>(), "the oldest first");
    let ids: std::collections::HashSet<_> = taken.iter().map(|a| a["id"].to_string()).collect();
    assert_eq!(ids.len(), 20);
}

#[tokio::test]
async fn a_failure_is_tried_again_if_that_can_help() {
    let node = Node::start().await;
    node.publish(TWO_STEPS).await;
    let run = start(&node, "t", json!({"n": 1})).await;
    let first = claim_one(&node, "q").await;
    let error = json!({"error": {"code": "rain", "message": "it rains", "retryable": true}});
    say(&node, &first, "fail", error.clone()).await.expect(200);
    say(&node, &first, "fail", error).await.whole_problem(409);
    let second = claim_one(&node, "q").await;
    assert_eq!(second["attempt"], 2);
    assert_eq!(second["idempotency_key"], first["idempotency_key"]);
    let error = json!({"error": {"message": "for good", "retryable": false}});
    say(&node, &second, "fail", error).await.expect(200);
    let run = node.ended(&run).await;
    assert_eq!(run["status"], "failed");
    assert_eq!((&run["error"]["code"], &run["error"]["step"]), (&json!("failed"), &json!("a")));
}

#[tokio::test]
async fn a_silent_worker_loses_its_attempt_and_its_voice() {
    let node = Node::start().await;
    node.publish(TWO_STEPS).await;
    start(&node, "t", json!({"n": 1})).await;
    let silent = claim(&node, "q", json!({"lease_seconds": 1})).await.remove(0);
    let other = claim_one(&node, "q").await;
    assert_eq!(other["run_id"], silent["run_id"]);
    assert_ne!(other["token"], silent["token"]);
    let too_late = say(&node, &silent, "complete", json!({"output": "late"})).await.problem(409);
    assert!(too_late.contains("too late"), "{too_late}");
    say(&node, &silent, "heartbeat", json!({})).await.problem(409);
    say(&node, &silent, "fail", json!({"error": {"message": "x"}})).await.problem(409);
    let mut forged = other.clone();
    forged["token"] = silent["token"].clone();
    say(&node, &forged, "complete", json!({})).await.problem(409);
    say(&node, &other, "complete", json!({})).await.expect(200);
}

#[tokio::test]
async fn heartbeats_hold_an_attempt_and_tell_of_a_cancel() {
    let ground = Ground::new();
    let store = ground.open_with(|options| options.clock = PostgresClock::Caller).await;
    let clock = Arc::new(Ahead::default());
    let given = clock.clone();
    let node = Node::start_over(ground, store, |options| options.clock = given).await;
    node.publish(TWO_STEPS).await;
    let run = start(&node, "t", json!({"n": 1})).await;
    let attempt = claim(&node, "q", json!({"lease_seconds": 120})).await.remove(0);
    for _ in 0..3 {
        // Two such steps exceed the lease.
        clock.pass(SignedDuration::from_secs(61));
        let beaten = say(&node, &attempt, "heartbeat", json!({"lease_seconds": 120})).await;
        assert_eq!(beaten.expect(200)["cancel"], false);
    }
    node.post(&format!("/api/v1/runs/{run}/cancel"), Value::Null).await.expect(200);
    let beaten = say(&node, &attempt, "heartbeat", json!({"lease_seconds": 120})).await.expect(200);
    assert_eq!(beaten["cancel"], true, "{beaten}");
    let error = json!({"error": {"code": "cancelled", "message": "stopped", "retryable": false}});
    say(&node, &attempt, "fail", error).await.expect(200);
    assert_eq!(node.ended(&run).await["status"], "cancelled");
    say(&node, &attempt, "heartbeat", json!({})).await.problem(409);
}

#[tokio::test]
async fn what_cannot_be_filled_in_fails_and_is_not_handed_out() {
    let node = Node::start().await;
    node.publish(TWO_STEPS).await;
    let broken = start(&node, "t", json!({"other": 1})).await;
    let fine = start(&node, "t", json!({"n": 1})).await;
    assert_eq!(claim_one(&node, "q").await["run_id"], fine);
    let run = node.ended(&broken).await;
    assert_eq!((&run["status"], &run["error"]["code"]), (&json!("failed"), &json!("expression")));
    assert_eq!(run["steps"][0]["attempts"], 1, "it is not tried again: {run}");
}

#[tokio::test]
async fn an_agent_is_told_what_to_say_and_secrets_do_not_come_back() {
    let variables = [("PUNCTUAL_SECRET_KEY".into(), "hunter22".into())];
    let secrets = Secrets::read(None, variables).unwrap();
    let node = Node::start_with(|options| options.secrets = Arc::new(secrets)).await;
    let text = "name: t\nsteps: [{id: a, type: agent_task, agent: bob, model: m, temperature: 0.5, \
        message: 'use {{ secrets.KEY }} for {{ input }}'}]\n";
    node.publish(text).await;
    let run = start(&node, "t", json!("x")).await;
    let attempt = claim_one(&node, "agent:bob").await;
    let payload = &attempt["payload"];
    assert_eq!(payload["message"], "use hunter22 for x", "{payload}");
    assert_eq!((&payload["model"], &payload["temperature"]), (&json!("m"), &json!(0.5)));
    assert_eq!(payload["input"]["payload"], "x");
    say(&node, &attempt, "complete", json!({"output": {"said": "hunter22!"}})).await.expect(200);
    assert_eq!(node.ended(&run).await["output"], json!({"said": "***!"}));
}

#[tokio::test]
async fn what_a_node_performs_is_not_for_workers_to_report() {
    let node = Node::start().await;
    node.publish(crate::harness::SLOW).await;
    let run = node.run("slow").await;
    node.run_until(&run, |status| status == RunStatus::Running).await;
    let attempt = json!({"id": format!("{run}.1"), "token": 1});
    say(&node, &attempt, "complete", json!({})).await.problem(409);
    say(&node, &attempt, "heartbeat", json!({})).await.problem(409);
    node.post(&format!("/api/v1/runs/{run}/cancel"), Value::Null).await.expect(200);
    node.ended(&run).await;
}

#[tokio::test]
async fn depths_of_queues_are_shown() {
    let node = Node::start().await;
    node.publish(TWO_STEPS).await;
    assert_eq!(node.get("/api/v1/queues").await.expect(200), json!({"items": []}));
    for _ in 0..3 {
        start(&node, "t", json!({"n": 1})).await;
    }
    claim_one(&node, "q").await;
    let two = |queues: &Value| queues["items"] == json!([{"name": "q", "depth": 2}]);
    node.until("/api/v1/queues", two).await;
    let metrics = node.get("/metrics").await.text;
    assert!(metrics.contains("\npunctual_queue_depth{queue=\"q\"} 2\n"), "{metrics}");
}

#[tokio::test]
async fn bad_questions_are_refused_with_their_place() {
    let node = Node::start().await;
    for (body, path) in [
        (json!({"queues": []}), "queues"),
        (json!({"queues": ["q", ""]}), "queues[1]"),
        (json!({"queues": vec!["q"; 101]}), "queues"),
        (json!({"queues": ["q"], "max": 0}), "max"),
        (json!({"queues": ["q"], "max": 1001}), "max"),
        (json!({"queues": ["q"], "wait_seconds": 51}), "wait_seconds"),
        (json!({"queues": ["q"], "wait_seconds": -1}), "wait_seconds"),
        (json!({"queues": ["q"], "lease_seconds": 0}), "lease_seconds"),
        (json!({"queues": ["q"], "lease_seconds": 3601}), "lease_seconds"),
        (json!({"queues": ["q"], "worker": ""}), "worker"),
        (json!({"queues": "q"}), "queues"),
        (json!({"queues": ["q"], "limit": 1}), "limit"),
    ] {
        let problem = node.post("/api/v1/attempts/claim", body.clone()).await.whole_problem(422);
        assert_eq!(problem["errors"][0]["path"], path, "{body}: {problem}");
    }
    for id in ["x", "x.1", "sched-1-n0-rc0.", "sched-1-n0-rc0.-1", "sched-1-n0-rc0.1"] {
        let attempt = json!({"id": id, "token": 1});
        say(&node, &attempt, "complete", json!({})).await.whole_problem(404);
    }
    let attempt = json!({"id": "sched-1-n0-rc0.1", "token": 1});
    let long = "x".repeat(20_000);
    for body in [
        json!({"error": {"message": long}}),
        json!({"error": {"code": long, "message": "x"}}),
        json!({"error": "x"}),
        json!({}),
    ] {
        say(&node, &attempt, "fail", body).await.whole_problem(422);
    }
    say(&node, &attempt, "heartbeat", json!({"lease_seconds": 0})).await.whole_problem(422);
}

#[tokio::test]
async fn what_another_node_queues_is_found() {
    let ground = Ground::shared();
    let first = Node::start_on(ground.clone(), |options| options.node = "first".into()).await;
    let store = GatedStore::new(ground.open().await);
    let second =
        Node::start_over(ground, store.clone(), |options| options.node = "second".into()).await;
    first.publish(TWO_STEPS).await;
    let starting = async {
        // The claim has looked once, and found nothing.
        tokio::time::timeout(PATIENCE, store.held(1)).await.unwrap();
        start(&first, "t", json!({"n": 1})).await
    };
    let (attempt, run) = tokio::join!(claim_one(&second, "q"), starting);
    assert_eq!(attempt["run_id"], run);
    say(&first, &attempt, "complete", json!({})).await.expect(200);
}

#[tokio::test]
async fn texts_that_no_column_holds_are_kept_all_the_same() {
    let node = Node::start().await;
    node.publish(TWO_STEPS).await;
    let run = start(&node, "t", json!({"n": "a\u{0}b"})).await;
    let first = claim(&node, "q", json!({"worker": "a\u{0}b"})).await.remove(0);
    assert_eq!(first["payload"]["n"], "a\u{0}b");
    let error = json!({"error": {"code": "a\u{0}b", "message": "c\u{0}d"}});
    say(&node, &first, "fail", error).await.expect(200);
    let second = claim(&node, "q", json!({"queues": ["q", "a\u{0}b"]})).await.remove(0);
    say(&node, &second, "complete", json!({"output": "e\u{0}f"})).await.expect(200);
    let shown = node.get(&format!("/api/v1/runs/{run}")).await.expect(200);
    assert_eq!(shown["steps"][0]["output"], "e\u{0}f");
}

#[tokio::test]
async fn an_answer_to_a_claim_has_its_limit() {
    let node = Node::start().await;
    node.publish(
        "name: t\nconcurrency: 100\nsteps: [{id: a, type: worker, queue: q, input: '{{ input }}'}]\n",
    )
    .await;
    for n in 0..20 {
        start(&node, "t", json!({"n": n, "text": "x".repeat(250 << 10)})).await;
    }
    let mut seen = Vec::new();
    let mut claims = Vec::new();
    while seen.len() < 20 {
        let claimed = claim(&node, "q", json!({"max": 1000})).await;
        claims.push(claimed.len());
        seen.extend(claimed.iter().map(|attempt| attempt["payload"]["n"].as_u64().unwrap()));
    }
    assert_eq!(claims, [17, 3], "17 payloads of 250 KiB are the first that make 4 MiB");
    assert_eq!(seen, (0..20).collect::<Vec<u64>>());
}
