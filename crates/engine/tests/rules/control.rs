//! What people do with schedules, and what the engine refuses.

use calendar::Zones;
use engine::run::{RunStatus, TriggeredBy};
use engine::schedule::Status;
use engine::turn::{Answer, Command, NewRun, Refused, Starter, Verb};
use jiff::SignedDuration;
use language::Rules;

use crate::world::{World, at, failure, seconds, success};

fn every_ten_minutes() -> (World, engine::ScheduleId) {
    let mut world = World::new("2026-03-02T09:00:00Z").working(|_| (seconds(5), success()));
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, r#"{"name": "s", "interval": "10m", "overlap": "queue"}"#);
    (world, id)
}

const RESUME: Verb = Verb::Resume { catch_up: false };

#[test]
fn pause_clears_the_next_time_and_resume_sets_now_plus_interval() {
    let (mut world, id) = every_ten_minutes();
    assert_eq!(world.get(id).progress.next.unwrap().effective, at("2026-03-02T09:10:00Z"));
    world.advance_to("2026-03-02T09:13:00Z");
    world.control(id, Verb::Pause).unwrap();
    assert_eq!((world.get(id).status, world.get(id).progress.next), (Status::Paused, None));
    world.advance_to("2026-03-02T10:02:00Z");
    assert_eq!(world.ledger(id), ["09:10 started"]);
    world.control(id, RESUME).unwrap();
    assert_eq!(world.get(id).progress.next.unwrap().effective, at("2026-03-02T10:12:00Z"));
    world.advance_to("2026-03-02T10:30:00Z");
    assert_eq!(world.ledger(id), ["09:10 started", "10:12 started", "10:22 started"]);
    assert_eq!(world.get(id).progress.run_count, 3);
}

#[test]
fn resume_goes_on_with_the_rule_and_catches_up_only_if_asked() {
    let mut world = World::new("2026-03-02T08:30:00Z");
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, r#"{"name": "s", "cron": "0 * * * *"}"#);
    world.advance_to("2026-03-02T09:30:00Z");
    world.control(id, Verb::Pause).unwrap();
    world.advance_to("2026-03-02T12:30:00Z");
    world.control(id, RESUME).unwrap();
    assert_eq!(world.get(id).progress.next.unwrap().effective, at("2026-03-02T13:00:00Z"));
    world.control(id, Verb::Pause).unwrap();
    world.advance_to("2026-03-02T15:30:00Z");
    world.control(id, Verb::Resume { catch_up: true }).unwrap();
    world.advance_to("2026-03-02T15:31:00Z");
    let rows = ["09:00 started", "13:00 coalesced", "14:00 coalesced", "15:00 started"];
    assert_eq!(world.ledger(id), rows);
}

#[test]
fn calls_in_a_wrong_state_are_refused_by_name() {
    let (mut world, id) = every_ten_minutes();
    let mut refused = |verb| world.control(id, verb).unwrap_err();
    assert_eq!(refused(RESUME), "Cannot resume schedule with status 'active'.");
    assert_eq!(refused(Verb::Revive), "Cannot revive schedule with status 'active'.");
    assert_eq!(refused(Verb::Enable), "Cannot enable schedule with status 'active'.");
    world.control(id, Verb::Disable).unwrap();
    assert_eq!(
        world.control(id, Verb::Pause).unwrap_err(),
        "Cannot pause schedule with status 'paused'."
    );
    let text = r#"{"name": "s", "at": "2026-03-02T09:00:01"}"#;
    let workflow = world.get(id).workflow;
    let once = world.schedule(workflow, text);
    world.advance_to("2026-03-02T09:01:00Z");
    assert_eq!(
        world.control(once, Verb::Pause).unwrap_err(),
        "Cannot pause schedule with status 'done'."
    );
    assert!(world.control(once, Verb::Revive).unwrap_err().contains("no time after now"));
}

