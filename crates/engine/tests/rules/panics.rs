//! A schedule or handler whose own decision panics is named, and the others are decided.
//!
//! The panics are planted in what the memory of the small world answers while the engine decides.

use engine::schedule::OverrideAction;
use engine::turn::{Command, Wakeup};
use engine::{HandlerId, ScheduleId};
use language::definition::Definition;
use serde_json::json;

use crate::handlers::{consumer, consumers, gives, publish_version, topic_id, workflow, world};
use crate::memory::Planted;
use crate::world::{World, at};

/// Schedules that are due at 9:01, one of which has an override and will panic.
fn schedules(count: usize) -> (World, ScheduleId) {
    let mut world = World::new("2026-03-02T09:00:00Z");
    let workflow = world.workflow("w", None);
    let fields = r#"{"name": "s", "at": "2026-03-02T09:01:00Z"}"#;
    let ids: Vec<_> = (0..count).map(|_| world.schedule(workflow, fields)).collect();
    let (id, nominal) = (ids[count / 2], at("2026-03-02T09:01:00Z"));
    let action = Some(OverrideAction::Payload(serde_json::value::RawValue::NULL.to_owned()));
    world.command(Command::Override { id, nominal, action, by: "anna".to_owned() }).unwrap();
    world.memory.planted = Some(Planted::OverridesOf(id));
    (world, id)
}

#[test]
fn a_schedule_that_panics_when_it_is_due() {
    for count in [1, 1_000] {
        let (mut world, bad) = schedules(count);
        world.advance_to("2026-03-02T09:05:00Z");
        assert_eq!(world.set_aside.iter().collect::<Vec<_>>(), [&Wakeup::Schedule(bad)]);
        assert_eq!(world.memory.runs.len(), count - 1);
        assert!(world.memory.runs.values().all(|run| run.schedule != Some(bad)));
    }
}

/// Workflows with two consumers each, of which the first wakes at 9:01.
fn sleeping(count: usize) -> (World, HandlerId) {
    let (mut world, _) = world(|_, _| gives(json!(null)));
    let ids = (0..count).map(|n| {
        let both = consumers(vec![consumer("woken", &["t"]), consumer("asleep", &["u"])]);
        let definition = workflow(&["t", "u"], Definition { name: format!("w{n}"), ..both });
        publish_version(&mut world, definition)
    });
    let ids: Vec<_> = ids.collect();
    let woken = world.memory.topics.handlers.values_mut().filter(|known| known.name == "woken");
    woken.for_each(|known| known.wake_at = Some(at("2026-03-02T09:01:00Z")));
    let of = ids[count / 2];
    world.memory.planted = Some(Planted::Topic(topic_id(&world, of, "t")));
    let mut handlers = world.memory.topics.handlers.values();
    let bad = handlers.find(|known| known.workflow == of && known.name == "woken").unwrap().id;
    (world, bad)
}

#[test]
fn a_consumer_that_panics_when_it_is_due() {
    for count in [1, 1_000] {
        let (mut world, bad) = sleeping(count);
        world.advance_to("2026-03-02T09:05:00Z");
        assert_eq!(world.set_aside.iter().collect::<Vec<_>>(), [&Wakeup::Handler(bad)]);
        assert_eq!(world.memory.runs.len(), count - 1);
    }
}
