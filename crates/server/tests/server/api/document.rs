//! `/openapi.json` lists every route, and every listed route answers.

use std::collections::HashSet;

use reqwest::Method;
use serde_json::{Value, json};

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
            described(&format!("{method} {path}"), operation);
            check(&node, path, method, operation).await;
        }
    }
    references_lead_somewhere(&document, &document);
}

/// Client generators treat a field with a default as always present, so clients would have to send
/// it.
#[tokio::test]
async fn nothing_that_a_request_sends_has_a_default() {
    let node = Node::start().await;
    let document = node.get("/openapi.json").await.expect(200);
    let bodies = document["paths"].as_object().unwrap().values();
    let bodies = bodies.flat_map(|operations| operations.as_object().unwrap().values());
    let mut open: Vec<&Value> = bodies.map(|operation| &operation["requestBody"]).collect();
    let mut known = HashSet::new();
    while let Some(value) = open.pop() {
        if let Some(name) = value["$ref"].as_str().and_then(|to| to.rsplit('/').next())
            && known.insert(name.to_owned())
        {
            open.push(&document["components"]["schemas"][name]);
        }
        for (name, property) in value["properties"].as_object().into_iter().flatten() {
            assert_eq!(property.get("default"), None, "{name}: {property}");
        }
        open.extend(value.as_object().into_iter().flat_map(|fields| fields.values()));
        open.extend(value.as_array().into_iter().flatten());
    }
    for name in ["ScheduleInput", "PreviewInput", "Claim", "FailedBy", "Heartbeat", "Range"] {
        assert!(known.contains(name), "{name}: {known:?}");
    }
    let lease = &document["components"]["schemas"]["Claim"]["properties"]["lease_seconds"];
    assert!(lease["description"].as_str().unwrap().ends_with("If left out: `30`."), "{lease}");
}

/// Every response has a description: validators refuse a document without.
fn described(operation: &str, declared: &Value) {
    for (status, response) in declared["responses"].as_object().unwrap() {
        let said = response["description"].as_str().unwrap_or_default();
        assert!(!said.is_empty(), "{operation}: {status} is not described");
        let is_problem = status.starts_with('4') || status.starts_with('5');
        for kind in response["content"].as_object().into_iter().flatten().map(|(kind, _)| kind) {
            assert_eq!(
                is_problem,
                kind == "application/problem+json",
                "{operation}: {status} {kind}"
            );
        }
    }
    for parameter in declared["parameters"].as_array().into_iter().flatten() {
        let said = parameter["description"].as_str().unwrap_or_default();
        assert!(!said.is_empty(), "{operation}: {parameter} is not described");
        let kinds = &parameter["schema"]["type"];
        assert!(!kinds.is_array(), "{operation}: {parameter} is never null");
    }
}

/// The access that each route needs is in the document as in the table of rules.
#[tokio::test]
async fn access_is_named_and_public_routes_are_marked() {
    let node = Node::start_with(|options| options.token = Some("t".repeat(40))).await;
    let document = node.get("/openapi.json").await.expect(200);
    let schemes = &document["components"]["securitySchemes"];
    assert_eq!(schemes["token"]["scheme"], "bearer");
    assert_eq!(schemes["session"]["in"], "cookie");
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let security = operation["security"].as_array().unwrap();
            for named in security.iter().flat_map(|one| one.as_object().unwrap().keys()) {
                assert!(schemes[named].is_object(), "{method} {path}: {named}");
            }
            if path == "/api/v1/stream" {
                continue;
            }
            let filled: String = path.split('/').map(fill).collect::<Vec<_>>().join("/");
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let reply = send(node.client.request(method.clone(), node.url(&filled))).await;
            assert_eq!(reply.status != 401, security.is_empty(), "{method} {path}: {}", reply.text);
        }
    }
}

/// Every field has a description; one without was forgotten.
#[tokio::test]
async fn every_field_of_every_body_is_described() {
    let node = Node::start().await;
    let document = node.get("/openapi.json").await.expect(200);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    assert!(schemas.len() > 80, "{}", schemas.len());
    for (name, schema) in schemas {
        let parts = schema["allOf"].as_array().into_iter().flatten();
        for part in parts.chain([schema]) {
            for (field, property) in part["properties"].as_object().into_iter().flatten() {
                let inner = |property: &Value| property["description"].as_str().is_some();
                let behind = property["$ref"].as_str().and_then(|to| document.pointer(&to[1..]));
                let choices = property["oneOf"].as_array().into_iter().flatten();
                let known = inner(property) || behind.is_some_and(inner);
                assert!(known || choices.into_iter().any(inner), "{name}.{field} is not described");
            }
        }
    }
}

