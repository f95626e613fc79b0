//! Webhook triggers: calls from outside.

use std::sync::Arc;

use reqwest::Method;
use runners::WebhookKey;
use serde_json::{Value, json};
use server::Secrets;

use crate::harness::{Node, Reply, send};

const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const CALLED: &str = "name: t\ntriggers:\n\
    - {id: signed, type: webhook, secret: HOOK}\n\
    - {id: made, type: webhook, secret: HOOK, payload: {n: '{{ input.body.n }}', all: '{{ input.headers }}'}}\n\
    - {id: open, type: webhook}\n\
    - {id: unknown, type: webhook, secret: NOWHERE}\n\
    - {id: unusable, type: webhook, secret: BAD}\n\
    - {id: off, type: webhook, enabled: false}\n\
    - {id: by-hand, type: manual}\n\
    steps: [{id: a, type: noop}]\n";

async fn node() -> Node {
    let variables = [
        ("PUNCTUAL_SECRET_HOOK".into(), format!("{OTHER} {KEY}").into()),
        ("PUNCTUAL_SECRET_BAD".into(), "password".into()),
    ];
    let secrets = Arc::new(Secrets::read(None, variables).unwrap());
    let node = Node::start_with(|options| {
        options.token = Some("sesame".to_owned());
        options.secrets = secrets;
    });
    let node = node.await;
    node.publish(CALLED).await;
    node
}

fn call(node: &Node, trigger: &str, body: &str) -> reqwest::RequestBuilder {
    let url = node.url(&format!("/api/v1/hooks/t/{trigger}"));
    let request = node.client.request(Method::POST, url).body(body.to_owned());
    request.header("content-type", "application/json")
}

async fn signed(node: &Node, trigger: &str, id: &str, body: &str) -> Reply {
    let now = node.server.hub().now().as_second();
    let key: WebhookKey = KEY.parse().unwrap();
    let request = call(node, trigger, body).header("webhook-id", id);
    let request = request.header("webhook-timestamp", now.to_string());
    send(request.header("webhook-signature", key.sign(id, now, body.as_bytes()))).await
}

async fn input(node: &Node, reply: &Reply) -> Value {
    let run = reply.expect(202)["run_id"].as_str().unwrap().to_owned();
    let run = node.ended(&run).await;
    assert_eq!((&run["status"], &run["triggered_by"]), (&json!("succeeded"), &json!("webhook")));
    run["input"]["payload"].clone()
}

#[tokio::test]
async fn a_signed_call_starts_a_run_once() {
    let node = node().await;
    let first = signed(&node, "signed", "msg-1", r#"{"n": 7}"#).await;
    assert_eq!(input(&node, &first).await, json!({"n": 7}));
    let again = signed(&node, "signed", "msg-1", r#"{"n": 7}"#).await;
    assert_eq!(again.expect(202), first.json());
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    signed(&node, "signed", "msg-1", r#"{"n": 8}"#).await.problem(422);
    let elsewhere = signed(&node, "made", "msg-1", r#"{"n": 7}"#).await;
    assert_ne!(elsewhere.expect(202), first.json(), "another trigger has ids of its own");
    let runs = node.get("/api/v1/runs?triggered_by=webhook").await.expect(200);
    assert_eq!(runs["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_payload_is_made_of_body_and_harmless_headers() {
    let node = node().await;
    let made = input(&node, &signed(&node, "made", "1", r#"{"n": [1]}"#).await).await;
    assert_eq!((&made["n"], &made["all"]["webhook-id"]), (&json!([1]), &json!("1")));
    assert!(!made.to_string().contains("v1,"), "the signature is not passed on: {made}");
    let problem = signed(&node, "made", "2", "{}").await.problem(422);
    assert!(problem.contains("n is not defined"), "{problem}");
    signed(&node, "signed", "3", "{").await.problem(400);
    assert_eq!(input(&node, &signed(&node, "signed", "4", "").await).await, Value::Null);
}

#[tokio::test]
async fn whoever_has_no_secret_is_not_let_in() {
    let node = node().await;
    send(call(&node, "signed", "{}")).await.problem(401);
    let forged = call(&node, "signed", "{}")
        .header("webhook-id", "1")
        .header("webhook-timestamp", node.server.hub().now().as_second().to_string())
        .header("webhook-signature", "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    send(forged).await.problem(401);
    // A token does not replace the signature.
    send(call(&node, "signed", "{}").bearer_auth("sesame")).await.problem(401);
    for trigger in ["open", "nothing", "by-hand"] {
        send(call(&node, trigger, "{}")).await.problem(401);
    }
    for (trigger, status) in [("nothing", 404), ("by-hand", 404), ("off", 409)] {
        send(call(&node, trigger, "{}").bearer_auth("sesame")).await.problem(status);
    }
    for trigger in ["unknown", "unusable"] {
        signed(&node, trigger, "1", "{}").await.problem(401);
        // A caller with permission learns that the error is not theirs.
        let said = send(call(&node, trigger, "{}").bearer_auth("sesame")).await.problem(503);
        assert!(!said.contains("NOWHERE") && !said.contains("BAD"), "{said}");
    }
    assert_eq!(node.get("/api/v1/runs").await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn an_open_trigger_takes_texts_and_the_token() {
    let node = node().await;
    let url = node.url("/api/v1/hooks/t/open");
    let plain = node.client.post(url).body("just a text").bearer_auth("sesame");
    let reply = send(plain.header("webhook-id", "1")).await;
    assert_eq!(input(&node, &reply).await, "just a text");
    let large = call(&node, "open", &"x".repeat(1024 * 1024 + 1)).bearer_auth("sesame");
    send(large).await.problem(413);
}

/// A caller without permission does not learn which triggers exist, or what is wrong with a call.
#[tokio::test]
async fn what_is_there_and_what_is_not_answer_alike() {
    let node = node().await;
    let viewer = node.token("vera", &["viewer"]).await;
    let now = node.server.hub().now().as_second().to_string();
    let forged = |trigger: &str, body: &str| {
        let request = call(&node, trigger, body).header("webhook-id", "1");
        let request = request.header("webhook-timestamp", &now);
        request.header("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
    };
    let triggers = ["signed", "made", "open", "unknown", "unusable", "off", "by-hand", "missing"];
    let large = "x".repeat(2 << 20);
    for (body, status) in [("{}", 401), ("no JSON", 401), ("", 401), (large.as_str(), 413)] {
        let mut told = Vec::new();
        for trigger in triggers {
            for request in [call(&node, trigger, body), forged(trigger, body)] {
                let reply = send(request).await;
                assert_eq!(reply.status, status, "{trigger}: {}", reply.text);
                told.push(reply.text);
            }
        }
        let elsewhere = node.url("/api/v1/hooks/no-such-workflow/signed");
        told.push(send(node.client.post(elsewhere).body(body.to_owned())).await.text);
        told.dedup();
        assert_eq!(told.len(), 1, "{told:#?}");
    }
    let mut told = Vec::new();
    for trigger in triggers {
        told.push(send(call(&node, trigger, "{}").bearer_auth(&viewer)).await.problem(403));
    }
    told.dedup();
    assert_eq!(told.len(), 1, "{told:#?}");
}
