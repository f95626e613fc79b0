//! Producers and consumers in API responses.

use serde_json::{Value, json};

use super::scripts::javascript;
use crate::harness::Node;

const DIGEST: &str = r#"
export default workflow({
  name: "digest",
  topics: ["mail"],
  producers: {
    poll: {
      schedule: { interval: "1h" },
      publishes: ["mail"],
      handler: async (ctx, state) => {
        const n = (state?.n ?? 0) + 1;
        ctx.publish("mail", { messageId: `m${n}`, payload: { n } });
        return { n };
      },
    },
  },
  consumers: {
    read: {
      subscribe: ["mail"],
      prepare: async (ctx) => {
        const mails = await ctx.peek("mail", { limit: 10 });
        return { reservations: [{ topic: "mail", ids: mails.map((mail) => mail.messageId) }] };
      },
      next: async (ctx, prepared, result) => ({ seen: result.status }),
    },
  },
});
"#;

const PATH: &str = "/api/v1/workflows/digest";

/// A node whose producer has run once, and whose consumer has worked on the published event.
async fn worked() -> (Node, Value) {
    let node = Node::start().await;
    javascript(&node, "/api/v1/workflows?publish=true", DIGEST).await.expect(201);
    let is_quiet = |workflow: &Value| {
        let consumer = &workflow["consumers"][0];
        workflow["topics"][0]["consumed"] == 1 && consumer["state"] == "sleeping"
    };
    let workflow = node.until(PATH, is_quiet).await;
    (node, workflow)
}

#[tokio::test]
async fn a_new_producer_runs_at_once_and_its_consumer_works() {
    let (node, workflow) = worked().await;
    let producer = &workflow["producers"][0];
    assert_eq!((&producer["name"], &producer["queued"]), (&json!("poll"), &json!(false)));
    assert_eq!(
        (&producer["last_outcome"], &producer["run_id"]),
        (&json!("succeeded"), &Value::Null)
    );
    assert!(
        producer["next_run_at"].is_string() && producer["last_run_at"].is_string(),
        "{producer}"
    );
    let schedule = format!("/api/v1/schedules/{}", producer["schedule_id"].as_str().unwrap());
    assert_eq!(node.get(&schedule).await.expect(200)["next_run_at"], producer["next_run_at"]);
    let consumer = &workflow["consumers"][0];
    assert_eq!((&consumer["name"], &consumer["wake_on"]), (&json!("read"), &json!(["mail"])));
    assert_eq!((&consumer["pending"], &consumer["last_outcome"]), (&json!(0), &json!("succeeded")));
    assert_eq!((&consumer["failures"], &consumer["retry_at"]), (&json!(0), &Value::Null));
    assert_eq!((&workflow["paused_reason"], &workflow["on_resume"]), (&Value::Null, &Value::Null));
    let event = node.get("/api/v1/topics/mail/events/m1").await.expect(200);
    let run =
        node.get(&format!("/api/v1/runs/{}", event["run_id"].as_str().unwrap())).await.expect(200);
    assert_eq!((&run["handler"], &run["status"]), (&json!("read"), &json!("succeeded")));
    let phases: Vec<&str> =
        run["steps"].as_array().unwrap().iter().map(|step| step["id"].as_str().unwrap()).collect();
    assert_eq!(phases, ["prepare", "next"]);
    assert_eq!((&run["mutation"], &run["triggered_by"]), (&Value::Null, &json!("event")));
    let runs = node.get("/api/v1/runs?workflow=digest").await.expect(200);
    let handlers: Vec<&Value> =
        runs["items"].as_array().unwrap().iter().map(|run| &run["handler"]).collect();
    assert!(handlers.contains(&&json!("poll")) && handlers.contains(&&json!("read")), "{runs}");
}

