//! Attacks that other programs have fallen for.

use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::closed;
use crate::harness::{NOOP, Node, SLOW, send};

#[tokio::test]
async fn a_stream_is_not_for_pages_of_other_sites() {
    for node in [closed().await, Node::start().await] {
        let ask = |origin: &str| {
            node.request(Method::GET, "/api/v1/stream").header("origin", origin.to_owned()).send()
        };
        for origin in ["https://evil.test", "null", "http://127.0.0.1.evil.test"] {
            assert_eq!(ask(origin).await.unwrap().status(), 403, "{origin}");
        }
        let own = format!("http://{}", node.server.address());
        assert_eq!(ask(&own).await.unwrap().status(), 200);
        let other = node.request(Method::GET, "/api/v1/runs").header("origin", "https://evil.test");
        let reply = send(other).await;
        assert_eq!(reply.status, 200, "a page of another site is not shown what it gets");
        assert_eq!(reply.header("access-control-allow-origin"), None);
    }
}

#[tokio::test]
async fn queries_are_taken_as_they_are_or_refused() {
    let node = closed().await;
    node.publish(NOOP).await;
    let lists = ["runs", "schedules", "workflows", "topics", "approvals", "audit"];
    for list in lists {
        for query in [
            "limit=-1",
            "limit=0",
            "limit=99999999999999999999",
            "offset=9223372036854775808",
            "filter[$ne]=1",
            "status='; DROP TABLE runs;--",
            "status[]=failed",
            "who[$ne]=x&who=y&who=z",
            "cursor='; DROP TABLE audit;--",
            "since=yesterday",
        ] {
            let reply = node.get(&format!("/api/v1/{list}?{query}")).await;
            assert_eq!(reply.status, 400, "{list}?{query}: {}", reply.text);
        }
    }
    let who = node.get("/api/v1/audit?who=' OR 1=1 --").await.expect(200);
    assert_eq!(who["items"], json!([]));
    assert_eq!(node.get("/api/v1/workflows").await.expect(200)["total"], 1);
}

#[tokio::test]
async fn no_path_leads_out() {
    let node = closed().await;
    for path in [
        "/api/v1/runs/../../etc/passwd",
        "/api/v1/runs/%252e%252e%252f",
        "/api/v1/runs//etc/passwd",
        "/api/v1/runs/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/api/v1/runs/log\u{2215}..",
        "/api/v1/calendars/..%2f..%2fetc%2fpasswd",
        "/api/v1/tokens/..%2f1/revoke",
    ] {
        let reply = node.get(path).await;
        assert!(matches!(reply.status, 400 | 404 | 405), "{path}: {}", reply.text);
        let without = node.send_with(None, Method::GET, path, Value::Null).await;
        assert_eq!(without.status, 401, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_triggers_at_once_and_again_start_a_thousand_runs_and_not_more() {
    let node = Arc::new(closed().await);
    let id = node.publish(SLOW).await;
    let body = json!({ "name": "s", "workflow_id": id, "interval": "1h", "overlap": "skip" });
    let schedule = node.schedule(body).await;
    // So many at once that they meet, and so few that the last of them is not answered too late.
    for _ in 0..10 {
        let mut asked = JoinSet::new();
        for _ in 0..100 {
            let (node, path) = (node.clone(), format!("{schedule}/trigger"));
            asked.spawn(async move { node.post(&path, Value::Null).await.status });
        }
        let answers = asked.join_all().await;
        assert!(answers.iter().all(|status| *status == 200), "{answers:?}");
    }
    let runs = node.get("/api/v1/runs?limit=1000").await.expect(200);
    assert_eq!(runs["items"].as_array().unwrap().len(), 1_000);
    // A schedule keeps no more active runs than this in its row.
    node.post(&format!("{schedule}/trigger"), Value::Null).await.expect(409);
}
