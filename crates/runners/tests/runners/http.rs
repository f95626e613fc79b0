//! Tests of HTTP requests and responses.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request};
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::response::{IntoResponse, Redirect};
use axum::routing::{any, get as on_get};
use flate2::Compression;
use flate2::write::GzEncoder;
use language::definition::limits::OUTPUT_BYTES;
use language::definition::{Action, HttpAction};
use runners::{Code, Ended, Mask, Runners};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::peer::{Heard, Peer, get, getting, loopback_listed};
use crate::{INPUT, failed, perform, succeeded, work};

async fn send(action: HttpAction) -> Ended {
    perform(loopback_listed(), Action::Http(action)).await
}

/// Answers with the request it received.
async fn mirror(request: Request) -> axum::Json<Value> {
    let (head, body) = request.into_parts();
    let headers: serde_json::Map<_, _> = head
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().into()))
        .collect();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    axum::Json(json!({
        "method": head.method.as_str(),
        "headers": headers,
        "body": String::from_utf8(body.to_vec()).unwrap(),
    }))
}

#[tokio::test]
async fn a_request_says_who_asks_and_why() {
    let peer = Peer::serve(Router::new().fallback(mirror)).await;
    let output = succeeded(send(get(peer.url("/"))).await);
    let headers = &output["body"]["headers"];
    assert_eq!(headers["idempotency-key"], "run-1/step-1");
    assert_eq!(headers["punctual-run-id"], "run-1");
    assert_eq!(headers["user-agent"], concat!("punctual/", env!("CARGO_PKG_VERSION")));
    assert_eq!(output["status"], 200);
    assert_eq!(output["headers"]["content-type"], "application/json");
}

#[tokio::test]
async fn headers_of_the_definition_win_over_ours() {
    let peer = Peer::serve(Router::new().fallback(mirror)).await;
    let mut action = get(peer.url("/"));
    for (name, value) in [("User-Agent", "mine"), ("Idempotency-Key", "k")] {
        action.headers.insert(name.to_owned(), value.to_owned());
    }
    let output = succeeded(send(action).await);
    assert_eq!(output["body"]["headers"]["user-agent"], "mine");
    assert_eq!(output["body"]["headers"]["idempotency-key"], "k");
}

