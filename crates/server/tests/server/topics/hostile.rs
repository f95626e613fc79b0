//! Hostile names and bodies.

use reqwest::Method;
use serde_json::{Value, json};

use super::{EVENTS, ORDERS, order, publish, shop};
use crate::harness::Node;

async fn topics(node: &Node) -> Value {
    node.get("/api/v1/topics").await.expect(200)
}

#[tokio::test]
async fn a_name_that_cannot_be_one_is_refused_and_nothing_is_stored() {
    let node = shop().await;
    let before = topics(&node).await;
    let long = "x".repeat(129);
    for name in [
        "x'%3B%20DROP%20TABLE%20events%3B--%00%2F..%2F",
        "%00",
        "a%00b",
        "%2E%2E",
        ".hidden",
        "-rf",
        "a%20b",
        "a%2Fb",
        "gr%C3%BCn",
        "%FF%FE",
        "%E2%80%AE",
        "a%0Ab",
        "%27%20OR%201%3D1",
        &long,
    ] {
        for path in ["", "/events", "/events/a"] {
            let reply = node.get(&format!("/api/v1/topics/{name}{path}")).await;
            assert!([404, 422].contains(&reply.status), "{name}{path}: {}", reply.text);
        }
        let published = node.post(&format!("/api/v1/topics/{name}/events"), order("a")).await;
        assert!([404, 422].contains(&published.status), "{name}: {}", published.text);
    }
    let problem = node.post("/api/v1/topics/a%20b/events", order("a")).await.whole_problem(422);
    assert_eq!(problem["errors"][0]["path"], "topic");
    // A topic named in the body is refused as well.
    let body = json!({"topic": "x'; DROP TABLE events;--\u{0}/../", "payload": {}});
    publish(&node, body).await.problem(422);
    assert_eq!(topics(&node).await, before);
}

#[tokio::test]
async fn what_is_too_large_is_refused_with_its_place() {
    let node = shop().await;
    let just = "x".repeat(256 * 1024 - 2);
    let over = "x".repeat(256 * 1024 - 1);
    publish(&node, json!({"message_id": "just", "payload": just})).await.expect(201);
    let one = publish(&node, json!({"message_id": "a", "payload": over})).await.whole_problem(413);
    assert_eq!(one["errors"][0]["path"], "payload");
    let body = json!([order("a"), {"payload": 1}, {"message_id": "b", "payload": over}]);
    let many = publish(&node, body).await.whole_problem(413);
    assert_eq!(many["errors"][0]["path"], "[2].payload");
    let body = json!({"topic": "orders", "payload": "x".repeat(50_000_000)}).to_string();
    node.send_as(Method::POST, EVENTS, "application/json", body).await.problem(413);
    assert_eq!(node.get(ORDERS).await.expect(200)["pending"], 1);
}

#[tokio::test]
async fn what_cannot_be_read_again_is_not_taken() {
    let node = shop().await;
    for (body, status) in [
        ("", 400),
        ("{", 400),
        ("[{\"message_id\": \"a\"}", 400),
        ("{\"message_id\": \"a\"} x", 400),
        ("{\"message_id\": \"a\", \"messageId\": \"b\"}", 422),
        ("{\"message_id\": \"a\", \"message_id\": \"b\"}", 422),
        ("{\"message_id\": \"a\", \"payload\": \"\\ud800\"}", 422),
        ("{\"message_id\": \"a\", \"payload\": 1e400}", 422),
        ("{\"message_id\": \"a\", \"payload\": NaN}", 400),
        ("{\"message_id\": null}", 422),
        ("[null]", 422),
    ] {
        let reply = node.send_as(Method::POST, EVENTS, "application/json", body).await;
        reply.whole_problem(status);
    }
    let deep =
        format!("{{\"message_id\": \"a\", \"payload\": {}{}}}", "[".repeat(500), "]".repeat(500));
    node.send_as(Method::POST, EVENTS, "application/json", deep).await.problem(400);
    node.send_as(Method::POST, EVENTS, "text/plain", "{\"message_id\": \"a\"}").await.problem(415);
    assert_eq!(node.get(ORDERS).await.expect(200)["pending"], 0);
}