#[test]
fn pause_drops_what_waits_and_lets_what_runs_go_on() {
    let mut world = World::new("2026-03-02T09:00:00Z").working(|_| (seconds(500), success()));
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, r#"{"name": "s", "interval": "5m", "overlap": "queue"}"#);
    world.advance_to("2026-03-02T09:11:00Z");
    world.control(id, Verb::Pause).unwrap();
    world.advance_to("2026-03-02T09:30:00Z");
    assert_eq!(world.ledger(id), ["09:05 started", "09:10 dropped"]);
    assert_eq!(world.runs(id), ["n0-rc0 09:05 succeeded"]);
}

#[test]
fn revive_clears_retries_and_error() {
    let mut world =
        World::new("2026-03-02T09:00:00Z").working(|_| (SignedDuration::ZERO, failure("no luck")));
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, r#"{"name": "s", "interval": "10m", "max_retries": 0}"#);
    world.advance_to("2026-03-02T09:15:00Z");
    assert_eq!(world.get(id).status, Status::Dead);
    world.control(id, Verb::Revive).unwrap();
    let progress = &world.get(id).progress;
    assert_eq!((progress.current_retry, &progress.last_error), (0, &None));
    assert_eq!(progress.next.unwrap().effective, at("2026-03-02T09:25:00Z"));
    world.advance_to("2026-03-02T09:26:00Z");
    assert_eq!(world.runs(id), ["n0-rc0 09:10 failed", "n1-rc0 09:25 failed"]);
}

#[test]
fn a_start_by_hand_does_not_consume_the_next_occurrence_and_works_while_paused() {
    let (mut world, id) = every_ten_minutes();
    let run = world.new_run();
    world.command(Command::StartSchedule { id, run }).unwrap();
    world.advance_to("2026-03-02T09:01:00Z");
    world.control(id, Verb::Pause).unwrap();
    let run = world.new_run();
    world.command(Command::StartSchedule { id, run }).unwrap();
    world.advance_to("2026-03-02T09:02:00Z");
    world.control(id, RESUME).unwrap();
    world.advance_to("2026-03-02T09:15:00Z");
    let runs = ["by-hand 09:00 succeeded", "by-hand 09:01 succeeded", "n0-rc0 09:12 succeeded"];
    assert_eq!(world.runs(id), runs);
}

#[test]
fn a_start_by_hand_runs_alone_beside_what_waits() {
    // A made-up occurrence is queued, and the schedule is paused.
    let mut world = World::new("2026-03-02T09:00:00Z").working(|_| (seconds(5), success()));
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, r#"{"name": "s", "cron": "*/10 * * * *"}"#);
    world.advance_to("2026-03-02T09:01:00Z");
    world.control(id, Verb::Pause).unwrap();
    let (from, to) = (at("2026-03-02T07:00:00Z"), at("2026-03-02T08:00:00Z"));
    let pace = Some(SignedDuration::from_mins(30));
    world.command(Command::Backfill { id, from, to, limit: 100, pace, again: false }).unwrap();
    world.advance_to("2026-03-02T09:02:00Z");
    let waiting = world.get(id).progress.queued.len();
    let run = world.new_run();
    world.command(Command::StartSchedule { id, run }).unwrap();
    world.advance_to("2026-03-02T09:03:00Z");
    let runs = ["n0-rc0 09:01 succeeded", "by-hand 09:02 succeeded"];
    assert_eq!(world.runs(id), runs);
    assert_eq!(world.get(id).progress.queued.len(), waiting, "what waits still does");

    // An occurrence has failed and waits for its retry, and the workflow is paused.
    let mut world = World::new("2026-03-02T09:00:00Z").working(|_| (seconds(5), failure("no")));
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, r#"{"name": "s", "interval": "10m", "max_retries": 3}"#);
    world.advance_to("2026-03-02T09:10:30Z");
    world.command(Command::PauseWorkflow { id: workflow, paused: true, reason: None }).unwrap();
    let run = world.new_run();
    world.command(Command::StartSchedule { id, run }).unwrap();
    world.advance_to("2026-03-02T09:11:00Z");
    assert_eq!(world.runs(id), ["n0-rc0 09:10 failed", "by-hand 09:10 failed"]);
    // While the workflow is paused only runs by hand start: the waiting retry is dropped and
    // recorded.
    assert_eq!(world.ledger(id), ["09:10 dropped"]);
}

