//! The trace context that a run passes on to the services it calls.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::HeaderMap;
use serde_json::json;
use tokio::net::TcpListener;

use super::collector::{Collector, named};
use super::{TRACE, called, caller, hex, traced};
use crate::harness::Node;

/// A peer that records the `traceparent` it receives.
async fn peer() -> (String, Arc<Mutex<Vec<Option<String>>>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let heard: Arc<Mutex<Vec<Option<String>>>> = Arc::default();
    let kept = heard.clone();
    let answer = move |headers: HeaderMap| async move {
        let told = headers.get("traceparent").map(|told| told.to_str().unwrap().to_owned());
        kept.lock().unwrap().push(told);
        "{}"
    };
    let router = Router::new().fallback(answer);
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, heard)
}

fn workflow(url: &str) -> String {
    format!(
        "name: out\nsteps:\n  \
         - {{id: ask, type: http, url: '{url}'}}\n  \
         - {{id: own, type: http, url: '{url}', headers: {{Traceparent: mine}}, depends_on: [ask]}}\n  \
         - {{id: tell, type: exec, command: [sh, -c, 'echo $TRACEPARENT'], depends_on: [own]}}\n"
    )
}

#[tokio::test]
async fn requests_and_commands_are_told_the_span_of_their_attempt() {
    let (collector, (url, heard)) = (Collector::start().await, peer().await);
    let node = traced(&collector).await;
    node.publish(&workflow(&url)).await;
    let run = called(&node, "out", &caller()).await;
    let run = node.ended(&run).await;
    assert_eq!(run["status"], "succeeded", "{run}");
    let spans = collector.until(4).await;
    let of = |step: &str| format!("00-{TRACE}-{}-01", hex(&named(&spans, step).span_id));
    let heard = heard.lock().unwrap().clone();
    assert_eq!(heard, [Some(of("ask")), Some("mine".to_owned())]);
    assert_eq!(run["steps"][2]["output"]["stdout"], format!("{}\n", of("tell")));
}

#[tokio::test]
async fn workers_are_told_the_span_of_their_attempt() {
    let collector = Collector::start().await;
    let node = traced(&collector).await;
    node.publish("name: w\nsteps: [{id: do, type: worker, queue: q}]\n").await;
    let run = called(&node, "w", &caller()).await;
    let wanted = json!({"queues": ["q"], "wait_seconds": 30});
    let claimed = node.post("/api/v1/attempts/claim", wanted).await.expect(200);
    let attempt = &claimed["attempts"][0];
    let path = format!("/api/v1/attempts/{}/complete", attempt["id"].as_str().unwrap());
    node.post(&path, json!({"token": attempt["token"], "output": 1})).await.expect(200);
    node.ended(&run).await;
    let spans = collector.until(2).await;
    let told = format!("00-{TRACE}-{}-01", hex(&named(&spans, "do").span_id));
    assert_eq!(attempt["traceparent"], told);
}

#[tokio::test]
async fn a_node_that_traces_nothing_passes_on_what_callers_say() {
    let (url, heard) = peer().await;
    let node = Node::start().await;
    node.publish(&workflow(&url)).await;
    for traceparent in [caller(), String::new()] {
        let run = called(&node, "out", &traceparent).await;
        node.ended(&run).await;
    }
    let mine = Some("mine".to_owned());
    assert_eq!(*heard.lock().unwrap(), [Some(caller()), mine.clone(), None, mine]);
}

#[tokio::test]
async fn webhooks_and_schedules_started_by_hand_are_in_the_trace_of_their_caller() {
    let collector = Collector::start().await;
    let node = traced(&collector).await;
    node.publish("name: h\ntriggers: [{id: call, type: webhook}]\nsteps: [{id: a, type: noop}]\n")
        .await;
    let schedule = json!({"name": "s", "workflow_id": "h", "interval": "1h"});
    let schedule = node.schedule(schedule).await;
    for path in ["/api/v1/hooks/h/call".to_owned(), format!("{schedule}/trigger")] {
        let request = node.request(reqwest::Method::POST, &path).header("traceparent", caller());
        let reply = crate::harness::send(request).await;
        assert!(reply.status < 300, "{path}: {reply:?}");
    }
    let spans = collector.until(4).await;
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE), "{spans:?}");
}
