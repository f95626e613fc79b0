//! Producers: their own schedules, one run at a time, and no events from failed runs.

use engine::run::RunStatus;
use engine::topics::EventState;
use engine::turn::Command;
use serde_json::{Value, json};

use super::*;

fn polls(producers: Vec<Producer>) -> Definition {
    workflow(&["t"], Definition { producers, ..empty("polled") })
}

fn times(world: &World, name: &str) -> Vec<String> {
    let began = |run: &&Run| Some(run.started_at?.to_string()[11..16].to_owned());
    runs_of(world, name).iter().filter_map(began).collect()
}

#[test]
fn two_producers_with_different_intervals_do_not_affect_each_other() {
    let (mut world, _) = world(|_, _| gives(Value::Null));
    let fast = producer("fast", json!({ "interval": "5m" }), "t");
    let slow = producer("slow", json!({ "interval": "1h" }), "t");
    publish_version(&mut world, polls(vec![fast, slow]));
    world.advance_to("2026-03-02T10:14:00Z");
    assert_eq!(times(&world, "slow"), ["09:00", "10:00"]);
    assert_eq!(times(&world, "fast").len(), 15);
    assert_eq!(times(&world, "fast")[..3], ["09:00", "09:05", "09:10"]);
}

#[test]
fn a_busy_workflow_keeps_one_run_of_a_producer_waiting() {
    let (mut world, _) = world(|_, phase| match phase {
        "long.handler" => takes(9 * 60, Value::Null),
        _ => gives(Value::Null),
    });
    let long = producer("long", json!({ "cron": "0 * * * *" }), "t");
    let fast = producer("fast", json!({ "cron": "*/5 * * * *" }), "t");
    publish_version(&mut world, polls(vec![long, fast]));
    world.advance_to("2026-03-02T10:20:00Z");
    let at_ten: Vec<String> =
        times(&world, "fast").into_iter().filter(|at| at.as_str() >= "10:00").collect();
    assert_eq!(
        at_ten,
        ["10:09", "10:10", "10:15", "10:20"],
        "due at 10:00 and 10:05: once, when free"
    );
    let skipped = world.memory.ledger.values().filter(|entry| entry.reason.contains("waits"));
    assert!(skipped.count() > 0, "the ledger says why the others did not run");
}

#[test]
fn what_was_missed_while_nobody_was_awake_runs_once_and_at_once() {
    let (mut world, _) = world(|_, _| gives(Value::Null));
    publish_version(&mut world, polls(vec![producer("p", json!({ "interval": "5m" }), "t")]));
    world.advance_to("2026-03-02T09:06:00Z");
    world.down_until("2026-03-02T10:02:00Z");
    world.advance_to("2026-03-02T10:06:00Z");
    assert_eq!(times(&world, "p"), ["09:00", "09:05", "10:02", "10:05"]);
}

#[test]
fn a_start_by_hand_runs_all_producers_one_after_the_other() {
    let (mut world, log) = world(|_, _| takes(10, Value::Null));
    let all = ["a", "b", "c"].map(|name| producer(name, json!({ "cron": "0 0 1 1 *" }), "t"));
    let id = publish_version(&mut world, polls(all.to_vec()));
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(log.borrow().len(), 3, "new ones are due at once");
    let run = world.new_run();
    world.command(Command::StartWorkflow { id, run }).unwrap();
    world.advance_to("2026-03-02T09:01:15Z");
    assert_eq!(log.borrow().len(), 5);
    world.advance_to("2026-03-02T09:02:00Z");
    assert_eq!(log.borrow()[3..], ["a.handler", "b.handler", "c.handler"]);
}

#[test]
fn producers_are_added_changed_kept_and_removed_with_a_version() {
    let (mut world, _) = world(|_, _| gives(Value::Null));
    let kept = producer("kept", json!({ "interval": "1h" }), "t");
    let changed = producer("changed", json!({ "interval": "1h" }), "t");
    let gone = producer("gone", json!({ "interval": "1h" }), "t");
    publish_version(&mut world, polls(vec![kept.clone(), changed, gone]));
    world.advance_to("2026-03-02T09:30:00Z");
    let changed = producer("changed", json!({ "interval": "10m" }), "t");
    let added = producer("added", json!({ "interval": "1h" }), "t");
    publish_version(&mut world, polls(vec![kept, changed, added]));
    world.advance_to("2026-03-02T10:01:00Z");
    assert_eq!(times(&world, "kept"), ["09:00", "10:00"]);
    assert_eq!(times(&world, "changed"), ["09:00", "09:40", "09:50", "10:00"]);
    assert_eq!(times(&world, "added"), ["09:30"]);
    assert_eq!(times(&world, "gone"), ["09:00"]);
    let names: Vec<&str> =
        world.memory.topics.handlers.values().map(|handler| handler.name.as_str()).collect();
    assert_eq!(names, ["kept", "changed", "added"]);
}

