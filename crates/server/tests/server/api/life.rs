//! How schedules end and become active again, and which of their fields cannot be written.

use serde_json::{Value, json};

use crate::harness::{NOOP, Node};

const TRIGGERED: &str = "name: timed\n\
    triggers: [{id: once, type: schedule, at: 2020-01-01T00:00:00Z}]\n\
    steps: [{id: a, type: noop}]\n";

async fn once(node: &Node) -> String {
    node.workflow(NOOP).await;
    let once = json!({"name": "o", "workflow_id": "nothing", "at": "2020-01-01T00:00:00Z"});
    let path = node.schedule(once).await;
    node.until(&path, |object| object["status"] == "done").await;
    path
}

#[tokio::test]
async fn a_changed_schedule_lives_again_and_says_so() {
    let node = Node::start().await;
    let path = once(&node).await;
    let same = node.patch(&path, json!({"description": "d"})).await.expect(200);
    assert_eq!((&same["status"], &same["lives_again"]), (&json!("done"), &Value::Null));
    let patch = json!({"at": "2999-01-01T00:00:00Z"});
    let planned = node.patch(&format!("{path}?dry_run=true"), patch.clone()).await.expect(200);
    let change = json!({"before": "done", "after": "active"});
    assert_eq!(planned["changes"]["status"], change);
    let changed = node.patch(&path, patch).await.expect(200);
    assert_eq!((&changed["status"], &changed["lives_again"]), (&json!("active"), &json!(true)));
    assert_eq!(changed["next_run_at"], "2999-01-01T00:00:00Z");
    let told = node.get(&format!("{path}/explain")).await;
    assert!(told.text.contains("It lives again since"), "{}", told.text);
}

#[tokio::test]
async fn a_plan_says_which_triggers_live_again() {
    let node = Node::start().await;
    node.publish(TRIGGERED).await;
    let triggers = |answer: &Value| answer["triggers"][0].clone();
    let shown = node
        .until("/api/v1/workflows/timed", |workflow| triggers(workflow)["status"] == "done")
        .await;
    let id = triggers(&shown)["schedule_id"].as_str().unwrap().to_owned();
    let plan = async |text: &str| {
        let reply = node.yaml("/api/v1/workflows?publish=true&dry_run=true", text.to_owned()).await;
        triggers(&reply.expect(200))
    };
    let same = plan(TRIGGERED).await;
    assert_eq!((&same["change"], &same["lives_again"]), (&json!("unchanged"), &json!(false)));
    // A time in the past gives no next occurrence.
    let past = plan(&TRIGGERED.replace("2020", "2021")).await;
    assert_eq!((&past["change"], &past["lives_again"]), (&json!("changed"), &json!(false)));
    assert_eq!((&past["status"], &past["next_run_at"]), (&json!("done"), &Value::Null));
    let corrected = TRIGGERED.replace("2020", "2999");
    let planned = plan(&corrected).await;
    assert_eq!((&planned["status"], &planned["lives_again"]), (&json!("active"), &json!(true)));
    node.publish(&corrected).await;
    let schedule = node.get(&format!("/api/v1/schedules/{id}")).await.expect(200);
    assert_eq!(schedule["status"], "active");
    assert_eq!(schedule["next_run_at"], planned["next_run_at"]);
}

#[tokio::test]
async fn what_is_only_shown_is_refused_with_what_changes_it() {
    let node = Node::start().await;
    let path = once(&node).await;
    for (fields, remedy) in [
        (json!({"status": "active"}), "/revive"),
        (json!({"enabled": false}), "/pause"),
        (json!({"run_count": 7}), "leave it out"),
        (json!({"next_run_at": "2999-01-01T00:00:00Z"}), "/occurrences/"),
        (json!({"current_retry": 2}), "/revive"),
        (json!({"workflow_paused": true}), "/workflows/"),
    ] {
        let problem = node.patch(&path, fields.clone()).await.whole_problem(422);
        let told = problem["errors"][0].to_string();
        assert!(told.contains(remedy) && told.contains("read-only"), "{fields}: {told}");
        let mut new = json!({"name": "x", "workflow_id": "nothing", "cron": "@daily"});
        new.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        node.post("/api/v1/schedules", new).await.problem(422);
    }
    // An object may be sent back as it was shown.
    let shown = node.get(&path).await.expect(200);
    let same = json!({"status": shown["status"], "run_count": shown["run_count"], "name": "p"});
    assert_eq!(node.patch(&path, same).await.expect(200)["name"], "p");
}

