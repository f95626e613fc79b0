//! Tests of notifications with real peers: signed webhooks, Slack-compatible messages, mail.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Redirect;
use axum::routing::{any, post};
use jiff::Timestamp;
use language::definition::{Action, Channel, Notification};
use runners::{Code, Ended, MailServer, Notifier, Policy, Runners, WebhookKey, WebhookKeys, Work};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::mail_peer::{MailPeer, Manner};
use crate::peer::{Heard, Peer, loopback_listed, policy};
use crate::{failed, succeeded, work};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OLD_SECRET: &str = "whsec_c2VjcmV0LW9mLWFub3RoZXItcmVjZWl2ZXI=";
const NOW: i64 = 1_772_366_400;

fn to(channels: Vec<Channel>) -> Work {
    work(Action::Notification(Notification {
        to: channels,
        subject: Some("Late".to_owned()),
        message: "The report is late.\n.\nÄ".to_owned(),
        data: None,
    }))
}

fn runners(policy: Policy, keys: &str, mail: Option<String>) -> Runners {
    let keys: WebhookKeys = keys.parse().unwrap();
    let mail = mail.map(|text| text.parse::<MailServer>().unwrap());
    let now = || Timestamp::from_second(NOW).unwrap();
    Runners::new(policy).unwrap().notifying(Notifier::new(now, keys, mail))
}

fn mail_at(port: u16) -> Option<String> {
    Some(format!("smtp://127.0.0.1:{port}?from=Punctual+%3Cbot@example.org%3E"))
}

fn ann() -> Channel {
    Channel::Email("ann@example.org".to_owned())
}

async fn perform(runners: &Runners, work: Work) -> Ended {
    runners.perform(work, CancellationToken::new()).await
}

fn told(output: &Value) -> Vec<bool> {
    let channels = output["channels"].as_array().unwrap();
    channels.iter().map(|channel| channel["told"].as_bool().unwrap()).collect()
}

#[track_caller]
fn output_of(ended: Ended) -> Value {
    match ended {
        Ended::Failed { output: Some(output), .. } => output,
        other => panic!("not a failure with an output: {other:?}"),
    }
}

/// A peer that accepts only requests signed with the secret.
async fn checking_peer(heard: &Heard, secret: &'static str) -> Peer {
    let heard = heard.clone();
    let check = move |headers: HeaderMap, body: Bytes| async move {
        let header = |name: &str| headers[name].to_str().unwrap().to_owned();
        let key: WebhookKey = secret.parse().unwrap();
        let (id, at) = (header("webhook-id"), header("webhook-timestamp").parse().unwrap());
        let signatures = header("webhook-signature");
        let is_right = |one: &str| key.has_signed(&id, at, &body, one);
        if !signatures.split(' ').any(is_right) {
            return StatusCode::UNAUTHORIZED;
        }
        heard.add(format!("{id} {at} {}", header("content-type")));
        heard.add(String::from_utf8(body.to_vec()).unwrap());
        StatusCode::NO_CONTENT
    };
    Peer::serve(Router::new().route("/hook", post(check))).await
}

#[tokio::test]
async fn a_webhook_is_signed() {
    let heard = Heard::default();
    let peer = checking_peer(&heard, SECRET).await;
    let to_hook = || to(vec![Channel::Webhook(peer.url("/hook"))]);
    for keys in [
        SECRET.to_owned(),
        format!("{OLD_SECRET} {SECRET}"),
        format!("{OLD_SECRET} 127.0.0.1={SECRET}"),
    ] {
        let output = succeeded(perform(&runners(loopback_listed(), &keys, None), to_hook()).await);
        assert_eq!(output, json!({ "channels": [{ "channel": "webhook", "told": true }] }));
    }
    let heard = heard.all();
    assert_eq!(heard[0], format!("run-1/step-1 {NOW} application/json"));
    assert_eq!(heard[1], heard[3], "the body is the same for every attempt");
    let expected = json!({
        "type": "punctual.notification",
        "data": {
            "run": "run-1",
            "step": "step-1",
            "subject": "Late",
            "message": "The report is late.\n.\nÄ",
        },
    });
    assert_eq!(serde_json::from_str::<Value>(&heard[1]).unwrap(), expected);

    let wrong_key = runners(loopback_listed(), OLD_SECRET, None);
    let (code, message, retryable) = failed(perform(&wrong_key, to_hook()).await);
    assert_eq!((code, retryable), (Code::HttpStatus, false), "{message}");
    assert!(message.contains("0 of 1 channels were told; webhook: POST"), "{message}");
}