#[tokio::test]
async fn the_body_is_text_json_or_the_input() {
    let peer = Peer::serve(Router::new().fallback(mirror)).await;
    let input = INPUT;
    for (method, body, sent, kind) in [
        ("POST", None, input, json!("application/json")),
        ("PUT", None, input, json!("application/json")),
        ("PATCH", None, input, json!("application/json")),
        ("GET", None, "", Value::Null),
        ("DELETE", None, "", Value::Null),
        ("POST", Some(json!("a=1\n")), "a=1\n", json!("text/plain; charset=utf-8")),
        ("POST", Some(json!({"a": [1]})), r#"{"a":[1]}"#, json!("application/json")),
        ("DELETE", Some(json!(3)), "3", json!("application/json")),
    ] {
        let action = HttpAction { method: method.into(), body: body.clone(), ..get(peer.url("/")) };
        let output = succeeded(send(action).await);
        assert_eq!(output["body"]["method"], method);
        assert_eq!(output["body"]["body"], sent, "{method} {body:?}");
        assert_eq!(output["body"]["headers"]["content-type"], kind, "{method} {body:?}");
    }
}

#[tokio::test]
async fn the_status_decides() {
    let answer = |Path(status): Path<u16>| async move {
        (StatusCode::from_u16(status).unwrap(), "the reason")
    };
    let peer = Peer::serve(Router::new().route("/{status}", any(answer))).await;
    for (status, expect, verdict) in [
        (200, &[] as &[u16], None),
        (204, &[], None),
        (299, &[], None),
        (404, &[404, 410], None),
        (302, &[302], None),
        (200, &[404], Some(true)),
        (400, &[], Some(false)),
        (401, &[], Some(false)),
        (403, &[], Some(false)),
        (404, &[], Some(false)),
        (405, &[], Some(false)),
        (410, &[], Some(false)),
        (422, &[], Some(false)),
        (408, &[], Some(true)),
        (409, &[], Some(true)),
        (425, &[], Some(true)),
        (429, &[], Some(true)),
        (500, &[], Some(true)),
        (503, &[], Some(true)),
    ] {
        let expect = expect.to_vec();
        let action = HttpAction { expect, ..get(peer.url(&format!("/{status}?q=SECRET"))) };
        let (failure, output) = match send(action).await {
            Ended::Succeeded { output } => (None, output),
            Ended::Failed { code, message, retryable, output } => {
                assert_eq!(code, Code::HttpStatus);
                assert!(message.contains(&status.to_string()), "{message}");
                assert!(message.contains("the reason"), "{message}");
                assert!(!message.contains("SECRET"), "{message}");
                (Some(retryable), output.unwrap())
            }
            other => panic!("{other:?}"),
        };
        assert_eq!((failure, &output["status"]), (verdict, &json!(status)));
    }
}

#[tokio::test]
async fn json_is_read_and_anything_else_is_text() {
    for (kind, sent, read) in [
        ("application/json", r#"{"a": 1}"#, json!({"a": 1})),
        ("application/problem+json; charset=utf-8", "[]", json!([])),
        ("Application/JSON", "null", Value::Null),
        ("application/json", "{broken", json!("{broken")),
        ("text/plain", r#"{"a": 1}"#, json!(r#"{"a": 1}"#)),
    ] {
        let answer = move || async move { ([(header::CONTENT_TYPE, kind)], sent) };
        let peer = Peer::serve(Router::new().route("/", on_get(answer))).await;
        assert_eq!(succeeded(send(get(peer.url("/"))).await)["body"], read, "{kind} {sent}");
    }
}

#[tokio::test]
async fn an_answer_without_a_body_has_an_empty_text() {
    let peer = Peer::serve(Router::new().fallback(mirror)).await;
    let action = HttpAction { method: "HEAD".to_owned(), ..get(peer.url("/")) };
    assert_eq!(succeeded(send(action).await)["body"], "");
}

#[tokio::test]
async fn what_is_not_a_method_is_refused() {
    for method in ["", "GET /x HTTP/1.1\r\nHost: evil", "GE T"] {
        let action = HttpAction { method: method.to_owned(), ..get("http://127.0.0.1/") };
        let (code, _, retryable) = failed(send(action).await);
        assert_eq!((code, retryable), (Code::InvalidMethod, false), "{method:?}");
    }
}

#[tokio::test]
async fn the_limit_is_exact() {
    let peer = Peer::serve(Router::new().fallback(|| async { "12345" })).await;
    let limited = |max_bytes| HttpAction { max_bytes, ..get(peer.url("/")) };
    for (limit, body, is_cut) in [(5, "12345", false), (4, "1234", true), (0, "", true)] {
        let output = succeeded(send(limited(limit)).await);
        assert_eq!((&output["body"], &output["body_truncated"]), (&json!(body), &json!(is_cut)));
    }
}

/// A secret that lies across the cut is masked as a whole, wherever the response is cut.
#[tokio::test]
async fn no_part_of_a_secret_is_left_where_an_answer_is_cut() {
    let body = format!("{}tops3cret{}", "x".repeat(100), "y".repeat(100));
    let peer = Peer::serve(Router::new().fallback(move || async move { body.clone() })).await;
    for max_bytes in 95..115 {
        let mut policy = loopback_listed();
        policy.mask = Mask::new(|text| text.replace("tops3cret", "***"));
        let action = HttpAction { max_bytes, ..get(peer.url("/")) };
        let output = succeeded(perform(policy, Action::Http(action)).await);
        let body = output["body"].as_str().unwrap();
        let shown = body.trim_start_matches('x').trim_end_matches('y');
        assert!("***".starts_with(shown), "{max_bytes}: {body}");
        assert_eq!(output["body_truncated"], true, "{max_bytes}");
    }
}

#[tokio::test]
async fn an_answer_that_is_too_much_to_keep_is_cut() {
    let quotes = "\"".repeat(200_000);
    let list = json!(vec!["x"; 66_000]).to_string();
    let text = |body: String| move || async move { body };
    let as_json = move || async move { ([(header::CONTENT_TYPE, "application/json")], list) };
    let router = Router::new().route("/text", on_get(text(quotes))).route("/json", on_get(as_json));
    let peer = Peer::serve(router).await;
    for (path, begins) in [("/text", "\"\""), ("/json", "[\"x\",")] {
        let output = succeeded(send(get(peer.url(path))).await);
        assert_eq!(output["body_truncated"], true, "{path}");
        assert!(output["body"].as_str().unwrap().starts_with(begins), "{path}");
        let bytes = output.to_string().len();
        assert!((200_000..=OUTPUT_BYTES).contains(&bytes), "{path}: {bytes}");
    }
}

/// A gzip file of a thousand members of 10 MB each: 10 MB that unpack to 10 GB.
#[tokio::test]
async fn a_bomb_is_left_unread() {
    const MEMBERS: usize = 1000;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&vec![0; 10_000_000]).unwrap();
    let member = Bytes::from(encoder.finish().unwrap());
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let answer = move || async move {
        let members = (0..MEMBERS).map(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::io::Error>(member.clone())
        });
        let body = Body::from_stream(futures_util::stream::iter(members));
        Response::builder().header(header::CONTENT_ENCODING, "gzip").body(body).unwrap()
    };
    let peer = Peer::serve(Router::new().route("/", on_get(answer))).await;
    let output = succeeded(send(get(peer.url("/"))).await);
    assert_eq!(output["body_truncated"], true);
    assert!(sent.load(Ordering::Relaxed) < MEMBERS);
}

#[tokio::test]
async fn gzip_is_unpacked_and_broken_gzip_told() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(b"unpacked").unwrap();
    let good = encoder.finish().unwrap();
    let packed = move |Path(kept): Path<usize>| async move {
        ([(header::CONTENT_ENCODING, "gzip")], good[..kept.min(good.len())].to_vec())
    };
    let peer = Peer::serve(Router::new().route("/{kept}", on_get(packed))).await;
    assert_eq!(succeeded(send(get(peer.url("/999"))).await)["body"], "unpacked");
    let (code, _, retryable) = failed(send(get(peer.url("/12"))).await);
    assert_eq!((code, retryable), (Code::Body, true));
}

