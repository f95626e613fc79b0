//! Processes that wait for workers, people and callers.

mod agents;
mod approvals;
mod attempts;
mod hooks;

use serde_json::{Value, json};

use crate::harness::{Node, Reply};

/// Two steps for workers, one after the other.
const TWO_STEPS: &str = "name: t\nconcurrency: 1000\nsteps:\n\
    - {id: a, type: worker, queue: q, input: {n: '{{ input.n }}'}, retry: {max: 2, delay: 10ms}}\n\
    - {id: b, type: worker, queue: r, depends_on: [a]}\n";

async fn claim(node: &Node, queue: &str, more: Value) -> Vec<Value> {
    let mut body = json!({"queues": [queue], "wait_seconds": 30, "worker": "ann"});
    for (name, value) in more.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    let claimed = node.post("/api/v1/attempts/claim", body).await.expect(200);
    claimed["attempts"].as_array().unwrap().clone()
}

/// Claims the one attempt that is queued, or will be.
async fn claim_one(node: &Node, queue: &str) -> Value {
    let mut attempts = claim(node, queue, Value::Null).await;
    assert_eq!(attempts.len(), 1, "{attempts:?}");
    attempts.remove(0)
}

/// Sends a heartbeat or report of an attempt, with its token.
async fn say(node: &Node, attempt: &Value, verb: &str, mut body: Value) -> Reply {
    body["token"] = attempt["token"].clone();
    let id = attempt["id"].as_str().unwrap();
    node.post(&format!("/api/v1/attempts/{id}/{verb}"), body).await
}

/// Starts the workflow with this payload, and returns the run's id.
async fn start(node: &Node, workflow: &str, payload: Value) -> String {
    let path = format!("/api/v1/workflows/{workflow}/runs");
    let run = node.post(&path, json!({ "payload": payload })).await.expect(201);
    run["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_run_leads_to_those_it_has_started() {
    let node = Node::start().await;
    node.publish("name: child\nsteps: [{id: a, type: noop}]\n").await;
    node.publish("name: t\nsteps: [{id: a, type: sub_process, workflow: child}]\n").await;
    let run = start(&node, "t", Value::Null).await;
    let run = node.ended(&run).await;
    assert_eq!(run["status"], "succeeded", "{run}");
    let children = node.get(run["children"].as_str().unwrap()).await.expect(200);
    assert_eq!(children["total"], 1);
    let child = &children["items"][0];
    assert_eq!((&child["workflow"], &child["parent"]), (&json!("child"), &run["id"]));
}

#[tokio::test]
async fn the_schema_of_definitions_is_for_everyone() {
    let node = Node::start_with(|options| options.token = Some("sesame".to_owned())).await;
    let anyone = node.client.get(node.url("/schema.json"));
    let schema = crate::harness::send(anyone).await.expect(200);
    assert!(schema["$schema"].as_str().unwrap().contains("2020-12"), "{schema}");
    assert!(schema["$defs"]["worker_step"].is_object(), "{schema}");
}