/// The responses of a node with some data have no field that is missing in the document.
#[tokio::test]
async fn answers_have_no_fields_that_are_not_documented() {
    let node = Node::start().await;
    let document = node.get("/openapi.json").await.expect(200);
    node.publish(
        "name: whole\nversion: \"1.2\"\nconcurrency: 2\ntopics: [orders]\n\
         triggers: [{id: t, type: schedule, cron: '0 9 * * *'}, {id: w, type: webhook}]\n\
         steps: [{id: a, type: noop}, {id: b, type: human_approval, title: Good?, depends_on: a}]\n",
    )
    .await;
    let schedule = node
        .schedule(json!({
            "name": "n", "workflow_id": "whole", "monthly": { "day": "last", "at": "17:00" },
            "timezone": "Europe/Berlin", "calendar": "DE-BY", "roll": "next", "fit": "hours",
            "start": "2026-01-01T00:00", "end": "2099-01-01T00:00", "spread": "5m",
            "dst": { "gap": "skip" }, "overlap": "queue_all", "queue_limit": 5,
            "catch_up": { "policy": "all", "limit": 3, "pace": "1/10s" }, "total_repeats": 9,
            "max_retries": 2, "retry": { "delay": "5s", "jitter": 0.5 }, "timeout_seconds": 9,
            "payload": [1], "pause_on_failure": true, "retention": "7d", "description": "d",
            "owner": "o",
        }))
        .await;
    let schedule = schedule.rsplit('/').next().unwrap();
    let run = node.run("whole").await;
    node.until("/api/v1/approvals", |page| page["total"] == 1).await;
    let event = json!({ "message_id": "m", "title": "t", "payload": {}, "causes": ["c"] });
    node.post("/api/v1/topics/orders/events", event).await.expect(201);
    let fill = |path: &str| {
        path.replace("/schedules/{id}", &format!("/schedules/{schedule}"))
            .replace("/runs/{id}", &format!("/runs/{run}"))
            .replace("/workflows/{id}", "/workflows/whole")
            .replace("/calendars/{id}", "/calendars/DE-BY")
            .replace("{topic}", "orders")
            .replace("{message_id}", "m")
            .replace("{step}", "a")
    };
    let mut seen = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let answer = &operations["get"]["responses"]["200"]["content"]["application/json"];
        if answer.is_null() || ["/openapi.json", "/schema.json"].contains(&path.as_str()) {
            continue;
        }
        let query = match path.rsplit('/').next() {
            Some("is-working-day" | "next-working-day") => "?date=2026-12-24",
            Some("working-days") => "?from=2026-12-01&to=2026-12-31",
            _ => "",
        };
        let given = node.get(&format!("{}{query}", fill(path))).await.expect(200);
        only_documented(&document, &answer["schema"], &given, path);
        seen += 1;
    }
    assert!(seen > 25, "{seen}");
}

/// All schemas that a value may match: references are followed, and compositions taken apart.
fn parts<'a>(document: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    let (mut found, mut left) = (Vec::new(), vec![schema]);
    while let Some(schema) = left.pop() {
        left.extend(schema["$ref"].as_str().and_then(|to| document.pointer(&to[1..])));
        for kind in ["allOf", "anyOf", "oneOf"] {
            left.extend(schema[kind].as_array().into_iter().flatten());
        }
        found.push(schema);
    }
    found
}

fn only_documented(document: &Value, schema: &Value, given: &Value, place: &str) {
    let parts = parts(document, schema);
    match given {
        Value::Object(fields) => {
            // Without named fields any object is valid, and so is any field of a map.
            let is_open = parts.iter().all(|part| part["properties"].is_null());
            for (name, value) in fields.iter().filter(|_| !is_open) {
                let known = parts.iter().find_map(|part| part["properties"].get(name));
                let known = known.unwrap_or_else(|| panic!("{place}: {name} is not documented"));
                only_documented(document, known, value, &format!("{place} {name}"));
            }
        }
        Value::Array(items) => {
            let known = parts.iter().find_map(|part| part.get("items"));
            for item in items {
                if let Some(known) = known {
                    only_documented(document, known, item, place);
                }
            }
        }
        _ => {}
    }
}

/// An unknown id is reported as a missing object, not as a missing route, and each status is
/// documented.
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
