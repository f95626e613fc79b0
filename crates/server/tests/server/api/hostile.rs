//! Hostile inputs that have hurt other programs.

use std::path::Path;

use reqwest::Method;
use serde_json::Value;

use crate::harness::{NOOP, Node, Reply, send};

const VECTORS: &str = "/work/shared/vectors/hostile.jsonl";

#[tokio::test]
async fn hostile_requests_are_answered_calmly() {
    let beside =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors/hostile.jsonl");
    let Ok(text) = std::fs::read_to_string(beside).or_else(|_| std::fs::read_to_string(VECTORS))
    else {
        println!("SKIPPED: no hostile vectors beside the repository");
        return;
    };
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let vectors = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut tried = 0;
    for vector in vectors.filter(|vector| vector["area"] == "rest") {
        tried += usize::from(attack(&node, &vector).await);
    }
    assert!(tried > 8, "only {tried} were tried");
    assert_eq!(node.get("/readyz").await.text, "ok");
}

/// Whether the vector was tried. Vectors about time and numbers of requests have tests of their
/// own.
async fn attack(node: &Node, vector: &Value) -> bool {
    let what = vector["what"].as_str().unwrap();
    let input = &vector["input"];
    if let Some(route) = input["http"]["route"].as_str().filter(|route| !route.contains("{run}")) {
        let reply = by_route(node, route).await;
        assert!((400..500).contains(&reply.status), "{what}: {} {}", reply.status, reply.text);
        assert!(!reply.text.contains("root:"), "{what}");
        return true;
    }
    let (body, encoding, allowed): (Vec<u8>, Option<&str>, &[u16]) = match what {
        _ if what.contains("100 000 deep") => {
            let text = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
            (text.into_bytes(), None, &[400])
        }
        _ if what.starts_with("JSON numbers") => {
            return numbers(node, input.as_str().unwrap()).await;
        }
        // The head of a gzip bomb: compressed bodies are refused, whatever they contain.
        _ if what.contains("gzip") => (vec![0x1f, 0x8b, 8, 0], Some("gzip"), &[413, 415]),
        _ => return false,
    };
    for path in ["/api/v1/schedules", "/api/v1/schedules/batch", "/api/v1/preview"] {
        let request = node.request(Method::POST, path).header("content-type", "application/json");
        let request = match encoding {
            Some(encoding) => request.header("content-encoding", encoding),
            None => request,
        };
        let reply = send(request.body(body.clone())).await;
        assert!(allowed.contains(&reply.status), "{what} {path}: {} {}", reply.status, reply.text);
    }
    true
}

async fn by_route(node: &Node, route: &str) -> Reply {
    let path =
        route.replace("{list}", "/api/v1/schedules").replace("{log_file}", "/api/v1/runs/999/logs");
    node.get(&path).await
}

async fn numbers(node: &Node, body: &str) -> bool {
    let rest = r#""name": "n", "workflow_id": "nothing", "cron": "@daily", "#;
    let body = body.replacen('{', &format!("{{{rest}"), 1);
    let request = node.request(Method::POST, "/api/v1/schedules");
    let reply = send(request.header("content-type", "application/json").body(body)).await;
    assert_eq!(reply.status, 201);
    assert!(reply.text.contains(r#"{"a":1e400,"b":-0,"c":9007199254740993}"#), "{}", reply.text);
    let all = node.get("/api/v1/schedules").await;
    assert!(all.text.contains(r#"{"a":1e400,"b":-0,"c":9007199254740993}"#));
    true
}
