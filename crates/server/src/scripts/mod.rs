//! Scripts of steps and handlers: evaluates an attempt's script in the sandbox, and turns the
//! result into an attempt's end for the engine.

mod mutation;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::run::{AttemptEnd, Item};
use engine::turn::Perform;
use language::definition::handlers::{MUTATE, NEXT, PREPARE, PRODUCE};
use language::definition::{Definition, ScriptAction};
use runners::Runners;
use runners::script::{
    Entry, Evaluated, Evaluation, Failed, Log, MutationKind, Permits, STEP_ARGUMENTS,
    ScriptFailure, Scripts,
};
use serde_json::{Map, Value, json};
use store::Store;
use tokio_util::sync::CancellationToken;

pub(crate) use mutation::{asked_worker, http_action, judged};

use crate::clock::Clock;
use crate::dispatch::{not_filled, raw};
use crate::live::OutputTap;
use crate::secrets::Secrets;
use world::World;

/// Evaluates scripts on this node.
pub struct ScriptRunner {
    scripts: Arc<Scripts>,
    runners: Runners,
    store: Arc<dyn Store>,
    secrets: Arc<Secrets>,
    clock: Arc<dyn Clock>,
    topics: world::Known,
}

impl ScriptRunner {
    /// Scripts fetch through `runners`, under their egress policy.
    pub fn new(
        scripts: Arc<Scripts>,
        runners: Runners,
        store: Arc<dyn Store>,
        secrets: Arc<Secrets>,
        clock: Arc<dyn Clock>,
    ) -> ScriptRunner {
        ScriptRunner { scripts, runners, store, secrets, clock, topics: world::Known::default() }
    }

    /// Evaluates the script of a step or of a handler's phase.
    pub(crate) async fn perform(
        &self,
        perform: &Perform,
        script: &ScriptAction,
        output_tap: Option<&OutputTap>,
        cancel: &CancellationToken,
    ) -> AttemptEnd {
        let phase = Phase::of(perform);
        let arguments = match self.arguments(perform, phase) {
            Ok(arguments) => arguments,
            Err(end) => return end,
        };
        let marks = mutation::Marks::new(phase == Phase::Mutate);
        let evaluation = Evaluation {
            source: source(&perform.definition, script),
            name: script_name(perform, script),
            phase: phase.named(perform),
            entry: entry(script, phase),
            arguments,
            permits: phase.permits(),
            secrets: self.secrets_of(&perform.definition, &marks),
            now: self.clock.now(),
            timeout: perform.timeout().and_then(|limit| Duration::try_from(limit).ok()),
        };
        let world = World {
            runners: &self.runners,
            store: &*self.store,
            definition: &perform.definition,
            known: &self.topics,
            output_tap,
        };
        let evaluated = self.scripts.evaluate(evaluation, &world, cancel).await;
        match evaluated {
            Ok(evaluated) => self.ended(perform, phase, evaluated, &marks),
            Err(failed) => self.failed(perform, failed),
        }
    }

    /// The arguments that the script's function receives after `ctx`.
    fn arguments(&self, perform: &Perform, phase: Phase) -> Result<Vec<Value>, AttemptEnd> {
        if phase == Phase::Step {
            return match &perform.scope {
                // The scope of a script step is always set.
                None => Ok(Vec::new()),
                Some(Err(error)) => Err(not_filled(error, &self.secrets)),
                Some(Ok(scope)) => {
                    let seen = |name: &&str| match (scope.seen(name), *name) {
                        (Some(seen), _) => seen.clone(),
                        (None, "steps") => json!({}),
                        (None, _) => Value::Null,
                    };
                    Ok(STEP_ARGUMENTS.iter().map(seen).collect())
                }
            };
        }
        let mut input = match parsed(&perform.input) {
            Value::Object(input) => input,
            _ => Map::new(),
        };
        let names = phase.arguments();
        Ok(names.iter().map(|name| input.remove(*name).unwrap_or_default()).collect())
    }

    /// The secrets that the definition declares. A mutation is stored before it is performed, so
    /// the `mutate` phase gets marks in place of the values.
    fn secrets_of(
        &self,
        definition: &Definition,
        marks: &mutation::Marks,
    ) -> BTreeMap<String, String> {
        let known = definition.secrets.iter().filter_map(|name| {
            let value = self.secrets.get(name)?;
            Some((name.clone(), marks.instead_of(name).unwrap_or_else(|| value.to_owned())))
        });
        known.collect()
    }

    fn ended(
        &self,
        perform: &Perform,
        phase: Phase,
        evaluated: Evaluated,
        marks: &mutation::Marks,
    ) -> AttemptEnd {
        let lines = self.lines(perform, &evaluated.log);
        let Evaluated { value, published, inputs, mutation, .. } = evaluated;
        let mut told = match phase {
            Phase::Step | Phase::Reconcile => {
                return AttemptEnd::Succeeded { output: raw(&self.secrets.mask_json(value)) };
            }
            Phase::Prepare => match value {
                Value::Object(told) => told,
                Value::Null => Map::new(),
                other => return AttemptEnd::Succeeded { output: raw(&other) },
            },
            Phase::Mutate => {
                let asked = mutation.map(|mutation| match mutation.kind {
                    MutationKind::Http => json!({"http": mutation.request}),
                    MutationKind::Worker => json!({"worker": mutation.request}),
                });
                if let Some(Err(message)) = asked.as_ref().map(mutation::check) {
                    return logic(message);
                }
                let asked = asked.map(|asked| marks.signed(asked));
                Map::from_iter([("mutation".to_owned(), asked.unwrap_or_default())])
            }
            Phase::Produce | Phase::Next => {
                let events: Vec<Value> = published
                    .into_iter()
                    .map(|event| {
                        json!({
                            "topic": event.topic, "message_id": event.message_id,
                            "title": event.title, "payload": event.payload,
                            "causes": event.causes,
                        })
                    })
                    .collect();
                let mut told = Map::from_iter([("publish".to_owned(), Value::Array(events))]);
                if !value.is_null() {
                    told.insert("state".to_owned(), value);
                }
                if !inputs.is_empty() {
                    told.insert("inputs".to_owned(), json!(inputs));
                }
                told
            }
        };
        if !lines.is_empty() {
            told.insert("log".to_owned(), json!(lines));
        }
        AttemptEnd::Succeeded { output: raw(&self.secrets.mask_json(Value::Object(told))) }
    }

