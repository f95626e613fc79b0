//! Outputs have the fields that `language` knows of when a definition is read.

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get as on_get, post};
use language::definition::{ANSWER_HEADERS, Action, Channel, Notification, OnError, output_schema};
use language::input_schema::InputSchema;
use runners::{Ended, Notifier, Runners};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::exec::{allowed, shell};
use crate::peer::{Peer, getting, loopback_listed};
use crate::{perform, work};

fn output(ended: Ended) -> Value {
    match ended {
        Ended::Succeeded { output } | Ended::Failed { output: Some(output), .. } => output,
        other => panic!("no output: {other:?}"),
    }
}

/// The fields of a schema, with those inside of others, that none of these values has. The field
/// `truncated` is for whoever stores an output.
fn unseen(schema: &InputSchema, values: &[&Value]) -> Vec<String> {
    let mut unseen = Vec::new();
    for (name, field) in schema.properties.iter().filter(|(name, _)| *name != "truncated") {
        let values: Vec<&Value> = values.iter().filter_map(|value| value.get(name)).collect();
        if values.is_empty() {
            unseen.push(name.clone());
        }
        unseen.extend(self::unseen(field, &values));
    }
    if let Some(items) = &schema.items {
        let lists = values.iter().filter_map(|value| value.as_array());
        unseen.extend(self::unseen(items, &lists.flatten().collect::<Vec<_>>()));
    }
    unseen
}

/// Checks that these outputs together have the fields that are listed, and none of them another.
#[track_caller]
fn check(action: &Action, outputs: &[Value]) {
    let schema = output_schema(action, &OnError::FailProcess);
    for output in outputs {
        assert_eq!(schema.check(output).len(), 0, "{:?} in {output}", schema.check(output));
        assert!(output.get("truncated").is_none(), "{output}");
    }
    let unseen = unseen(&schema, &outputs.iter().collect::<Vec<_>>());
    assert_eq!(unseen, [] as [&str; 0], "{} never has these", action.name());
}

#[tokio::test]
async fn of_a_command() {
    let mut outputs = Vec::new();
    for script in ["echo '{\"a\": 1}'", "echo text; exit 3", "kill -TERM $$"] {
        outputs.push(output(perform(allowed(), Action::Exec(shell(script))).await));
    }
    check(&Action::Exec(shell("true")), &outputs);
}

#[tokio::test]
async fn of_a_request() {
    let answer = |status: StatusCode| async move {
        let mut headers = HeaderMap::new();
        for name in ANSWER_HEADERS.iter().filter(|name| **name != "date") {
            headers.insert(*name, "x".parse().unwrap());
        }
        headers.insert("x-other", "x".parse().unwrap());
        (status, headers, "text")
    };
    let router = Router::new()
        .route("/good", on_get(move || answer(StatusCode::OK)))
        .route("/json", on_get(|| async { axum::Json([1]) }))
        .route("/bad", on_get(move || answer(StatusCode::CONFLICT)));
    let peer = Peer::serve(router).await;
    let mut outputs = Vec::new();
    for path in ["/good", "/json", "/bad"] {
        outputs.push(output(perform(loopback_listed(), getting(peer.url(path))).await));
    }
    check(&getting("http://example.com/"), &outputs);
}

#[tokio::test]
async fn of_a_notification() {
    let router = Router::new().route("/slack", post(|| async { "ok" }));
    let peer = Peer::serve(router).await;
    let told = Channel::Slack(peer.url("/slack"));
    let action = Action::Notification(Notification {
        to: vec![told, Channel::Email("ann@example.org".to_owned())],
        subject: None,
        message: "Late".to_owned(),
        data: None,
    });
    let notifier = Notifier::new(|| jiff::Timestamp::UNIX_EPOCH, "".parse().unwrap(), None);
    let runners = Runners::new(loopback_listed()).unwrap().notifying(notifier);
    let ended = runners.perform(work(action.clone()), CancellationToken::new()).await;
    check(&action, &[output(ended)]);
}
