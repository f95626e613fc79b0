//! Processes and topics: steps that publish, steps that wait, events that start runs.

use engine::run::{RunStatus, TriggeredBy};
use engine::topics::{EventState, Message};
use engine::turn::{Command, NewRun};
use language::definition::{Publish, Step, TimeSpan, Trigger, TriggerKind, WaitFor};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::*;
use crate::processes::{Written as _, noop, step};

fn process(name: &str, steps: Vec<Step>) -> Definition {
    workflow(&["t"], Definition { steps, ..empty(name) })
}

fn waits(condition: Option<&str>, within: Option<i64>) -> Step {
    let condition = condition.map(str::to_owned);
    let within = within.map(|time| TimeSpan::parse(&format!("{time}s")).unwrap());
    step("wait", Action::WaitFor(WaitFor { topic: "t".to_owned(), condition, within }))
}

fn start(world: &mut World, id: WorkflowId, payload: Value) -> engine::RunKey {
    let run = NewRun { payload: Some(to_raw_value(&payload).unwrap()), ..world.new_run() };
    let of = engine::RunId::Other(run.id);
    world.command(Command::StartWorkflow { id, run }).unwrap();
    settle(world);
    world.memory.runs.values().find(|run| run.id == of).unwrap().key
}

#[test]
fn a_step_publishes_once_with_its_own_id() {
    let (mut world, _) = world(|_, _| gives(Value::Null));
    let publish = Publish {
        topic: "t".to_owned(),
        message_id: None,
        title: Some("for {{ input.who }}".to_owned()),
        payload: Some(json!({ "who": "{{ input.who }}" })),
    };
    let id =
        publish_version(&mut world, process("p", vec![step("tell", Action::Publish(publish))]));
    let run = start(&mut world, id, json!({ "who": "ada" }));
    assert_eq!(world.memory.runs[&run].status, RunStatus::Succeeded);
    let event = world.memory.topics.events.values().next().unwrap();
    assert_eq!(event.message.message_id, format!("{}/tell", world.memory.runs[&run].id));
    assert_eq!(event.message.title.as_deref(), Some("for ada"));
    assert_eq!(event.message.payload.get(), r#"{"who":"ada"}"#);
}

#[test]
fn a_step_waits_for_the_event_that_it_means() {
    let (mut world, _) = world(|_, _| gives(Value::Null));
    let wait = waits(Some("event.payload.id == input.order"), None);
    let definition = process("p", vec![wait, noop("after").after(&["wait"])]);
    let id = publish_version(&mut world, Definition { concurrency: Some(9), ..definition });
    let first = start(&mut world, id, json!({ "order": "x1" }));
    let second = start(&mut world, id, json!({ "order": "x2" }));
    publish(&mut world, id, "t", &["x2"]);
    let status = |world: &World, run| world.memory.runs[&run].status;
    assert_eq!(status(&world, first), RunStatus::Waiting);
    assert_eq!(status(&world, second), RunStatus::Succeeded);
    publish(&mut world, id, "t", &["x3", "x1"]);
    assert_eq!(status(&world, first), RunStatus::Succeeded);
    assert_eq!(events(&world, id, "t", EventState::Consumed), ["x2", "x1"]);
    assert_eq!(events(&world, id, "t", EventState::Pending), ["x3"]);
    assert!(world.memory.topics.waits.is_empty());
    // An event that is already pending is found when the step begins.
    let third = start(&mut world, id, json!({ "order": "x3" }));
    assert_eq!(status(&world, third), RunStatus::Succeeded);
}

#[test]
fn a_step_does_not_wait_for_ever() {
    let (mut world, _) = world(|_, _| gives(Value::Null));
    let id = publish_version(&mut world, process("p", vec![waits(None, Some(60))]));
    let run = start(&mut world, id, Value::Null);
    world.advance_to("2026-03-02T09:00:59Z");
    assert_eq!(world.memory.runs[&run].status, RunStatus::Waiting);
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(world.memory.runs[&run].status, RunStatus::Failed);
    let error = world.memory.runs[&run].error.clone().unwrap();
    assert_eq!(error.message, "no event that it waits for has come on topic t in time");
    assert!(world.memory.topics.waits.is_empty());
    publish(&mut world, id, "t", &["late"]);
    assert_eq!(events(&world, id, "t", EventState::Pending), ["late"]);
}

#[test]
fn a_cancelled_run_waits_for_nothing() {
    let (mut world, _) = world(|_, _| gives(Value::Null));
    let id = publish_version(&mut world, process("p", vec![waits(None, None)]));
    let run = start(&mut world, id, Value::Null);
    let run_id = world.memory.runs[&run].id.clone();
    world.command(Command::CancelRun { id: run_id, reason: "no".to_owned() }).unwrap();
    assert!(world.memory.topics.waits.is_empty());
}

#[test]
fn an_event_starts_a_run_of_each_trigger_that_it_is_for() {
    let (mut world, _) = world(|_, _| gives(Value::Null));
    let trigger = |id: &str, condition: Option<&str>| Trigger {
        id: id.to_owned(),
        kind: TriggerKind::Event {
            topic: "t".to_owned(),
            condition: condition.map(str::to_owned),
            payload: None,
        },
        enabled: true,
        description: None,
    };
    let triggers = vec![trigger("some", Some("event.payload.id == 'b'")), trigger("all", None)];
    let definition = Definition { triggers, ..process("p", vec![noop("only")]) };
    let id = publish_version(&mut world, definition);
    publish(&mut world, id, "t", &["a", "b"]);
    let runs: Vec<&Run> = world.memory.runs.values().collect();
    assert_eq!(runs.len(), 3);
    assert!(runs.iter().all(|run| run.triggered_by == TriggeredBy::Event));
    let input: Value = serde_json::from_str(runs[0].input.get()).unwrap();
    assert_eq!(input["payload"], json!({ "id": "a" }));
    assert_eq!(input["event"]["message_id"], "a");
    assert_eq!(events(&world, id, "t", EventState::Consumed), ["a", "b"]);
    // Publishing the same message id again replaces the message and starts nothing.
    publish(&mut world, id, "t", &["a"]);
    assert_eq!(world.memory.runs.len(), 3);
}

#[test]
fn events_that_would_start_too_many_runs_are_refused_as_a_whole() {
    let (mut world, _) = world(|_, _| gives(Value::Null));
    let kind = TriggerKind::Event { topic: "t".to_owned(), condition: None, payload: None };
    let trigger = |id: &str, enabled| Trigger {
        id: id.to_owned(),
        kind: kind.clone(),
        enabled,
        description: None,
    };
    let triggers = vec![trigger("one", true), trigger("two", true), trigger("off", false)];
    let definition = Definition { triggers, ..process("p", vec![noop("only")]) };
    let id = publish_version(&mut world, definition);
    let topic = topic_id(&world, id, "t");
    let message = |id: u32| Message {
        message_id: id.to_string(),
        title: None,
        payload: RawValue::NULL.to_owned(),
        causes: Vec::new(),
    };
    let events = (0..5_001).map(message).collect();
    let refused = world.command(Command::PublishEvents { topic, events }).unwrap_err();
    let told = refused.to_string();
    assert!(told.contains("2 triggers start a run for each event"), "{told}");
    assert!(told.contains("Publish at most 5000 events at once"), "{told}");
    assert!(world.memory.topics.events.is_empty());
}

#[test]
fn an_event_for_a_paused_workflow_makes_a_run_that_begins_after_the_resume() {
    let (mut world, _) = world(|_, _| gives(Value::Null));
    let kind = TriggerKind::Event { topic: "t".to_owned(), condition: None, payload: None };
    let trigger = Trigger { id: "all".to_owned(), kind, enabled: true, description: None };
    let definition = Definition { triggers: vec![trigger], ..process("p", vec![noop("only")]) };
    let id = publish_version(&mut world, definition);
    world.command(Command::PauseWorkflow { id, paused: true, reason: None }).unwrap();
    publish(&mut world, id, "t", &["c"]);
    let run = *world.memory.runs.keys().next().unwrap();
    assert_eq!(world.memory.runs.len(), 1);
    assert_eq!(world.memory.runs[&run].status, RunStatus::Pending);
    assert_eq!(events(&world, id, "t", EventState::Consumed), ["c"]);
    world.command(Command::PauseWorkflow { id, paused: false, reason: None }).unwrap();
    settle(&mut world);
    assert_eq!(world.memory.runs[&run].status, RunStatus::Succeeded);
    assert_eq!(world.memory.runs.len(), 1);
}

#[test]
fn what_one_run_publishes_another_one_takes_in_the_same_turn() {
    let (mut world, _) = world(|_, _| gives(Value::Null));
    let tell = Publish { topic: "t".to_owned(), message_id: None, title: None, payload: None };
    let steps = vec![step("tell", Action::Publish(tell)), waits(None, None)];
    let id = publish_version(&mut world, process("p", steps));
    let run = start(&mut world, id, json!({}));
    assert_eq!(world.memory.runs[&run].status, RunStatus::Succeeded);
}

#[test]
fn a_run_that_waits_for_its_turn_keeps_nobody_else_waiting() {
    let (mut world, log) = world(|_, phase| match phase {
        "long.handler" => takes(600, Value::Null),
        _ => gives(Value::Null),
    });
    let rule = json!({ "cron": "0 0 1 1 *" });
    let producers = ["long", "other"].map(|name| producer(name, rule.clone(), "t")).to_vec();
    let definition = Definition { producers, ..process("p", vec![noop("work")]) };
    world.capacity = 1;
    let id = publish_version(&mut world, Definition { concurrency: Some(1), ..definition });
    assert_eq!(*log.borrow(), ["long.handler"], "the other one waits for its turn");
    let run = start(&mut world, id, Value::Null);
    assert_eq!(world.memory.runs[&run].status, RunStatus::Pending, "there is no place");
    world.capacity = 10;
    publish(&mut world, id, "t", &["a"]);
    assert_eq!(world.memory.runs[&run].status, RunStatus::Succeeded);
}

#[test]
fn processes_at_their_limit_keep_no_handler_waiting() {
    let (mut world, log) = world(|_, phase| match phase {
        "-.work" => takes(600, Value::Null),
        "p.handler" => takes(60, Value::Null),
        _ => gives(Value::Null),
    });
    let p = producer("p", json!({ "cron": "*/2 * * * *" }), "t");
    let on = Trigger {
        id: "on".to_owned(),
        kind: TriggerKind::Event { topic: "t".to_owned(), condition: None, payload: None },
        enabled: true,
        description: None,
    };
    let steps = process("p", vec![noop("work")]);
    let definition = Definition { producers: vec![p], triggers: vec![on], ..steps };
    let id = publish_version(&mut world, Definition { concurrency: Some(1), ..definition });
    start(&mut world, id, Value::Null);
    world.advance_to("2026-03-02T09:01:30Z");
    publish(&mut world, id, "t", &["a"]);
    // The producer is due while no slot is free: its run waits behind a run that exceeds its
    // workflow's limit.
    world.capacity = 1;
    world.advance_to("2026-03-02T09:02:10Z");
    assert_eq!((count(&log, "p.handler"), count(&log, "-.work")), (1, 1));
    world.capacity = 10;
    publish(&mut world, id, "t", &["b"]);
    assert_eq!((count(&log, "p.handler"), count(&log, "-.work")), (2, 1));
}
