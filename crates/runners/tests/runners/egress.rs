//! Requests that the egress policy must refuse: every hostile case that can be tested with a real
//! request.

use axum::Router;
use axum::response::Redirect;
use axum::routing::get as on_get;
use language::definition::{Action, CONNECTION_HEADERS};
use runners::script::{FetchRequest, WorldFailure};
use runners::{Code, Runners};

use crate::peer::{Heard, Peer, get, getting, loopback_listed, policy};
use crate::{failed, perform, succeeded};

async fn listening_peer(heard: &Heard) -> Peer {
    let heard = heard.clone();
    let answer = move || async move {
        heard.add("asked");
        "here"
    };
    Peer::serve(Router::new().fallback(answer)).await
}

#[tokio::test]
async fn forbidden_addresses_get_no_byte() {
    let heard = Heard::default();
    let peer = listening_peer(&heard).await;
    for (url, expected) in [
        ("http://2852039166/", Code::EgressRefused),
        ("http://0251.0376.0251.0376/", Code::EgressRefused),
        ("http://0xa9fea9fe/", Code::EgressRefused),
        ("http://169.254.169.254/latest/meta-data/", Code::EgressRefused),
        ("http://[::1]:PORT/api", Code::EgressRefused),
        ("http://127.1:PORT/", Code::EgressRefused),
        ("http://127.0.0.1:PORT/", Code::EgressRefused),
        ("http://0:PORT/", Code::EgressRefused),
        ("http://[::ffff:127.0.0.1]:PORT/", Code::EgressRefused),
        ("http://[::127.0.0.1]:PORT/", Code::EgressRefused),
        ("http://[::]:PORT/", Code::EgressRefused),
        ("http://[fd00:ec2::254]/", Code::EgressRefused),
        ("http://100.100.100.200/", Code::EgressRefused),
        ("http://metadata.google.internal/", Code::EgressRefused),
        ("http://METADATA.GOOGLE.INTERNAL./", Code::EgressRefused),
        ("http://localhost:PORT/", Code::EgressRefused),
        ("http://LOCALHOST:PORT/", Code::EgressRefused),
        ("http://user@localhost:PORT/", Code::EgressRefused),
        ("http://[fe80::1]/", Code::EgressRefused),
        ("http://[fe80::1%25eth0]/", Code::InvalidUrl),
        ("gopher://127.0.0.1:6379/_FLUSHALL", Code::InvalidUrl),
        ("data:text/plain,hi", Code::InvalidUrl),
        ("javascript:1", Code::InvalidUrl),
        ("file:///etc/passwd", Code::InvalidUrl),
        ("//127.0.0.1/", Code::InvalidUrl),
        ("", Code::InvalidUrl),
    ] {
        let url = url.replace("PORT", &peer.port.to_string());
        let (code, message, retryable) = failed(perform(policy(""), getting(&url)).await);
        assert_eq!((code, retryable), (expected, false), "{url}: {message}");
    }
    assert_eq!(heard.all(), Vec::<String>::new());
}

#[tokio::test]
async fn the_list_does_not_open_what_is_never_reached() {
    let everything = "0.0.0.0/0 ::/0 metadata.test";
    for url in [
        "http://169.254.169.254/",
        "http://[::ffff:169.254.169.254]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://0.0.0.0/",
        "http://255.255.255.255/",
        "http://224.0.0.1/",
        "http://[ff02::1]/",
        "http://metadata.google.internal/",
    ] {
        let (code, message, _) = failed(perform(policy(everything), getting(url)).await);
        assert_eq!(code, Code::EgressRefused, "{url}: {message}");
        assert!(message.contains("never reached"), "{message}");
    }
}

#[tokio::test]
async fn a_name_is_judged_by_what_it_resolves_to() {
    let heard = Heard::default();
    let peer = listening_peer(&heard).await;
    let url = format!("http://localhost:{}/", peer.port);

    let (_, message, _) = failed(perform(policy(""), getting(&url)).await);
    assert!(message.contains("localhost resolves to"), "{message}");
    assert!(message.contains("loopback"), "{message}");

    for list in [
        "localhost".to_owned(),
        format!("localhost:{}", peer.port),
        "127.0.0.1 ::1".to_owned(),
        "127.0.0.0/8".to_owned(),
    ] {
        let output = succeeded(perform(policy(&list), getting(&url)).await);
        assert_eq!(output["body"], "here", "{list}");
    }
    for list in ["localhost:1".to_owned(), format!("127.0.0.1:{}", peer.port)] {
        let (code, ..) = failed(perform(policy(&list), getting(&url)).await);
        assert_eq!(code, Code::EgressRefused, "{list}");
    }
}

