//! Limits above the policies, and who is next when they are reached.

use engine::run::RunStatus;
use engine::turn::{Command, Refused};

use crate::world::{World, seconds, success};

#[test]
fn concurrency_of_a_workflow_queues_oldest_first() {
    let mut world = World::new("2026-03-02T08:59:00Z").working(|_| (seconds(600), success()));
    let workflow = world.workflow("w", Some(2));
    let ids: Vec<_> = (0..4)
        .map(|_| world.schedule(workflow, r#"{"name": "s", "at": "2026-03-02T09:00"}"#))
        .collect();
    world.advance_to("2026-03-02T09:05:00Z");
    let ledgers: Vec<String> = ids.iter().flat_map(|id| world.ledger(*id)).collect();
    let expected = ["09:00 started", "09:00 started", "09:00 queued", "09:00 queued"];
    assert_eq!(ledgers, expected);
    world.advance_to("2026-03-02T09:15:00Z");
    let runs: Vec<String> = ids.iter().flat_map(|id| world.runs(*id)).collect();
    let expected = [
        "n0-rc0 09:00 succeeded",
        "n0-rc0 09:00 succeeded",
        "n0-rc0 09:10 running",
        "n0-rc0 09:10 running",
    ];
    assert_eq!(runs, expected);
    assert_eq!(world.ledger(ids[3]), ["09:00 started"]);
}

#[test]
fn one_busy_workflow_cannot_starve_the_others() {
    let mut world = World::new("2026-03-02T08:59:00Z").working(|_| (seconds(60), success()));
    world.places = 2;
    let busy = world.workflow("busy", None);
    let quiet = world.workflow("quiet", None);
    for _ in 0..10 {
        world.schedule(busy, r#"{"name": "b", "at": "2026-03-02T09:00"}"#);
    }
    let id = world.schedule(quiet, r#"{"name": "q", "at": "2026-03-02T09:00:01"}"#);
    world.advance_to("2026-03-02T09:02:30Z");
    // Ten were due before it, but it is the turn of its workflow when the first two have ended.
    assert_eq!(world.runs(id), ["n0-rc0 09:01 succeeded"]);
    world.advance_to("2026-03-02T10:00:00Z");
    assert!(world.memory.runs.values().all(|run| run.status == RunStatus::Succeeded));
    assert_eq!(world.memory.runs.len(), 11);
}

#[test]
fn starting_by_hand_respects_the_limit_and_names_the_run_in_the_way() {
    let mut world = World::new("2026-03-02T09:00:00Z").working(|_| (seconds(60), success()));
    for (name, limit, allowed) in [("default", None, 1), ("one", Some(1), 1), ("three", Some(3), 3)]
    {
        let id = world.workflow(name, limit);
        for _ in 0..allowed {
            let run = world.new_run();
            world.command(Command::StartWorkflow { id, run }).unwrap();
        }
        let run = world.new_run();
        match world.command(Command::StartWorkflow { id, run }).unwrap_err() {
            Refused::Busy { message, run: Some(run) } => {
                assert!(message.contains(&run.to_string()), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }
    let three = world.memory.workflows.values().find(|w| w.name == "three").unwrap().id;
    let id = world.schedule(three, r#"{"name": "s", "interval": "1h"}"#);
    let run = world.new_run();
    let busy = world.command(Command::StartSchedule { id, run }).unwrap_err();
    assert!(matches!(busy, Refused::Busy { run: Some(_), .. }), "{busy:?}");
    world.advance_to("2026-03-02T09:02:00Z");
    let id = world.memory.workflows.values().find(|w| w.name == "default").unwrap().id;
    let run = world.new_run();
    world.command(Command::StartWorkflow { id, run }).unwrap();
}

#[test]
fn a_paused_workflow_starts_nothing_but_by_hand() {
    let mut world = World::new("2026-03-02T08:59:00Z");
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, r#"{"name": "s", "cron": "*/10 * * * *"}"#);
    world.command(Command::PauseWorkflow { id: workflow, paused: true, reason: None }).unwrap();
    world.advance_to("2026-03-02T09:15:00Z");
    assert_eq!(world.ledger(id), ["09:00 skipped", "09:10 skipped"]);
    let run = world.new_run();
    world.command(Command::StartWorkflow { id: workflow, run }).unwrap();
    world.command(Command::PauseWorkflow { id: workflow, paused: false, reason: None }).unwrap();
    world.advance_to("2026-03-02T09:25:00Z");
    assert_eq!(world.ledger(id).last().unwrap(), "09:20 started");
}

#[test]
fn an_archived_workflow_has_no_schedules() {
    let mut world = World::new("2026-03-02T08:59:00Z");
    let workflow = world.workflow("w", None);
    world.schedule(workflow, r#"{"name": "s", "cron": "*/10 * * * *"}"#);
    world.command(Command::ArchiveWorkflow(workflow)).unwrap();
    assert!(world.memory.schedules.is_empty());
    let run = world.new_run();
    assert!(world.command(Command::StartWorkflow { id: workflow, run }).is_err());
}
