//! The repeat limit counts occurrences that succeeded, and nothing else.

use engine::schedule::{AheadFate, Status};
use engine::turn::Command;
use jiff::SignedDuration;

use crate::world::{World, at, failure, seconds, success};

fn limited(
    fields: &str,
    work: impl FnMut(u32) -> (i64, bool) + 'static,
) -> (World, engine::ScheduleId) {
    let (mut work, mut seen) = (work, 0);
    let mut world = World::new("2026-03-02T09:00:00Z").working(move |_| {
        seen += 1;
        let (takes, succeeds) = work(seen);
        (seconds(takes), if succeeds { success() } else { failure("no luck") })
    });
    let workflow = world.workflow("w", None);
    let text = format!(
        r#"{{"name": "s", "interval": "10m", "total_repeats": 2, "timeout_seconds": 0,
            {fields}}}"#
    );
    let id = world.schedule(workflow, &text);
    (world, id)
}

fn counted(world: &World, id: engine::ScheduleId) -> (Status, u64) {
    (world.get(id).status, world.get(id).progress.current_repeat)
}

#[test]
fn what_was_skipped_does_not_count() {
    // The first run takes so long that two occurrences are skipped.
    let (mut world, id) =
        limited(r#""overlap": "skip""#, |seen| (if seen == 1 { 25 * 60 } else { 1 }, true));
    world.advance_to("2026-03-02T09:38:00Z");
    assert_eq!(world.ledger(id)[..3], ["09:10 started", "09:20 skipped", "09:30 skipped"]);
    assert_eq!(counted(&world, id), (Status::Active, 1));
    world.advance_to("2026-03-02T10:30:00Z");
    assert_eq!(world.ledger(id)[3..], ["09:40 started"]);
    assert_eq!(counted(&world, id), (Status::Done, 2));
}

#[test]
fn what_was_missed_or_coalesced_does_not_count() {
    for (catch_up, after) in [("none", 0), ("last", 1)] {
        let fields = format!(r#""catch_up": "{catch_up}""#);
        let (mut world, id) = limited(&fields, |_| (1, true));
        world.down_until("2026-03-02T10:05:00Z");
        world.advance_to("2026-03-02T10:06:00Z");
        assert_eq!(counted(&world, id), (Status::Active, after), "{catch_up}");
        world.advance_to("2026-03-02T12:00:00Z");
        assert_eq!(counted(&world, id), (Status::Done, 2), "{catch_up}");
        assert_eq!(world.get(id).progress.run_count, 2, "{catch_up}");
    }
}

#[test]
fn more_are_missed_than_are_looked_at_one_by_one_and_none_counts() {
    let (mut world, id) = limited(r#""catch_up": "none""#, |_| (1, true));
    world.down_until("2026-06-02T10:05:00Z");
    assert_eq!(counted(&world, id), (Status::Active, 0));
    world.advance_to("2026-06-02T11:00:00Z");
    assert_eq!(counted(&world, id), (Status::Done, 2));
}

#[test]
fn no_more_are_made_up_for_than_are_left() {
    let (mut world, id) = limited(r#""catch_up": "all""#, |_| (1, true));
    world.down_until("2026-03-02T09:45:00Z");
    world.advance_to("2026-03-02T11:00:00Z");
    let ledger = ["09:10 started", "09:20 started", "09:30 skipped", "09:40 skipped"];
    assert_eq!(world.ledger(id), ledger);
    assert_eq!(counted(&world, id), (Status::Done, 2));
}

#[test]
fn side_by_side_no_more_start_than_may_succeed() {
    let (mut world, id) = limited(r#""overlap": "allow", "max_retries": 0"#, |_| (25 * 60, true));
    world.advance_to("2026-03-02T09:31:00Z");
    assert_eq!(world.ledger(id), ["09:10 started", "09:20 started", "09:30 skipped"]);
    // Whether another occurrence comes is not known before one of the active ones has ended.
    assert_eq!((world.get(id).remaining(), world.next(id)), (Some(0), None));
    world.advance_to("2026-03-02T12:00:00Z");
    assert_eq!(counted(&world, id), (Status::Done, 2));
}

#[test]
fn a_failure_gives_its_repeat_back() {
    let fields = r#""overlap": "queue", "max_retries": 1, "retry": {"delay": "1m"}"#;
    let (mut world, id) = limited(fields, |seen| (1, seen != 2));
    world.advance_to("2026-03-02T09:20:30Z");
    assert_eq!(counted(&world, id), (Status::Active, 1));
    let coming = world.outlook(id, |outlook| outlook.coming(10));
    let coming: Vec<_> = coming.iter().map(|row| (row.fate, row.effective)).collect();
    let retry = (AheadFate::Retried, Some(at("2026-03-02T09:21:01Z")));
    assert_eq!(coming, [retry], "the retry may be the last");
    world.advance_to("2026-03-02T12:00:00Z");
    assert_eq!(world.runs(id).len(), 3);
    assert_eq!(counted(&world, id), (Status::Done, 2));
}

#[test]
fn a_backfill_does_not_count() {
    let (mut world, id) = limited(r#""overlap": "skip""#, |_| (1, true));
    world.advance_to("2026-03-02T09:11:00Z");
    let (from, to) = (at("2026-03-02T09:05:00Z"), at("2026-03-02T09:11:00Z"));
    world.command(Command::Backfill { id, from, to, limit: 10, pace: None, again: true }).unwrap();
    world.advance_to("2026-03-02T09:12:00Z");
    assert_eq!(world.get(id).progress.run_count, 2);
    assert_eq!(counted(&world, id), (Status::Active, 1));
}

/// A schedule that is done or dead, after an edit.
fn after_edit(fields: &str, until: &str, patch: &str) -> (World, engine::ScheduleId) {
    let mut world = World::new("2026-03-02T09:00:00Z").working(|perform| {
        let fails = perform.input.contains("fail");
        (SignedDuration::ZERO, if fails { failure("no luck") } else { success() })
    });
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, &format!(r#"{{"name": "s", {fields}}}"#));
    world.advance_to(until);
    assert!(matches!(world.get(id).status, Status::Done | Status::Dead), "{fields}");
    world.command(Command::EditSchedule { id, patch: patch.to_owned() }).unwrap();
    (world, id)
}

#[test]
fn a_change_that_gives_a_future_brings_a_schedule_back_to_life() {
    let limited = r#""interval": "10m", "total_repeats": 2"#;
    let once = r#""at": "2026-03-02T09:30:00Z""#;
    let ended = r#""interval": "10m", "end": "2026-03-02T09:25:00Z""#;
    let dead = r#""interval": "10m", "max_retries": 0, "payload": "fail""#;
    let noon = "2026-03-02T12:00:00Z";
    for (fields, patch, next, repeats) in [
        (limited, r#"{"total_repeats": 3}"#, "2026-03-02T12:10:00Z", 2),
        (limited, r#"{"total_repeats": 0}"#, "2026-03-02T12:10:00Z", 2),
        (limited, r#"{"interval": "1h"}"#, "2026-03-02T13:00:00Z", 0),
        (limited, r#"{"interval": "1h", "total_repeats": 5}"#, "2026-03-02T13:00:00Z", 2),
        (once, r#"{"at": "2026-03-03T09:30:00Z"}"#, "2026-03-03T09:30:00Z", 1),
        (ended, r#"{"end": "2026-03-05T00:00:00Z"}"#, "2026-03-02T12:10:00Z", 2),
        (ended, r#"{"end": null}"#, "2026-03-02T12:10:00Z", 2),
        (dead, r#"{"cron": "0 15 * * *"}"#, "2026-03-02T15:00:00Z", 0),
    ] {
        let (world, id) = after_edit(fields, noon, patch);
        let schedule = world.get(id);
        assert_eq!(schedule.status, Status::Active, "{fields} {patch}");
        assert_eq!(world.next(id), Some(at(next)), "{fields} {patch}");
        assert_eq!(schedule.progress.current_repeat, repeats, "{fields} {patch}");
        assert_eq!(schedule.progress.renewed_at, Some(at(noon)), "{fields} {patch}");
        let progress = &schedule.progress;
        assert_eq!((progress.current_retry, &progress.last_error), (0, &None), "{patch}");
    }
    for (fields, patch) in [
        (limited, r#"{"description": "d"}"#),
        (limited, r#"{"total_repeats": 1}"#),
        (limited, r#"{"end": "2026-03-05T00:00:00Z"}"#),
        (once, r#"{"at": "2026-03-01T09:30:00Z"}"#),
        (once, r#"{"total_repeats": 9}"#),
        (ended, r#"{"end": "2026-03-02T11:00:00Z"}"#),
        (dead, r#"{"max_retries": 3}"#),
    ] {
        let (world, id) = after_edit(fields, noon, patch);
        let schedule = world.get(id);
        assert_ne!(schedule.status, Status::Active, "{fields} {patch}");
        assert_eq!((schedule.progress.renewed_at, schedule.progress.next), (None, None), "{patch}");
    }
}

#[test]
fn a_schedule_that_lives_again_runs_again() {
    let fields = r#""interval": "10m", "total_repeats": 2"#;
    let (mut world, id) = after_edit(fields, "2026-03-02T12:00:00Z", r#"{"total_repeats": 3}"#);
    world.advance_to("2026-03-02T13:00:00Z");
    // Occurrences from the time in which the schedule was done are not made up.
    assert_eq!(world.ledger(id), ["09:10 started", "09:20 started", "12:10 started"]);
    assert_eq!(counted(&world, id), (Status::Done, 3));
}