#[tokio::test]
async fn every_hop_is_judged() {
    let heard = Heard::default();
    let inner = listening_peer(&heard).await;
    let targets = [
        "http://169.254.169.254/".to_owned(),
        "http://metadata.google.internal/".to_owned(),
        format!("http://[::1]:{}/", inner.port),
        format!("http://127.0.0.1:{}/", inner.port),
        format!("//localhost:{}/", inner.port),
    ];
    for target in targets {
        let to = target.clone();
        let redirect = move || async move { Redirect::temporary(&to) };
        let outer = Peer::serve(Router::new().route("/", on_get(redirect))).await;
        let only_outer = policy(&format!("127.0.0.1:{}", outer.port));
        let (code, message, retryable) = failed(perform(only_outer, getting(outer.url("/"))).await);
        assert_eq!((code, retryable), (Code::EgressRefused, false), "{target}: {message}");
    }
    assert_eq!(heard.all(), Vec::<String>::new());
}

#[tokio::test]
async fn a_redirect_to_another_scheme_is_refused() {
    for target in ["gopher://127.0.0.1:6379/_FLUSHALL", "file:///etc/passwd", "data:,hi"] {
        let redirect = move || async move { Redirect::temporary(target) };
        let peer = Peer::serve(Router::new().route("/", on_get(redirect))).await;
        let (code, ..) = failed(perform(loopback_listed(), getting(peer.url("/"))).await);
        assert_eq!(code, Code::RedirectRefused, "{target}");
    }
}

#[tokio::test]
async fn messages_keep_queries_and_passwords_to_themselves() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for list in ["", "127.0.0.0/8"] {
        let url = format!("http://me:SECRET@{closed}/path?key=SECRET#SECRET");
        let (_, message, _) = failed(perform(policy(list), getting(url)).await);
        assert!(!message.contains("SECRET"), "{message}");
        assert!(message.contains("/path"), "{message}");
    }
}

#[tokio::test]
async fn headers_that_break_the_message_are_refused() {
    let heard = Heard::default();
    let peer = listening_peer(&heard).await;
    for (name, value) in [
        ("X", "a\r\nHost: evil"),
        ("X", "a\nb"),
        ("X", "a\0b"),
        ("X\r\nHost", "evil"),
        ("X Y", "a"),
        ("", "a"),
        ("Content-Length", "0"),
        ("Transfer-Encoding", "chunked"),
        ("connection", "upgrade"),
    ] {
        let mut action = get(peer.url("/"));
        action.headers.insert(name.to_owned(), value.to_owned());
        let ended = perform(loopback_listed(), Action::Http(action)).await;
        let (code, message, retryable) = failed(ended);
        assert_eq!((code, retryable), (Code::InvalidHeader, false), "{name:?}: {value:?}");
        assert!(!message.contains('\n'), "{message}");
    }
    assert_eq!(heard.all(), Vec::<String>::new());
}

/// Covers steps and mutations (`perform`) and scripts (`fetch`).
#[tokio::test]
async fn headers_of_the_connection_are_refused_whoever_sets_them() {
    let heard = Heard::default();
    let peer = listening_peer(&heard).await;
    let runners = Runners::new(loopback_listed()).unwrap();
    assert!(CONNECTION_HEADERS.contains(&"host"));
    for name in CONNECTION_HEADERS {
        for name in [name.to_owned(), name.to_uppercase()] {
            let mut action = get(peer.url("/"));
            action.headers.insert(name.clone(), "1".to_owned());
            let headers = action.headers.clone();
            let (code, message, _) = failed(perform(loopback_listed(), Action::Http(action)).await);
            assert_eq!(code, Code::InvalidHeader, "{name}: {message}");
            let request = FetchRequest { url: peer.url("/"), method: "GET".to_owned(), headers };
            match runners.fetch(request).await {
                Err(WorldFailure::Logic(why)) => assert!(why.contains(&name), "{name}: {why}"),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
    assert_eq!(heard.all(), Vec::<String>::new());
}
