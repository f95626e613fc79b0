//! Hostile `http` steps on a node: no byte goes where it must not, and no secret is stored.

use std::io::Write as _;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::Request;
use axum::http::{Response, StatusCode, header};
use serde_json::{Value, json};
use server::Secrets;
use tokio::net::TcpListener;

use crate::harness::Node;

/// A peer that records the request lines and headers it receives.
struct Peer {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

async fn peer(
    answer: impl Fn(&str) -> Response<axum::body::Body> + Clone + Send + Sync + 'static,
) -> Peer {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let known = heard.clone();
    let handle = move |request: Request| {
        let authorization = request.headers().get(header::AUTHORIZATION);
        let authorization = authorization.map(|text| text.to_str().unwrap().to_owned());
        known.lock().unwrap().push(format!("{} {authorization:?}", request.uri()));
        let answered = answer(&request.uri().to_string());
        async move { answered }
    };
    tokio::spawn(async move {
        axum::serve(listener, Router::new().fallback(handle)).await.unwrap();
    });
    Peer { port, heard }
}

impl Peer {
    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

fn text(body: impl Into<axum::body::Body>) -> Response<axum::body::Body> {
    Response::new(body.into())
}

fn redirect(to: String) -> Response<axum::body::Body> {
    let response = Response::builder().status(StatusCode::FOUND).header(header::LOCATION, to);
    response.body(axum::body::Body::empty()).unwrap()
}

/// A node with this egress policy.
async fn node(egress: &str) -> Node {
    Node::start_with(|options| {
        options.runners.egress = egress.parse().unwrap();
        let pairs = [
            ("PUNCTUAL_SECRET_KEY".into(), "s3cret-s3cret".into()),
            ("PUNCTUAL_SECRET_QUERY".into(), "Abc123{secret?tail{99".into()),
            ("PUNCTUAL_SECRET_FRAGMENT".into(), "Xyz789secret#tail99".into()),
        ];
        options.secrets = Arc::new(Secrets::read(None, pairs).unwrap());
    })
    .await
}

async fn ended(node: &Node, payload: Value) -> Value {
    let run =
        node.post("/api/v1/workflows/t/runs", json!({ "payload": payload })).await.expect(201);
    node.ended(run["id"].as_str().unwrap()).await
}

/// Insists that the step failed with this code, after one attempt.
#[track_caller]
fn assert_refused(run: &Value, code: &str) {
    assert_eq!(run["status"], "failed", "{run}");
    assert_eq!(
        (&run["error"]["code"], &run["steps"][0]["attempts"]),
        (&json!(code), &json!(1)),
        "{run}"
    );
}

const BY_PAYLOAD: &str = "name: t\nsteps: [{id: ask, type: http, url: '{{ input.url }}', \
    redirects: 3, headers: {X-Note: '{{ input.note }}', Authorization: Bearer abc}}]\n";

#[tokio::test]
async fn forbidden_addresses_get_no_byte_however_they_are_written() {
    let node = node("").await;
    node.publish(BY_PAYLOAD).await;
    let peer = peer(|_| text("here")).await;
    for (url, code) in [
        ("http://2852039166/", "egress_refused"),
        ("http://0251.0376.0251.0376/", "egress_refused"),
        ("http://0xA9.0xFE.0xA9.0xFE/", "egress_refused"),
        ("http://169.254.43518/", "egress_refused"),
        ("http://[::ffff:a9fe:a9fe]/", "egress_refused"),
        ("http://[64:ff9b::a9fe:a9fe]/", "egress_refused"),
        ("http://[2002:a9fe:a9fe::]/", "egress_refused"),
        ("http://[::1]:PORT/api", "egress_refused"),
        ("http://127.1:PORT/", "egress_refused"),
        ("http://0x7f000001:PORT/", "egress_refused"),
        ("http://2130706433:PORT/", "egress_refused"),
        ("http://017700000001:PORT/", "egress_refused"),
        ("http://①②⑦.0.0.1:PORT/", "egress_refused"),
        ("http://127。0。0。1:PORT/", "egress_refused"),
        ("http://localhost:PORT/", "egress_refused"),
        ("http://10.0.0.1/", "egress_refused"),
        ("http://[fc00::1]/", "egress_refused"),
        ("http://metadata.google.internal/", "egress_refused"),
        ("http://[fe80::1%25eth0]/", "invalid_url"),
        ("gopher://127.0.0.1:6379/_FLUSHALL", "invalid_url"),
        ("data:text/plain,hi", "invalid_url"),
        ("javascript:1", "invalid_url"),
        ("file:///etc/passwd", "invalid_url"),
        ("ftp://127.0.0.1/", "invalid_url"),
        ("ws://127.0.0.1:PORT/", "invalid_url"),
    ] {
        let url = url.replace("PORT", &peer.port.to_string());
        let run = ended(&node, json!({"url": url, "note": "x"})).await;
        assert_refused(&run, code);
    }
    assert_eq!(peer.heard(), Vec::<String>::new());
}

#[tokio::test]
async fn what_is_known_to_be_wrong_is_not_published() {
    let node = node("").await;
    for (step, path) in [
        ("url: 'gopher://127.0.0.1:6379/_FLUSHALL'", "steps[0].url"),
        ("url: 'data:text/plain,hi'", "steps[0].url"),
        ("url: 'javascript:1'", "steps[0].url"),
        (r#"url: 'http://ok.test/', headers: {X: "a\r\nHost: evil"}"#, "steps[0].headers.X"),
    ] {
        let definition = format!("name: t\nsteps: [{{id: ask, type: http, {step}}}]\n");
        let reply = node.yaml("/api/v1/workflows?publish=true", definition).await;
        let problem = reply.whole_problem(422);
        assert_eq!(problem["errors"][0]["path"], path, "{problem}");
        assert!(problem["errors"][0]["line"].is_u64(), "{problem}");
    }
    assert_eq!(node.get("/api/v1/workflows").await.expect(200)["total"], 0);
}

#[tokio::test]
async fn a_template_brings_no_line_into_a_header() {
    let peer = peer(|_| text("here")).await;
    let node = node(&format!("127.0.0.1:{}", peer.port)).await;
    node.publish(BY_PAYLOAD).await;
    let url = format!("http://127.0.0.1:{}/", peer.port);
    for note in ["a\r\nHost: evil", "a\nX: y", "a\rb", "a\u{0}b"] {
        let run = ended(&node, json!({"url": url, "note": note})).await;
        assert_refused(&run, "invalid_header");
    }
    assert_eq!(peer.heard(), Vec::<String>::new());
}

#[tokio::test]
async fn each_hop_is_checked_and_credentials_stay_with_their_host() {
    let other = peer(|_| text("other")).await;
    let port = other.port;
    let first = peer(move |path| match path {
        "/inner" => redirect("http://169.254.169.254/".to_owned()),
        "/scheme" => redirect("file:///etc/passwd".to_owned()),
        _ => redirect(format!("http://127.0.0.1:{port}/")),
    })
    .await;
    let egress = format!("127.0.0.1:{} 127.0.0.1:{}", first.port, other.port);
    let node = node(&egress).await;
    node.publish(BY_PAYLOAD).await;
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", first.port);
    assert_refused(
        &ended(&node, json!({"url": url("/inner"), "note": "x"})).await,
        "egress_refused",
    );
    let run = ended(&node, json!({"url": url("/scheme"), "note": "x"})).await;
    assert_eq!(run["status"], "failed", "{run}");
    let run = ended(&node, json!({"url": url("/other"), "note": "x"})).await;
    assert_eq!(run["status"], "succeeded", "{run}");
    assert_eq!(other.heard(), ["/ None"]);
    assert!(first.heard().iter().all(|line| line.contains("Bearer abc")), "{:?}", first.heard());
}

#[tokio::test]
async fn an_answer_is_measured_unpacked() {
    let bomb = {
        let mut gzip = std::process::Command::new("gzip")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = gzip.stdin.take().unwrap();
        let feeding = std::thread::spawn(move || {
            for _ in 0..256 {
                pipe.write_all(&vec![0; 1 << 20]).unwrap();
            }
        });
        let output = gzip.wait_with_output().unwrap();
        feeding.join().unwrap();
        output.stdout
    };
    assert!(bomb.len() < 1 << 20, "{}", bomb.len());
    let peer = peer(move |_| {
        let response = Response::builder().header(header::CONTENT_ENCODING, "gzip");
        response.body(bomb.clone().into()).unwrap()
    })
    .await;
    let node = node(&format!("127.0.0.1:{}", peer.port)).await;
    node.publish(BY_PAYLOAD).await;
    let url = format!("http://127.0.0.1:{}/", peer.port);
    let run = ended(&node, json!({"url": url, "note": "x"})).await;
    let output = &run["steps"][0]["output"];
    assert_eq!((&run["status"], &output["body_truncated"]), (&json!("succeeded"), &json!(true)));
}

#[tokio::test]
async fn a_secret_in_a_url_is_shown_nowhere() {
    let peer = peer(|path| {
        if path.starts_with("/refuse") {
            Response::builder().status(400).body(path.to_owned().into()).unwrap()
        } else {
            text(path.to_owned())
        }
    })
    .await;
    let node = node(&format!("127.0.0.1:{}", peer.port)).await;
    for path in ["/take", "/refuse"] {
        let url = format!("http://127.0.0.1:{}{path}?key={{{{ secrets.KEY }}}}", peer.port);
        node.publish(&format!("name: t\nsteps: [{{id: ask, type: http, url: '{url}'}}]\n")).await;
        let run = ended(&node, Value::Null).await;
        assert_eq!(run["status"], if path == "/take" { "succeeded" } else { "failed" }, "{run}");
        assert!(!run.to_string().contains("s3cret-s3cret"), "{run}");
    }
    assert_eq!(peer.heard(), ["/take?key=s3cret-s3cret None", "/refuse?key=s3cret-s3cret None"]);
}

/// Such a secret becomes two parts of a URL, of which one may be shown alone.
#[tokio::test]
async fn a_secret_with_a_question_mark_is_masked_before_the_url_is_cut() {
    let peer = peer(|path| Response::builder().status(400).body(path.to_owned().into()).unwrap());
    let peer = peer.await;
    let node = node(&format!("127.0.0.1:{}", peer.port)).await;
    for (name, part) in [("QUERY", "Abc123"), ("FRAGMENT", "Xyz789secret")] {
        let url = format!("http://127.0.0.1:{}/fail/{{{{ secrets.{name} }}}}", peer.port);
        node.publish(&format!("name: t\nsteps: [{{id: ask, type: http, url: '{url}'}}]\n")).await;
        let run = ended(&node, Value::Null).await;
        assert_eq!(run["status"], "failed", "{run}");
        let message = run["error"]["message"].as_str().unwrap();
        let expected = format!("GET http://127.0.0.1:{}/fail/*** answered 400", peer.port);
        assert!(message.starts_with(&expected), "{message}");
        assert!(!run.to_string().contains(part), "{run}");
    }
    assert!(peer.heard()[0].starts_with("/fail/Abc123%7Bsecret?tail{99"), "{:?}", peer.heard());
}
