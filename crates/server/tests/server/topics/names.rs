//! Which topic a name means.

use serde_json::{Value, json};

use super::{SHOP, order};
use crate::harness::Node;

const OTHER: &str =
    "name: other\ntopics: {orders: {external: true}}\nsteps: [{id: a, type: noop}]\n";
const EVERYONES: &str =
    "name: all\ntopics: {orders: {shared: true, external: true}}\nsteps: [{id: a, type: noop}]\n";

async fn pending(node: &Node, query: &str) -> Value {
    node.get(&format!("/api/v1/topics/orders{query}")).await.expect(200)["pending"].clone()
}

#[tokio::test]
async fn a_name_that_several_have_needs_a_workflow_unless_one_is_shared() {
    let node = Node::start().await;
    let events = "/api/v1/topics/orders/events";
    node.get("/api/v1/topics/orders").await.problem(404);
    node.post(events, order("a")).await.problem(404);
    node.publish(SHOP).await;
    node.post(events, order("a")).await.expect(201);
    node.publish(OTHER).await;
    for (path, body) in [("", None), ("/events", None), ("/events/a", None), ("/events", Some(1))] {
        let path = format!("/api/v1/topics/orders{path}");
        let reply = match body {
            None => node.get(&path).await,
            Some(_) => node.post(&path, order("b")).await,
        };
        let told = reply.problem(409);
        assert!(told.contains("other, shop") || told.contains("shop, other"), "{told}");
        assert!(told.contains("?workflow=NAME"), "{told}");
    }
    node.post(&format!("{events}?workflow=other"), order("b")).await.expect(201);
    node.post(&format!("{events}?workflow=other"), order("c")).await.expect(201);
    assert_eq!(
        (pending(&node, "?workflow=shop").await, pending(&node, "?workflow=other").await),
        (json!(1), json!(2))
    );
    node.get("/api/v1/topics/orders?workflow=nobody").await.problem(404);
    node.publish(EVERYONES).await;
    assert_eq!(pending(&node, "").await, 0);
    assert_eq!(pending(&node, "?workflow=all").await, 0);
    assert_eq!(pending(&node, "?workflow=other").await, 2);
    let listed = node.get("/api/v1/topics?name=orders").await.expect(200);
    assert_eq!(listed["total"], 3);
    for topic in listed["items"].as_array().unwrap() {
        let by_id = format!("/api/v1/topics/{}", topic["id"].as_str().unwrap());
        assert_eq!(node.get(&by_id).await.expect(200), *topic);
    }
    let of_shop = node.get("/api/v1/topics?workflow=shop&limit=1").await.expect(200);
    assert_eq!((&of_shop["total"], &of_shop["items"][0]["pending"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn topics_are_listed_page_by_page() {
    let node = Node::start().await;
    let topics: Vec<String> = (0..7).map(|n| format!("t{n}: {{external: true}}")).collect();
    let text =
        format!("name: many\ntopics: {{{}}}\nsteps: [{{id: a, type: noop}}]\n", topics.join(", "));
    node.publish(&text).await;
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = node.get(&format!("/api/v1/topics?limit=3&cursor={cursor}")).await.expect(200);
        let items = page["items"].as_array().unwrap();
        seen.extend(items.iter().map(|topic| topic["name"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, (0..7).map(|n| format!("t{n}")).collect::<Vec<_>>());
    node.get("/api/v1/topics?name=%27").await.problem(400);
    node.get("/api/v1/topics?nam=t1").await.problem(400);
}