#[tokio::test]
async fn who_made_it_and_which_trigger_it_stands_for_are_kept() {
    let node = Node::start().await;
    node.publish(TRIGGERED).await;
    let new = |more: Value| {
        let mut new = json!({"name": "s", "workflow_id": "timed", "cron": "@daily"});
        new.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        new
    };
    let made = node.post("/api/v1/schedules", new(json!({"trigger_node_id": "once"}))).await;
    let made = made.expect(201);
    assert_eq!((&made["trigger_node_id"], &made["trigger"]), (&json!("once"), &Value::Null));
    assert!(made["owner"].as_str().is_some_and(|owner| !owner.is_empty()), "{made}");
    let path = format!("/api/v1/schedules/{}", made["id"].as_str().unwrap());
    let kept = node.patch(&path, json!({"description": "d"})).await.expect(200);
    assert_eq!(kept["trigger_node_id"], "once");
    node.patch(&path, json!({"trigger_node_id": "other"})).await.problem(422);
    let unknown = new(json!({"trigger_node_id": "other"}));
    let unknown = node.post("/api/v1/schedules", unknown).await.expect(201);
    assert_eq!(unknown["trigger_node_id"], "other");
    assert_eq!(unknown["warnings"][0]["code"], "unknown-trigger", "{unknown}");
    let owned = node.post("/api/v1/schedules", new(json!({"owner": "ada"}))).await.expect(201);
    assert_eq!(owned["owner"], "ada");
    // The run's input carries the trigger.
    let run = node.post(&format!("{path}/trigger"), Value::Null).await.expect(200);
    let run = node.get(&format!("/api/v1/runs/{}", run["run_id"].as_str().unwrap())).await;
    assert_eq!(run.expect(200)["input"]["trigger_node_id"], "once");
}

#[tokio::test]
async fn what_a_definition_declares_is_disabled_not_deleted() {
    let node = Node::start().await;
    node.publish("name: w\ntriggers: [{id: t, type: schedule, every: 1h}]\nsteps: []\n").await;
    let trigger = async || node.get("/api/v1/workflows/w").await.expect(200)["triggers"][0].clone();
    let id = trigger().await["schedule_id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/schedules/{id}");
    let said = node.delete(&path).await.problem(409);
    assert!(said.contains("/disable") && said.contains("of workflow w."), "{said}");
    let said = node.patch(&path, json!({"enabled": false})).await.problem(409);
    assert!(said.contains(&format!("{path}/disable")), "{said}");
    let many = json!({"schedule_ids": [id]});
    node.post("/api/v1/schedules/batch-delete", many).await.problem(409);
    for (verb, enabled) in [("disable", false), ("enable", true)] {
        let shown = node.post(&format!("{path}/{verb}"), Value::Null).await.expect(200);
        assert_eq!(shown["enabled"], enabled, "{verb}");
        assert_eq!(trigger().await["enabled"], enabled, "{verb}");
    }
}

#[tokio::test]
async fn nothing_comes_of_a_paused_workflow() {
    let node = Node::start().await;
    node.publish("name: w\ntriggers: [{id: t, type: schedule, every: 1h}]\nsteps: []\n").await;
    let workflow = node.get("/api/v1/workflows/w").await.expect(200);
    let path =
        format!("/api/v1/schedules/{}", workflow["triggers"][0]["schedule_id"].as_str().unwrap());
    node.post("/api/v1/workflows/w/pause", Value::Null).await.expect(200);
    let shown = node.get(&path).await.expect(200);
    assert_eq!((&shown["workflow_paused"], &shown["next_run_at"]), (&json!(true), &Value::Null));
    let next = node.get(&format!("{path}/next?count=2")).await.expect(200);
    assert_eq!(next["items"][0]["reason"], "the workflow is paused");
    let workflow = node.get("/api/v1/workflows/w").await.expect(200);
    assert_eq!(workflow["triggers"][0]["next_run_at"], Value::Null);
    let told = node.get(&format!("{path}/explain")).await.text;
    assert!(told.contains("is paused") && !told.contains("Next is"), "{told}");
    assert!(node.get(&path.replace("/api/v1", "")).await.text.contains("workflow paused"));
    assert!(node.get("/schedules").await.text.contains("workflow paused"));
    node.post("/api/v1/workflows/w/resume", Value::Null).await.expect(200);
    assert!(node.get(&path).await.expect(200)["next_run_at"].is_string());
}

#[tokio::test]
async fn death_is_counted_and_first_on_the_overview() {
    let node = Node::start().await;
    // No server listens on this port.
    node.publish(
        "name: w\nsteps: [{id: a, type: http, method: POST, url: \"http://127.0.0.1:1/\"}]\n",
    )
    .await;
    assert!(!node.get("/").await.text.contains("Dead schedules"));
    let new = |name: &str, then: &str| {
        json!({"name": name, "workflow_id": "w", "at": "2020-01-01T00:00:00Z", "max_retries": 0,
            "on_exhausted": then})
    };
    let dies = node.schedule(new("mortal", "die")).await;
    node.until(&dies, |schedule| schedule["status"] == "dead").await;
    let goes_on = node.schedule(new("immortal", "continue")).await;
    let over = node.until(&goes_on, |schedule| schedule["status"] != "active").await;
    assert_eq!((&over["status"], &over["error_count"]), (&json!("done"), &json!(1)));
    let overview = node.get("/").await.text;
    let (dead, figures) = (overview.find("Dead schedules"), overview.find("active schedules"));
    assert!(dead.is_some() && dead < figures, "first: {dead:?} {figures:?}");
    assert!(overview.contains("mortal"));
    let metrics = node.get("/metrics").await.text;
    for line in [
        "punctual_schedule_turnings_total{outcome=\"died\"} 1",
        "punctual_schedule_turnings_total{outcome=\"occurrence_failed\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}
