//! A mutation whose outcome is unknown.

use serde_json::{Value, json};

use crate::harness::Node;

const PAID: &str = "name: paid\ntopics: {bills: {external: true}}\nconsumers:\n  pay:\n    \
    subscribe: [bills]\n    \
    prepare: 'return { reservations: [{ topic: \"bills\", ids: (await ctx.peek(\"bills\", { limit: 1 })).map((bill) => bill.messageId) }] }'\n    \
    mutate: {type: worker, queue: bank}\n    \
    next: 'return null'\n";
const PATH: &str = "/api/v1/workflows/paid";

/// A node with a run whose worker claimed its mutation, and was not heard of again.
async fn suspended() -> (Node, String) {
    let node = Node::start().await;
    node.publish(PAID).await;
    node.post("/api/v1/topics/bills/events", json!({"message_id": "a"})).await.expect(201);
    let claim =
        json!({"queues": ["bank"], "wait_seconds": 30, "worker": "ann", "lease_seconds": 1});
    let claimed = node.post("/api/v1/attempts/claim", claim).await.expect(200);
    let run = claimed["attempts"][0]["run_id"].as_str().unwrap().to_owned();
    let workflow = node.until(PATH, |workflow| workflow["paused"] == true).await;
    let consumer = &workflow["consumers"][0];
    assert_eq!((&consumer["state"], &consumer["run_id"]), (&json!("suspended"), &json!(run)));
    assert!(workflow["on_resume"].as_str().unwrap().contains(&run), "{workflow}");
    assert_eq!(workflow["topics"][0]["reserved"], 1);
    (node, run)
}

async fn mutation(node: &Node) -> Value {
    let listed = node.get(&format!("{PATH}/mutations")).await.expect(200);
    assert_eq!(listed["total"], 1, "{listed}");
    listed["items"][0].clone()
}

#[tokio::test]
async fn a_person_says_that_it_happened() {
    let (node, run) = suspended().await;
    let unknown = mutation(&node).await;
    assert_eq!((&unknown["status"], &unknown["handler"]), (&json!("unknown"), &json!("pay")));
    let shown = node.get(&format!("/api/v1/runs/{run}")).await.expect(200);
    assert_eq!((&shown["status"], &shown["mutation"]), (&json!("suspended"), &unknown));
    assert!(node.post(&format!("{PATH}/resume"), Value::Null).await.problem(409).contains(&run));
    let resolve = format!("/api/v1/runs/{run}/resolve");
    node.post(&resolve, json!({"resolution": "perhaps"})).await.problem(422);
    node.post(&resolve, json!({"resolution": "applied", "by": "ann"})).await.expect(200);
    let ended = node.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let applied = mutation(&node).await;
    assert_eq!((&applied["status"], &applied["said_by"]), (&json!("applied"), &json!("ann")));
    assert_eq!(ended["mutation"]["status"], "applied");
    let workflow = node.get(PATH).await.expect(200);
    assert_eq!(
        (&workflow["paused"], &workflow["topics"][0]["consumed"]),
        (&json!(false), &json!(1))
    );
    node.post(&resolve, json!({"resolution": "applied"})).await.problem(400);
}

#[tokio::test]
async fn a_person_says_to_go_on_without_it() {
    let (node, run) = suspended().await;
    let resolve = format!("/api/v1/runs/{run}/resolve");
    node.post(&resolve, json!({"resolution": "skip", "by": "bob"})).await.expect(200);
    assert_eq!(node.ended(&run).await["status"], "succeeded");
    assert_eq!(mutation(&node).await["status"], "skipped");
    assert_eq!(node.get(PATH).await.expect(200)["paused"], false);
}

#[tokio::test]
async fn a_person_says_that_it_did_not_happen() {
    let (node, run) = suspended().await;
    let resolve = format!("/api/v1/runs/{run}/resolve");
    node.post(&resolve, json!({"resolution": "did_not_happen"})).await.expect(200);
    assert_eq!(mutation(&node).await["status"], "failed");
    let workflow = node.get(PATH).await.expect(200);
    assert_eq!(
        (&workflow["topics"][0]["consumed"], &workflow["topics"][0]["skipped"]),
        (&json!(0), &json!(0))
    );
    node.get("/api/v1/workflows/nobody/mutations").await.problem(404);
}
