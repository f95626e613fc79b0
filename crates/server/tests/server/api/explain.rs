//! Explanations of schedules in sentences.

use serde_json::{Value, json};

use crate::harness::{NOOP, Node};

#[tokio::test]
async fn a_schedule_tells_why() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let body = json!({"name": "x", "workflow_id": "nothing", "cron": "0 9 * * *"});
    let path = node.schedule(body).await;
    let sentences = async |query: &str| {
        let told = node.get(&format!("{path}/explain{query}")).await.expect(200);
        let told = told["sentences"].as_array().unwrap().clone();
        told.iter().map(|s| s.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let told = sentences("").await;
    assert!(told[0].ends_with("(x) starts workflow nothing: at 09:00 every day, UTC."), "{told:?}");
    assert!(told[1].starts_with("Next is "), "{told:?}");
    let told = sentences("?at=2020-01-01T00:00:00Z").await;
    assert!(told[1].contains("the schedule was created at"), "{told:?}");
    let told = sentences("?at=2099-01-01T09:00:00Z").await;
    assert_eq!(told[1], "2099-01-01T09:00:00Z is to come.");
    let told = sentences("?at=2099-01-01T10:00:00Z").await;
    assert!(told[1].starts_with("Nothing is due at 2099-01-01T10:00:00Z; the rule's"), "{told:?}");
    let range = json!({"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T23:00:00Z"});
    node.post(&format!("{path}/backfill"), range).await.expect(200);
    node.until(&path, |object| object["run_count"] == 1).await;
    let told = sentences("?at=2026-01-01T09:00:00Z").await;
    assert!(told[1].starts_with("Occurrence 0 of 2026-01-01T09:00:00Z, started as run sched-"));
    assert!(told[1].contains("which succeeded"), "{told:?}");
    node.post(&format!("{path}/pause"), Value::Null).await.expect(200);
    let told = sentences("").await;
    assert!(told[1].starts_with("It is paused: "), "{told:?}");
    assert!(!told.iter().any(|sentence| sentence.starts_with("Next is")), "{told:?}");
}

#[tokio::test]
async fn a_cancelled_run_says_why() {
    let node = Node::start().await;
    node.publish("name: ask\nsteps: [{id: a, type: human_approval, title: Go?}]\n").await;
    let run = node.run("ask").await;
    node.post(&format!("/api/v1/runs/{run}/cancel"), Value::Null).await.expect(200);
    let told = node.get(&format!("/api/v1/runs/{run}/explain")).await.expect(200);
    let first = told["sentences"][0].as_str().unwrap();
    assert!(first.ends_with("it was cancelled (cancelled by anyone)."), "{first}");
}

#[tokio::test]
async fn a_run_that_is_set_aside_says_so_and_what_to_do() {
    let node = Node::start().await;
    node.publish("name: ask\nsteps: [{id: a, type: human_approval, title: Go?}]\n").await;
    let run = node.run("ask").await;
    let body = json!({"name": "x", "workflow_id": "ask", "cron": "0 9 * * *"});
    let schedule = node.schedule(body).await;
    node.until("/api/v1/approvals", |list| list["items"] != json!([])).await;
    let store = node.server.hub().store().clone();
    let key = store.run(run.parse().unwrap()).await.unwrap().unwrap().view.run.key;
    let now = node.server.hub().now();
    store.set_aside(engine::turn::Wakeup::Run(key), "bad state", now).await.unwrap();
    let id = schedule.rsplit('/').next().unwrap().parse().unwrap();
    let what = engine::turn::Wakeup::Schedule(engine::ScheduleId(id));
    store.set_aside(what, "bad state", now).await.unwrap();
    let of_schedule = node.get(&format!("{schedule}/explain")).await.expect(200);
    let told = of_schedule["sentences"][1].as_str().unwrap();
    assert!(told.starts_with("It is set aside since"), "{told}");
    let told = node.get(&format!("/api/v1/runs/{run}/explain")).await.expect(200).to_string();
    for part in ["It is set aside since", "bad state", "punctual doctor --repair"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}
