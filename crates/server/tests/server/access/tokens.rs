//! Access tokens: made, shown once, valid for their roles until they expire or are revoked.

use std::time::Duration;

use engine::run::RunStatus;
use reqwest::Method;
use serde_json::{Value, json};

use super::{SECRET, closed};
use crate::ground::Ground;
use crate::harness::{NOOP, Node, PATIENCE};

#[tokio::test]
async fn a_secret_is_shown_once_and_found_nowhere() {
    let node = closed().await;
    let body = json!({ "name": "ci", "roles": ["operator", "viewer"], "expires_in": "90d" });
    let made = node.post("/api/v1/tokens", body).await.expect(201);
    let secret = made["secret"].as_str().unwrap();
    assert_eq!((secret.len(), &secret[..4]), (47, "pun_"));
    assert_eq!((&made["name"], &made["created_by"]), (&json!("ci"), &json!("node")));
    assert_eq!(made["roles"], json!(["operator", "viewer"]));
    assert_eq!((&made["status"], &made["expires_at"].is_string()), (&json!("active"), &true));
    let listed = node.get("/api/v1/tokens").await;
    assert_eq!(listed.expect(200)["total"], 1);
    assert!(!listed.text.contains(secret) && !listed.text.contains("hash"), "{}", listed.text);
    let log = node.get("/api/v1/audit").await;
    log.expect(200);
    assert!(!log.text.contains(secret), "{}", log.text);
    assert_eq!(node.get_with(secret, "/api/v1/me").await.expect(200)["name"], "ci");
}

#[tokio::test]
async fn a_wrong_token_is_not_made() {
    let node = closed().await;
    node.token("taken", &["viewer"]).await;
    for (body, status, said) in [
        (json!({ "name": "taken", "roles": ["viewer"] }), 409, "taken"),
        (json!({ "name": "node", "roles": ["viewer"] }), 422, "name"),
        (json!({ "name": "a b", "roles": ["viewer"] }), 422, "name"),
        (json!({ "name": "", "roles": ["viewer"] }), 422, "name"),
        (json!({ "name": "x", "roles": [] }), 422, "roles"),
        (json!({ "name": "x", "roles": ["root"] }), 422, "roles[0]"),
        (json!({ "name": "x", "roles": ["viewer"], "expires_in": "soon" }), 422, "expires_in"),
        (json!({ "name": "x", "roles": ["viewer"], "expires_in": "-1d" }), 422, "expires_in"),
        (
            json!({ "name": "x", "roles": ["viewer"], "expires_at": "2020-01-01T00:00:00Z" }),
            422,
            "expires_at",
        ),
        (json!({ "name": "x", "roles": ["viewer"], "secret": "mine" }), 422, "secret"),
    ] {
        let reply = node.post("/api/v1/tokens", body.clone()).await;
        assert_eq!(reply.status, status, "{body}: {}", reply.text);
        assert!(reply.text.contains(said), "{body}: {}", reply.text);
    }
    assert_eq!(node.get("/api/v1/tokens").await.expect(200)["total"], 1);
}

#[tokio::test]
async fn a_revoked_token_is_good_no_more() {
    let node = closed().await;
    let secret = node.token("ci", &["viewer"]).await;
    node.get_with(&secret, "/api/v1/runs").await.expect(200);
    let revoked = node.post("/api/v1/tokens/ci/revoke", Value::Null).await.expect(200);
    assert_eq!(revoked["status"], "revoked");
    // At once, even though it was cached as valid a moment ago.
    node.get_with(&secret, "/api/v1/runs").await.problem(401);
    let again = node.post("/api/v1/tokens/1/revoke", Value::Null).await.expect(200);
    assert_eq!(again["revoked_at"], revoked["revoked_at"]);
    node.post("/api/v1/tokens/77/revoke", Value::Null).await.problem(404);
    node.post("/api/v1/tokens", json!({ "name": "ci", "roles": ["viewer"] })).await.problem(409);
}

