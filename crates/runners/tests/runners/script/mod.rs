//! Tests of scripts, evaluated by real child processes.

mod calls;
mod children;
mod hostile;
mod results;
mod speed;
mod vectors;

use std::collections::BTreeMap;
use std::future::ready;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use runners::script::{
    Entry, Evaluated, Evaluation, Failed, FetchAnswer, FetchRequest, Limit, Permits, ScriptFailure,
    ScriptHost, ScriptLimits, ScriptWorld, Scripts, WorldFailure,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A host whose children are this crate's own program.
fn host() -> ScriptHost {
    ScriptHost::new(env!("CARGO_BIN_EXE_script-child"), &[])
}

fn scripts() -> Scripts {
    Scripts::new(host())
}

fn limited(limits: ScriptLimits) -> Scripts {
    Scripts::new(ScriptHost { limits, children: 1, ..host() })
}

/// An evaluation of a step of a process.
fn step(source: &str) -> Evaluation {
    Evaluation {
        source: source.into(),
        name: "step.js".to_owned(),
        phase: "a step".to_owned(),
        entry: Entry::Body,
        arguments: vec![json!({"order": 7}), json!({})],
        permits: Permits::STEP,
        secrets: BTreeMap::new(),
        now: "2026-03-01T09:00:00Z".parse().unwrap(),
        timeout: None,
    }
}

/// An evaluation of a function of a module.
fn handler(source: &str, path: &[&str], permits: Permits) -> Evaluation {
    let path = path.iter().map(|&step| step.to_owned()).collect();
    Evaluation {
        name: "workflow.js".to_owned(),
        phase: "this phase".to_owned(),
        entry: Entry::Handler(path),
        arguments: vec![json!({"seen": 3})],
        permits,
        ..step(source)
    }
}

async fn evaluate(scripts: &Scripts, evaluation: Evaluation) -> Result<Evaluated, Failed> {
    scripts.evaluate(evaluation, &Answering, &CancellationToken::new()).await
}

/// Returns the value of a step.
async fn result(source: &str) -> Value {
    match evaluate(&scripts(), step(source)).await {
        Ok(evaluated) => evaluated.value,
        Err(failed) => panic!("{source}: {failed:?}"),
    }
}

/// Returns the message for a step that contains a mistake.
async fn refused(source: &str) -> String {
    mistake(evaluate(&scripts(), step(source)).await).0
}

#[track_caller]
fn mistake(ended: Result<Evaluated, Failed>) -> (String, Option<u32>, Option<u32>) {
    match ended {
        Err(Failed { failure: ScriptFailure::Logic { message, line, column, .. }, .. }) => {
            (message, line, column)
        }
        other => panic!("not a mistake: {other:?}"),
    }
}

#[track_caller]
fn limit(ended: Result<Evaluated, Failed>) -> (Limit, String) {
    match ended {
        Err(Failed { failure: ScriptFailure::Limit { what, message }, .. }) => (what, message),
        other => panic!("not a limit: {other:?}"),
    }
}

/// A world that answers with the request it received. Hosts named `away` fail as transient, hosts
/// named `wrong` fail for good.
struct Answering;

impl ScriptWorld for Answering {
    fn masked(&self, text: &str) -> String {
        text.replace("tops3cret", "***")
    }

    fn fetch(&self, request: FetchRequest) -> BoxFuture<'_, Result<FetchAnswer, WorldFailure>> {
        let url = request.url.as_str();
        let answer = if url.contains("//away") {
            Err(WorldFailure::Transient("no connection for away".to_owned()))
        } else if url.contains("//wrong") {
            Err(WorldFailure::Logic("wrong is not admitted".to_owned()))
        } else if url.contains("//never") {
            return std::future::pending().boxed();
        } else if url.contains("//text") {
            Ok(FetchAnswer { status: 404, headers: BTreeMap::new(), body: "not <JSON>".to_owned() })
        } else {
            let headers = BTreeMap::from([("etag".to_owned(), "1".to_owned())]);
            Ok(FetchAnswer { status: 200, headers, body: json!(request).to_string() })
        };
        ready(answer).boxed()
    }

    fn peek(&self, topic: String, limit: u32) -> BoxFuture<'_, Result<Value, WorldFailure>> {
        ready(Ok(json!([{"topic": topic, "limit": limit}]))).boxed()
    }

    fn get_by_ids(
        &self,
        topic: String,
        ids: Vec<String>,
    ) -> BoxFuture<'_, Result<Value, WorldFailure>> {
        ready(Ok(json!([{"topic": topic, "ids": ids}]))).boxed()
    }
}
