//! Helpers that build processes, and work with them.

use std::sync::Arc;

use engine::run::{AttemptEnd, Claimant};
use engine::turn::{Answer, Command, Effect, Perform};
use engine::{RunId, WorkflowId};
use jiff::SignedDuration;
use language::definition::{Definition, StepRetry};
use serde_json::{Value, json};
use store::{Commanded, Failure};

use crate::world::{World, raw};

/// A step with one attempt.
pub(crate) fn step(id: &str, depends_on: &[&str], action: Value) -> Value {
    let retry = StepRetry { max: 1, ..StepRetry::default() };
    json!({"id": id, "depends_on": depends_on, "action": action, "retry": retry,
           "on_error": "fail_process", "idempotent": true})
}

/// The step with one more key.
pub(crate) fn with(mut step: Value, key: &str, value: Value) -> Value {
    step[key] = value;
    step
}

pub(crate) fn noop() -> Value {
    json!({"type": "noop"})
}

pub(crate) fn timer(minutes: i64) -> Value {
    json!({"type": "timer", "delay": {"elapsed": format!("PT{minutes}M")}})
}

pub(crate) fn worker(queue: &str) -> Value {
    json!({"type": "worker", "queue": queue})
}

pub(crate) fn approval(title: &str, assignees: &[&str]) -> Value {
    json!({"type": "human_approval", "title": title, "description": "Is it right?",
           "assignees": assignees})
}

pub(crate) fn child(workflow: &str) -> Value {
    json!({"type": "sub_process", "workflow": workflow, "wait_for_completion": true})
}

pub(crate) fn undo() -> Value {
    let retry = StepRetry { max: 1, ..StepRetry::default() };
    json!({"action": noop(), "retry": retry})
}

impl World {
    /// Publishes a process of which ten runs may be active.
    pub(crate) async fn process(&self, name: &str, steps: Vec<Value>) -> WorkflowId {
        self.process_with(json!({"name": name, "steps": steps})).await
    }

    pub(crate) async fn process_with(&self, mut definition: Value) -> WorkflowId {
        definition["version"] = json!("1");
        definition["concurrency"] = json!(10);
        let source = definition.to_string();
        let definition: Definition = serde_json::from_value(definition).unwrap();
        let definition = Arc::new(definition);
        let command = Command::SaveWorkflow { source, definition, publish: true, folder: None };
        match self.command(0, command).await {
            Answer::Workflow { id, .. } => id,
            other => panic!("{other:?}"),
        }
    }

    /// Claims attempts as a worker, with a lease of one minute.
    pub(crate) async fn claim(&self, at: i64, queues: &[&str], limit: usize) -> Vec<Perform> {
        let command = claim(queues, limit);
        claimed(&self.commanded(at, command, None).await.unwrap())
    }

    pub(crate) async fn heartbeat(
        &self,
        at: i64,
        id: &RunId,
        token: u32,
    ) -> Result<Answer, Failure> {
        let lease = SignedDuration::from_mins(1);
        let (id, claimant) = (id.clone(), grace());
        self.try_command(at, Command::Heartbeat { id, token, claimant, lease }).await
    }

    /// A worker reports that its attempt succeeded.
    pub(crate) async fn end(&self, at: i64, id: &RunId, token: u32) -> Result<Answer, Failure> {
        let end = AttemptEnd::Succeeded { output: raw(r#"{"by":"worker"}"#) };
        let (id, claimant) = (id.clone(), grace());
        self.try_command(at, Command::EndAttempt { id, token, claimant, end }).await
    }

    pub(crate) async fn decide(
        &self,
        at: i64,
        id: &RunId,
        step: &str,
        by: &str,
        approves: bool,
    ) -> Result<Answer, Failure> {
        let (id, step, by) = (id.clone(), step.to_owned(), by.to_owned());
        let comment = Some("looks fine".to_owned());
        let roles = vec!["approver".to_owned()];
        let decide = Command::DecideApproval { id, step, approves, by, roles, comment };
        self.try_command(at, decide).await
    }

    pub(crate) async fn cancel(&self, at: i64, id: &RunId) -> Commanded {
        let command = Command::CancelRun { id: id.clone(), reason: "enough".to_owned() };
        self.commanded(at, command, None).await.unwrap()
    }

    /// What waits in queues: name and count.
    pub(crate) async fn queues(&self) -> Vec<(String, u64)> {
        let queues = self.store().queues().await.unwrap();
        queues.into_iter().map(|queue| (queue.name, queue.waiting)).collect()
    }

    /// Checks that the stored rows are consistent.
    pub(crate) async fn holds_together(&self) {
        let findings = self.store().check(crate::world::minute(0), false).await.unwrap();
        assert_eq!(findings, []);
    }
}

/// The worker that claims everything here.
pub(crate) fn grace() -> Claimant {
    Claimant { name: Some("grace".to_owned()), key: "a key".to_owned() }
}

pub(crate) fn claim(queues: &[&str], limit: usize) -> Command {
    Command::ClaimAttempts {
        queues: queues.iter().map(|name| (*name).to_owned()).collect(),
        limit,
        worker: "grace".to_owned(),
        claimant: grace(),
        lease: SignedDuration::from_mins(1),
    }
}

/// The attempts that a worker was given.
pub(crate) fn claimed(commanded: &Commanded) -> Vec<Perform> {
    let claimed = |effect: &Effect| match effect {
        Effect::Claimed { perform, .. } => Some((**perform).clone()),
        _ => None,
    };
    let found: Vec<Perform> = commanded.effects.iter().filter_map(claimed).collect();
    assert_eq!(commanded.answer, Answer::Count(found.len() as u64));
    found
}

/// The parts of attempts, one line each: what follows the run in their idempotency keys.
pub(crate) fn keys(performs: &[Perform]) -> Vec<String> {
    let key = |perform: &Perform| {
        let key = perform.idempotency_key();
        key.split_once('/').map(|(_, rest)| rest.to_owned()).unwrap()
    };
    performs.iter().map(key).collect()
}