#[tokio::test]
async fn slack_gets_a_text() {
    let heard = Heard::default();
    let hear = heard.clone();
    let listen = move |headers: HeaderMap, body: String| async move {
        hear.add(headers["content-type"].to_str().unwrap());
        hear.add(body);
    };
    let peer = Peer::serve(Router::new().fallback(listen)).await;
    let runners = runners(loopback_listed(), "", None);
    succeeded(perform(&runners, to(vec![Channel::Slack(peer.url("/services/T/B"))])).await);
    let text = r#"{"text":"*Late*\nThe report is late.\n.\nÄ"}"#;
    assert_eq!(heard.all(), ["application/json", text]);
}

#[tokio::test]
async fn mail_goes_to_the_server_of_the_node() {
    let peer = MailPeer::serve(Manner::Friendly).await;
    let runners = runners(policy(""), "", mail_at(peer.port));
    succeeded(perform(&runners, to(vec![ann()])).await);
    let first = peer.heard.all();
    for expected in [
        "MAIL FROM:<bot@example.org>",
        "RCPT TO:<ann@example.org>",
        "Subject: Late",
        "Date: Sun, 01 Mar 2026 12:00:00 +0000",
        "To: ann@example.org",
        "The report is late.",
    ] {
        assert!(first.iter().any(|line| line.starts_with(expected)), "{expected}: {first:?}");
    }
    // A line that consists of one dot would end the message, so SMTP doubles it.
    assert!(first.contains(&"..".to_owned()), "{first:?}");
    let message_id = |lines: &[String]| {
        lines.iter().rfind(|line| line.starts_with("Message-ID: <")).unwrap().clone()
    };
    succeeded(perform(&runners, to(vec![ann()])).await);
    assert_eq!(message_id(&first), message_id(&peer.heard.all()), "the same for every attempt");
}

#[tokio::test]
async fn a_mail_server_may_want_a_password() {
    let peer = MailPeer::serve(Manner::WithPassword).await;
    let server = format!("smtp://ann:p%40ss@127.0.0.1:{}?from=bot@example.org", peer.port);
    let runners = runners(policy(""), "", Some(server));
    succeeded(perform(&runners, to(vec![ann()])).await);
    // NUL ann NUL p@ss
    assert!(peer.heard.all().contains(&"AUTH PLAIN AGFubgBwQHNz".to_owned()));
}

#[tokio::test]
async fn mail_servers_that_do_not_take_it_are_told_apart() {
    for (manner, expected, retry, says) in [
        (Manner::Refusing("550 no such user"), Code::MailRefused, false, "no such user"),
        (Manner::Refusing("451 come back later"), Code::MailRefused, true, "come back later"),
        (Manner::HangingUp, Code::Mail, true, "did not take"),
    ] {
        let peer = MailPeer::serve(manner).await;
        let runners = runners(policy(""), "", mail_at(peer.port));
        let (code, message, retryable) = failed(perform(&runners, to(vec![ann()])).await);
        assert_eq!((code, retryable), (expected, retry), "{message}");
        assert!(message.contains(says), "{message}");
    }
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let runners = runners(policy(""), "", mail_at(closed.port()));
    let (code, message, retryable) = failed(perform(&runners, to(vec![ann()])).await);
    assert_eq!((code, retryable), (Code::Mail, true), "{message}");
}

