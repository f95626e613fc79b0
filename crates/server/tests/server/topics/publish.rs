//! Publishing events.

use reqwest::Method;
use serde_json::{Value, json};

use super::{EVENTS, ORDERS, order, publish, shop};
use crate::harness::{Node, send};

#[tokio::test]
async fn one_or_many_are_published_and_the_same_again_replaces() {
    let node = shop().await;
    let one = publish(&node, order("a")).await.expect(201);
    assert_eq!(one, json!({"published": 1, "replaced": 0}));
    let again = json!([{"messageId": "a", "title": "new"}, order("b"), order("c"), order("b")]);
    assert_eq!(publish(&node, again).await.expect(201), json!({"published": 2, "replaced": 2}));
    assert_eq!(publish(&node, json!([])).await.expect(201)["published"], 0);
    let topic = node.get(ORDERS).await.expect(200);
    for (field, expected) in [
        ("name", json!("orders")),
        ("workflow", json!("shop")),
        ("shared", json!(false)),
        ("pending", json!(3)),
        ("reserved", json!(0)),
        ("consumed", json!(0)),
        ("skipped", json!(0)),
    ] {
        assert_eq!(topic[field], expected, "{field}");
    }
    let event = node.get(&format!("{EVENTS}/a")).await.expect(200);
    assert_eq!(topic["oldest_pending_at"], event["created_at"]);
    for (field, expected) in [
        ("title", json!("new")),
        ("payload", Value::Null),
        ("state", json!("pending")),
        ("attempt", json!(0)),
        ("causes", json!([])),
        ("run_id", Value::Null),
        ("reason", Value::Null),
    ] {
        assert_eq!(event[field], expected, "{field}");
    }
}

#[tokio::test]
async fn what_an_event_says_is_kept_exactly() {
    let node = shop().await;
    let payload = "{\"n\":12345678901234567890.10,\"e\":1E+2,\"z\":\"a\\u0000\\u20ac/\",\"m\":-0}";
    let body =
        format!("{{\"message_id\": \"a\", \"causes\": [\"x\", \"y\"], \"payload\": {payload}}}");
    node.send_as(Method::POST, EVENTS, "application/json", body).await.expect(201);
    let shown = node.get(EVENTS).await;
    assert!(shown.text.contains(&format!("\"payload\":{payload},")), "{}", shown.text);
    assert_eq!(shown.json()["items"][0]["causes"], json!(["x", "y"]));
}

#[tokio::test]
async fn all_or_none_with_mistakes_by_place() {
    let node = shop().await;
    let long = "x".repeat(513);
    let body = json!([
        order("a"),
        {"message_id": "", "title": "x".repeat(201)},
        {"message_id": long, "causes": [""]},
        {"payload": 1},
        {"message_id": "b", "topic": "orders"},
        {"message_id": 7},
        ["c"],
        {"message_id": "nul\u{0}"},
    ]);
    let problem = publish(&node, body).await.whole_problem(422);
    let places: Vec<&str> =
        problem["errors"].as_array().unwrap().iter().map(|e| e["path"].as_str().unwrap()).collect();
    let expected = [
        "[1].message_id",
        "[1].title",
        "[2].message_id",
        "[2].causes[0]",
        "[3].message_id",
        "[4].topic",
        "[5].message_id",
        "[6]",
        "[7].message_id",
    ];
    assert_eq!(places, expected, "{problem}");
    assert_eq!(node.get(ORDERS).await.expect(200)["pending"], 0);
    let one = publish(&node, json!({"payload": 1})).await.whole_problem(422);
    assert_eq!(one["errors"][0]["path"], "message_id");
    for wrong in [json!("a"), json!(7), json!(true)] {
        publish(&node, wrong).await.problem(422);
    }
    let many: Vec<Value> = (0..10_001).map(|n| order(&n.to_string())).collect();
    assert!(publish(&node, json!(many)).await.problem(422).contains("10000"));
    publish(&node, json!(many[..10_000])).await.expect(201);
    assert_eq!(node.get(ORDERS).await.expect(200)["pending"], 10_000);
}

#[tokio::test]
async fn a_key_publishes_once() {
    let node = shop().await;
    let send_with = async |body: Value| {
        let request = node.request(Method::POST, EVENTS).header("idempotency-key", "k");
        send(request.json(&body)).await
    };
    let first = send_with(order("a")).await;
    let again = send_with(order("a")).await;
    assert_eq!(first.expect(201), again.expect(201));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    send_with(order("b")).await.problem(422);
    assert_eq!(node.get(ORDERS).await.expect(200)["pending"], 1);
}

#[tokio::test]
async fn what_is_published_is_counted_and_told() {
    let node = shop().await;
    publish(&node, json!([order("a"), order("b")])).await.expect(201);
    let figures = node.get("/metrics").await;
    let depth = "punctual_topic_events{topic=\"orders\",workflow=\"shop\",state=\"pending\"} 2";
    assert!(figures.text.contains(depth), "{}", figures.text);
    assert!(figures.text.contains("punctual_events_published_total 2"), "{}", figures.text);
}

#[tokio::test]
async fn an_event_starts_what_listens() {
    let node = Node::start().await;
    node.publish(
        "name: heard\ntopics: [orders]\ntriggers: [{id: e, type: event, topic: orders}]\n\
         steps: [{id: a, type: noop}]\n",
    )
    .await;
    publish(&node, order("a")).await.expect(201);
    let event = node.get(&format!("{EVENTS}/a")).await.expect(200);
    assert_eq!(event["state"], "consumed");
    let run = node.ended(event["run_id"].as_str().unwrap()).await;
    assert_eq!((&run["triggered_by"], &run["handler"]), (&json!("event"), &Value::Null));
    assert_eq!(run["input"]["payload"], json!({"of": "a"}));
    let figures = node.get("/metrics").await;
    assert!(figures.text.contains("punctual_events_consumed_total 1"), "{}", figures.text);
}
