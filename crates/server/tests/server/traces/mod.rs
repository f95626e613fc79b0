//! Traces: the spans that a collector receives, and the context that is passed on.

mod collector;
mod passing_on;

use std::time::Duration;

use serde_json::json;
use server::TraceTarget;

use crate::ground::Ground;
use crate::harness::{NOOP, Node, send};
use collector::{Collector, attribute, named};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn caller() -> String {
    format!("00-{TRACE}-{SPAN}-01")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn target(collector: &Collector) -> Option<TraceTarget> {
    let target = TraceTarget::read(&collector.url(), Some("x-team=ops"), Some("nightly"));
    Some(target.unwrap())
}

async fn traced(collector: &Collector) -> Node {
    traced_on(Ground::new(), collector).await
}

async fn traced_on(ground: Ground, collector: &Collector) -> Node {
    Node::start_on(ground, |options| options.traces = target(collector)).await
}

/// Starts the workflow with a `traceparent`, and returns the run's id.
async fn called(node: &Node, workflow: &str, traceparent: &str) -> String {
    let path = format!("/api/v1/workflows/{workflow}/runs");
    let request = node.request(reqwest::Method::POST, &path).header("traceparent", traceparent);
    send(request).await.expect(201)["id"].as_str().unwrap().to_owned()
}

/// The value of a metric without labels.
async fn metric(node: &Node, name: &str) -> u64 {
    let text = node.get("/metrics").await.text;
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

const TWO_STEPS: &str = "\
name: two
version: '3'
steps:
  - {id: first, type: noop}
  - {id: second, type: exec, command: [sh, -c, 'echo no >&2; exit 3'], depends_on: [first], retry: {max: 1}}
";

#[tokio::test]
async fn a_run_is_one_trace_with_a_span_for_each_attempt() {
    let collector = Collector::start().await;
    let node = traced(&collector).await;
    node.publish(TWO_STEPS).await;
    let run = node.run("two").await;
    node.ended(&run).await;
    let spans = collector.until(3).await;
    assert_eq!(spans.len(), 3);
    let own = run.replace('-', "");
    assert!(spans.iter().all(|span| hex(&span.trace_id) == own), "{spans:?}");
    let (root, first, second) =
        (named(&spans, "two"), named(&spans, "first"), named(&spans, "second"));
    assert!(root.parent_span_id.is_empty());
    assert_eq!((&first.parent_span_id, &second.parent_span_id), (&root.span_id, &root.span_id));
    assert!(root.start_time_unix_nano <= first.start_time_unix_nano);
    assert!(second.end_time_unix_nano <= root.end_time_unix_nano + 1_000_000);
    for (span, step, attempt) in [(root, None, None), (second, Some("second"), Some("1"))] {
        let of = |key: &str| attribute(span, &format!("punctual.{key}"));
        assert_eq!((of("workflow").as_deref(), of("version").as_deref()), (Some("two"), Some("1")));
        assert_eq!(
            (of("run_id"), of("triggered_by").as_deref()),
            (Some(run.clone()), Some("manual"))
        );
        assert_eq!((of("step").as_deref(), of("attempt").as_deref()), (step, attempt));
        let status = span.status.as_ref().unwrap();
        assert_eq!((status.code, attribute(span, "error.type").as_deref()), (2, Some("exit_code")));
        assert!(status.message.contains("ended with code 3"), "{status:?}");
    }
    assert_eq!(first.status.as_ref().unwrap().code, 1);
    assert_eq!(collector.resource("service.name").as_deref(), Some("nightly"));
    assert_eq!(collector.header("x-team"), "ops");
    assert_eq!(collector.header("content-type"), "application/x-protobuf");
}

#[tokio::test]
async fn the_trace_of_the_caller_is_gone_on_with_and_nonsense_is_not() {
    let collector = Collector::start().await;
    let node = traced(&collector).await;
    node.publish(NOOP).await;
    let run = called(&node, "nothing", &caller()).await;
    node.ended(&run).await;
    let spans = collector.until(2).await;
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE), "{spans:?}");
    assert_eq!(hex(&named(&spans, "nothing").parent_span_id), SPAN);

    let run = called(&node, "nothing", &caller().replace("00-4bf", "01-4bf")).await;
    node.ended(&run).await;
    let spans = collector.until(4).await.split_off(2);
    assert!(spans.iter().all(|span| hex(&span.trace_id) == run.replace('-', "")), "{spans:?}");
}

const ASKING: &str = "\
name: wait
steps:
  - {id: a, type: noop}
  - {id: ask, type: human_approval, title: Go?, depends_on: [a]}
";

#[tokio::test]
async fn a_run_that_survives_its_node_is_still_one_trace() {
    let collector = Collector::start().await;
    let node = traced(&collector).await;
    node.publish(ASKING).await;
    let run = called(&node, "wait", &caller()).await;
    node.until("/api/v1/approvals", |list| list["items"].as_array().is_some_and(|i| !i.is_empty()))
        .await;
    let Node { server, ground, client, .. } = node;
    drop(client);
    server.stop().await.unwrap();
    assert_eq!(collector.spans().len(), 1, "what had ended was sent before the end");

    let node = traced_on(ground, &collector).await;
    let path = format!("/api/v1/approvals/{run}/ask/approve");
    node.post(&path, json!({"by": "ada"})).await.expect(200);
    node.ended(&run).await;
    let spans = collector.until(3).await;
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE), "{spans:?}");
    let root = named(&spans, "wait");
    assert_eq!(named(&spans, "a").parent_span_id, root.span_id);
    assert_eq!(named(&spans, "ask").parent_span_id, root.span_id);
}

#[tokio::test]
async fn a_busy_collector_is_asked_again() {
    let collector = Collector::answering(&[429, 503]).await;
    let node = traced(&collector).await;
    node.publish(NOOP).await;
    let run = node.run("nothing").await;
    node.ended(&run).await;
    collector.until(2).await;
    assert_eq!(collector.requests(), 3);
    assert_eq!(metric(&node, "punctual_spans_dropped_total").await, 0);
}

#[tokio::test]
async fn without_a_collector_nothing_but_spans_is_lost() {
    let collector = Collector::answering(&[400]).await;
    let node = traced(&collector).await;
    node.publish(NOOP).await;
    let run = node.run("nothing").await;
    assert_eq!(node.ended(&run).await["status"], "succeeded");
    while metric(&node, "punctual_spans_dropped_total").await < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(collector);
    let run = node.run("nothing").await;
    assert_eq!(node.ended(&run).await["status"], "succeeded");
    let stopped = tokio::time::timeout(crate::harness::PATIENCE, node.server.stop()).await;
    stopped.unwrap().unwrap();
}

#[tokio::test]
async fn a_child_is_in_the_trace_of_its_parent() {
    let collector = Collector::start().await;
    let node = traced(&collector).await;
    node.publish("name: inner\nsteps: [{id: x, type: noop}]\n").await;
    node.publish("name: outer\nsteps: [{id: call, type: sub_process, workflow: inner}]\n").await;
    let run = node.run("outer").await;
    node.ended(&run).await;
    let spans = collector.until(4).await;
    assert!(spans.iter().all(|span| hex(&span.trace_id) == run.replace('-', "")), "{spans:?}");
    assert_eq!(named(&spans, "inner").parent_span_id, named(&spans, "call").span_id);
}
