//! Workers hold only what they have claimed, from the queues that their tokens allow.

use serde_json::{Value, json};

use super::closed;
use crate::harness::Node;

const TWO_QUEUES: &str = "name: t\nconcurrency: 10\nsteps:\n\
    - {id: a, type: worker, queue: mail}\n\
    - {id: b, type: worker, queue: pay}\n";

async fn claim(node: &Node, secret: &str, queues: Value) -> Vec<Value> {
    let body = json!({ "queues": queues, "wait_seconds": 30 });
    let claimed = node.post_with(secret, "/api/v1/attempts/claim", body).await.expect(200);
    claimed["attempts"].as_array().unwrap().clone()
}

#[tokio::test]
async fn an_attempt_belongs_to_the_token_that_claimed_it() {
    let node = closed().await;
    node.publish(TWO_QUEUES).await;
    let (ann, bob) = (node.token("ann", &["worker"]).await, node.token("bob", &["worker"]).await);
    let admin = node.token("ada", &["admin"]).await;
    let run = node.run("t").await;
    let attempt = claim(&node, &ann, json!(["mail"])).await.remove(0);
    let (id, token) = (attempt["id"].as_str().unwrap(), &attempt["token"]);
    let path = |verb: &str| format!("/api/v1/attempts/{id}/{verb}");
    let bodies = [
        ("heartbeat", json!({ "token": token })),
        ("complete", json!({ "token": token, "output": "theirs" })),
        ("fail", json!({ "token": token, "error": { "message": "theirs" } })),
    ];
    for secret in [&bob, &admin] {
        for (verb, body) in &bodies {
            let refused = node.post_with(secret, &path(verb), body.clone()).await.problem(403);
            assert!(refused.contains("another token"), "{verb}: {refused}");
        }
    }
    let shown = node.get(&format!("/api/v1/runs/{run}")).await.expect(200);
    assert_eq!(shown["steps"][0]["status"], "running", "{shown}");
    for (verb, body) in &bodies[..2] {
        node.post_with(&ann, &path(verb), body.clone()).await.expect(200);
    }
}

#[tokio::test]
async fn the_token_of_an_attempt_cannot_be_worked_out() {
    let node = closed().await;
    node.publish(TWO_QUEUES).await;
    let ann = node.token("ann", &["worker"]).await;
    node.run("t").await;
    let mail = claim(&node, &ann, json!(["mail"])).await.remove(0);
    let pay = claim(&node, &ann, json!(["pay"])).await.remove(0);
    let texts = [&mail, &pay].map(|attempt| attempt["token"].as_str().unwrap().to_owned());
    assert!(texts[0] < texts[1], "they are in the order of their attempts: {texts:?}");
    let (number, key) = texts[0].split_once('.').unwrap();
    assert!(key.len() >= 22 && !texts[1].contains(key), "{texts:?}");
    let id = mail["id"].as_str().unwrap();
    let own: u32 = number.parse().unwrap();
    let other_key = format!("{number}.{}", texts[1].split_once('.').unwrap().1);
    for guessed in [json!(own), json!(format!("{number}.")), json!(other_key)] {
        for verb in ["heartbeat", "complete"] {
            let path = format!("/api/v1/attempts/{id}/{verb}");
            let body = json!({ "token": guessed });
            node.post_with(&ann, &path, body).await.problem(409);
        }
    }
    let unread = json!({ "token": [] });
    let path = format!("/api/v1/attempts/{id}/complete");
    let problem = node.post_with(&ann, &path, unread).await.whole_problem(422);
    assert_eq!(problem["errors"][0]["path"], "token", "{problem}");
    node.post_with(&ann, &path, json!({ "token": mail["token"] })).await.expect(200);
}

#[tokio::test]
async fn a_worker_token_can_be_for_some_queues_alone() {
    let node = closed().await;
    node.publish(TWO_QUEUES).await;
    let body = json!({ "name": "mailer", "roles": ["worker"], "queues": ["mail", "agent:x"] });
    let made = node.post("/api/v1/tokens", body).await.expect(201);
    assert_eq!(made["queues"], json!(["mail", "agent:x"]));
    let secret = made["secret"].as_str().unwrap();
    let me = node.get_with(secret, "/api/v1/me").await.expect(200);
    assert_eq!(me["queues"], json!(["mail", "agent:x"]));
    node.run("t").await;
    for queues in [json!(["pay"]), json!(["mail", "pay"]), json!(["Mail"])] {
        let body = json!({ "queues": queues, "wait_seconds": 0 });
        let refused = node.post_with(secret, "/api/v1/attempts/claim", body).await.problem(403);
        assert!(refused.contains("only from: mail, agent:x"), "{refused}");
    }
    assert_eq!(claim(&node, secret, json!(["mail"])).await[0]["queue"], "mail");
    for (body, path) in [
        (json!({ "name": "x", "roles": ["admin", "worker"], "queues": ["q"] }), "queues"),
        (json!({ "name": "x", "roles": ["viewer"], "queues": ["q"] }), "queues"),
        (json!({ "name": "x", "roles": ["worker"], "queues": [] }), "queues"),
        (json!({ "name": "x", "roles": ["worker"], "queues": ["q", ""] }), "queues[1]"),
        (json!({ "name": "x", "roles": ["worker"], "queues": "q" }), "queues"),
    ] {
        let problem = node.post("/api/v1/tokens", body.clone()).await.whole_problem(422);
        assert_eq!(problem["errors"][0]["path"], path, "{body}: {problem}");
    }
    let page = node.get("/tokens").await;
    assert!(page.text.contains("for mail, agent:x"), "{}", page.text);
}
