//! Batches of schedules: all or none.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{NOOP, Node, send};

const BATCH: &str = "/api/v1/schedules/batch";

fn daily(name: &str) -> Value {
    json!({"name": name, "workflow_id": "nothing", "cron": "@daily"})
}

#[tokio::test]
async fn all_or_none_are_created() {
    let node = Node::start().await;
    let workflow = node.workflow(NOOP).await;
    let mut by_id = daily("b");
    by_id["workflow_id"] = json!(workflow);
    let created = node.post(BATCH, json!([daily("a"), by_id])).await.expect(201);
    assert_eq!(created["created"], 2);
    let id = created["items"][1]["id"].as_str().unwrap();
    let path = format!("/api/v1/schedules/{id}");
    assert_eq!(node.get(&path).await.expect(200)["name"], "b");
    node.post(BATCH, json!({"schedules": [daily("c")]})).await.expect(201);
    node.post(BATCH, json!([])).await.expect(201);

    let mut wrong = vec![daily("d"); 5];
    wrong[1]["workflow_id"] = json!("unknown");
    wrong[3]["cron"] = json!(7);
    wrong[4] = json!("no object");
    let paths = |body: Value| {
        let errors = body["errors"].as_array().unwrap().clone();
        errors.iter().map(|error| error["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let reply = node.post(BATCH, json!(wrong)).await;
    reply.problem(422);
    assert_eq!(paths(reply.json()), ["[1].workflow_id", "[3].cron", "[4]"]);
    // An error that shows only when the timing is built.
    let mut wrong = vec![daily("d"); 4];
    wrong[3]["cron"] = json!("0 25 * * *");
    let reply = node.post(BATCH, json!(wrong)).await;
    reply.problem(422);
    assert_eq!(paths(reply.json()), ["[3].cron"]);
    assert_eq!(node.get("/api/v1/schedules").await.expect(200)["total"], 3);
}

#[tokio::test]
async fn a_batch_is_bounded() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    node.post(BATCH, json!(vec![daily("a"); 10_001])).await.problem(422);
    let reply = node.post(BATCH, json!(vec![json!({"name": ""}); 10_000])).await;
    assert!(reply.problem(422).contains("10000 mistakes in all"), "{}", reply.text);
    assert_eq!(reply.json()["errors"].as_array().unwrap().len(), 100);
    node.post(BATCH, json!(7)).await.problem(422);
    node.post(BATCH, json!({"schedule": []})).await.problem(422);
    for (body, status) in [("[{}", 400), ("", 400), ("[1,]", 400)] {
        let request = node.request(Method::POST, BATCH);
        let request = request.header("content-type", "application/json").body(body);
        send(request).await.problem(status);
    }
    let large = format!("[\"{}\"]", "x".repeat(16 * 1024 * 1024));
    let request = node.request(Method::POST, BATCH).header("content-type", "application/json");
    send(request.body(large)).await.problem(413);
    let created = node.post(BATCH, json!(vec![daily("a"); 10_000])).await.expect(201);
    assert_eq!(created["items"].as_array().unwrap().len(), 10_000);
    assert_eq!(node.get("/api/v1/schedules").await.expect(200)["total"], 10_000);
}

const CONTROL: &str = "/api/v1/schedules/batch-control";

#[tokio::test]
async fn many_are_controlled_each_on_its_own() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    node.post(BATCH, json!([daily("a"), daily("b")])).await.expect(201);
    let done =
        node.post(CONTROL, json!({"schedule_ids": ["1"], "action": "pause"})).await.expect(200);
    assert_eq!(done, json!({"done": 1, "refused": [], "summary": "Paused: 1."}));
    // One is paused already, one is unknown, one cannot be an id: the others are done.
    let ids = json!(["1", 2, "99", "x"]);
    let done =
        node.post(CONTROL, json!({"schedule_ids": ids, "action": "pause"})).await.expect(200);
    assert_eq!(done["done"], 1);
    let refused = done["refused"].as_array().unwrap();
    let ids: Vec<&str> = refused.iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["1", "99", "x"]);
    assert_eq!(refused[0]["detail"], "Cannot pause schedule with status 'paused'.");
    assert_eq!(refused[1]["detail"], "There is no schedule 99.");
    assert!(done["summary"].as_str().unwrap().starts_with("Paused: 1. Refused: 3. 1: Cannot"));
    for (action, status) in [("resume", "active"), ("trigger", "active")] {
        let body = json!({"schedule_ids": ["1", "2"], "action": action});
        assert_eq!(node.post(CONTROL, body).await.expect(200)["done"], 2, "{action}");
        assert_eq!(node.get("/api/v1/schedules/2").await.expect(200)["status"], status);
    }
    node.until("/api/v1/schedules/1", |object| object["active"] == 0).await;
    let body = json!({"schedule_ids": ["1"], "action": "revive"});
    assert_eq!(node.post(CONTROL, body).await.expect(200)["refused"][0]["id"], "1");
    for wrong in [
        json!({"schedule_ids": ["1"], "action": "nonsense"}),
        json!({"schedule_ids": ["1"]}),
        json!({"schedule_ids": vec!["1"; 1_001], "action": "pause"}),
    ] {
        node.post(CONTROL, wrong).await.problem(422);
    }
    assert_eq!(node.get("/api/v1/schedules/1").await.expect(200)["status"], "active");
}

#[tokio::test]
async fn many_are_started_once_with_one_key() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    node.post(BATCH, json!([daily("a"), daily("b")])).await.expect(201);
    for _ in 0..2 {
        let request = node.request(Method::POST, CONTROL).header("Idempotency-Key", "k");
        let body = json!({"schedule_ids": ["1", "2"], "action": "trigger"});
        assert_eq!(send(request.json(&body)).await.expect(200)["done"], 2);
    }
    assert_eq!(node.get("/api/v1/runs").await.expect(200)["total"], 2);
}
