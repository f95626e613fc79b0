//! Agents at a URL: the node claims their tasks and posts them.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use serde_json::{Value, json};
use server::Secrets;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use super::{claim, start};
use crate::harness::Node;

const TASK: &str = "name: t\nsteps:\n\
    - {id: ask, type: agent_task, agent: reports, message: 'Of {{ input.day }}, {{ secrets.KEY }}', \
       model: small, temperature: 0.5, retry: {max: 3, delay: 10ms}}\n\
    - {id: more, type: agent_task, agent: others, message: hi, depends_on: [ask]}\n";

/// An agent that gives these responses in turn and repeats the last one, and records what it
/// received.
struct Desk {
    url: String,
    heard: Arc<Mutex<Vec<(String, Value)>>>,
}

async fn desk(answers: Vec<(u16, &'static str, &'static str)>) -> Desk {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/tasks", listener.local_addr().unwrap());
    let heard: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
    let known = heard.clone();
    let answer = move |request: Request| async move {
        let key = request.headers()["idempotency-key"].to_str().unwrap().to_owned();
        let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
        let at = {
            let mut known = known.lock().unwrap();
            known.push((key, serde_json::from_slice(&body).unwrap()));
            known.len() - 1
        };
        let (status, kind, body) = answers[at.min(answers.len() - 1)];
        (StatusCode::from_u16(status).unwrap(), [("content-type", kind)], body).into_response()
    };
    tokio::spawn(async move {
        axum::serve(listener, Router::new().fallback(answer)).await.unwrap();
    });
    Desk { url, heard }
}

/// A node whose own egress policy allows nothing on this machine.
async fn node(desk: &Desk) -> Node {
    Node::start_with(|options| {
        options.runners.egress = runners::Egress::default();
        options.agents = vec![format!("reports={}", desk.url).parse().unwrap()];
        let pairs = [("PUNCTUAL_SECRET_KEY".into(), "s3cret-s3cret".into())];
        options.secrets = Arc::new(Secrets::read(None, pairs).unwrap());
    })
    .await
}

const JSON: &str = "application/json";

#[tokio::test]
async fn a_task_is_posted_and_the_answer_is_its_output() {
    let desk = desk(vec![(200, JSON, r#"{"report": [1, 2], "echo": "s3cret-s3cret"}"#)]).await;
    let node = node(&desk).await;
    node.publish(TASK).await;
    let run = start(&node, "t", json!({"day": "Monday"})).await;
    let path = format!("/api/v1/runs/{run}");
    let shown = node.until(&path, |run| run["steps"][0]["status"] == "completed").await;
    assert_eq!(shown["steps"][0]["output"]["report"], json!([1, 2]));
    assert!(!shown.to_string().contains("s3cret-s3cret"), "{shown}");
    let (key, body) = desk.heard.lock().unwrap()[0].clone();
    for (field, expected) in [
        ("agent", json!("reports")),
        ("message", json!("Of Monday, s3cret-s3cret")),
        ("model", json!("small")),
        ("temperature", json!(0.5)),
        ("workflow", json!("t")),
        ("run_id", json!(run)),
        ("step_id", json!("ask")),
        ("attempt", json!(1)),
        ("idempotency_key", json!(key)),
        ("timeout_seconds", json!(300.0)),
    ] {
        assert_eq!(body[field], expected, "{field}: {body}");
    }
    assert_eq!(body["input"]["payload"], json!({"day": "Monday"}));
    // Tasks of an agent without a URL wait for workers.
    assert_eq!(claim(&node, "agent:others", Value::Null).await.len(), 1);
}

#[tokio::test]
async fn what_may_heal_is_tried_again_with_the_same_key() {
    let desk = desk(vec![(503, JSON, "{}"), (429, JSON, "{}"), (200, "text/plain", "done")]).await;
    let node = node(&desk).await;
    node.publish(TASK).await;
    let run = start(&node, "t", json!({"day": 1})).await;
    let path = format!("/api/v1/runs/{run}");
    let shown = node.until(&path, |run| run["steps"][0]["status"] == "completed").await;
    assert_eq!(
        (&shown["steps"][0]["output"], &shown["steps"][0]["attempts"]),
        (&json!("done"), &json!(3))
    );
    let heard = desk.heard.lock().unwrap();
    assert!(heard.len() == 3 && heard.iter().all(|(key, _)| *key == heard[0].0), "{heard:?}");
}

#[tokio::test]
async fn what_is_refused_is_not_tried_again() {
    for status in [400, 409, 451, 302] {
        let desk = desk(vec![(status, JSON, r#"{"why": "no"}"#)]).await;
        let node = node(&desk).await;
        node.publish(TASK).await;
        let run = start(&node, "t", json!({"day": 1})).await;
        let run = node.ended(&run).await;
        assert_eq!(
            (&run["status"], &run["steps"][0]["attempts"]),
            (&json!("failed"), &json!(1)),
            "{run}"
        );
        assert!(run["error"]["message"].as_str().unwrap().contains(&status.to_string()), "{run}");
        assert_eq!(desk.heard.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_task_that_was_being_done_when_its_node_stopped_is_done_again() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (asked, heard) = (Arc::new(Notify::new()), Arc::new(Mutex::new(0)));
    let (tell, count) = (asked.clone(), heard.clone());
    tokio::spawn(async move {
        let answer = move || async move {
            let is_first = {
                let mut count = count.lock().unwrap();
                *count += 1;
                *count == 1
            };
            tell.notify_one();
            if is_first {
                std::future::pending::<()>().await;
            }
            "done"
        };
        axum::serve(listener, Router::new().fallback(answer)).await.unwrap();
    });
    let set = |options: &mut server::serve::ServerOptions| {
        options.agents = vec![format!("reports={url}").parse().unwrap()];
    };
    let first = Node::start_with(set).await;
    first
        .publish("name: t\nsteps: [{id: ask, type: agent_task, agent: reports, message: hi}]\n")
        .await;
    let run = start(&first, "t", Value::Null).await;
    asked.notified().await;
    let Node { server, ground, .. } = first;
    server.stop().await.unwrap();
    let second = Node::start_on(ground, set).await;
    // The second node asks the agent when the first one's lease has ended.
    asked.notified().await;
    let run = second.ended(&run).await;
    assert_eq!(
        (&run["status"], &run["steps"][0]["output"]),
        (&json!("succeeded"), &json!("done")),
        "{run}"
    );
    assert_eq!(*heard.lock().unwrap(), 2);
}