/// The server offers no encryption: a message that must be sent with STARTTLS is not sent in plain
/// text.
#[tokio::test]
async fn encryption_that_was_asked_for_is_not_given_up() {
    let peer = MailPeer::serve(Manner::Friendly).await;
    for url in [
        format!("smtp://127.0.0.1:{}?from=bot@example.org&tls=starttls", peer.port),
        format!("smtps://127.0.0.1:{}?from=bot@example.org", peer.port),
    ] {
        let runners = runners(policy(""), "", Some(url));
        let (code, message, _) = failed(perform(&runners, to(vec![ann()])).await);
        assert_eq!(code, Code::Mail, "{message}");
    }
    assert!(!peer.heard.all().iter().any(|line| line.contains("DATA")));
}

#[tokio::test]
async fn what_the_node_lacks_is_told_with_a_remedy() {
    let hook = Channel::Webhook("http://127.0.0.1:9/".to_owned());
    let not_an_address = Channel::Email("ann@example.org\r\nRCPT TO:<eve@evil.test>".to_owned());
    let two = Channel::Email("a@example.org, b@example.org".to_owned());
    let none = runners(loopback_listed(), "", None);
    let with_mail = runners(loopback_listed(), "", mail_at(9));
    for (runners, channel, expected, says) in [
        (&none, hook.clone(), Code::WebhookKeyMissing, "PUNCTUAL_WEBHOOK_SECRET=whsec_"),
        (&none, ann(), Code::MailNotSetUp, "PUNCTUAL_SMTP=smtps://"),
        (&with_mail, not_an_address, Code::InvalidAddress, "ann@example.org\\r\\n"),
        (&with_mail, two, Code::InvalidAddress, "not an address"),
        (&Runners::new(policy("")).unwrap(), hook, Code::NotifierMissing, "nobody"),
    ] {
        let (code, message, retryable) = failed(perform(runners, to(vec![channel])).await);
        assert_eq!((code, retryable), (expected, false), "{message}");
        assert!(message.contains(says), "{message}");
    }
}

#[tokio::test]
async fn requests_go_only_where_the_egress_policy_admits_them() {
    let heard = Heard::default();
    let peer = checking_peer(&heard, SECRET).await;
    let runners = runners(policy(""), SECRET, None);
    for url in [peer.url("/hook"), "http://169.254.169.254/".to_owned()] {
        for channel in [Channel::Webhook(url.clone()), Channel::Slack(url.clone())] {
            let (code, message, retryable) = failed(perform(&runners, to(vec![channel])).await);
            assert_eq!((code, retryable), (Code::EgressRefused, false), "{message}");
        }
    }
    assert_eq!(heard.all(), Vec::<String>::new());
}

#[tokio::test]
async fn a_redirect_is_a_failure() {
    let heard = Heard::default();
    let hear = heard.clone();
    let router = Router::new()
        .route("/{status}", any(|| async { Redirect::to("/end") }))
        .route("/end", any(move || async move { hear.add("followed") }));
    let peer = Peer::serve(router).await;
    let runners = runners(loopback_listed(), SECRET, None);
    for channel in [Channel::Webhook(peer.url("/x")), Channel::Slack(peer.url("/x"))] {
        let (code, message, _) = failed(perform(&runners, to(vec![channel])).await);
        assert_eq!(code, Code::HttpStatus, "{message}");
    }
    assert_eq!(heard.all(), Vec::<String>::new());
}

#[tokio::test]
async fn long_answers_are_left_unread() {
    let peer = Peer::serve(Router::new().fallback(|| async { "x".repeat(1 << 20) })).await;
    let runners = runners(loopback_listed(), SECRET, None);
    let output = succeeded(perform(&runners, to(vec![Channel::Slack(peer.url("/"))])).await);
    assert_eq!(told(&output), [true]);
}

