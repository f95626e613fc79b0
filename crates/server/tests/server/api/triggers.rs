//! Runs started by hand.

use serde_json::{Value, json};

use crate::harness::{NOOP, Node, SLOW};

#[tokio::test]
async fn of_a_thousand_triggers_that_do_not_want_to_wait_one_starts_a_run() {
    let node = Node::start().await;
    node.workflow(SLOW).await;
    let body = json!({"name": "s", "workflow_id": "slow", "cron": "@daily"});
    let path = node.schedule(body).await;
    let trigger = format!("{path}/trigger");
    let replies = futures_util::future::join_all(
        (0..1_000).map(|_| node.post(&trigger, json!({"if_busy": "refuse"}))),
    )
    .await;
    let (started, refused): (Vec<_>, Vec<_>) = replies.iter().partition(|r| r.status == 200);
    assert_eq!(started.len(), 1);
    let run = started[0].json()["run_id"].clone();
    for reply in refused {
        assert!(reply.problem(409).contains(run.as_str().unwrap()));
        assert_eq!(reply.json()["run_id"], run);
    }
    let runs = store::RunQuery { limit: 10, ..store::RunQuery::default() };
    let runs = node.server.hub().store().runs(runs).await.unwrap();
    assert_eq!(runs.items.len(), 1);
    assert_eq!(node.get(&path).await.expect(200)["active"], 1);
}

#[tokio::test]
async fn a_payload_by_hand_is_kept_as_it_is() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let body =
        json!({"name": "p", "workflow_id": "nothing", "cron": "@daily", "payload": {"x": 1}});
    let path = node.schedule(body).await;
    let before = node.get(&path).await.expect(200);
    let request = node.request(reqwest::Method::POST, &format!("{path}/trigger"));
    let request = request
        .header("content-type", "application/json")
        .body(r#"{"payload": {"n": 9007199254740993, "e": 1e400}}"#);
    let object = crate::harness::send(request).await.expect(200);
    assert_eq!(object["next_run_at"], before["next_run_at"], "the next occurrence stays");
    let id = object["run_id"].as_str().unwrap().parse().unwrap();
    let run = node.server.hub().store().run(id).await.unwrap().unwrap().view.run;
    let input = run.input.get();
    assert!(input.contains(r#""payload":{"n": 9007199254740993, "e": 1e400}"#), "{input}");
    node.post("/api/v1/schedules/999/trigger", Value::Null).await.problem(404);
    node.post(&format!("{path}/trigger"), json!({"pay": 1})).await.problem(422);
    let large = json!({"payload": "x".repeat(300_000)});
    assert!(node.post(&format!("{path}/trigger"), large).await.problem(422).contains("256 KiB"));
}

#[tokio::test]
async fn another_life_goes_on_where_the_first_has_stopped() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let body = json!({"name": "s", "workflow_id": "nothing", "cron": "@daily"});
    let path = node.schedule(body).await;
    let trigger = format!("{path}/trigger");
    node.post(&trigger, Value::Null).await.expect(200);
    node.until(&path, |object| object["last_outcome"] == "succeeded").await;
    let before = node.get(&path).await.expect(200);
    let node = node.restart().await;
    assert_eq!(node.get(&path).await.expect(200), before);
    node.post(&trigger, Value::Null).await.expect(200);
}