fn countdown() -> Router {
    let step = |Path(left): Path<u32>| async move {
        match left {
            0 => "done".into_response(),
            left => Redirect::temporary(&format!("/{}", left - 1)).into_response(),
        }
    };
    Router::new().route("/{left}", on_get(step))
}

#[tokio::test]
async fn redirects_are_followed_as_often_as_allowed() {
    let peer = Peer::serve(countdown()).await;
    let chain =
        |redirects, length| HttpAction { redirects, ..get(peer.url(&format!("/{length}"))) };
    for (allowed, length) in [(5, 5), (1, 1), (3, 0)] {
        assert_eq!(succeeded(send(chain(allowed, length)).await)["body"], "done");
    }
    for (allowed, length) in [(4, 5), (1, 2)] {
        let (code, _, retryable) = failed(send(chain(allowed, length)).await);
        assert_eq!((code, retryable), (Code::TooManyRedirects, false));
    }
    let (code, ..) = failed(send(chain(0, 1)).await);
    assert_eq!(code, Code::HttpStatus);
}

#[tokio::test]
async fn an_expected_redirect_is_the_answer() {
    let peer = Peer::serve(countdown()).await;
    let action = HttpAction { expect: vec![307], ..get(peer.url("/3")) };
    let output = succeeded(send(action).await);
    assert_eq!(output["headers"]["location"], "/2");
}

