//! Events: listed and skipped.

use serde_json::{Value, json};

use crate::harness::Node;

use super::{EVENTS, ORDERS, ids, order, publish, shop};

#[tokio::test]
async fn every_event_is_on_one_page() {
    let node = shop().await;
    for names in [["a", "b", "c"], ["d", "e", "f"]] {
        publish(&node, json!(names.map(order))).await.expect(201);
    }
    let all = node.get(&format!("{EVENTS}?order=oldest")).await.expect(200);
    let oldest = ids(&all);
    assert_eq!((all["total"].as_u64(), oldest.len()), (Some(6), 6));
    let latest = ids(&node.get(EVENTS).await.expect(200));
    assert_eq!(latest, oldest.iter().rev().cloned().collect::<Vec<_>>());
    for (order, expected) in [("oldest", &oldest), ("latest", &latest)] {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("{EVENTS}?order={order}&limit=2&cursor={cursor}");
            let page = node.get(&path).await.expect(200);
            seen.extend(ids(&page));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = next.to_owned(),
                None => break,
            }
        }
        assert_eq!(seen, *expected, "{order}");
    }
    for wrong in ["state=new", "order=random", "limit=0", "cursor=x", "sort=asc"] {
        node.get(&format!("{EVENTS}?{wrong}")).await.problem(400);
    }
}

#[tokio::test]
async fn a_pending_event_can_be_skipped_once() {
    let node = shop().await;
    publish(&node, json!([order("a"), order("b")])).await.expect(201);
    let skip = format!("{EVENTS}/a/skip");
    let event = node.post(&skip, json!({"by": "ann"})).await.expect(200);
    assert_eq!((&event["state"], &event["reason"]), (&json!("skipped"), &json!("skipped by ann")));
    let again = node.post(&skip, Value::Null).await.problem(400);
    assert_eq!(again, "Cannot skip event with state 'skipped'.");
    node.post(&format!("{EVENTS}/x/skip"), Value::Null).await.problem(404);
    node.post(&format!("{EVENTS}/b/skip"), json!({"by": ""})).await.problem(422);
    node.post(&format!("{EVENTS}/b/skip"), json!({"who": "ann"})).await.problem(422);
    let skipped = node.get(&format!("{EVENTS}?state=skipped")).await.expect(200);
    assert_eq!((ids(&skipped), &skipped["total"]), (vec!["a".to_owned()], &json!(1)));
    let topic = node.get(ORDERS).await.expect(200);
    assert_eq!((&topic["pending"], &topic["skipped"]), (&json!(1), &json!(1)));
    // Publishing it again replaces its content, and keeps its state.
    let replaced = publish(&node, order("a")).await.expect(201);
    assert_eq!(replaced["replaced"], 1);
    assert_eq!(node.get(&format!("{EVENTS}/a")).await.expect(200)["state"], "skipped");
}

#[tokio::test]
async fn any_message_id_can_be_asked_for() {
    let node = shop().await;
    for (id, path) in [
        ("a/b?c=d#e", "a%2Fb%3Fc%3Dd%23e"),
        ("grün €", "gr%C3%BCn%20%E2%82%AC"),
        ("skip", "skip"),
        ("'; DROP TABLE events;--", "%27%3B%20DROP%20TABLE%20events%3B--"),
    ] {
        publish(&node, order(id)).await.expect(201);
        let found = node.get(&format!("{EVENTS}/{path}")).await.expect(200);
        assert_eq!(found["message_id"], id);
    }
    for unknown in ["a", "%00", "%FF", &"x".repeat(600)] {
        node.get(&format!("{EVENTS}/{unknown}")).await.problem(404);
    }
    assert_eq!(node.get(ORDERS).await.expect(200)["pending"], 4);
}

#[tokio::test]
async fn an_event_for_a_paused_workflow_starts_its_run_after_the_resume() {
    let node = Node::start().await;
    let text = "name: take\ntopics: [orders]\n\
                triggers: [{id: told, type: event, topic: orders}]\n\
                steps: [{id: a, type: noop}]\n";
    node.publish(text).await;
    node.post("/api/v1/workflows/take/pause", json!({})).await.expect(200);
    node.post("/api/v1/topics/orders/events", json!({"message_id": "a"})).await.expect(201);
    let runs = node.get("/api/v1/runs?workflow=take").await.expect(200);
    assert_eq!(runs["items"][0]["status"], "pending", "{runs}");
    let run = runs["items"][0]["id"].as_str().unwrap().to_owned();
    let told = node.get(&format!("/api/v1/runs/{run}/explain")).await.expect(200);
    assert!(told.to_string().contains("until workflow take is resumed"), "{told}");
    node.post("/api/v1/workflows/take/resume", json!({})).await.expect(200);
    assert_eq!(node.ended(&run).await["status"], "succeeded");
}
