//! Approvals: people decide.

use engine::run::RunStatus;
use serde_json::{Value, json};

use super::start;
use crate::harness::Node;

const ASKS: &str = "name: t\nconcurrency: 100\nsteps:\n\
    - {id: may-i, type: human_approval, title: 'Pay {{ input.amount }}?', \
       assignees: '{{ input.who }}', deadline: {within: 2h}}\n\
    - {id: done, type: noop, depends_on: [may-i]}\n";

async fn asked(node: &Node, who: &str) -> String {
    let text = ASKS.replace("'{{ input.who }}'", who);
    node.publish(&text).await;
    let run = start(node, "t", json!({"amount": 7})).await;
    node.run_until(&run, |status| status == RunStatus::Waiting).await;
    run
}

async fn decide(node: &Node, run: &str, verb: &str, body: Value) -> crate::harness::Reply {
    node.post(&format!("/api/v1/approvals/{run}/may-i/{verb}"), body).await
}

#[tokio::test]
async fn what_is_asked_is_shown_and_decided_once() {
    let node = Node::start().await;
    let run = asked(&node, "[ann, bob]").await;
    let page = node.get("/api/v1/approvals").await.expect(200);
    assert_eq!(page["total"], 1);
    let shown = &page["items"][0];
    for (field, expected) in [
        ("run_id", json!(run)),
        ("step_id", json!("may-i")),
        ("workflow", json!("t")),
        ("title", json!("Pay 7?")),
        ("assignees", json!(["ann", "bob"])),
    ] {
        assert_eq!(shown[field], expected, "{shown}");
    }
    assert!(shown["deadline"].is_string(), "{shown}");
    let theirs = decide(&node, &run, "approve", json!({"by": "eve"})).await.problem(403);
    assert!(theirs.contains("ann, bob"), "{theirs}");
    let body = json!({"by": "bob", "comment": "fine\u{0}"});
    assert_eq!(decide(&node, &run, "approve", body).await.expect(200)["id"], run);
    let ended = node.ended(&run).await;
    assert_eq!(ended["status"], "succeeded");
    let output = json!({"decision": "approved", "decided_by": "bob", "comment": "fine\u{0}"});
    assert_eq!(ended["steps"][0]["output"], output);
    decide(&node, &run, "approve", json!({"by": "bob"})).await.problem(409);
    decide(&node, &run, "reject", json!({"by": "bob"})).await.problem(409);
    assert_eq!(node.get("/api/v1/approvals").await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn a_rejection_fails_the_step() {
    let node = Node::start().await;
    let run = asked(&node, "[]").await;
    decide(&node, &run, "reject", json!({"by": "eve", "comment": "too much"})).await.expect(200);
    let ended = node.ended(&run).await;
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("failed"), &json!("rejected")));
    assert_eq!(ended["error"]["message"], "rejected by eve: too much");
}

#[tokio::test]
async fn lists_have_pages_and_whose_they_are() {
    let node = Node::start().await;
    for who in ["[ann]", "[bob]", "[]", "[ann, bob]"] {
        asked(&node, who).await;
    }
    for (query, expected) in [
        ("", 4),
        ("?assignee=ann", 3),
        ("?assignee=bob", 3),
        ("?assignee=eve", 1),
        ("?assignee=%00", 1),
        ("?assignee=%5B%5D", 1),
    ] {
        let page = node.get(&format!("/api/v1/approvals{query}")).await.expect(200);
        assert_eq!(page["items"].as_array().unwrap().len(), expected, "{query}: {page}");
    }
    let first = node.get("/api/v1/approvals?assignee=ann&limit=2").await.expect(200);
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = node.get(&format!("/api/v1/approvals?assignee=ann&limit=2&cursor={cursor}")).await;
    let rest = rest.expect(200);
    assert_eq!(rest["items"].as_array().unwrap().len(), 1);
    assert_eq!(rest["items"][0]["assignees"], json!(["ann", "bob"]));
}

#[tokio::test]
async fn what_cannot_be_decided_is_refused() {
    let node = Node::start().await;
    let run = asked(&node, "[]").await;
    for body in [json!({}), json!({"by": " "}), json!({"by": "x".repeat(300)}), json!({"by": 1})] {
        decide(&node, &run, "approve", body).await.whole_problem(422);
    }
    let long = json!({"by": "ann", "comment": "x".repeat(5_000)});
    let problem = decide(&node, &run, "approve", long).await.whole_problem(422);
    assert_eq!(problem["errors"][0]["path"], "comment");
    let by = json!({"by": "ann"});
    for path in [
        format!("{run}/nobody/approve"),
        "sched-1-n0-rc0/may-i/approve".to_owned(),
        "x/may-i/approve".to_owned(),
    ] {
        node.post(&format!("/api/v1/approvals/{path}"), by.clone()).await.problem(404);
    }
    node.post(&format!("/api/v1/approvals/{run}/done/approve"), by).await.problem(409);
}

const LATE: &str = "name: late\nsteps:\n\
    - {id: may-i, type: human_approval, title: 'Ship it?', assignees: [ann], deadline: {within: 100ms}}\n";

#[tokio::test]
async fn an_approval_that_is_late_makes_its_run_late_and_everything_says_so() {
    let node = Node::start().await;
    node.publish(LATE).await;
    let run = start(&node, "late", Value::Null).await;
    let path = format!("/api/v1/runs/{run}");
    node.until(&path, |object| object["overdue"] == true).await;
    let late = node.get("/api/v1/runs?overdue=true").await.expect(200);
    assert_eq!((&late["items"][0]["id"], &late["total"]), (&json!(run), &json!(1)));
    assert_eq!(node.get("/api/v1/approvals").await.expect(200)["items"][0]["overdue"], true);
    assert_eq!(node.get("/api/v1/stats").await.expect(200)["approvals"], 1);
    let overview = node.get("/").await;
    assert!(
        !overview.text.contains("Everything was done in the time promised"),
        "{}",
        overview.text
    );
    assert!(overview.text.contains("<strong>1</strong><span>need a person</span>"));
    assert!(node.get("/approvals").await.text.contains("overdue"));
    let told = node.get(&format!("{path}/explain")).await.expect(200);
    let told: Vec<&str> =
        told["sentences"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let says = |start: &str, end: &str| {
        let found = told.iter().any(|said| said.starts_with(start) && said.ends_with(end));
        assert!(found, "{start} … {end}: {told:?}");
    };
    says("Step may-i waits for a decision by ann since ", ".");
    says("Step may-i was to be done by ", ", and is overdue.");
    says("At ", ".");
    decide(&node, &run, "approve", json!({"by": "ann"})).await.expect(200);
    let ended = node.ended(&run).await;
    assert_eq!((&ended["status"], &ended["overdue"]), (&json!("succeeded"), &json!(true)));
    assert_eq!(node.get("/api/v1/stats").await.expect(200)["approvals"], 0);
}