#[tokio::test]
async fn a_token_whose_row_is_damaged_is_refused_alone() {
    let ground = Ground::shared();
    let node = Node::start_on(ground.clone(), |_| {}).await;
    let admin = node.token("ada", &["admin"]).await;
    let make = json!({ "name": "bad", "roles": ["viewer"] });
    let made = node.post_with(&admin, "/api/v1/tokens", make).await.expect(201);
    ground.execute("UPDATE tokens SET roles = 'x{' WHERE name = 'bad'").await;
    let node = node.restart().await;
    node.get_with(made["secret"].as_str().unwrap(), "/api/v1/runs").await.problem(401);
    node.get_with(&admin, "/api/v1/runs").await.expect(200);
    let page = node.get_with(&admin, "/tokens").await;
    assert!(page.status == 200 && page.text.contains("unreadable"), "{}", page.text);
    let listed = node.get_with(&admin, "/api/v1/tokens").await.expect(200);
    assert_eq!(listed["items"][1]["status"], "unreadable");
    let revoke = "/api/v1/tokens/bad/revoke";
    let revoked = node.post_with(&admin, revoke, Value::Null).await.expect(200);
    assert_eq!(revoked["status"], "revoked");
}

#[tokio::test]
async fn an_expired_token_is_good_no_more() {
    let node = closed().await;
    let body = json!({ "name": "short", "roles": ["viewer"], "expires_in": "1s" });
    let made = node.post("/api/v1/tokens", body).await.expect(201);
    let secret = made["secret"].as_str().unwrap();
    let ended = async {
        while node.get_with(secret, "/api/v1/me").await.status == 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.unwrap();
    node.get_with(secret, "/api/v1/me").await.problem(401);
    let listed = node.get("/api/v1/tokens").await.expect(200);
    assert_eq!(listed["items"][0]["status"], "expired");
}

#[tokio::test]
async fn the_first_token_closes_the_node_and_must_be_an_admins() {
    let node = Node::start().await;
    let body = json!({ "name": "ci", "roles": ["viewer", "operator"] });
    let refused = node.post("/api/v1/tokens", body).await;
    assert!(refused.problem(422).contains("admin"), "{}", refused.text);
    node.get("/api/v1/runs").await.expect(200);

    let secret = node.token("ada", &["admin"]).await;
    node.get("/api/v1/runs").await.problem(401);
    node.get_with(&secret, "/api/v1/runs").await.expect(200);
    // From then on its holder makes others freely, and nothing opens the node again.
    let body = json!({ "name": "ci", "roles": ["viewer"] });
    node.post_with(&secret, "/api/v1/tokens", body).await.expect(201);
    node.post_with(&secret, "/api/v1/tokens/ada/revoke", Value::Null).await.expect(200);
    node.get("/api/v1/runs").await.problem(401);
    let node = node.restart().await;
    node.get("/api/v1/runs").await.problem(401);
}

#[tokio::test]
async fn a_node_without_a_token_listens_elsewhere_only_if_somebody_has_one() {
    let anywhere = |options: &mut server::serve::ServerOptions| {
        options.listen = ([0, 0, 0, 0], 0).into();
    };
    let ground = Ground::new();
    let node = Node::start_on(ground.clone(), |_| {}).await;
    let secret = node.token("ada", &["admin"]).await;
    let node = node.restart().await;
    node.post_with(&secret, "/api/v1/tokens", json!({ "name": "ci", "roles": ["viewer"] }))
        .await
        .expect(201);
    node.server.stop().await.unwrap();
    let node = Node::start_on(ground.clone(), anywhere).await;
    let path = format!("http://127.0.0.1:{}/api/v1/me", node.server.address().port());
    let reply = node.client.get(&path).bearer_auth(&secret).send().await.unwrap();
    assert_eq!(reply.status(), 200);
    let reply = node.client.get(&path).send().await.unwrap();
    assert_eq!(reply.status(), 401);
    // No admin is left who could admit others.
    let revoke = path.replace("/me", "/tokens/ada/revoke");
    assert_eq!(node.client.post(revoke).bearer_auth(&secret).send().await.unwrap().status(), 200);
    node.server.stop().await.unwrap();
    let mut options = server::serve::ServerOptions::new(ground.open().await);
    anywhere(&mut options);
    let refused = server::serve::Server::start(options).await.err().unwrap();
    assert!(refused.to_string().contains("role admin"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_nodes_follow_soon() {
    let ground = Ground::shared();
    let one = Node::start_on(ground.clone(), |_| {}).await;
    let other = Node::start_on(ground, |_| {}).await;
    other.get("/api/v1/me").await.expect(200);
    let secret = one.token("ada", &["admin"]).await;
    let follows = async |status: u16| {
        let path = "/api/v1/me";
        while other.send_with(Some(&secret), Method::GET, path, Value::Null).await.status != status
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let closed = async {
        while other.get("/api/v1/me").await.status != 401 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, closed).await.unwrap();
    tokio::time::timeout(PATIENCE, follows(200)).await.unwrap();
    one.post_with(&secret, "/api/v1/tokens/ada/revoke", Value::Null).await.expect(200);
    tokio::time::timeout(PATIENCE, follows(401)).await.unwrap();
}

#[tokio::test]
async fn nobody_decides_as_somebody_else() {
    let node = closed().await;
    node.publish(
        "name: ask\nsteps: [{id: a, type: human_approval, title: Pay?, assignees: [ada]}]\n",
    )
    .await;
    node.publish(
        "name: anyone\nsteps: [{id: a, type: human_approval, title: Pay?, assignees: [approver]}]\n",
    )
    .await;
    let asked = async |workflow: &str| {
        let run = node.run(workflow).await;
        node.run_until(&run, |status| status == RunStatus::Waiting).await;
        run
    };
    let ada = node.token("ada", &["approver"]).await;
    let bob = node.token("bob", &["approver"]).await;
    let run = asked("ask").await;
    let path = format!("/api/v1/approvals/{run}/a/approve");
    let refused = node.post_with(&bob, &path, json!({ "by": "ada" })).await;
    assert!(refused.problem(403).contains("bob"), "{}", refused.text);
    let decided = node.post_with(&ada, &path, Value::Null).await.expect(200);
    assert_eq!(decided["steps"][0]["output"]["decided_by"], "ada");
    // By one of their roles; the name they give stands beside their own.
    let run = asked("anyone").await;
    let path = format!("/api/v1/approvals/{run}/a/approve");
    let decided = node.post_with(&bob, &path, json!({ "by": "eve" })).await.expect(200);
    assert_eq!(decided["steps"][0]["output"]["decided_by"], "eve via bob");
    // The node's own token may decide for others.
    let run = asked("ask").await;
    let path = format!("/api/v1/approvals/{run}/a/approve");
    let decided = node.post_with(SECRET, &path, json!({ "by": "ada" })).await.expect(200);
    assert_eq!(decided["steps"][0]["output"]["decided_by"], "ada via node");
}

#[tokio::test]
async fn runs_say_who_has_started_and_cancelled_them() {
    let node = closed().await;
    node.publish(NOOP).await;
    node.publish(crate::harness::SLOW).await;
    let ops = node.token("ops", &["operator"]).await;
    let run = node.post_with(&ops, "/api/v1/workflows/slow/runs", Value::Null).await.expect(201);
    let path = format!("/api/v1/runs/{}", run["id"].as_str().unwrap());
    let cancel = format!("{path}/cancel");
    node.post_with(&ops, &cancel, json!({ "reason": "enough" })).await.expect(200);
    let ended = node.ended(run["id"].as_str().unwrap()).await;
    assert_eq!(ended["error"]["message"], "cancelled by ops: enough");
}