#[tokio::test]
async fn credentials_do_not_go_to_another_origin() {
    let heard = Heard::default();
    let listen = |name: &'static str, heard: Heard| {
        move |headers: HeaderMap| async move {
            for header in ["authorization", "cookie", "x-api-key", "accept"] {
                if headers.contains_key(header) {
                    heard.add(format!("{name} {header}"));
                }
            }
        }
    };
    let other = Peer::serve(Router::new().fallback(listen("other", heard.clone()))).await;
    let elsewhere = other.url("/");
    let first = Router::new()
        .route("/same", on_get(|| async { Redirect::to("/end") }))
        .route("/other", on_get(move || async move { Redirect::to(&elsewhere) }))
        .route("/end", on_get(listen("first", heard.clone())));
    let first = Peer::serve(first).await;
    for path in ["/same", "/other"] {
        let mut action = get(first.url(path));
        for name in ["Authorization", "Cookie", "X-Api-Key", "Accept"] {
            action.headers.insert(name.to_owned(), "SECRET".to_owned());
        }
        succeeded(send(action).await);
    }
    let expected =
        ["first authorization", "first cookie", "first x-api-key", "first accept", "other accept"];
    assert_eq!(heard.all(), expected);
}

#[tokio::test]
async fn peers_that_are_not_there_are_told_apart() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (code, message, retryable) = failed(send(get(format!("http://{closed}/"))).await);
    assert_eq!((code, retryable), (Code::Connect, true), "{message}");
    assert!(message.contains("refused"), "{message}");

    let plain = Peer::serve(Router::new().fallback(mirror)).await;
    let over_tls = plain.url("/").replace("http:", "https:");
    let (code, message, retryable) = failed(send(get(over_tls)).await);
    assert_eq!((code, retryable), (Code::Connect, true), "{message}");

    let (code, message, retryable) = failed(send(get("http://nowhere.invalid/")).await);
    assert_eq!((code, retryable), (Code::Dns, true), "{message}");
}

#[tokio::test]
async fn a_peer_that_hangs_up_is_told() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let hang_up = async { drop(listener.accept().await.unwrap()) };
    let (ended, ()) = tokio::join!(send(get(url)), hang_up);
    let (code, message, retryable) = failed(ended);
    assert_eq!((code, retryable), (Code::Request, true), "{message}");
}

/// A peer that signals when it receives a request, and never answers.
async fn silent_peer() -> (Peer, Arc<Notify>) {
    let asked = Arc::new(Notify::new());
    let teller = Arc::clone(&asked);
    let silence = move || async move {
        teller.notify_one();
        std::future::pending::<()>().await;
    };
    (Peer::serve(Router::new().fallback(silence)).await, asked)
}

#[tokio::test]
async fn cancelling_abandons_the_request() {
    let (peer, asked) = silent_peer().await;
    let runners = Runners::new(loopback_listed()).unwrap();
    let cancel = CancellationToken::new();
    let performing = runners.perform(work(getting(peer.url("/"))), cancel.clone());
    let cancelling = async {
        asked.notified().await;
        cancel.cancel();
    };
    let (ended, ()) = tokio::join!(performing, cancelling);
    assert!(matches!(ended, Ended::Cancelled { .. }), "{ended:?}");
}

#[tokio::test]
async fn the_time_of_an_attempt_covers_head_and_body() {
    let (silent, _asked) = silent_peer().await;
    let endless = || async {
        Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>())
    };
    let endless = Peer::serve(Router::new().fallback(endless)).await;
    let runners = Runners::new(loopback_listed()).unwrap();
    for peer in [&silent, &endless] {
        let mut work = work(getting(peer.url("/")));
        work.timeout = Duration::from_millis(200);
        let ended = runners.perform(work, CancellationToken::new()).await;
        assert!(matches!(ended, Ended::TimedOut { .. }), "{ended:?}");
    }
}