#[test]
fn a_caller_called_publish_starts_by_hand_like_any_other() {
    let (mut world, id) = every_ten_minutes();
    let by = Starter::Caller("publish".to_owned());
    let run = NewRun { by, ..world.new_run() };
    world.command(Command::StartSchedule { id, run }).unwrap();
    world.advance_to("2026-03-02T09:01:00Z");
    let run = world.memory.runs.values().last().unwrap();
    assert_eq!((run.triggered_by, run.by.as_deref()), (TriggeredBy::Manual, Some("publish")));
}

#[test]
fn an_edit_computes_the_next_time_again_and_keeps_the_numbers() {
    let (mut world, id) = every_ten_minutes();
    world.advance_to("2026-03-02T09:25:00Z");
    let patch = r#"{"interval": "1h"}"#.to_owned();
    world.command(Command::EditSchedule { id, patch }).unwrap();
    assert_eq!(world.get(id).progress.next.unwrap().effective, at("2026-03-02T10:25:00Z"));
    let patch = r#"{"description": "d", "max_retries": 1}"#.to_owned();
    world.advance_to("2026-03-02T10:00:00Z");
    world.command(Command::EditSchedule { id, patch }).unwrap();
    world.advance_to("2026-03-02T10:30:00Z");
    assert_eq!(world.runs(id).last().unwrap(), "n2-rc0 10:25 succeeded");
    // Other bounds of the same rule do not move its times.
    let patch = r#"{"end": "2026-03-02T23:00:00Z", "calendar": "DE"}"#.to_owned();
    world.command(Command::EditSchedule { id, patch }).unwrap();
    assert_eq!(world.get(id).progress.next.unwrap().effective, at("2026-03-02T11:25:00Z"));
    let patch = r#"{"cron": "0 99 * * *"}"#.to_owned();
    assert!(matches!(world.command(Command::EditSchedule { id, patch }), Err(Refused::Invalid(_))));
}

#[test]
fn deleted_schedules_are_gone_and_unknown_ids_are_no_mistake() {
    let (mut world, id) = every_ten_minutes();
    world.command(Command::DeleteSchedules(vec![id, engine::ScheduleId(999)])).unwrap();
    world.advance_to("2026-03-02T12:00:00Z");
    assert!(world.memory.schedules.is_empty() && world.ledger(id).is_empty());
}

#[test]
fn backfill_runs_past_occurrences_after_all() {
    let mut world = World::new("2026-03-02T09:00:00Z").working(|_| (seconds(5), success()));
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, r#"{"name": "s", "cron": "*/10 * * * *"}"#);
    world.advance_to("2026-03-02T09:05:00Z");
    let (from, to) = (at("2026-03-01T00:00:00Z"), at("2026-03-01T00:25:00Z"));
    let ask = |limit, again| Command::Backfill { id, from, to, limit, pace: None, again };
    let counts = |answer: Answer| match answer {
        Answer::Backfilled { accepted, left_out } => (accepted.len(), left_out),
        other => panic!("{other:?}"),
    };
    assert!(world.command(ask(1, false)).is_err());
    assert_eq!(counts(world.command(ask(10, false)).unwrap()), (3, 0));
    // The first one runs and the others wait. None of them is duplicated.
    assert_eq!(counts(world.command(ask(10, false)).unwrap()), (0, 3));
    world.advance_to("2026-03-02T09:06:00Z");
    assert_eq!(world.runs(id).len(), 3);
    let reasons = world.memory.ledger.values().map(|row| row.reason.to_string());
    assert!(reasons.into_iter().all(|reason| reason.starts_with("asked for by a backfill")));
    world.command(ask(10, false)).unwrap();
    world.advance_to("2026-03-02T09:07:00Z");
    assert_eq!(world.runs(id).len(), 3, "nothing is left to run");
    assert_eq!(counts(world.command(ask(10, true)).unwrap()), (3, 0));
    world.advance_to("2026-03-02T09:09:00Z");
    assert_eq!(world.runs(id).len(), 6, "once more, because somebody asked for that");
    assert_eq!(world.get(id).progress.next.unwrap().effective, at("2026-03-02T09:10:00Z"));
}