#[tokio::test]
async fn handlers_are_started_by_hand() {
    let (node, _) = worked().await;
    let runs = format!("{PATH}/runs");
    // While another handler runs, the response would be 202.
    node.until(PATH, |workflow| workflow["consumers"][0]["state"] == "sleeping").await;
    let run = node.post(&runs, json!({"handler": "poll"})).await.expect(201);
    assert_eq!(run["handler"], "poll");
    assert_eq!(node.ended(run["id"].as_str().unwrap()).await["status"], "succeeded");
    let workflow = node.until(PATH, |workflow| workflow["topics"][0]["consumed"] == 2).await;
    assert_eq!(workflow["topics"][0]["pending"], 0);
    node.until(PATH, |workflow| workflow["consumers"][0]["state"] == "sleeping").await;
    let run =
        node.post(&runs, json!({"handler": "read", "payload": {"by": "me"}})).await.expect(201);
    let run = node.ended(run["id"].as_str().unwrap()).await;
    assert_eq!((&run["handler"], &run["triggered_by"]), (&json!("read"), &json!("manual")));
    assert_eq!(run["steps"][1]["status"], "skipped", "{run}");
    node.post(&runs, json!({"handler": "nobody"})).await.problem(404);
    node.post(&runs, json!({"handler": 7})).await.problem(422);
}

#[tokio::test]
async fn a_failure_pauses_and_says_what_resuming_does() {
    let node = Node::start().await;
    let text = "name: broken\ntopics: {mail: {external: true}}\nconsumers:\n  read:\n    \
                subscribe: [mail]\n    prepare: throw new Error('no such thing')\n";
    node.publish(text).await;
    node.post("/api/v1/topics/mail/events", json!({"message_id": "a"})).await.expect(201);
    let path = "/api/v1/workflows/broken";
    let workflow = node.until(path, |workflow| workflow["paused"] == true).await;
    let why = workflow["paused_reason"].as_str().unwrap();
    assert!(why.contains("read") && why.contains("no such thing"), "{why}");
    let overview = node.get("/").await.text;
    assert!(overview.contains("Paused workflows") && overview.contains("no such thing"));
    assert_eq!(node.get("/api/v1/stats").await.expect(200)["paused_workflows"], 1);
    assert!(node.get("/metrics").await.text.contains("\npunctual_workflows_paused 1\n"));
    let then = workflow["on_resume"].as_str().unwrap();
    assert!(then.contains("Consumer read tries again"), "{then}");
    let consumer = &workflow["consumers"][0];
    assert_eq!((&consumer["state"], &consumer["pending"]), (&json!("paused"), &json!(1)));
    assert_eq!(consumer["last_outcome"], "failed");
    let resumed = node.post(&format!("{path}/resume"), Value::Null).await.expect(200);
    assert_eq!(resumed["paused_reason"], Value::Null);
    node.until(path, |workflow| workflow["paused"] == true).await;
}

/// With `if_busy: refuse`, producers are refused like consumers, whichever way they are started.
#[tokio::test]
async fn whoever_does_not_want_to_wait_for_another_handler_is_refused() {
    let node = Node::start().await;
    let producer = "{schedule: {interval: 1d}, handler: {type: worker, queue: q}}";
    node.publish(&format!(
        "name: busy\ntopics: [{{name: o, external: true}}]\n\
         producers: {{one: {producer}, other: {producer}}}\n"
    ))
    .await;
    let path = "/api/v1/workflows/busy";
    let running = |workflow: &Value| workflow["producers"][0]["run_id"].is_string();
    node.until(path, running).await;
    let refuse = json!({"handler": "other", "if_busy": "refuse"});
    let why = node.post(&format!("{path}/runs"), refuse).await.problem(409);
    assert!(why.contains("one handler at a time"), "{why}");
    let schedules = node.get("/api/v1/schedules?workflow_id=1").await.expect(200);
    let other = schedules["items"].as_array().unwrap().iter();
    let mut other = other.map(|one| one["id"].as_str().unwrap());
    let other = other.next_back().unwrap().to_owned();
    let trigger = format!("/api/v1/schedules/{other}/trigger");
    node.post(&trigger, json!({"if_busy": "refuse"})).await.problem(409);
}
