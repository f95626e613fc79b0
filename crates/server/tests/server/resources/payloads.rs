//! What expressions and scripts see of a payload and of the run, and payloads that do not match the
//! workflow's input schema.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Node, send};

const RUNS: &str = "/api/v1/workflows/t/runs";

async fn ran(node: &Node, payload: Value) -> Value {
    let started = node.post(RUNS, json!({ "payload": payload })).await.expect(201);
    node.ended(started["id"].as_str().unwrap()).await
}

#[tokio::test]
async fn the_input_is_the_payload_in_templates_conditions_and_scripts() {
    let node = Node::start().await;
    node.publish(
        "name: t\nsteps:\n\
         - {id: script, type: script, script: 'return [input.amount, input.payload.amount, Object.keys(input), run.triggered_by]'}\n\
         - {id: only, type: noop, condition: input.amount > 3, depends_on: script}\n\
         - {id: each, type: for_each, items: '{{ input.list }}', step: {type: script, script: 'return [item, index]'}}\n\
         outputs:\n\
         - {name: new, source: '{{ input.amount }}'}\n\
         - {name: old, source: '{{ input.payload.amount }}'}\n\
         - {name: own, source: '{{ input.payload }}'}\n\
         - {name: script, source: '{{ steps.script.output }}'}\n\
         - {name: only, source: '{{ steps.only.status }}'}\n\
         - {name: each, source: '{{ steps.each.output }}'}\n\
         - {name: by, source: '{{ run.triggered_by }} {{ run.schedule_id is none }} {{ run.merged }}'}\n",
    )
    .await;
    let run = ran(&node, json!({"amount": 4, "list": ["x"]})).await;
    assert_eq!(run["status"], "succeeded", "{run}");
    let output = &run["output"];
    assert_eq!((&output["new"], &output["old"]), (&json!(4), &json!(4)));
    assert_eq!(output["own"], json!({"amount": 4, "list": ["x"]}));
    assert_eq!(output["script"], json!([4, 4, ["amount", "list"], "manual"]));
    assert_eq!((&output["only"], &output["by"]), (&json!("completed"), &json!("manual true 0")));
    assert_eq!(output["each"], json!([["x", 0]]));
}

#[tokio::test]
async fn a_payload_with_a_key_of_that_name_keeps_it() {
    let node = Node::start().await;
    node.publish(
        "name: t\nsteps: [{id: s, type: script, script: 'return input.payload'}]\n\
         outputs: [{name: template, source: '{{ input.payload }}'}, {name: script, source: '{{ steps.s.output }}'}]\n",
    )
    .await;
    let run = ran(&node, json!({"payload": 7, "other": 1})).await;
    assert_eq!(run["output"], json!({"template": 7, "script": 7}), "{run}");
}

#[tokio::test]
async fn a_scheduled_run_names_its_schedule() {
    let node = Node::start().await;
    node.publish(
        "name: t\nsteps: [{id: cat, type: exec, command: [cat]}]\n\
         outputs: [{name: run, source: '{{ run }}'}, {name: given, source: '{{ steps.cat.output.stdout }}'}]\n",
    )
    .await;
    let of = node
        .schedule(json!({"name": "Daily report", "workflow_id": "t", "interval": "1d", "payload": {"a": 1}}))
        .await;
    let started = node.post(&format!("{of}/trigger"), json!({})).await.expect(200);
    let id = &started["id"];
    let run = node.ended(started["run_id"].as_str().unwrap()).await;
    let seen = &run["output"]["run"];
    let mut known = language::expression::OF_A_RUN.to_vec();
    known.sort_unstable();
    let shown: Vec<&String> = seen.as_object().unwrap().keys().collect();
    assert_eq!(shown, known, "what may be named is what is there");
    assert_eq!((&seen["schedule_id"], &seen["schedule_name"]), (id, &json!("Daily report")));
    let given: Value = serde_json::from_str(run["output"]["given"].as_str().unwrap()).unwrap();
    assert_eq!(given["schedule_name"], "Daily report");
    assert_eq!((&given["schedule_id"], &given["payload"]), (id, &json!({"a": 1})));
}

const EXPECTS: &str = "name: t\ntopics: [asked]\n\
    input: {type: object, required: [amount], properties: {amount: {type: number, minimum: 1}}}\n\
    triggers: [{id: hook, type: webhook}, {id: event, type: event, topic: asked}]\n\
    steps: [{id: a, type: noop}]\noutputs: [{name: amount, source: '{{ input.amount }}'}]\n";

#[tokio::test]
async fn a_payload_that_is_not_expected_is_refused_wherever_somebody_gives_it() {
    let node = Node::start().await;
    node.publish(EXPECTS).await;
    let started = node.post(RUNS, json!({"payload": {"amount": 2}})).await.expect(201);
    assert_eq!(node.ended(started["id"].as_str().unwrap()).await["output"]["amount"], 2);
    let refused = |reply: crate::harness::Reply, path: &str, code: &str| {
        let problem = reply.whole_problem(422);
        let error = &problem["errors"][0];
        assert_eq!((&error["path"], &error["code"]), (&json!(path), &json!(code)), "{problem}");
    };
    refused(node.post(RUNS, json!({})).await, "payload.amount", "missing");
    refused(node.post(RUNS, json!({"payload": {"amount": "2"}})).await, "payload.amount", "type");
    refused(node.post(RUNS, json!({"payload": [1]})).await, "payload", "type");
    let schedule = |payload: Value| json!({"name": "s", "workflow_id": "t", "interval": "1d", "payload": payload});
    let reply = node.post("/api/v1/schedules", schedule(json!({"amount": 0}))).await;
    refused(reply, "payload.amount", "range");
    let of = node.schedule(schedule(json!({"amount": 1}))).await;
    refused(node.patch(&of, json!({"payload": {}})).await, "payload.amount", "missing");
    let reply = node.post(&format!("{of}/trigger"), json!({"payload": {"amount": false}})).await;
    refused(reply, "payload.amount", "type");
    let request = node.request(Method::POST, "/api/v1/hooks/t/hook");
    let hook = send(request.json(&json!({"amount": "x"}))).await;
    refused(hook, "payload.amount", "type");
    assert_eq!(node.get("/api/v1/runs?workflow=t").await.expect(200)["total"], 1);
}

#[tokio::test]
async fn where_nobody_can_be_told_the_run_fails_at_once_and_is_not_tried_again() {
    let node = Node::start().await;
    node.publish(EXPECTS).await;
    let event = json!({"message_id": "a", "payload": {"amount": "much"}});
    node.post("/api/v1/topics/asked/events", event).await.expect(201);
    let runs = node.until("/api/v1/runs?workflow=t&status=failed", |page| page["total"] == 1).await;
    let error = &runs["items"][0]["error"];
    assert_eq!(error["code"], "input", "{runs}");
    let said = "not what the workflow expects: payload.amount: expected a number, found a text";
    assert_eq!(error["message"], said);
    assert_eq!(node.get("/api/v1/runs?workflow=t").await.expect(200)["total"], 1);
    let page = node.get("/workflows/t/run").await;
    assert!(page.text.contains("(required)"), "{}", page.text);
}
