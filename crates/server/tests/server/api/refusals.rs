//! Errors in a request are reported with their path.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{NOOP, Node, send};

#[tokio::test]
async fn mistakes_in_a_schedule_have_a_path() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let good = json!({"name": "n", "workflow_id": "nothing", "cron": "@daily"});
    for (change, path, code) in [
        (json!({"cron": "0 25 * * *"}), "cron", "cron-range"),
        (json!({"cron": 5}), "cron", "type"),
        (json!({"timezone": "Europe/Berln"}), "timezone", "zone-unknown"),
        (json!({"calendar": "nowhere"}), "calendar", "calendar-unknown"),
        (json!({"overlap": "sometimes"}), "overlap", "type"),
        (json!({"ovrlap": "skip"}), "ovrlap", "unknown-field"),
        (json!({"name": ""}), "name", "name"),
        (json!({"name": "a\u{0}b"}), "name", "name"),
        (json!({"max_retries": -1}), "max_retries", "type"),
        (json!({"timeout_seconds": 99_999_999_999_u64}), "timeout_seconds", "range"),
        (json!({"workflow_id": "unknown"}), "workflow_id", "unknown"),
        (json!({"workflow_id": 99}), "workflow_id", "unknown"),
        (json!({"workflow_id": null}), "workflow_id", "missing"),
    ] {
        let mut body = good.clone();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let reply = node.post("/api/v1/schedules", body).await;
        reply.problem(422);
        let error = &reply.json()["errors"][0];
        assert_eq!((&error["path"], &error["code"]), (&json!(path), &json!(code)), "{change}");
    }
    let reply =
        node.post("/api/v1/schedules", json!({"name": "n", "workflow_id": "nothing"})).await;
    reply.problem(422);
    let body = json!({"name": "n", "workflow_id": "nothing", "cron": "0 25 * * *"});
    let error = node.post("/api/v1/schedules", body).await.json()["errors"][0].clone();
    assert_eq!(error["message"], "hour 25 is out of range");
    assert_eq!((&error["allowed"], &error["remedy"]), (&json!("0-23"), &json!("0 23 * * *")));
    assert_eq!(error["column"], 3);
    assert_eq!(node.get("/api/v1/schedules").await.expect(200)["total"], 0);
}

#[tokio::test]
async fn bodies_that_cannot_be_read_are_refused() {
    let node = Node::start().await;
    let json = "application/json";
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let large = format!("{{\"name\": \"{}\"}}", "x".repeat(1024 * 1024));
    for (body, content_type, status) in [
        ("", json, 400),
        ("{", json, 400),
        ("{} {}", json, 400),
        ("{\"a\": 01}", json, 400),
        ("[]", json, 422),
        ("null", json, 422),
        ("{\"name\": \"a\", \"name\": \"b\"}", json, 422),
        (&deep, json, 400),
        (&large, json, 413),
        ("{}", "text/plain", 415),
        ("a=b", "application/x-www-form-urlencoded", 415),
        ("{}", "application/json; charset=utf-8", 422),
    ] {
        let request = node.request(Method::POST, "/api/v1/schedules");
        let request = request.header("content-type", content_type).body(body.to_owned());
        let reply = send(request).await;
        assert_eq!(reply.status, status, "{body:.60} {content_type}: {}", reply.text);
        reply.problem(status);
    }
    let request = node.request(Method::POST, "/api/v1/schedules");
    let bytes = b"{\"name\": \"\xff\"}".to_vec();
    send(request.header("content-type", json).body(bytes)).await.problem(400);
    let request = node.request(Method::POST, "/api/v1/schedules");
    send(request.header("content-encoding", "gzip").json(&json!({}))).await.problem(415);
}

