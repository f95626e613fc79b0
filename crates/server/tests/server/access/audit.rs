//! The audit log: each change is written with who made it, and nothing else is written.

use reqwest::Method;
use serde_json::{Value, json};

use super::closed;
use crate::harness::{NOOP, Node, SLOW, send};

impl Node {
    /// The entries of the audit log, latest first: who, action and target.
    async fn audited(&self, query: &str) -> Vec<(String, String, String)> {
        let page = self.get(&format!("/api/v1/audit{query}")).await.expect(200);
        let text = |change: &Value, name: &str| change[name].as_str().unwrap().to_owned();
        let rows = page["items"].as_array().unwrap().iter();
        rows.map(|row| (text(row, "who"), text(row, "action"), text(row, "target"))).collect()
    }
}

#[tokio::test]
async fn each_change_is_there_once_and_what_was_refused_is_not() {
    let node = closed().await;
    node.publish(NOOP).await;
    let designer = node.token("des", &["designer", "operator"]).await;
    let viewer = node.token("eye", &["viewer"]).await;
    let body = json!({ "name": "s", "workflow_id": "nothing", "interval": "1h" });
    let made = node.post_with(&designer, "/api/v1/schedules", body).await.expect(201);
    let path = format!("/api/v1/schedules/{}", made["id"].as_str().unwrap());
    let pause = format!("{path}/pause");
    let with_key = || {
        let request = node.client.post(node.url(&pause)).bearer_auth(&designer);
        send(request.header("idempotency-key", "once"))
    };
    with_key().await.expect(200);
    with_key().await.expect(200);
    // Refused: wrong status, wrong body, unknown id, no permission, no token.
    node.post_with(&designer, &pause, Value::Null).await.problem(400);
    node.post_with(&designer, &pause, json!({ "x": 1 })).await.problem(422);
    node.post_with(&designer, "/api/v1/schedules/99/pause", Value::Null).await.problem(404);
    node.post_with(&viewer, &pause, Value::Null).await.problem(403);
    node.send_with(None, Method::POST, &pause, Value::Null).await.problem(401);
    // Reads and dry runs change nothing.
    node.get_with(&viewer, &path).await.expect(200);
    let patch = format!("{path}?dry_run=true");
    let body = json!({ "interval": "2h" });
    node.send_with(Some(&designer), Method::PATCH, &patch, body).await.expect(200);

    let of = |who: &str, action: &str, target: &str| {
        (who.to_owned(), action.to_owned(), target.to_owned())
    };
    assert_eq!(
        node.audited("").await,
        [
            of("des", "POST /api/v1/schedules/{id}/pause", &pause),
            of("des", "POST /api/v1/schedules", "/api/v1/schedules"),
            of("node", "POST /api/v1/tokens", "/api/v1/tokens"),
            of("node", "POST /api/v1/tokens", "/api/v1/tokens"),
            of("node", "POST /api/v1/workflows", "/api/v1/workflows"),
        ]
    );
    let whole = node.get("/api/v1/audit?who=des&limit=1").await.expect(200);
    assert_eq!(whole["items"][0]["from"], "127.0.0.1");
    let next = whole["next_cursor"].as_str().unwrap();
    let rest = node.get(&format!("/api/v1/audit?who=des&limit=1&cursor={next}")).await.expect(200);
    assert_eq!(rest["items"][0]["detail"], "s");
    assert!(rest["next_cursor"].is_null());
    let since = whole["items"][0]["at"].as_str().unwrap();
    assert_eq!(node.audited(&format!("?since={since}")).await.len(), 1);
    assert_eq!(node.audited("?who=eye").await, []);
}

#[tokio::test]
async fn every_kind_of_change_is_audited() {
    let node = closed().await;
    let id = node.publish(NOOP).await;
    let body = json!({ "name": "s", "workflow_id": id, "cron": "0 9 * * *", "timezone": "UTC" });
    let schedule = node.schedule(body.clone()).await;
    let next = node.get(&schedule).await.expect(200)["next_run_at"].as_str().unwrap().to_owned();
    let calendar = json!({ "hours": { "mon-fri": "09:00-17:00" } });
    let occurrence = format!("{schedule}/occurrences/{next}");
    node.publish(SLOW).await;
    let run = node.run("slow").await;
    node.post(&format!("/api/v1/runs/{run}/cancel"), Value::Null).await.expect(200);
    node.ended(&run).await;
    for (method, path, body) in [
        (Method::PUT, occurrence.clone(), json!({ "skip": true })),
        (Method::DELETE, occurrence, Value::Null),
        (Method::PATCH, schedule.clone(), json!({ "cron": "0 10 * * *" })),
        (Method::PUT, "/api/v1/calendars/c".to_owned(), calendar),
        (Method::DELETE, "/api/v1/calendars/c".to_owned(), Value::Null),
        (Method::POST, format!("{schedule}/trigger"), Value::Null),
        (Method::POST, format!("{schedule}/disable"), Value::Null),
        (Method::POST, format!("{schedule}/enable"), Value::Null),
        (Method::POST, "/api/v1/schedules/batch".to_owned(), json!([body])),
        (Method::POST, "/api/v1/schedules/batch-delete".to_owned(), json!({"schedule_ids": [2]})),
        (Method::POST, format!("/api/v1/runs/{run}/retry"), Value::Null),
        (Method::POST, format!("/api/v1/workflows/{id}/pause"), Value::Null),
        (Method::POST, format!("/api/v1/workflows/{id}/resume"), Value::Null),
        (Method::DELETE, schedule.clone(), Value::Null),
        (Method::POST, format!("/api/v1/workflows/{id}/archive"), Value::Null),
    ] {
        let reply = node.send(method.clone(), &path, body).await;
        assert!(reply.status < 300, "{method} {path}: {}", reply.text);
        let (who, action, target) = node.audited("?limit=1").await.remove(0);
        assert_eq!((who.as_str(), target.as_str()), ("node", path.as_str()));
        assert!(action.starts_with(&format!("{method} /api/v1/")), "{action}");
    }
}

#[tokio::test]
async fn the_work_itself_is_not_audited() {
    let node = closed().await;
    node.publish("name: queued\nsteps: [{id: a, type: worker, queue: q}]\n").await;
    let run = node.run("queued").await;
    let worker = node.token("w", &["worker"]).await;
    let before = node.audited("").await;
    let ask = json!({ "queues": ["q"], "max": 1, "wait_seconds": 20, "worker": "w1" });
    let claimed = node.post_with(&worker, "/api/v1/attempts/claim", ask).await.expect(200);
    let attempt = &claimed["attempts"][0];
    let path = format!("/api/v1/attempts/{}", attempt["id"].as_str().unwrap());
    let token = json!({ "token": attempt["token"] });
    node.post_with(&worker, &format!("{path}/heartbeat"), token.clone()).await.expect(200);
    node.post_with(&worker, &format!("{path}/complete"), token).await.expect(200);
    node.ended(&run).await;
    assert_eq!(node.audited("").await, before);
}