    fn failed(&self, perform: &Perform, failed: Failed) -> AttemptEnd {
        let lines = self.lines(perform, &failed.log);
        let output = (!lines.is_empty()).then(|| raw(&json!({"log": lines})));
        let message = self.secrets.mask(&failed.to_string()).into_owned();
        let (code, retryable) = match failed.failure {
            ScriptFailure::Cancelled => return AttemptEnd::Cancelled { message },
            ScriptFailure::Logic { .. } => ("script", false),
            ScriptFailure::Limit { .. } => ("script_limit", false),
            ScriptFailure::TimedOut { .. } => ("timeout", true),
            ScriptFailure::Transient { .. } => ("network", true),
            ScriptFailure::Busy { .. } | ScriptFailure::Unavailable { .. } => {
                ("script_unavailable", true)
            }
        };
        AttemptEnd::Failed { code: code.to_owned(), message, retryable, output }
    }

    /// The script's log lines with secrets masked: stored with the phase, and written to the node's
    /// log at debug level.
    fn lines(&self, perform: &Perform, log: &Log) -> Vec<String> {
        let mut lines: Vec<String> =
            log.lines.iter().map(|line| self.secrets.mask(line).into_owned()).collect();
        if log.dropped > 0 {
            lines.push(format!("… and {} more lines", log.dropped));
        }
        let (run, step) = (&perform.run_id, &perform.step().id);
        for line in &lines {
            tracing::debug!(%run, step, line, "a script says");
        }
        lines
    }
}

/// The step or handler phase that a script is evaluated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Step,
    Produce,
    Prepare,
    Mutate,
    Reconcile,
    Next,
}

impl Phase {
    fn of(perform: &Perform) -> Phase {
        if perform.handler.is_none() {
            return Phase::Step;
        }
        match perform.step().id.as_str() {
            _ if perform.part.item == Item::Reconciling => Phase::Reconcile,
            PRODUCE => Phase::Produce,
            PREPARE => Phase::Prepare,
            MUTATE => Phase::Mutate,
            NEXT => Phase::Next,
            _ => Phase::Step,
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Phase::Step => &STEP_ARGUMENTS,
            Phase::Produce | Phase::Prepare => &["state"],
            Phase::Mutate => &["prepared"],
            Phase::Reconcile => &["prepared", "mutation"],
            Phase::Next => &["prepared", "result"],
        }
    }

    fn permits(self) -> Permits {
        match self {
            Phase::Step => Permits::STEP,
            Phase::Produce => Permits::PRODUCER,
            Phase::Prepare => Permits::PREPARE,
            Phase::Mutate => Permits::MUTATE,
            Phase::Reconcile => Permits { fetch: true, ..Permits::NONE },
            Phase::Next => Permits::NEXT,
        }
    }

    fn named(self, perform: &Perform) -> String {
        let handler = perform.handler.as_deref().unwrap_or_default();
        match self {
            Phase::Step => format!("the step {}", perform.step().id),
            Phase::Produce => format!("the producer {handler}"),
            Phase::Reconcile => format!("reconcile of {handler}"),
            _ => format!("{} of {handler}", perform.step().id),
        }
    }
}

/// How to check the syntax of a script text, by the name of the phase it is the body of.
pub(crate) fn syntax(phase: &str) -> Entry {
    let phase = match phase {
        PRODUCE => Phase::Produce,
        PREPARE => Phase::Prepare,
        MUTATE => Phase::Mutate,
        "reconcile" => Phase::Reconcile,
        NEXT => Phase::Next,
        _ => Phase::Step,
    };
    Entry::Syntax(phase.arguments().iter().map(|name| (*name).to_owned()).collect())
}

fn source(definition: &Definition, script: &ScriptAction) -> Arc<str> {
    match (&script.source, &definition.script) {
        (Some(source), _) | (None, Some(source)) => source.as_str().into(),
        (None, None) => "".into(),
    }
}

fn script_name(perform: &Perform, script: &ScriptAction) -> String {
    match script.source {
        Some(_) => perform.step().id.clone(),
        None => format!("{}.js", perform.definition.name),
    }
}

fn entry(script: &ScriptAction, phase: Phase) -> Entry {
    match (&script.source, phase) {
        (None, _) => Entry::Handler(script.entry.clone()),
        (Some(_), Phase::Step) => Entry::Body,
        (Some(_), phase) => {
            Entry::Phase(phase.arguments().iter().map(|name| (*name).to_owned()).collect())
        }
    }
}

fn parsed(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}

fn logic(message: String) -> AttemptEnd {
    let code = "script".to_owned();
    AttemptEnd::Failed { code, message, retryable: false, output: None }
}