/// Anyone who knows the path of such a URL may post there.
#[tokio::test]
async fn paths_are_kept_secret() {
    let peer = Peer::serve(Router::new().route("/", any(|| async { "" }))).await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let runners = runners(loopback_listed(), SECRET, None);
    for url in [peer.url("/SECRET"), format!("http://{closed}/SECRET?SECRET")] {
        let ended = perform(&runners, to(vec![Channel::Slack(url)])).await;
        let shown = format!("{ended:?}");
        assert!(shown.contains("http://127.0.0.1:"), "{shown}");
        assert!(!shown.contains("SECRET"), "{shown}");
    }
}

#[tokio::test]
async fn who_was_told_is_not_told_again() {
    let heard = Heard::default();
    let (hear, failures) = (heard.clone(), Arc::new(AtomicUsize::new(0)));
    let answer = move |Path(name): Path<String>| async move {
        hear.add(&name);
        let is_late = name == "late" && failures.fetch_add(1, Ordering::Relaxed) == 0;
        if is_late { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }
    };
    let peer = Peer::serve(Router::new().route("/{name}", post(answer))).await;
    let mail = MailPeer::serve(Manner::Friendly).await;
    let runners = runners(loopback_listed(), SECRET, mail_at(mail.port));
    let attempt = |earlier| {
        let channels =
            vec![Channel::Webhook(peer.url("/hook")), Channel::Slack(peer.url("/late")), ann()];
        Work { earlier, ..to(channels) }
    };
    let first = perform(&runners, attempt(None)).await;
    let (code, message, retryable) = failed(first.clone());
    assert_eq!((code, retryable), (Code::HttpStatus, true), "{message}");
    assert!(message.starts_with("2 of 3 channels were told; slack: POST"), "{message}");
    let output = output_of(first);
    assert_eq!(told(&output), [true, false, true]);

    let output = succeeded(perform(&runners, attempt(Some(output))).await);
    assert_eq!(told(&output), [true, true, true]);
    let mut asked = heard.all();
    asked.sort();
    assert_eq!(asked, ["hook", "late", "late"]);
    let mails = mail.heard.all().iter().filter(|line| line.starts_with("DATA")).count();
    assert_eq!(mails, 1);
}

#[tokio::test]
async fn time_that_is_over_forgets_nobody() {
    let heard = Heard::default();
    let peer = checking_peer(&heard, SECRET).await;
    let mail = MailPeer::serve(Manner::Silent).await;
    let runners = runners(loopback_listed(), SECRET, mail_at(mail.port));
    let mut work = to(vec![ann(), Channel::Webhook(peer.url("/hook"))]);
    // Longer than the peer that answers takes on a busy machine.
    work.timeout = Duration::from_secs(5);
    let ended = perform(&runners, work).await;
    let (code, message, retryable) = failed(ended.clone());
    assert_eq!((code, retryable), (Code::Timeout, true), "{message}");
    assert!(message.starts_with("1 of 2 channels were told within 5s"), "{message}");
    assert_eq!(told(&output_of(ended)), [false, true]);
}

#[tokio::test]
async fn cancelling_abandons_what_goes_on() {
    let asked = Arc::new(Notify::new());
    let teller = Arc::clone(&asked);
    let silence = move || async move {
        teller.notify_one();
        std::future::pending::<()>().await;
    };
    let peer = Peer::serve(Router::new().fallback(silence)).await;
    let runners = runners(loopback_listed(), SECRET, None);
    let cancel = CancellationToken::new();
    let performing = runners.perform(to(vec![Channel::Slack(peer.url("/"))]), cancel.clone());
    let cancelling = async {
        asked.notified().await;
        cancel.cancel();
    };
    let (ended, ()) = tokio::join!(performing, cancelling);
    let Ended::Cancelled { message } = ended else { panic!("not cancelled: {ended:?}") };
    assert!(message.starts_with("0 of 1 channels were told"), "{message}");
}

#[tokio::test]
async fn nobody_to_tell_is_a_success() {
    let output = succeeded(perform(&runners(policy(""), "", None), to(vec![])).await);
    assert_eq!(output, json!({ "channels": [] }));
}
