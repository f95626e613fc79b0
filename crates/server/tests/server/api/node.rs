//! Health, metrics, access, and unknown routes.

use reqwest::Method;
use server::serve::{Server, ServerOptions, StartError};

use crate::ground::Ground;
use crate::harness::Node;

#[tokio::test]
async fn a_node_is_alive_ready_and_counted() {
    let node = Node::start().await;
    for path in ["/healthz", "/readyz", "/healthz/"] {
        let reply = node.get(path).await;
        assert_eq!((reply.status, &*reply.text), (200, "ok"), "{path}");
    }
    let metrics = node.get("/metrics").await;
    assert_eq!(metrics.status, 200);
    for line in [
        "punctual_schedules{status=\"active\"} 0",
        "punctual_due_backlog 0",
        "punctual_nodes 1",
        "punctual_node_attempts 0",
        "punctual_node_capacity 1000",
        "punctual_reports_refused_total 0",
        "punctual_attempts_taken_over_total 0",
        "punctual_renewals_failed_total 0",
        "punctual_fenced_total 0",
        "# TYPE punctual_lateness_seconds histogram",
    ] {
        assert!(metrics.text.contains(line), "{line} is missing in {}", metrics.text);
    }
    assert!(metrics.text.ends_with("# EOF\n"));
    node.server.stop().await.unwrap();
}

#[tokio::test]
async fn nodes_are_listed() {
    let node = Node::start_with(|options| options.node = "first".to_owned()).await;
    let nodes = node.get("/api/v1/nodes").await.expect(200);
    assert_eq!((&nodes["total"], &nodes["next_cursor"]), (&1.into(), &serde_json::Value::Null));
    let only = &nodes["items"][0];
    assert_eq!((&only["name"], &only["is_this"]), (&"first".into(), &true.into()), "{only}");
    assert_eq!((&only["capacity"], &only["attempts"]), (&1_000.into(), &0.into()), "{only}");
    node.get("/api/v1/nodes?limit=1").await.problem(400);
    node.server.stop().await.unwrap();
}

#[tokio::test]
async fn what_does_not_exist_is_a_problem() {
    let node = Node::start().await;
    assert_eq!(node.get("/nowhere").await.problem(404), "There is no route /nowhere.");
    node.get("/api/v1/nowhere").await.problem(404);
    let reply = node.send(Method::DELETE, "/healthz", serde_json::Value::Null).await;
    reply.problem(405);
    assert_eq!(reply.header("allow"), Some("GET,HEAD"));
}

#[tokio::test]
async fn without_a_token_only_this_machine_is_listened_to() {
    let ground = Ground::new();
    let mut options = ServerOptions::new(ground.open().await);
    options.listen = "0.0.0.0:0".parse().unwrap();
    let Err(error) = Server::start(options).await else { panic!("it has started") };
    assert!(matches!(error, StartError::TokenMissing(_)), "{error}");
    assert!(error.to_string().contains("set a token"));
}
