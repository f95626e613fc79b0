//! Limits above the policies, and which run comes next when they are reached.

use engine::RunId;
use engine::run::RunStatus;
use engine::turn::{Command, IfBusy, NewRun, Refused};
use language::definition::{Action, Step, StepRetry, WorkerAction};
use serde_json::Value;

use crate::processes::{Written as _, definition, noop, publish, start, status, step};
use crate::world::{World, failure, seconds, success};

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
    world.capacity = 2;
    let busy = world.workflow("busy", None);
    let quiet = world.workflow("quiet", None);
    for _ in 0..10 {
        world.schedule(busy, r#"{"name": "b", "at": "2026-03-02T09:00"}"#);
    }
    let id = world.schedule(quiet, r#"{"name": "q", "at": "2026-03-02T09:00:01"}"#);
    world.advance_to("2026-03-02T09:02:30Z");
    // Ten runs were due before it, but its workflow comes next when the first two have ended.
    assert_eq!(world.runs(id), ["n0-rc0 09:01 succeeded"]);
    world.advance_to("2026-03-02T10:00:00Z");
    assert!(world.memory.runs.values().all(|run| run.status == RunStatus::Succeeded));
    assert_eq!(world.memory.runs.len(), 11);
}

/// However many runs wait, a turn asks for their workflows a few times, not once for each run.
#[test]
fn pending_workflows_are_asked_for_a_few_times() {
    let mut world = World::new("2026-03-02T09:00:00Z").working(|_| (seconds(60), success()));
    world.capacity = 300;
    for name in ["a", "b", "c"] {
        let workflow = world.workflow(name, Some(60));
        for _ in 0..50 {
            start(&mut world, workflow, Value::Null);
        }
    }
    let before = world.memory.pending_asked;
    world.advance_to("2026-03-02T09:00:01Z");
    let running = |world: &World| {
        world.memory.runs.values().filter(|run| run.status == RunStatus::Running).count()
    };
    assert_eq!(running(&world), 150);
    assert!(world.memory.pending_asked - before <= 4, "{}", world.memory.pending_asked - before);
}

/// A run that becomes ready while its workflow holds its share of the slots goes on when attempts
/// of the workflow have ended, although no run has.
#[test]
fn a_run_beyond_the_share_of_its_workflow_goes_on_later() {
    let mut is_first = true;
    let mut world = World::new("2026-03-02T09:00:00Z").working(move |_| {
        if std::mem::take(&mut is_first) {
            (seconds(0), failure("it broke"))
        } else {
            (seconds(600), success())
        }
    });
    world.capacity = 9;
    let retry =
        StepRetry { max: 2, delay: seconds(60), max_delay: seconds(60), ..StepRetry::default() };
    let ask = Action::Worker(WorkerAction { queue: "mail".to_owned(), input: None });
    let steps = vec![Step { retry, ..noop("a") }, step("b", ask).after(&["a"])];
    let workflow = publish(&mut world, definition("w", steps));
    let first = start(&mut world, workflow, Value::Null);
    for _ in 0..8 {
        start(&mut world, workflow, Value::Null);
    }
    world.advance_to("2026-03-02T09:05:00Z");
    assert_eq!(
        status(&world, first),
        RunStatus::Waiting,
        "eight attempts leave one slot to others"
    );
    world.advance_to("2026-03-02T09:11:00Z");
    assert_eq!(status(&world, first), RunStatus::Running);
}

/// Many runs wait for a slot beyond the share of their workflow; those of another workflow go on.
#[test]
fn a_backlog_beyond_its_share_hides_no_other_workflow() {
    let mut failing = 31;
    let mut world = World::new("2026-03-02T09:00:00Z").working(move |perform| {
        if failing > 0 {
            failing -= 1;
            return (seconds(0), failure("it broke"));
        }
        let takes = if perform.definition.name == "other" { 100 } else { 600 };
        (seconds(takes), success())
    });
    world.capacity = 9;
    let again = seconds(60);
    let retry = StepRetry { max: 2, delay: again, max_delay: again, ..StepRetry::default() };
    let mut process = |name: &str| {
        let steps = vec![Step { retry: retry.clone(), ..noop("a") }];
        publish(&mut world, definition(name, steps))
    };
    let (busy, calm, other) = (process("busy"), process("calm"), process("other"));
    for _ in 0..30 {
        start(&mut world, busy, Value::Null);
    }
    let hidden = start(&mut world, calm, Value::Null);
    world.advance_to("2026-03-02T09:00:30Z");
    for workflow in [busy; 8].into_iter().chain([other]) {
        start(&mut world, workflow, Value::Null);
    }
    world.advance_to("2026-03-02T09:02:00Z");
    assert_eq!(status(&world, hidden), RunStatus::Waiting, "every slot is taken");
    world.advance_to("2026-03-02T09:02:30Z");
    assert_eq!(status(&world, hidden), RunStatus::Running, "the other's attempt has ended");
}

#[test]
fn what_waits_goes_before_an_occurrence_that_is_due_when_a_place_becomes_free() {
    for overlap in ["allow", "skip"] {
        let mut world = World::new("2026-03-02T09:00:00Z").working(|_| (seconds(30), success()));
        let workflow = world.workflow("w", Some(1));
        let rule = format!(r#"{{"name": "s", "interval": "30s", "overlap": "{overlap}"}}"#);
        world.schedule(workflow, &rule);
        world.advance_to("2026-03-02T09:00:40Z");
        let run = world.new_run();
        let id = run.id;
        world.command(Command::StartWorkflow { id: workflow, run }).unwrap();
        // At this instant the active run ends and an occurrence is due.
        world.advance_to("2026-03-02T09:01:10Z");
        let by_hand = world.memory.runs.values().find(|run| run.id == RunId::Other(id)).unwrap();
        assert_eq!(by_hand.status, RunStatus::Running, "{overlap}");
    }
}

#[test]
fn a_pause_holds_what_waits_and_a_start_by_hand_runs_alone() {
    let mut world = World::new("2026-03-02T09:00:00Z").working(|_| (seconds(60), success()));
    let workflow = world.workflow("w", Some(1));
    let rule = r#"{"name": "s", "interval": "10s", "overlap": "allow"}"#;
    let id = world.schedule(workflow, rule);
    world.advance_to("2026-03-02T09:00:45Z");
    let pause = |paused| Command::PauseWorkflow { id: workflow, paused, reason: None };
    world.command(pause(true)).unwrap();
    let run = world.new_run();
    world.command(Command::StartWorkflow { id: workflow, run }).unwrap();
    world.advance_to("2026-03-02T09:10:00Z");
    let states = |world: &World| -> Vec<String> {
        world.runs(id).iter().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
    };
    let held = ["09:00 succeeded", "- pending", "- pending", "- pending"];
    assert_eq!(states(&world), held);
    let by_hand = world.memory.runs.values().find(|run| run.schedule.is_none()).unwrap();
    assert_eq!(by_hand.status, RunStatus::Succeeded);
    world.command(pause(false)).unwrap();
    world.advance_to("2026-03-02T09:14:00Z");
    let resumed = ["09:00 succeeded", "09:10 succeeded", "09:11 succeeded", "09:12 succeeded"];
    assert_eq!(states(&world)[..4], resumed);
}

fn statuses(world: &World, workflow: engine::WorkflowId) -> Vec<RunStatus> {
    let runs = world.memory.runs.values().filter(|run| run.workflow == workflow);
    runs.map(|run| run.status).collect()
}

#[test]
fn starts_by_hand_run_side_by_side_unless_a_limit_is_written() {
    use RunStatus::{Pending, Running, Succeeded};
    let mut world = World::new("2026-03-02T09:00:00Z").working(|_| (seconds(60), success()));
    let mut started = Vec::new();
    for (name, limit) in [("default", None), ("one", Some(1)), ("three", Some(3))] {
        let id = world.workflow(name, limit);
        for _ in 0..4 {
            let run = world.new_run();
            world.command(Command::StartWorkflow { id, run }).unwrap();
        }
        started.push(id);
    }
    world.advance_to("2026-03-02T09:00:30Z");
    assert_eq!(statuses(&world, started[0]), [Running; 4]);
    assert_eq!(statuses(&world, started[1]), [Running, Pending, Pending, Pending]);
    assert_eq!(statuses(&world, started[2]), [Running, Running, Running, Pending]);
    world.advance_to("2026-03-02T09:01:30Z");
    assert_eq!(
        statuses(&world, started[1]),
        [Succeeded, Running, Pending, Pending],
        "oldest first"
    );
    world.advance_to("2026-03-02T09:10:00Z");
    for id in started {
        assert_eq!(statuses(&world, id), [Succeeded; 4]);
    }
}

#[test]
fn a_caller_who_does_not_want_to_wait_is_told_who_is_in_the_way() {
    let mut world = World::new("2026-03-02T09:00:00Z").working(|_| (seconds(60), success()));
    let (unlimited, one) = (world.workflow("unlimited", None), world.workflow("one", Some(1)));
    let impatient = |world: &World| NewRun { if_busy: IfBusy::Refuse, ..world.new_run() };
    for _ in 0..3 {
        let run = impatient(&world);
        world.command(Command::StartWorkflow { id: unlimited, run }).unwrap();
    }
    let run = impatient(&world);
    world.command(Command::StartWorkflow { id: one, run }).unwrap();
    let of_one = world.schedule(one, r#"{"name": "s", "interval": "1h"}"#);
    let refused = |world: &mut World, command| match world.command(command).unwrap_err() {
        Refused::Busy { message, run: Some(run) } => {
            assert!(message.contains(&run.to_string()), "{message}");
            run
        }
        other => panic!("{other:?}"),
    };
    // Both before the run has begun and afterwards.
    for at in ["2026-03-02T09:00:00Z", "2026-03-02T09:00:30Z"] {
        world.advance_to(at);
        let run = impatient(&world);
        let by_workflow = refused(&mut world, Command::StartWorkflow { id: one, run });
        let run = impatient(&world);
        let by_schedule = refused(&mut world, Command::StartSchedule { id: of_one, run });
        assert_eq!(by_workflow, by_schedule);
    }
    // A schedule has one active occurrence unless its overlap policy says otherwise.
    for (overlap, is_refused) in [("skip", true), ("queue", true), ("allow", false)] {
        let fields = format!(r#"{{"name": "s", "interval": "1h", "overlap": "{overlap}"}}"#);
        let id = world.schedule(unlimited, &fields);
        let run = impatient(&world);
        world.command(Command::StartSchedule { id, run }).unwrap();
        let run = impatient(&world);
        let again = world.command(Command::StartSchedule { id, run });
        let busy = matches!(again, Err(Refused::Busy { run: Some(_), .. }));
        assert_eq!(busy, is_refused, "{overlap}: {again:?}");
    }
}

#[test]
fn a_schedule_has_a_bounded_number_of_runs_by_hand() {
    let mut world = World::new("2026-03-02T09:00:00Z").working(|_| (seconds(60), success()));
    let workflow = world.workflow("w", Some(1));
    let id = world.schedule(workflow, r#"{"name": "s", "interval": "1h"}"#);
    for _ in 0..1_000 {
        let run = world.new_run();
        world.command(Command::StartSchedule { id, run }).unwrap();
    }
    let run = world.new_run();
    let refused = world.command(Command::StartSchedule { id, run }).unwrap_err().to_string();
    assert!(refused.contains("1000 runs of this schedule"), "{refused}");
    world.advance_to("2026-03-02T09:01:30Z");
    let run = world.new_run();
    world.command(Command::StartSchedule { id, run }).unwrap();
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
