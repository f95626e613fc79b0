//! Peers that do not read responses, too many connections, and bodies that are not read to their
//! end.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;

use server::http::ConnectionLimits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::{Node, PATIENCE};

async fn limited(most: usize, from_one_address: usize, write_time: Duration) -> Node {
    Node::start_with(|options| {
        let limits = ConnectionLimits::default();
        options.connections = ConnectionLimits { most, from_one_address, write_time, ..limits };
    })
    .await
}

async fn connect(node: &Node, from: [u8; 4]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((IpAddr::from(from), 0))).unwrap();
    socket.connect(node.server.address()).await.unwrap()
}

/// The head of the response to a request on a connection of its own.
async fn ask(node: &Node, from: [u8; 4], path: &str) -> String {
    let mut stream = connect(node, from).await;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "{path} is not answered");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    answer.split("\r\n\r\n").next().unwrap().to_owned()
}

const HERE: [u8; 4] = [127, 0, 0, 1];
const THERE: [u8; 4] = [127, 0, 0, 2];

async fn ask_until(node: &Node, path: &str, status: &str) {
    let answered = async { while !ask(node, HERE, path).await.contains(status) {} };
    tokio::time::timeout(PATIENCE, answered).await.unwrap();
}

#[tokio::test]
async fn peers_that_take_no_answers_silence_nobody_and_are_closed() {
    let node = limited(4, 4, Duration::from_secs(3)).await;
    let request = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(500);
    let mut deaf = Vec::new();
    for _ in 0..4 {
        let mut stream = connect(&node, HERE).await;
        // The request may be sent only in part: the node reads no more than it can answer.
        let _ =
            tokio::time::timeout(Duration::from_millis(50), stream.write_all(request.as_bytes()))
                .await;
        deaf.push(stream);
    }
    for path in ["/healthz", "/readyz", "/metrics"] {
        let answer = ask(&node, HERE, path).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }
    let busy = ask(&node, HERE, "/api/v1/schedules").await;
    assert!(busy.starts_with("HTTP/1.1 503") && busy.contains("retry-after: 1"), "{busy}");
    // These peers still read nothing, and their connections are closed.
    ask_until(&node, "/api/v1/schedules", "HTTP/1.1 200").await;
    drop(deaf);
}

#[tokio::test]
async fn one_address_leaves_places_for_others() {
    let node = limited(10, 2, PATIENCE).await;
    let held = [connect(&node, THERE).await, connect(&node, THERE).await];
    let refused = async {
        while !ask(&node, THERE, "/api/v1/schedules").await.starts_with("HTTP/1.1 503") {}
    };
    tokio::time::timeout(PATIENCE, refused).await.unwrap();
    assert!(ask(&node, THERE, "/healthz").await.starts_with("HTTP/1.1 200"));
    assert!(ask(&node, HERE, "/api/v1/schedules").await.starts_with("HTTP/1.1 200"));
    drop(held);
    let free = async {
        while !ask(&node, THERE, "/api/v1/schedules").await.starts_with("HTTP/1.1 200") {}
    };
    tokio::time::timeout(PATIENCE, free).await.unwrap();
}

#[tokio::test]
async fn health_is_answered_however_many_say_nothing() {
    let node = limited(1, 1, PATIENCE).await;
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(connect(&node, HERE).await);
    }
    let answer = ask(&node, HERE, "/healthz").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(silent);
}

/// Larger than any route accepts, and than the buffers between two sockets hold.
const LARGE: usize = 24 * 1024 * 1024;

/// Sends the whole body before it reads the response, as most clients do.
async fn send_all(node: &Node, head: &str) -> String {
    let mut stream = connect(node, HERE).await;
    let request = format!("{head}Content-Length: {LARGE}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let chunk = vec![b' '; 64 * 1024];
    for _ in 0..LARGE / chunk.len() {
        stream.write_all(&chunk).await.expect("the connection is reset while the body is sent");
    }
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("the answer is lost");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn who_sends_too_much_is_told_so() {
    let node = Node::start_with(|options| options.token = Some("sesame".to_owned())).await;
    let head = |path: &str, token: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\n"
        )
    };
    for (path, token, status) in [
        ("/api/v1/schedules", "sesame", "413"),
        ("/api/v1/schedules/batch", "sesame", "413"),
        ("/api/v1/workflows", "sesame", "413"),
        ("/api/v1/schedules", "wrong", "401"),
        ("/api/v1/nowhere", "sesame", "404"),
    ] {
        let answer = send_all(&node, &head(path, token)).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {answer:.200}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_is_told_that_it_sends_too_much() {
    let node = Node::start().await;
    let mut body = tempfile::NamedTempFile::new().unwrap();
    body.write_all(&vec![b' '; LARGE]).unwrap();
    let data = format!("@{}", body.path().display());
    for more in [&["-H", "Expect:"][..], &[], &["-H", "Transfer-Encoding: chunked"]] {
        let mut curl = tokio::process::Command::new("curl");
        curl.args(["-sS", "-w", "\n%{http_code}", "-H", "Content-Type: application/json"]);
        curl.args(more).args(["--data-binary", &data, &node.url("/api/v1/schedules")]);
        let output = match curl.stdin(Stdio::null()).output().await {
            Ok(output) => output,
            Err(error) => {
                println!("SKIPPED: there is no curl: {error}");
                return;
            }
        };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{more:?}: {complaint}");
        assert!(said.ends_with("\n413") && said.contains("1024 KiB"), "{more:?}: {said}");
    }
}

#[tokio::test]
async fn a_request_without_a_host_is_refused() {
    let node = Node::start().await;
    for (request, status) in [
        ("GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n", "400"),
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "200"),
        ("GET /healthz HTTP/1.0\r\n\r\n", "200"),
    ] {
        let mut stream = connect(&node, HERE).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.split(' ').nth(1) == Some(status), "{request}: {answer}");
    }
}
