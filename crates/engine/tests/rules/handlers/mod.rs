//! Producers and consumers over virtual time: the patterns, their order, failures and decisions of
//! people.

mod consumers;
mod failures;
mod producers;
mod steps;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use engine::handlers::Handler;
use engine::run::{AttemptEnd, Item, Run};
use engine::topics::{EventState, Message};
use engine::turn::{Answer, Command, Perform};
use engine::{TopicId, WorkflowId};
use jiff::SignedDuration;
use language::definition::{
    Action, Consumer, Definition, Producer, ScriptAction, TopicDeclaration,
};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::world::{World, empty, seconds};

/// The performed phases in order, such as `consumer.prepare` and `producer.handler`.
pub(super) type Log = Rc<RefCell<Vec<String>>>;

pub(super) fn script() -> Action {
    Action::Script(ScriptAction { source: Some("return null".to_owned()), entry: Vec::new() })
}

pub(super) fn topic(name: &str) -> TopicDeclaration {
    TopicDeclaration { name: name.to_owned(), shared: false, external: false, max_attempts: 10 }
}

pub(super) fn producer(name: &str, rule: Value, publishes: &str) -> Producer {
    let Value::Object(schedule) = rule else { panic!() };
    let publishes = vec![publishes.to_owned()];
    Producer { name: name.to_owned(), schedule, publishes, handler: script(), timeout: None }
}

pub(super) fn consumer(name: &str, subscribe: &[&str]) -> Consumer {
    Consumer {
        name: name.to_owned(),
        subscribe: subscribe.iter().map(|name| (*name).to_owned()).collect(),
        publishes: Vec::new(),
        prepare: script(),
        mutate: None,
        reconcile: None,
        next: Some(script()),
        timeout: None,
    }
}

pub(super) fn mutating(name: &str, subscribe: &[&str]) -> Consumer {
    Consumer { mutate: Some(script()), ..consumer(name, subscribe) }
}

pub(super) fn workflow(topics: &[&str], of: Definition) -> Definition {
    Definition { topics: topics.iter().map(|name| topic(name)).collect(), ..of }
}

pub(super) fn consumers(all: Vec<Consumer>) -> Definition {
    Definition { consumers: all, ..empty("handled") }
}

pub(super) fn gives(output: Value) -> (SignedDuration, AttemptEnd) {
    let output = to_raw_value(&output).unwrap();
    (SignedDuration::ZERO, AttemptEnd::Succeeded { output })
}

pub(super) fn takes(time: i64, output: Value) -> (SignedDuration, AttemptEnd) {
    (seconds(time), gives(output).1)
}

pub(super) fn fails(retryable: bool) -> (SignedDuration, AttemptEnd) {
    let (code, message) = ("network".to_owned(), "no".to_owned());
    (SignedDuration::ZERO, AttemptEnd::Failed { code, message, retryable, output: None })
}

pub(super) fn phase(perform: &Perform) -> String {
    let handler = perform.handler.as_deref().unwrap_or("-");
    let step = &perform.step().id;
    match perform.part.item {
        Item::Reconciling => format!("{handler}.reconcile"),
        _ => format!("{handler}.{step}"),
    }
}

pub(super) fn input(perform: &Perform) -> Value {
    serde_json::from_str(&perform.input).unwrap()
}

/// A world whose handlers do what `work` says, with a log of the phases.
pub(super) fn world(
    mut work: impl FnMut(&Perform, &str) -> (SignedDuration, AttemptEnd) + 'static,
) -> (World, Log) {
    let log = Log::default();
    let kept = log.clone();
    let world = World::new("2026-03-02T09:00:00Z").working(move |perform| {
        let phase = phase(perform);
        kept.borrow_mut().push(phase.clone());
        work(perform, &phase)
    });
    (world, log)
}

pub(super) fn publish_version(world: &mut World, definition: Definition) -> WorkflowId {
    let definition = Arc::new(definition);
    let command =
        Command::SaveWorkflow { source: String::new(), definition, publish: true, folder: None };
    let id = match world.command(command).unwrap() {
        Answer::Workflow { id, .. } => id,
        other => panic!("{other:?}"),
    };
    settle(world);
    id
}

/// Lets everything happen that takes no time.
pub(super) fn settle(world: &mut World) {
    let now = world.now.to_string();
    world.advance_to(&now);
}

pub(super) fn topic_id(world: &World, workflow: WorkflowId, name: &str) -> TopicId {
    world.memory.topics.topic_named(Some(workflow), name).unwrap()
}

pub(super) fn publish(world: &mut World, workflow: WorkflowId, topic: &str, ids: &[&str]) {
    let topic = topic_id(world, workflow, topic);
    let message = |id: &&str| Message {
        message_id: (*id).to_owned(),
        title: None,
        payload: to_raw_value(&json!({ "id": id })).unwrap(),
        causes: Vec::new(),
    };
    let events = ids.iter().map(message).collect();
    world.command(Command::PublishEvents { topic, events }).unwrap();
    settle(world);
}

/// The message ids of a topic's events in this state.
pub(super) fn events(
    world: &World,
    workflow: WorkflowId,
    topic: &str,
    state: EventState,
) -> Vec<String> {
    let topic = topic_id(world, workflow, topic);
    let all = world.memory.topics.events.values();
    let of = all.filter(|event| event.status.topic == topic && event.status.state == state);
    of.map(|event| event.message.message_id.clone()).collect()
}

pub(super) fn handler<'a>(world: &'a World, name: &str) -> &'a Handler {
    world.memory.topics.handlers.values().find(|handler| handler.name == name).unwrap()
}

pub(super) fn runs_of<'a>(world: &'a World, name: &str) -> Vec<&'a Run> {
    let all = world.memory.runs.values();
    all.filter(|run| run.handler.as_deref() == Some(name)).collect()
}

pub(super) fn reserve(topic: &str, ids: &[String]) -> Value {
    json!({ "reservations": [{ "topic": topic, "ids": ids }] })
}

pub(super) fn count(log: &Log, phase: &str) -> usize {
    log.borrow().iter().filter(|known| *known == phase).count()
}