/// The resumption decides over what fell due during the pause. A backfill that ran it before would
/// make it run twice.
#[test]
fn what_fell_due_during_a_pause_is_left_to_the_resumption() {
    let mut world = World::new("2026-03-02T09:00:00Z").working(|_| (seconds(5), success()));
    let workflow = world.workflow("w", None);
    let fields = r#"{"name": "s", "cron": "*/10 * * * *", "catch_up": "all"}"#;
    let id = world.schedule(workflow, fields);
    world.advance_to("2026-03-02T09:15:00Z");
    world.command(Command::ControlSchedule { id, verb: Verb::Pause }).unwrap();
    world.advance_to("2026-03-02T09:35:00Z");
    let ask = |from: &str| {
        let (from, to) = (at(from), at("2026-03-02T09:35:00Z"));
        Command::Backfill { id, from, to, limit: 10, pace: None, again: true }
    };
    let refused = world.command(ask("2026-03-02T09:16:00Z")).unwrap_err().to_string();
    assert!(refused.contains("after the schedule was paused"), "{refused}");
    world.command(ask("2026-03-02T09:10:00Z")).unwrap();
    world.advance_to("2026-03-02T09:36:00Z");
    assert_eq!(world.runs(id).len(), 2, "09:10 once more");
    let resume = Verb::Resume { catch_up: true };
    world.command(Command::ControlSchedule { id, verb: resume }).unwrap();
    world.advance_to("2026-03-02T09:39:00Z");
    assert_eq!(world.runs(id).len(), 4, "09:20 and 09:30, once each");
}

#[test]
fn a_backfill_beside_a_full_queue_is_told_that_the_queue_is_full() {
    let mut world = World::new("2026-03-02T09:00:00Z").working(|_| (seconds(50_000), success()));
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, r#"{"name": "s", "cron": "*/10 * * * *"}"#);
    let ask = |from: &str, to: &str| {
        let (from, to) = (at(from), at(to));
        Command::Backfill { id, from, to, limit: 1_000, pace: None, again: false }
    };
    world.command(ask("2026-02-01T00:00:00Z", "2026-02-07T22:00:00Z")).unwrap();
    let refused = world.command(ask("2026-02-10T00:00:00Z", "2026-02-10T05:00:00Z")).unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("occurrences of this schedule wait already"), "{refused}");
}

#[test]
fn a_schedule_whose_last_retry_is_given_up_by_a_backfill_is_done() {
    let mut world = World::new("2026-03-02T09:00:00Z").working(|_| (seconds(5), failure("no")));
    let workflow = world.workflow("w", None);
    let fields =
        r#"{"name": "s", "cron": "*/10 * * * *", "end": "2026-03-02T09:15", "max_retries": 3}"#;
    let id = world.schedule(workflow, fields);
    world.advance_to("2026-03-02T09:10:10Z");
    world.command(Command::PauseWorkflow { id: workflow, paused: true, reason: None }).unwrap();
    assert_eq!(world.get(id).status, Status::Active, "it waits to be tried again");
    let (from, to) = (at("2026-03-02T08:00:00Z"), at("2026-03-02T08:05:00Z"));
    world.command(Command::Backfill { id, from, to, limit: 9, pace: None, again: false }).unwrap();
    assert_eq!(world.get(id).status, Status::Done);
}

#[test]
fn an_interval_from_completion_counts_from_the_end() {
    let mut world = World::new("2026-03-02T09:00:00Z").working(|_| (seconds(420), success()));
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, r#"{"name": "s", "interval": "10m", "from": "completion"}"#);
    world.advance_to("2026-03-02T09:45:00Z");
    let runs = ["n0-rc0 09:10 succeeded", "n1-rc0 09:27 succeeded", "n2-rc0 09:44 running"];
    assert_eq!(world.runs(id), runs);
}