#[test]
fn consumers_come_before_producers() {
    let (mut world, log) = world(|perform, phase| match phase {
        "c.prepare" => {
            let events = input(perform)["events"].as_array().cloned().unwrap_or_default();
            let ids = events.iter().map(|e| e["message_id"].as_str().unwrap().to_owned());
            gives(reserve("t", &ids.collect::<Vec<_>>()))
        }
        "long.handler" => takes(
            60,
            json!({ "state": {"seen": 1}, "publish": [{ "topic": "t", "messageId": "m" }] }),
        ),
        _ => gives(Value::Null),
    });
    let long = producer("long", json!({ "cron": "0 * * * *" }), "t");
    let other = producer("other", json!({ "cron": "0 * * * *" }), "t");
    let looks = Consumer { prepare: Action::Noop, ..consumer("c", &["t"]) };
    let definition = Definition { consumers: vec![looks], ..polls(vec![long, other]) };
    let id = publish_version(&mut world, definition);
    world.advance_to("2026-03-02T09:05:00Z");
    assert_eq!(*log.borrow(), ["long.handler", "c.prepare", "c.next", "other.handler"]);
    assert_eq!(events(&world, id, "t", EventState::Consumed), ["m"]);
    assert_eq!(handler(&world, "long").state.get(), r#"{"seen":1}"#);
}

#[test]
fn a_producer_that_fails_publishes_nothing_is_tried_again_and_then_waits_for_a_person() {
    let (mut world, log) = world(|_, _| fails(true));
    let rule = json!({ "cron": "0 0 1 1 *" });
    let id = publish_version(&mut world, polls(vec![producer("p", rule, "t")]));
    assert_eq!(log.borrow().len(), 1);
    assert_eq!(handler(&world, "p").failures, 1);
    world.advance_to("2026-03-02T10:00:00Z");
    let began: Vec<String> = runs_of(&world, "p")
        .iter()
        .map(|run| run.started_at.unwrap().to_string()[11..19].to_owned())
        .collect();
    let expected = ["09:00:00", "09:00:10", "09:00:30", "09:01:10", "09:02:30", "09:05:10"];
    assert_eq!(began, expected, "also the first one, which no schedule asked for");
    assert!(events(&world, id, "t", EventState::Pending).is_empty());
    assert!(world.memory.workflows[&id].paused);
}

#[test]
fn a_scheduled_producer_is_tried_again_after_10_20_40_80_and_160_seconds() {
    let (mut world, _) =
        world(|perform, _| match perform.run_id.to_string().starts_with("sched") {
            true => fails(true),
            false => gives(Value::Null),
        });
    let id = publish_version(
        &mut world,
        polls(vec![producer("p", json!({ "cron": "0 * * * *" }), "t")]),
    );
    world.advance_to("2026-03-02T10:30:00Z");
    let began: Vec<String> = runs_of(&world, "p")[1..]
        .iter()
        .map(|run| run.started_at.unwrap().to_string()[11..19].to_owned())
        .collect();
    let expected = ["10:00:00", "10:00:10", "10:00:30", "10:01:10", "10:02:30", "10:05:10"];
    assert_eq!(began, expected);
    let workflow = &world.memory.workflows[&id];
    assert!(workflow.paused);
    assert!(workflow.paused_reason.as_ref().unwrap().starts_with("p failed (run sched-"));
    world.advance_to("2026-03-02T12:30:00Z");
    assert_eq!(runs_of(&world, "p").len(), 7, "nothing starts while it is paused");
    world.command(Command::PauseWorkflow { id, paused: false, reason: None }).unwrap();
    world.advance_to("2026-03-02T12:30:05Z");
    let last = runs_of(&world, "p").pop().unwrap().clone();
    assert_eq!(runs_of(&world, "p").len(), 8, "what was missed, once: {last:?}");
    assert_eq!(last.status, RunStatus::Failed);
}

#[test]
fn a_producer_that_somebody_paused_stays_paused_with_another_version() {
    let (mut world, _) = world(|_, _| gives(Value::Null));
    let kept = producer("kept", json!({ "interval": "1h" }), "t");
    publish_version(&mut world, polls(vec![kept.clone()]));
    let schedule = *world.memory.schedules.keys().next().unwrap();
    world.control(schedule, engine::turn::Verb::Pause).unwrap();
    let added = producer("added", json!({ "interval": "1h" }), "t");
    publish_version(&mut world, polls(vec![kept, added]));
    assert_eq!(world.get(schedule).status, engine::schedule::Status::Paused);
    world.advance_to("2026-03-02T12:00:00Z");
    assert_eq!(times(&world, "kept"), ["09:00"]);
}
