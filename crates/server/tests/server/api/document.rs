//! `/openapi.json` has every route, and every route in it answers.

use std::collections::HashSet;

use reqwest::Method;
use serde_json::Value;

use crate::harness::{Node, send};

#[tokio::test]
async fn every_documented_route_answers() {
    let node = Node::start().await;
    let document = node.get("/openapi.json").await.expect(200);
    assert_eq!(document["openapi"].as_str().unwrap().split('.').next(), Some("3"));
    let mut names = HashSet::new();
    let paths = document["paths"].as_object().unwrap();
    let schedules = "GET POST /schedules, POST /schedules/batch, POST /schedules/batch-delete, \
        POST /schedules/batch-control, \
        GET PATCH DELETE /schedules/{id}, POST /schedules/{id}/pause, \
        POST /schedules/{id}/resume, POST /schedules/{id}/enable, POST /schedules/{id}/disable, \
        POST /schedules/{id}/revive, POST /schedules/{id}/trigger, GET /schedules/{id}/next, \
        GET /schedules/{id}/occurrences, GET /schedules/{id}/explain, \
        PUT DELETE /schedules/{id}/occurrences/{nominal}, POST /schedules/{id}/backfill, \
        POST /preview, GET /schedules.ics, GET /stream, GET /nodes, GET /stats, GET /queues, \
        POST /attempts/claim, POST /attempts/{id}/heartbeat, POST /attempts/{id}/complete, \
        POST /attempts/{id}/fail, GET /approvals, POST /approvals/{run_id}/{step_id}/approve, \
        POST /approvals/{run_id}/{step_id}/reject, POST /hooks/{workflow}/{trigger}, \
        GET /topics, GET /topics/{topic}, GET POST /topics/{topic}/events, \
        GET /topics/{topic}/events/{message_id}, POST /topics/{topic}/events/{message_id}/skip, \
        GET /workflows/{id}/mutations";
    for route in schedules.split(", ") {
        let mut words: Vec<&str> = route.split(' ').collect();
        let path = format!("/api/v1{}", words.pop().unwrap());
        for method in words {
            let found = &paths[&path][method.to_lowercase()];
            assert!(found.is_object(), "{method} {path} is missing");
        }
    }
    for (path, operations) in paths {
        for (method, operation) in operations.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{name} is there twice");
            assert!(operation["tags"].is_array(), "{method} {path} has no tag");
            if path.starts_with("/api/") {
                let refused = &operation["responses"]["401"]["content"];
                assert!(refused["application/problem+json"].is_object(), "{method} {path}");
            }
            check(&node, path, method, operation).await;
        }
    }
    references_lead_somewhere(&document, &document);
}

/// An unknown id is not found as a thing, not as a route; each answer is among the documented ones.
async fn check(node: &Node, path: &str, method: &str, operation: &Value) {
    if path == "/api/v1/stream" {
        return;
    }
    let filled = path.replace("{nominal}", "2099-01-01T00:00:00Z");
    let filled: String = filled.split('/').map(fill).collect::<Vec<_>>().join("/");
    let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
    let reply = send(node.request(method.clone(), &filled)).await;
    assert_ne!(reply.status, 405, "{method} {path}");
    assert!(!reply.text.contains("There is no route"), "{method} {path}: {}", reply.text);
    assert!(reply.status < 500, "{method} {path}: {}", reply.text);
    let documented = operation["responses"].as_object().unwrap();
    let known = documented.contains_key(&reply.status.to_string());
    assert!(known, "{method} {path} answers {}: {}", reply.status, reply.text);
}

fn fill(part: &str) -> &str {
    if part.starts_with('{') { "999" } else { part }
}

fn references_lead_somewhere(document: &Value, part: &Value) {
    match part {
        Value::Object(fields) => {
            if let Some(Value::String(to)) = fields.get("$ref") {
                let way = to.strip_prefix('#').unwrap();
                assert!(document.pointer(way).is_some(), "{to} leads nowhere");
            }
            fields.values().for_each(|value| references_lead_somewhere(document, value));
        }
        Value::Array(items) => {
            items.iter().for_each(|value| references_lead_somewhere(document, value));
        }
        _ => {}
    }
}
