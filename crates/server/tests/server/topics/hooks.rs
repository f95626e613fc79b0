//! Webhook calls that are published to a topic.

use serde_json::json;

use crate::harness::{Node, send};

const HOOKED: &str = "name: hooked\ntopics: {calls: {external: true}}\ntriggers:\n\
    - {id: in, type: webhook, publish: calls}\n\
    - {id: made, type: webhook, publish: calls, payload: {n: '{{ input.body.n }}'}}\n\
    - {id: off, type: webhook, publish: calls, enabled: false}\n\
    steps: [{id: a, type: noop}]\n";

#[tokio::test]
async fn a_call_is_an_event() {
    let node = Node::start().await;
    node.publish(HOOKED).await;
    let call = async |trigger: &str, id: Option<&str>, n: u32| {
        let url = node.url(&format!("/api/v1/hooks/hooked/{trigger}"));
        let request = node.client.post(url).json(&json!({"n": n, "more": true}));
        send(match id {
            Some(id) => request.header("webhook-id", id),
            None => request,
        })
        .await
    };
    let new = json!({"published": 1, "replaced": 0});
    let first = call("in", Some("m1"), 1).await;
    assert_eq!(first.expect(202), new);
    let again = call("in", Some("m1"), 1).await;
    assert_eq!(
        (again.expect(202), again.header("idempotency-replayed")),
        (new.clone(), Some("true"))
    );
    assert_eq!(call("made", Some("m2"), 2).await.expect(202), new);
    // Without an id, calls with the same body are the same event.
    assert_eq!(call("in", None, 3).await.expect(202), new);
    assert_eq!(call("in", None, 3).await.expect(202)["replaced"], 1);
    assert!(call("off", None, 4).await.problem(409).contains("nothing was published"));
    call("in", Some(&"x".repeat(600)), 5).await.problem(422);
    let events = node.get("/api/v1/topics/calls/events?order=oldest").await.expect(200);
    assert_eq!(events["total"], 3);
    assert_eq!(events["items"][0]["payload"], json!({"n": 1, "more": true}));
    assert_eq!(events["items"][1]["payload"], json!({"n": 2}));
    assert_eq!(node.get("/api/v1/runs?workflow=hooked").await.expect(200)["total"], 0);
    node.post("/api/v1/workflows/hooked/archive", json!({})).await.expect(200);
    call("in", Some("m3"), 6).await.problem(404);
}
