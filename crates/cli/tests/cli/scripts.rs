//! Tests of `punctual` as the child that evaluates scripts, and of the type definitions for
//! editors.

use std::collections::BTreeMap;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use runners::script::{
    Entry, Evaluated, Evaluation, Failed, FetchAnswer, FetchRequest, Limit, Permits, ScriptFailure,
    ScriptHost, ScriptLimits, ScriptWorld, Scripts, WorldFailure,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{run, shown};

struct Nowhere;

impl ScriptWorld for Nowhere {
    fn fetch(&self, _: FetchRequest) -> BoxFuture<'_, Result<FetchAnswer, WorldFailure>> {
        async { Err(WorldFailure::Transient("nowhere".to_owned())) }.boxed()
    }

    fn peek(&self, _: String, _: u32) -> BoxFuture<'_, Result<Value, WorldFailure>> {
        async { Ok(json!([])) }.boxed()
    }

    fn get_by_ids(&self, _: String, _: Vec<String>) -> BoxFuture<'_, Result<Value, WorldFailure>> {
        async { Ok(json!([])) }.boxed()
    }
}

async fn evaluate(scripts: &Scripts, source: &str) -> Result<Evaluated, Failed> {
    let step = Evaluation {
        source: source.into(),
        name: "step.js".to_owned(),
        phase: "a step".to_owned(),
        entry: Entry::Body,
        arguments: vec![json!({"n": 2}), json!({})],
        permits: Permits::STEP,
        secrets: BTreeMap::new(),
        now: "2026-03-01T09:00:00Z".parse().expect("a time"),
        timeout: None,
    };
    scripts.evaluate(step, &Nowhere, &CancellationToken::new()).await
}

#[tokio::test]
async fn the_binary_evaluates_scripts() {
    let limits =
        ScriptLimits { cpu: std::time::Duration::from_millis(200), ..ScriptLimits::default() };
    let host = ScriptHost::new(env!("CARGO_BIN_EXE_punctual"), &["script-child"]);
    let scripts = Scripts::new(ScriptHost { limits, ..host });
    for (source, expected) in [
        ("return input.n * 3", Ok(json!(6))),
        ("for (;;);", Err(Limit::CpuTime)),
        ("const a = []; for (;;) a.push(new ArrayBuffer(1e6))", Err(Limit::Memory)),
        ("Array.prototype.reverse.call({length: 2**53-1})", Err(Limit::CpuTime)),
        ("return (await ctx.fetch('http://a').catch(e => e.message))", Ok(json!("nowhere"))),
    ] {
        let ended = match evaluate(&scripts, source).await {
            Ok(evaluated) => Ok(evaluated.value),
            Err(Failed { failure: ScriptFailure::Limit { what, .. }, .. }) => Err(what),
            Err(other) => panic!("{source}: {other:?}"),
        };
        assert_eq!(ended, expected, "{source}");
    }
}

#[test]
fn the_children_are_no_commands_for_people() {
    let (code, help, _) = run(&["--help"]);
    assert_eq!(code, 0);
    for child in ["script-child", "exec-supervisor"] {
        assert!(!help.contains(child), "{help}");
    }
    assert!(help.contains("types"), "{help}");
}

#[test]
fn editors_are_told_what_scripts_see() {
    let types = shown(&["types"]);
    assert_eq!(types, runners::script::TYPES);
    for name in ["workflow", "getByIds", "registerInput", "mutate", "secrets", "StepContext"] {
        assert!(types.contains(name), "{name}");
    }
}
