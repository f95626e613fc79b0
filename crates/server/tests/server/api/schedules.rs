//! Schedules from creation to deletion.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{NOOP, Node};

#[tokio::test]
async fn a_schedule_is_created_as_it_was_written() {
    let node = Node::start().await;
    let workflow = node.workflow(NOOP).await;
    let body = r#"{"name": "n", "workflow_id": "nothing", "cron": "30 2 * * *",
        "timezone": "Europe/Berlin", "description": "d", "owner": "o",
        "payload": {"b": -0, "c": 9007199254740993}}"#;
    let request = node.request(Method::POST, "/api/v1/schedules/");
    let request = request.header("content-type", "application/json").body(body);
    let created = crate::harness::send(request).await;
    let object = created.expect(201);
    let path = created.header("location").unwrap().to_owned();
    assert_eq!(path, format!("/api/v1/schedules/{}", object["id"].as_str().unwrap()));
    for (field, expected) in [
        ("name", json!("n")),
        ("workflow_id", json!(workflow)),
        ("workflow", json!("nothing")),
        ("trigger", json!(null)),
        ("cron", json!("30 2 * * *")),
        ("timezone", json!("Europe/Berlin")),
        ("zone", json!("Europe/Berlin")),
        ("words", json!("at 02:30 every day, Berlin time")),
        ("status", json!("active")),
        ("overlap", json!("skip")),
        ("catch_up", json!("last")),
        ("total_repeats", json!(0)),
        ("max_retries", json!(3)),
        ("timeout_seconds", json!(600)),
        ("run_count", json!(0)),
        ("error_count", json!(0)),
        ("current_repeat", json!(0)),
        ("current_retry", json!(0)),
        ("last_error", json!(null)),
        ("last_run_at", json!(null)),
        ("last_outcome", json!(null)),
        ("active", json!(0)),
        ("queued", json!(0)),
    ] {
        assert_eq!(object[field], expected, "{field}");
    }
    assert!(created.text.contains(r#""payload":{"b": -0, "c": 9007199254740993}"#));
    let next = object["next_run_at"].as_str().unwrap();
    assert!(next.contains("T02:30:00+0"), "{next}");
    assert_eq!(object["next_nominal_at"], object["next_run_at"]);
    assert_eq!(object["warnings"][0]["code"], "dst-gap");
    let shown = node.get(&path).await;
    assert_eq!(shown.expect(200), object);
    assert_eq!(node.get(&format!("{path}/")).await.expect(200), object);
    // An object can be sent back as it was shown, and changes nothing.
    let mut sent = object.clone();
    sent.as_object_mut().unwrap().remove("payload");
    let same = node.patch(&format!("{path}?dry_run=true"), sent).await.expect(200);
    assert_eq!(same["changes"], json!({}));
}

#[tokio::test]
async fn an_interval_begins_one_interval_after_creation() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let path = node
        .schedule(json!({"name": "i", "workflow_id": "nothing", "interval_seconds": 3600}))
        .await;
    let object = node.get(&path).await.expect(200);
    let instant = |field: &str| object[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let after = instant("next_run_at").duration_since(instant("created_at"));
    assert_eq!(after, jiff::SignedDuration::from_hours(1));
}

#[tokio::test]
async fn edits_compute_the_next_time_again() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let path =
        node.schedule(json!({"name": "e", "workflow_id": "nothing", "cron": "0 3 * * *"})).await;
    let before = node.get(&path).await.expect(200);
    let patch = json!({"cron": "0 4 * * *", "description": "later"});
    let shown = node.patch(&format!("{path}?dry_run=true"), patch.clone()).await.expect(200);
    assert_eq!(shown["dry_run"], true);
    assert_eq!(shown["changes"]["cron"], json!({"before": "0 3 * * *", "after": "0 4 * * *"}));
    assert_eq!(shown["changes"]["description"]["after"], "later");
    assert_eq!(shown["changes"]["name"], Value::Null);
    assert_eq!(shown["before"].as_array().unwrap().len(), 5);
    assert_eq!(node.get(&path).await.expect(200), before, "a dry run changes nothing");
    let after = node.patch(&path, patch).await.expect(200);
    assert_eq!(after["cron"], "0 4 * * *");
    assert_eq!(after["next_run_at"], shown["changes"]["next_run_at"]["after"]);
    assert!(after["next_run_at"].as_str().unwrap().ends_with("T04:00:00Z"));
    // Numbers that no program can represent are compared as text.
    let request = node.request(Method::PATCH, &format!("{path}?dry_run=true"));
    let request = request.header("content-type", "application/json");
    let shown = crate::harness::send(request.body(r#"{"payload": {"a": 1e400}}"#)).await;
    let change = r#""changes":{"payload":{"before":null,"after":{"a": 1e400}}}"#;
    assert!(shown.text.contains(change), "{}", shown.text);
    // Null removes a field; a rule replaces the whole rule.
    let after = node.patch(&path, json!({"description": null, "interval": "5m"})).await.expect(200);
    assert_eq!((&after["description"], &after["cron"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn the_states_follow_the_verbs() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let hourly = json!({"name": "s", "workflow_id": "nothing", "cron": "@hourly"});
    let path = node.schedule(hourly).await;
    let tell = async |verb: &str| node.post(&format!("{path}/{verb}"), Value::Null).await;
    for (verb, status, said) in [
        ("resume", 400, "Cannot resume schedule with status 'active'."),
        ("revive", 400, "Cannot revive schedule with status 'active'."),
        ("enable", 400, "Cannot enable schedule with status 'active'."),
        ("pause", 200, "paused"),
        ("pause", 400, "Cannot pause schedule with status 'paused'."),
        ("disable", 400, "Cannot disable schedule with status 'paused'."),
        ("trigger", 200, "paused"),
        ("resume", 200, "active"),
        ("disable", 200, "paused"),
        ("enable/", 200, "active"),
    ] {
        let reply = tell(verb).await;
        match status {
            200 => assert_eq!(reply.expect(200)["status"], said, "{verb}"),
            _ => assert_eq!(reply.problem(status), said, "{verb}"),
        }
    }
    let paused = tell("pause").await.expect(200);
    assert_eq!(paused["next_run_at"], Value::Null);
    let resume = format!("{path}/resume");
    let resumed = node.post(&resume, json!({"catch_up": true})).await.expect(200);
    assert!(resumed["next_run_at"].is_string());
    node.post(&resume, json!({"catchup": true})).await.problem(422);
}

#[tokio::test]
async fn a_schedule_that_is_done_needs_a_future() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let once = json!({"name": "o", "workflow_id": "nothing", "at": "2020-01-01T00:00:00Z"});
    let path = node.schedule(once).await;
    node.until(&path, |object| object["status"] == "done").await;
    let pause = node.post(&format!("{path}/pause"), Value::Null).await;
    assert_eq!(pause.problem(400), "Cannot pause schedule with status 'done'.");
    let revive = node.post(&format!("{path}/revive"), Value::Null).await;
    assert!(revive.problem(409).contains("Change the rule first"));
    let changed = node.patch(&path, json!({"cron": "@daily", "at": null})).await.expect(200);
    assert_eq!(changed["status"], "active", "another rule gives it a future again");
    assert_eq!(changed["run_count"], 1);
    assert_eq!(changed["last_outcome"], "succeeded");
}

#[tokio::test]
async fn schedules_are_deleted_one_by_one_and_together() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        let body = json!({"name": name, "workflow_id": "nothing", "cron": "@daily"});
        let created = node.post("/api/v1/schedules", body).await.expect(201);
        ids.push(created["id"].as_str().unwrap().to_owned());
    }
    let path = format!("/api/v1/schedules/{}", ids[0]);
    let deleted = node.delete(&path).await;
    assert_eq!((deleted.status, &*deleted.text), (204, ""));
    node.delete(&path).await.problem(404);
    node.get(&path).await.problem(404);
    let body =
        json!({"schedule_ids": [ids[1], ids[2].parse::<i64>().unwrap(), "999", "x", ids[0]]});
    node.post("/api/v1/schedules/batch-delete", body).await.expect(204);
    assert_eq!(node.get("/api/v1/schedules").await.expect(200)["total"], 0);
}

#[tokio::test]
async fn some_routes_exist_without_a_version() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let body = json!({"name": "v", "workflow_id": "nothing", "cron": "@daily"});
    let path = node.schedule(body).await.replace("/api/v1/", "/api/");
    assert_eq!(node.get("/api/schedules").await.expect(200)["total"], 1);
    assert_eq!(node.get(&path).await.expect(200)["name"], "v");
    for (verb, status) in [("disable", "paused"), ("enable", "active"), ("trigger", "active")] {
        let reply = node.post(&format!("{path}/{verb}"), Value::Null).await;
        assert_eq!(reply.expect(200)["status"], status);
    }
}

#[tokio::test]
async fn rules_are_previewed_without_creating_anything() {
    let node = Node::start().await;
    let body = json!({"cron": "0 9 * * *", "timezone": "Europe/Berlin", "calendar": "DE",
        "roll": "skip", "count": 3, "after": "2026-12-23T00:00:00Z"});
    let preview = node.post("/api/v1/preview", body).await.expect(200);
    assert_eq!(preview["zone"], "Europe/Berlin");
    assert_eq!(preview["items"][0]["effective_at"], "2026-12-23T09:00:00+01:00");
    assert_eq!(preview["items"][2]["fate"], "skipped");
    assert!(preview["items"][2]["reason"].as_str().unwrap().contains("Christmas"), "{preview}");
    let kept = preview["items"].as_array().unwrap().iter().filter(|row| row["fate"] == "kept");
    assert_eq!(kept.count(), 3);
    for (body, status) in [
        (json!({"cron": "0 25 * * *"}), 422),
        (json!({"cron": "@daily", "count": 0}), 400),
        (json!({"cron": "@daily", "count": 1001}), 400),
        (json!({"cron": "@daily", "after": "soon"}), 422),
        (json!({}), 422),
        (json!([]), 422),
    ] {
        node.post("/api/v1/preview", body).await.problem(status);
    }
}

/// The body printed in the scheduler's documentation, with a trailing slash in the path.
#[tokio::test]
async fn the_printed_example_is_accepted() {
    let node = Node::start().await;
    let workflow = node.publish("name: t\nsteps: [{id: a, type: noop}]\n").await;
    let body = json!({
        "name": "Daily report",
        "workflow_id": workflow.parse::<u64>().unwrap(),
        "trigger_node_id": "trigger_schedule_abc123",
        "interval_seconds": 86400,
        "total_repeats": 0,
        "max_retries": 3,
        "timeout_seconds": 600,
        "trigger_payload": {"report_type": "daily"},
    });
    let created = node.post("/api/v1/schedules/", body).await.expect(201);
    assert_eq!(created["payload"], json!({"report_type": "daily"}));
    assert_eq!(created["warnings"][0]["code"], "unknown-trigger", "{created}");
    let pattern = json!({"name": "p", "workflow_id": workflow, "pattern": "CRON",
        "expression": "0 9 * * MON-FRI", "calendar": "US", "overlap": "QUEUE", "catch_up": "ALL"});
    let created = node.post("/api/v1/schedules/", pattern).await.expect(201);
    assert_eq!((&created["overlap"], &created["catch_up"]), (&json!("queue"), &json!("all")));
}

#[tokio::test]
async fn a_time_in_the_past_says_what_will_happen() {
    let node = Node::start().await;
    node.publish("name: t\nsteps: [{id: a, type: noop}]\n").await;
    let past = json!({"name": "s", "workflow_id": "t", "at": "2020-01-01T09:00:00Z"});
    let preview = json!({"at": "2020-01-01T09:00:00Z"});
    let preview = node.post("/api/v1/preview", preview).await.expect(200);
    assert_eq!(preview["warnings"][0]["code"], "past", "{preview}");
    let created = node.post("/api/v1/schedules", past).await.expect(201);
    assert_eq!(created["warnings"][0]["code"], "past", "{created}");
    let runs =
        node.until("/api/v1/runs?workflow=t&status=succeeded", |page| page["total"] == 1).await;
    assert_eq!(runs["items"][0]["schedule_id"], created["id"], "it runs at once, as it says");
}

#[tokio::test]
async fn what_is_refused_is_said_in_the_words_of_who_wrote_it() {
    let node = Node::start().await;
    node.publish("name: t\nsteps: [{id: a, type: noop}]\n").await;
    for (path, body, said) in [
        (
            "/api/v1/schedules",
            json!({"name": "s", "workflow_id": "t", "interval": "1h", "zone": "Asia/Tokyo"}),
            "timezone",
        ),
        (
            "/api/v1/schedules",
            json!({"name": "s", "workflow_id": "t", "daily": 7}),
            "expected an object",
        ),
        ("/api/v1/attempts/1.1/fail", json!({"error": "x", "token": "t"}), "expected an object"),
        ("/api/v1/schedules/batch-delete", json!({"schedule_ids": {}}), "expected a list"),
    ] {
        let reply = node.post(path, body.clone()).await;
        let problem = reply.problem(422);
        assert!(problem.contains(said) && !problem.contains("struct"), "{body}: {problem}");
        assert!(!problem.contains("it says what has happened"), "{problem}");
    }
}
