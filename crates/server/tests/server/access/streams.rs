//! Streams and long polls end when their token is revoked.

use futures_util::StreamExt as _;
use reqwest::Method;
use serde_json::{Value, json};

use super::{SECRET, closed};
use crate::ground::Ground;
use crate::harness::{Node, PATIENCE, Reply};

const STREAM: &str = "/api/v1/stream";

/// Opens a stream, and waits for its first bytes.
async fn open(node: &Node, secret: Option<&str>, path: &str) -> reqwest::Response {
    let request = node.client.request(Method::GET, node.url(path));
    let request = match secret {
        Some(secret) => request.bearer_auth(secret),
        None => request,
    };
    let mut stream = request.send().await.unwrap();
    assert_eq!((stream.status().as_u16(), path), (200, path));
    if path == STREAM {
        stream.chunk().await.unwrap().expect("it says that it listens");
    }
    stream
}

/// Reads the rest of a stream, and insists that it ends without an error.
async fn ends(stream: reqwest::Response) {
    let mut chunks = stream.bytes_stream();
    let all = async {
        while let Some(chunk) = chunks.next().await {
            chunk.unwrap();
        }
    };
    tokio::time::timeout(PATIENCE, all).await.expect("the stream is still open");
}

/// Insists that a stream still reports changes.
async fn goes_on(node: &Node, mut stream: reqwest::Response) {
    let body = json!({ "name": "s", "workflow_id": "nothing", "interval": "1h" });
    node.post("/api/v1/schedules", body).await.expect(201);
    let told = async {
        let mut text = String::new();
        while !text.contains("event: schedule") {
            let chunk = stream.chunk().await.unwrap().expect("the stream has ended");
            text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    };
    tokio::time::timeout(PATIENCE, told).await.unwrap();
}

async fn wait_for_work(node: &Node, secret: &str) -> Reply {
    let body = json!({ "queues": ["q"], "wait_seconds": 50 });
    node.post_with(secret, "/api/v1/attempts/claim", body).await
}

#[tokio::test]
async fn a_revoked_token_ends_what_it_has_open_and_nothing_else() {
    let node = closed().await;
    node.publish(crate::harness::NOOP).await;
    let (gone, stays) =
        (node.token("gone", &["viewer"]).await, node.token("stays", &["viewer"]).await);
    let worker = node.token("wim", &["worker"]).await;
    let told = open(&node, Some(&gone), STREAM).await;
    let page = open(&node, Some(&gone), "/live?about=all").await;
    let other = open(&node, Some(&stays), STREAM).await;
    let own = open(&node, Some(SECRET), STREAM).await;
    node.post("/api/v1/tokens/gone/revoke", Value::Null).await.expect(200);
    ends(told).await;
    ends(page).await;
    goes_on(&node, other).await;
    drop(own);
    let revoking = async {
        // The claim is waiting by now, or will be refused when it arrives: either way it gets no
        // attempts.
        tokio::task::yield_now().await;
        node.post("/api/v1/tokens/wim/revoke", Value::Null).await.expect(200);
    };
    let claiming = tokio::time::timeout(PATIENCE / 2, wait_for_work(&node, &worker));
    let (claimed, ()) = tokio::join!(claiming, revoking);
    claimed.expect("the long poll is still open").problem(401);
}

#[tokio::test]
async fn an_expired_token_ends_streams_too() {
    let node = closed().await;
    let body = json!({ "name": "short", "roles": ["viewer"], "expires_in": "2s" });
    let made = node.post("/api/v1/tokens", body).await.expect(201);
    ends(open(&node, made["secret"].as_str(), STREAM).await).await;
}

#[tokio::test]
async fn the_first_token_ends_what_was_open_to_anyone() {
    let node = Node::start().await;
    let stream = open(&node, None, STREAM).await;
    node.token("ada", &["admin"]).await;
    ends(stream).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_nodes_of_the_store_end_them_too() {
    let ground = Ground::shared();
    let with_token =
        |options: &mut server::serve::ServerOptions| options.token = Some(SECRET.to_owned());
    let one = Node::start_on(ground.clone(), with_token).await;
    let other = Node::start_on(ground, with_token).await;
    let secret = one.token("ci", &["viewer", "worker"]).await;
    let stream = open(&other, Some(&secret), STREAM).await;
    let page = open(&other, Some(&secret), "/live?about=all").await;
    let waiting = wait_for_work(&other, &secret);
    let revoking = async {
        tokio::task::yield_now().await;
        one.post("/api/v1/tokens/ci/revoke", Value::Null).await.expect(200);
    };
    let (claimed, ()) = tokio::join!(tokio::time::timeout(PATIENCE / 2, waiting), revoking);
    claimed.expect("the long poll is still open").problem(401);
    ends(stream).await;
    ends(page).await;
}
