//! Random commands about topics and handlers.

use engine::run::{Resolution, RunStatus};
use engine::topics::Message;
use engine::turn::{Command, NewRun};
use engine::{TopicId, WorkflowId};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::generate::{PREFIX, message_id};
use crate::model::Model;
use crate::random::Random;

/// A random command about topics and handlers, if there are any.
pub(crate) fn ask(random: &mut Random, model: &Model, run: NewRun) -> Option<Command> {
    match random.below(20) {
        0..=9 => publish(random, model),
        10 | 11 => skip(random, model),
        12..=15 => start(random, model, run),
        16..=18 => pause(random, model),
        _ if random.chance(200) => archive(random, model),
        _ => resume(model),
    }
}

/// What a person says about a mutation whose outcome is unknown.
pub(crate) fn resolution(random: &mut Random) -> Resolution {
    let all = [Resolution::Applied, Resolution::DidNotHappen, Resolution::Failed, Resolution::Skip];
    random.pick(&all)
}

fn message(random: &mut Random) -> Message {
    let payload = to_raw_value(&json!({ "v": random.between(0, 9) }));
    Message {
        message_id: message_id(random),
        title: None,
        payload: payload.unwrap_or_else(|_| RawValue::NULL.to_owned()),
        causes: Vec::new(),
    }
}

/// Publishes one event, several at once, or the same one twice.
fn publish(random: &mut Random, model: &Model) -> Option<Command> {
    let topics = model.topics();
    if topics.is_empty() {
        return None;
    }
    let topic = TopicId(random.pick(&topics));
    let mut events = vec![message(random)];
    if random.chance(400) {
        for _ in 0..random.between(1, 6) {
            events.push(message(random));
        }
    }
    if random.chance(100) {
        events.push(events[0].clone());
    }
    Some(Command::PublishEvents { topic, events })
}

fn skip(random: &mut Random, model: &Model) -> Option<Command> {
    let (topic, message_id) = model.some_event(random)?;
    Some(Command::SkipEvent { topic: TopicId(topic), message_id, by: "ada".to_owned() })
}

fn start(random: &mut Random, model: &Model, run: NewRun) -> Option<Command> {
    let handlers = model.handler_names();
    if handlers.is_empty() {
        return None;
    }
    let (workflow, handler) = handlers[random.below(handlers.len())].clone();
    Some(Command::StartHandler { id: WorkflowId(workflow), handler, run })
}

fn workflows(model: &Model) -> Vec<(i64, bool)> {
    let known = model.workflows.values().filter(|row| row.name.starts_with(PREFIX));
    known.map(|row| (row.id, row.paused)).collect()
}

fn pause(random: &mut Random, model: &Model) -> Option<Command> {
    let known = workflows(model);
    if known.is_empty() {
        return None;
    }
    let (id, paused) = random.pick(&known);
    // A workflow that waits for a person is resumed more often than a running one is paused.
    if !paused && random.chance(800) {
        return None;
    }
    Some(Command::PauseWorkflow { id: WorkflowId(id), paused: !paused, reason: None })
}

/// Resumes the first paused workflow whose pending runs wait for that, or else the first with
/// handlers.
pub(crate) fn resume(model: &Model) -> Option<Command> {
    let held = model.runs.values().find(|run| {
        run.status == RunStatus::Pending && run.handler.is_none() && model.is_held(run)
    });
    let paused = || workflows(model).into_iter().find(|(_, paused)| *paused);
    let id = held.map(|run| run.workflow).or_else(|| paused().map(|(id, _)| id))?;
    Some(Command::PauseWorkflow { id: WorkflowId(id), paused: false, reason: None })
}

fn archive(random: &mut Random, model: &Model) -> Option<Command> {
    let known = workflows(model);
    if known.is_empty() {
        return None;
    }
    Some(Command::ArchiveWorkflow(WorkflowId(random.pick(&known).0)))
}