#[tokio::test]
async fn paths_and_queries_are_checked() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let path =
        node.schedule(json!({"name": "n", "workflow_id": "nothing", "cron": "@daily"})).await;
    for (query, status) in [
        ("/api/v1/schedules?status=nope", 400),
        ("/api/v1/schedules?status=active", 200),
        ("/api/v1/schedules?stat=active", 400),
        ("/api/v1/schedules?limit=0", 400),
        ("/api/v1/schedules?limit=1001", 400),
        ("/api/v1/schedules?limit=1000", 200),
        ("/api/v1/schedules?limit=10&limit=20", 400),
        ("/api/v1/schedules?cursor=nonsense", 400),
        ("/api/v1/schedules?offset=-1", 400),
        ("/api/v1/schedules?offset=9223372036854775807", 200),
        ("/api/v1/schedules?q=%FF", 400),
        ("/api/v1/schedules?q=%00", 200),
        ("/api/v1/schedules?workflow_id=unknown", 200),
        ("/api/v1/schedules/0", 404),
        ("/api/v1/schedules/01", 404),
        ("/api/v1/schedules/-1", 404),
        ("/api/v1/schedules/99999999999999999999", 404),
        ("/api/v1/schedules/%FF", 404),
        ("/api/v1/schedules/..%2f..%2fetc%2fpasswd", 404),
        ("/api/v1/schedules.ics?workflow_id=unknown", 404),
        ("PATH?verbose=1", 400),
        ("PATH/next?count=0", 400),
        ("PATH/next?count=1001", 400),
        ("PATH/next?count=1000", 200),
        ("PATH/occurrences?outcome=nope", 400),
        ("PATH/occurrences?from=yesterday", 400),
        ("PATH/explain?at=2026-01-01", 400),
        ("PATH/nothing", 404),
    ] {
        let reply = node.get(&query.replace("PATH", &path)).await;
        assert_eq!(reply.status, status, "{query}: {}", reply.text);
        if status != 200 {
            reply.problem(status);
        }
    }
    let said = node.get("/api/v1/schedules?stats=active").await.problem(400);
    assert!(said.contains("did you mean status?"), "{said}");
    node.send(Method::PUT, &path, json!({})).await.problem(405);
}

#[tokio::test]
async fn edits_are_checked() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let path =
        node.schedule(json!({"name": "n", "workflow_id": "nothing", "cron": "@daily"})).await;
    for (patch, status) in [
        (json!({"cron": "nonsense"}), 422),
        (json!({"cron": null}), 422),
        (json!({"nme": "x"}), 422),
        (json!({"workflow_id": "other"}), 422),
        (json!({"workflow_id": "nothing"}), 200),
        (json!({"trigger": "t"}), 422),
        (Value::Null, 400),
        (json!({}), 200),
    ] {
        for dry_run in ["?dry_run=true", ""] {
            let reply = node.patch(&format!("{path}{dry_run}"), patch.clone()).await;
            assert_eq!(reply.status, status, "{patch} {dry_run}: {}", reply.text);
        }
    }
    node.patch("/api/v1/schedules/999", json!({"name": "x"})).await.problem(404);
    node.patch(&format!("{path}?dry_run=yes"), json!({})).await.problem(400);
}

/// With a key the store checks the status, without one the route does: both answer alike.
#[tokio::test]
async fn a_workflow_in_the_wrong_status_is_a_bad_request_with_and_without_a_key() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let ask = async |verb: &str, key: Option<&str>| {
        let request = node.request(Method::POST, &format!("/api/v1/workflows/nothing/{verb}"));
        send(match key {
            Some(key) => request.header("idempotency-key", key),
            None => request,
        })
        .await
    };
    ask("resume", Some("a")).await.problem(400);
    ask("resume", None).await.problem(400);
    ask("pause", Some("b")).await.expect(200);
    ask("pause", Some("b")).await.expect(200);
    ask("pause", Some("c")).await.problem(400);
    ask("pause", None).await.problem(400);
    ask("archive", Some("d")).await.expect(200);
    ask("archive", Some("e")).await.problem(400);
    ask("archive", None).await.problem(400);
}

#[tokio::test]
async fn nothing_is_no_calendar_and_something_is_not_nothing() {
    let node = Node::start().await;
    for (kind, body, status) in [
        ("application/yaml", "null\n", 422),
        ("application/yaml", "", 422),
        ("application/yaml", "[]", 422),
        ("application/json", "null", 422),
        ("application/yaml", "{}", 201),
        ("application/json", "{}", 200),
    ] {
        let request = node.request(Method::PUT, "/api/v1/calendars/empty");
        let reply = send(request.header("content-type", kind).body(body)).await;
        assert_eq!(reply.status, status, "{kind} {body:?}: {}", reply.text);
    }
}

#[tokio::test]
async fn a_token_is_revoked_without_a_word() {
    let node = Node::start_with(|options| options.token = Some("t".repeat(40))).await;
    let made = json!({"name": "ada", "roles": ["admin"]});
    node.post("/api/v1/tokens", made).await.expect(201);
    node.post("/api/v1/tokens/ada/revoke", json!({"at": "2099-01-01T00:00:00Z"}))
        .await
        .problem(422);
    let revoked = node.post("/api/v1/tokens/ada/revoke", json!({})).await.expect(200);
    assert_eq!(revoked["status"], "revoked");
}
