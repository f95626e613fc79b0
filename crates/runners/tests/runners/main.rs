//! Tests of the runners with real peers and real commands.
#![allow(clippy::unwrap_used, reason = "what a test cannot unwrap fails it")]

mod egress;
mod exec;
mod http;
mod lifeline;
mod mail_peer;
mod notification;
mod orphans;
mod output_fields;
mod peer;
mod script;
mod supervisor;

use std::time::Duration;

use language::definition::Action;
use runners::{Ended, Policy, Runners, Work};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Far longer than any of these attempts takes, so that no test depends on it.
const LONG: Duration = Duration::from_secs(120);

/// An input with a number that no float can hold, which must be passed on unchanged.
const INPUT: &str = r#"{"order": 7, "much": 1e400}"#;

fn work(action: Action) -> Work {
    Work {
        action,
        run_id: "run-1".to_owned(),
        step_id: "step-1".to_owned(),
        idempotency_key: "run-1/step-1".to_owned(),
        input: INPUT.into(),
        traceparent: None,
        output_sink: None,
        earlier: None,
        timeout: LONG,
    }
}

async fn perform(policy: Policy, action: Action) -> Ended {
    let runners = Runners::new(policy).unwrap();
    runners.perform(work(action), CancellationToken::new()).await
}

#[track_caller]
fn succeeded(ended: Ended) -> Value {
    match ended {
        Ended::Succeeded { output } => output,
        other => panic!("not a success: {other:?}"),
    }
}

#[track_caller]
fn failed(ended: Ended) -> (runners::Code, String, bool) {
    match ended {
        Ended::Failed { code, message, retryable, .. } => (code, message, retryable),
        other => panic!("not a failure: {other:?}"),
    }
}

#[tokio::test]
async fn noop_succeeds_with_nothing() {
    assert_eq!(succeeded(perform(Policy::default(), Action::Noop).await), Value::Null);
}