#[test]
fn a_run_can_be_cancelled_and_tried_again() {
    let mut world =
        World::new("2026-03-02T09:00:00Z").working(|_| (SignedDuration::from_hours(1), success()));
    let workflow = world.workflow("w", None);
    let run = world.new_run();
    world.command(Command::StartWorkflow { id: workflow, run }).unwrap();
    let id = world.memory.runs.values().next().unwrap().id.clone();
    let reason = "enough".to_owned();
    world.command(Command::CancelRun { id: id.clone(), reason: reason.clone() }).unwrap();
    world.advance_to("2026-03-02T09:00:10Z");
    let run = world.memory.runs.values().next().unwrap();
    assert_eq!(run.status, RunStatus::Cancelled);
    let again = world.command(Command::CancelRun { id: id.clone(), reason });
    assert_eq!(again.unwrap_err().to_string(), "Cannot cancel run with status 'cancelled'.");
    let run = world.new_run();
    world.command(Command::RetryRun { id: id.clone(), from_start: true, run }).unwrap();
    let run = world.memory.runs.values().last().unwrap();
    assert_eq!((run.status, run.retry_of.as_ref()), (RunStatus::Running, Some(&id)));
}

#[test]
fn a_corrected_calendar_brings_back_a_schedule_that_it_left_without_a_time() {
    let mut world = World::new("2026-03-02T08:00:00Z");
    let hours = |hours: &str| {
        let text = format!(r#"{{"id": "office", "timezone": "UTC", "hours": {hours}}}"#);
        Rules::new(Zones::bundled()).with(&[serde_json::from_str(&text).unwrap()])
    };
    let working = r#"{"mon-fri": ["09:00-17:00"]}"#;
    world.rules = hours(working);
    let workflow = world.workflow("w", None);
    let text = r#"{"name": "s", "cron": "0 9 * * *", "calendar": "office"}"#;
    let id = world.schedule(workflow, text);
    let once = r#"{"name": "s", "cron": "0 9 * * *", "calendar": "office", "total_repeats": 1}"#;
    let over = world.schedule(workflow, once);
    world.advance_to("2026-03-02T10:00:00Z");
    world.rules = hours("{}");
    world.command(Command::Recompute(vec![id, over])).unwrap();
    assert_eq!((world.get(id).status, world.next(id)), (Status::Done, None));
    world.rules = hours(working);
    world.command(Command::Recompute(vec![id, over])).unwrap();
    assert_eq!(world.get(id).status, Status::Active);
    assert_eq!(world.next(id), Some(at("2026-03-03T09:00:00Z")));
    assert_eq!(world.get(over).status, Status::Done, "its repeats are used up");
}

#[test]
fn a_schedule_that_has_lost_its_next_time_goes_on() {
    for rule in [r#""interval": "10m""#, r#""cron": "*/10 * * * *""#, r#""at": "09:10""#] {
        let mut world = World::new("2026-03-02T09:00:00Z").working(|_| (seconds(5), success()));
        let workflow = world.workflow("w", None);
        let rule = rule.replace("09:10", "2026-03-02T09:10:00Z");
        let id = world.schedule(workflow, &format!(r#"{{"name": "s", {rule}}}"#));
        world.advance_to("2026-03-02T09:10:01Z");
        world.memory.schedules.get_mut(&id).unwrap().progress.next = None;
        // The run of 09:10 ends.
        world.advance_to("2026-03-02T09:20:01Z");
        if rule.contains("at") {
            assert_eq!((world.get(id).status, world.next(id)), (Status::Done, None), "{rule}");
        } else {
            assert_eq!(world.ledger(id), ["09:10 started", "09:20 started"], "{rule}");
        }
    }
}

#[test]
fn an_interval_from_completion_outlives_a_retry_that_a_pause_gives_up() {
    let mut world = World::new("2026-03-02T09:00:00Z").working(|_| (seconds(5), failure("no")));
    let workflow = world.workflow("w", None);
    let text = r#"{"name": "s", "interval": "10m", "from": "completion", "max_retries": 3}"#;
    let id = world.schedule(workflow, text);
    world.advance_to("2026-03-02T09:10:06Z");
    world.command(Command::PauseWorkflow { id: workflow, paused: true, reason: None }).unwrap();
    world.advance_to("2026-03-02T09:21:00Z");
    assert_eq!(world.get(id).status, Status::Active, "{:?}", world.ledger(id));
    assert!(world.get(id).progress.next.is_some(), "{:?}", world.get(id).progress);
}
