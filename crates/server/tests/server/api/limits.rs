//! Tokens, hosts, and limits of requests.

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{NOOP, Node, send};

#[tokio::test]
async fn a_token_is_asked_for() {
    let mut node = Node::start_with(|options| options.token = Some("secret".to_owned())).await;
    node.get("/api/v1/schedules").await.expect(200);
    assert_eq!(node.get("/metrics").await.status, 200);
    for given in [None, Some("Secret"), Some("secre"), Some("")] {
        node.token = given.map(str::to_owned);
        for path in ["/api/v1/schedules", "/metrics", "/api/v1/nowhere", "/api/schedules"] {
            let reply = node.get(path).await;
            reply.problem(401);
            assert!(reply.header("www-authenticate").unwrap().starts_with("Bearer"));
        }
        for path in ["/healthz", "/readyz"] {
            assert_eq!(node.get(path).await.status, 200, "{path}");
        }
    }
    // With a token the name of the host does not matter.
    let request = node.client.get(node.url("/api/v1/schedules")).bearer_auth("secret");
    send(request.header("host", "punctual.example")).await.expect(200);
    let basic = node.client.get(node.url("/metrics")).header("authorization", "Basic secret");
    send(basic).await.problem(401);
}

#[tokio::test]
async fn without_a_token_only_names_of_this_machine_are_answered() {
    let node = Node::start().await;
    for (host, status) in [
        ("localhost", 200),
        ("localhost:1", 200),
        ("[::1]:80", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
    ] {
        let request = node.client.get(node.url("/api/v1/schedules")).header("host", host);
        assert_eq!(send(request).await.status, status, "{host}");
    }
}

#[tokio::test]
async fn pages_of_other_sites_change_nothing() {
    let node = Node::start().await;
    node.workflow(NOOP).await;
    let body = json!({"name": "n", "workflow_id": "nothing", "cron": "@daily"});
    let path = format!("{}/trigger", node.schedule(body).await);
    for (origin, status) in [
        (Some("https://evil.example".to_owned()), 403),
        (Some("null".to_owned()), 403),
        (Some(node.url("")), 200),
        (None, 200),
    ] {
        let mut request = node.request(Method::POST, &path);
        if let Some(origin) = &origin {
            request = request.header("origin", origin);
        }
        // The previous run may not have ended yet.
        let reply = send(request).await;
        assert!(reply.status == status || (status == 200 && reply.status == 409), "{origin:?}");
    }
}

/// Sends bytes, and returns what comes back until the node closes the connection.
async fn raw(node: &Node, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(node.server.address()).await.unwrap();
    // The node may close the connection before it has read everything.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn too_many_or_too_large_headers_are_refused() {
    let node = Node::start().await;
    let many: String = (0..10_000).map(|i| format!("X-{i}: 1\r\n")).collect();
    let large = format!("X-1: {}\r\n", "x".repeat(1024 * 1024));
    for headers in [many, large] {
        let request = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        let answer = raw(&node, request.as_bytes()).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer:.100}");
    }
    let headers: String = (0..101).map(|i| format!("X-{i}: 1\r\n")).collect();
    let request = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    assert!(raw(&node, request.as_bytes()).await.starts_with("HTTP/1.1 431"));
    assert_eq!(node.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_body_that_is_announced_too_large_is_not_waited_for() {
    let node = Node::start().await;
    let request = "POST /api/v1/schedules HTTP/1.1\r\nHost: localhost\r\n\
        Content-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n{";
    let answer = raw(&node, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_given_up() {
    // The node's own token is known without a query to the store, which would take real time.
    let node = Node::start_with(|options| options.token = Some("sesame".to_owned())).await;
    tokio::time::pause();
    let request = "POST /api/v1/schedules HTTP/1.1\r\nHost: localhost\r\n\
        Authorization: Bearer sesame\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{";
    let answer = raw(&node, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

#[tokio::test]
async fn headers_that_do_not_arrive_are_given_up() {
    let node = Node::start().await;
    tokio::time::pause();
    let answer = raw(&node, b"GET /healthz HTTP/1.1\r\nHost: loc").await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
}

#[tokio::test]
async fn two_hosts_are_refused() {
    let node = Node::start().await;
    for (hosts, status) in [
        ("Host: localhost\r\n", "200"),
        ("Host: localhost\r\nHost: localhost\r\n", "400"),
        ("Host: localhost\r\nhost: evil.test\r\n", "400"),
    ] {
        for path in ["/healthz", "/api/v1/runs", "/"] {
            let request = format!("GET {path} HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n");
            let answer = raw(&node, request.as_bytes()).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_key_that_is_given_twice_is_refused_with_its_place() {
    let node = Node::start().await;
    node.workflow(crate::harness::NOOP).await;
    let payload = "{\"payload\": {\n  \"to\": [{\"a\": 1},\n    {\"b\": 1, \"\\u0062\": 2}]}}";
    let schedule =
        "{\"name\": \"s\", \"workflow_id\": \"nothing\", \"interval\": \"1h\", \"name\": \"t\"}";
    let event = "[{\"message_id\": \"1\", \"payload\": {\"x\": 1, \"x\": 2}}]";
    let many = format!("[{schedule}]");
    for (path, body, at, line, column) in [
        ("/api/v1/workflows/nothing/runs", payload, "payload.to[1].b", 3, 14),
        ("/api/v1/schedules", schedule, "name", 1, 59),
        ("/api/v1/topics/t/events", event, "[0].payload.x", 1, 42),
        ("/api/v1/schedules/batch", &many, "[0].name", 1, 60),
    ] {
        let reply = node.send_as(Method::POST, path, "application/json", body.to_owned()).await;
        let problem = reply.whole_problem(422);
        let error = &problem["errors"][0];
        assert_eq!(
            (&error["path"], &error["code"]),
            (&json!(at), &json!("duplicate")),
            "{problem}"
        );
        assert_eq!((&error["line"], &error["column"]), (&json!(line), &json!(column)), "{problem}");
    }
    assert_eq!(node.get("/api/v1/runs").await.expect(200)["total"], 0);
}

#[tokio::test]
async fn browsers_do_not_guess_what_an_answer_is() {
    let node = Node::start().await;
    for path in
        ["/api/v1/runs", "/api/v1/nothing", "/healthz", "/openapi.json", "/metrics", "/", "/x"]
    {
        let reply = node.get(path).await;
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{path}");
    }
}
