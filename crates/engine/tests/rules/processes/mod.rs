//! Processes: concurrent and dependent steps over virtual time.

mod crossings;
mod deadlines;
mod ends;
mod flow;
mod items;
mod noops;
mod outputs;
mod outside;
mod waits;

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::run::{AttemptEnd, Item, RunStatus, StepStatus};
use engine::turn::{Answer, Command, NewRun, Perform};
use engine::{RunKey, WorkflowId};
use jiff::SignedDuration;
use language::definition::{Action, Compensation, Definition, OnError, Step, StepRetry};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::world::{World, failure, seconds, success};

/// A step that is attempted once.
pub(super) fn step(id: &str, action: Action) -> Step {
    Step {
        id: id.to_owned(),
        name: None,
        depends_on: Vec::new(),
        condition: None,
        action,
        retry: StepRetry { max: 1, ..StepRetry::default() },
        timeout: Some(seconds(300)),
        on_error: OnError::FailProcess,
        idempotent: true,
        compensation: None,
        reconcile: None,
        deadline: None,
    }
}

pub(super) fn noop(id: &str) -> Step {
    step(id, Action::Noop)
}

pub(super) trait Written {
    fn after(self, ids: &[&str]) -> Self;
    fn when(self, condition: &str) -> Self;
    fn on_error(self, on_error: OnError) -> Self;
    fn undone(self) -> Self;
}

impl Written for Step {
    fn after(mut self, ids: &[&str]) -> Step {
        self.depends_on = ids.iter().map(|id| (*id).to_owned()).collect();
        self
    }

    fn when(mut self, condition: &str) -> Step {
        self.condition = Some(condition.to_owned());
        self
    }

    fn on_error(mut self, on_error: OnError) -> Step {
        self.on_error = on_error;
        self
    }

    fn undone(mut self) -> Step {
        let retry = StepRetry { max: 1, ..StepRetry::default() };
        self.compensation =
            Some(Box::new(Compensation { action: Action::Noop, retry, timeout: None }));
        self
    }
}

pub(super) fn definition(name: &str, steps: Vec<Step>) -> Definition {
    Definition { steps, ..super::world::empty(name) }
}

pub(super) fn publish(world: &mut World, definition: Definition) -> WorkflowId {
    let definition = Arc::new(definition);
    let command =
        Command::SaveWorkflow { source: String::new(), definition, publish: true, folder: None };
    match world.command(command).unwrap() {
        Answer::Workflow { id, .. } => id,
        other => panic!("{other:?}"),
    }
}

/// Starts a run by hand and returns its key.
pub(super) fn start(world: &mut World, workflow: WorkflowId, payload: Value) -> RunKey {
    let run = NewRun { payload: to_raw_value(&payload).ok(), ..world.new_run() };
    let before: Vec<RunKey> = world.memory.runs.keys().copied().collect();
    world.command(Command::StartWorkflow { id: workflow, run }).unwrap();
    let new = world.memory.runs.keys().find(|key| !before.contains(key));
    *new.expect("a run")
}

pub(super) fn status(world: &World, run: RunKey) -> RunStatus {
    world.memory.runs[&run].status
}

/// One line for each step that has a record, such as `a completed`; a compensation is `a undone`.
pub(super) fn steps(world: &World, run: RunKey) -> Vec<String> {
    let found = &world.memory.runs[&run];
    let definition = world.definition(found.workflow, found.version);
    let records = world.memory.records.iter().filter(|((of, ..), _)| *of == run);
    records
        .map(|((_, step, item), record)| {
            let id = &definition.steps[*step as usize].id;
            match (record.item, record.status) {
                (Item::Whole, status) => format!("{id} {}", status.name()),
                (Item::Undoing, StepStatus::Completed) => format!("{id} undone"),
                (Item::Undoing, status) => format!("{id} not undone: {}", status.name()),
                (_, status) => format!("{id}[{item}] {}", status.name()),
            }
        })
        .collect()
}

/// Attempts take this many seconds, by the step's id, and succeed with the id as output.
pub(super) fn taking(
    world: World,
    times: &[(&'static str, i64)],
) -> (World, std::rc::Rc<std::cell::RefCell<Vec<String>>>) {
    ending(world, times, &[])
}

/// Like [`taking`], but the steps in `failing` fail.
pub(super) fn ending(
    world: World,
    times: &[(&'static str, i64)],
    failing: &[&'static str],
) -> (World, std::rc::Rc<std::cell::RefCell<Vec<String>>>) {
    let times: BTreeMap<&str, i64> = times.iter().copied().collect();
    let failing = failing.to_vec();
    let order = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = order.clone();
    let world = world.working(move |perform: &Perform| {
        let id = perform.idempotency_key();
        let name = id.split_once('/').map_or(id.as_str(), |(_, name)| name).to_owned();
        seen.borrow_mut().push(name.clone());
        let takes = times.get(name.as_str()).copied().unwrap_or(0);
        let end = match failing.contains(&name.as_str()) {
            true => failure("it broke"),
            false => output(&Value::from(name)),
        };
        (SignedDuration::from_secs(takes), end)
    });
    (world, order)
}

pub(super) fn output(value: &Value) -> AttemptEnd {
    let output: Box<RawValue> = to_raw_value(value).unwrap();
    match success() {
        AttemptEnd::Succeeded { .. } => AttemptEnd::Succeeded { output },
        other => other,
    }
}

pub(super) fn output_of(world: &World, run: RunKey) -> Value {
    let output = world.memory.runs[&run].output.as_ref().expect("an output");
    serde_json::from_str(output.get()).unwrap()
}
