//! Success, failure and retries of scheduled runs, and the end of a schedule.

use std::cell::Cell;
use std::rc::Rc;

use engine::schedule::{Active, Status};
use jiff::SignedDuration;

use crate::world::{World, failure, seconds, success};

/// Work that fails the first `failures` times.
fn failing(
    failures: u32,
) -> impl FnMut(&engine::turn::Perform) -> (SignedDuration, engine::run::AttemptEnd) {
    let seen = Rc::new(Cell::new(0));
    move |_| {
        seen.set(seen.get() + 1);
        let end = if seen.get() <= failures { failure("no luck") } else { success() };
        (SignedDuration::ZERO, end)
    }
}

fn minutely(failures: u32, more: &str) -> (World, engine::ScheduleId) {
    let mut world = World::new("2026-03-02T09:00:00Z").working(failing(failures));
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, &format!(r#"{{"name": "s", "interval": "1m"{more}}}"#));
    (world, id)
}

#[test]
fn backoff_of_60_120_240_seconds() {
    let (mut world, id) = minutely(3, "");
    world.advance_to("2026-03-02T09:08:30Z");
    // Due at 09:01. The retries follow one, two and four minutes after each failure.
    let runs = [
        "n0-rc0 09:01 failed",
        "n0-rc1 09:02 failed",
        "n0-rc2 09:04 failed",
        "n0-rc3 09:08 succeeded",
    ];
    assert_eq!(world.runs(id), runs);
    let progress = &world.get(id).progress;
    assert_eq!((progress.run_count, progress.error_count, progress.current_retry), (1, 3, 0));
    assert_eq!(progress.last_error, None);
    // The occurrence stays active until its last retry has ended, so the others are skipped.
    assert_eq!(world.ledger(id)[..3], ["09:01 started", "09:02 skipped", "09:03 skipped"]);
}

#[test]
fn dead_on_the_fourth_failure_with_max_retries_3() {
    let (mut world, id) = minutely(99, "");
    world.advance_to("2026-03-02T12:00:00Z");
    let schedule = world.get(id);
    assert_eq!(world.runs(id).len(), 4);
    assert_eq!((schedule.status, schedule.progress.next), (Status::Dead, None));
    assert_eq!(schedule.progress.error_count, 4);
    assert_eq!(schedule.progress.last_error.as_deref(), Some("step only: no luck"));
    assert_eq!(world.ledger(id)[0], "09:01 failed");
}

#[test]
fn no_retries_with_max_retries_0() {
    let (mut world, id) = minutely(99, r#", "max_retries": 0"#);
    world.advance_to("2026-03-02T12:00:00Z");
    assert_eq!(world.runs(id), ["n0-rc0 09:01 failed"]);
    assert_eq!(world.get(id).status, Status::Dead);
}

#[test]
fn paused_instead_of_dead_if_asked() {
    let (mut world, id) = minutely(99, r#", "max_retries": 0, "pause_on_failure": true"#);
    world.advance_to("2026-03-02T12:00:00Z");
    assert_eq!(world.get(id).status, Status::Paused);
}

#[test]
fn a_node_that_may_not_run_the_command_kills_no_schedule() {
    let mut world = World::new("2026-03-02T09:00:00Z").working(|_| {
        let message = "not here".to_owned();
        (SignedDuration::ZERO, engine::run::AttemptEnd::NotAllowed { message, retryable: false })
    });
    let workflow = world.workflow("w", None);
    let fields = r#"{"name": "s", "interval": "1m", "max_retries": 0, "on_exhausted": "die"}"#;
    let id = world.schedule(workflow, fields);
    world.advance_to("2026-03-02T09:03:00Z");
    assert_eq!(world.runs(id).len(), 3, "each occurrence is tried");
    assert_eq!(world.get(id).status, Status::Active);
    assert_eq!(world.ledger(id), ["09:01 failed", "09:02 failed", "09:03 failed"]);
}

#[test]
fn what_cannot_heal_is_not_tried_again() {
    let mut world = World::new("2026-03-02T09:00:00Z").working(|_| {
        let (code, message) = ("http_status".to_owned(), "401".to_owned());
        let end = engine::run::AttemptEnd::Failed { code, message, retryable: false, output: None };
        (SignedDuration::ZERO, end)
    });
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, r#"{"name": "s", "interval": "1m"}"#);
    world.advance_to("2026-03-02T09:30:00Z");
    assert_eq!(world.runs(id), ["n0-rc0 09:01 failed"]);
    assert_eq!(world.get(id).status, Status::Dead);
}

#[test]
fn done_at_the_repeat_limit() {
    let (mut world, id) = minutely(0, r#", "total_repeats": 3"#);
    world.advance_to("2026-03-02T09:02:30Z");
    assert_eq!(world.get(id).status, Status::Active);
    world.advance_to("2026-03-02T10:00:00Z");
    let schedule = world.get(id);
    assert_eq!((schedule.status, schedule.progress.next), (Status::Done, None));
    assert_eq!((schedule.progress.current_repeat, schedule.progress.run_count), (3, 3));
    let ids: Vec<String> = world.runs(id);
    assert_eq!(ids.len(), 3);
}

#[test]
fn done_only_when_the_last_run_has_ended() {
    let mut world = World::new("2026-03-02T09:00:00Z").working(|_| (seconds(300), success()));
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, r#"{"name": "s", "interval": "1m", "total_repeats": 1}"#);
    world.advance_to("2026-03-02T09:03:00Z");
    assert_eq!(world.get(id).status, Status::Active);
    world.advance_to("2026-03-02T09:06:00Z");
    assert_eq!(world.get(id).status, Status::Done);
}

#[test]
fn a_retry_is_kept_in_what_is_stored() {
    let (mut world, id) = minutely(1, "");
    world.advance_to("2026-03-02T09:01:30Z");
    let active = &world.get(id).progress.active;
    assert!(matches!(active[..], [Active::Retrying { retry: 1, .. }]), "{active:?}");
    assert_eq!(world.get(id).progress.current_retry, 1);
}

#[test]
fn over_its_timeout_a_run_is_cancelled_and_counts_as_failed() {
    let mut world =
        World::new("2026-03-02T09:00:00Z").working(|_| (SignedDuration::from_hours(5), success()));
    let workflow = world.workflow("w", None);
    let text =
        r#"{"name": "s", "at": "2026-03-02T09:10", "timeout_seconds": 60, "max_retries": 0}"#;
    let id = world.schedule(workflow, text);
    world.advance_to("2026-03-02T09:12:00Z");
    assert_eq!(world.runs(id), ["n0-rc0 09:10 timed_out"]);
    let progress = &world.get(id).progress;
    let error = progress.last_error.as_deref().unwrap();
    assert!(error.contains("timeout"), "{error}");
    assert_eq!((progress.error_count, world.cancelled.len()), (1, 1));
}

#[test]
fn an_occurrence_that_fails_for_good_is_over_and_the_next_one_comes() {
    let (mut world, id) = minutely(3, r#", "max_retries": 1, "on_exhausted": "continue""#);
    world.advance_to("2026-03-02T09:05:30Z");
    // The retry comes a minute later, when the next occurrence is due, which is skipped.
    let runs = [
        "n0-rc0 09:01 failed",
        "n0-rc1 09:02 failed",
        "n2-rc0 09:03 failed",
        "n2-rc1 09:04 succeeded",
        "n4-rc0 09:05 succeeded",
    ];
    assert_eq!(world.runs(id), runs);
    let schedule = world.get(id);
    assert_eq!((schedule.status, schedule.progress.error_count), (Status::Active, 3));
    assert_eq!((schedule.progress.current_retry, &schedule.progress.last_error), (0, &None));
    assert_eq!(world.ledger(id)[..3], ["09:01 failed", "09:02 skipped", "09:03 started"]);
}

#[test]
fn what_cannot_heal_ends_the_occurrence_and_not_the_schedule() {
    let mut world = World::new("2026-03-02T09:00:00Z").working(|_| {
        let (code, message) = ("http_status".to_owned(), "401".to_owned());
        let end = engine::run::AttemptEnd::Failed { code, message, retryable: false, output: None };
        (SignedDuration::ZERO, end)
    });
    let workflow = world.workflow("w", None);
    let text = r#"{"name": "s", "interval": "1m", "on_exhausted": "continue"}"#;
    let id = world.schedule(workflow, text);
    world.advance_to("2026-03-02T09:02:30Z");
    assert_eq!(world.runs(id), ["n0-rc0 09:01 failed", "n1-rc0 09:02 failed"]);
    assert_eq!(world.get(id).status, Status::Active);
}

#[test]
fn pausing_on_failure_goes_before_what_else_is_said() {
    let fields = r#", "max_retries": 0, "pause_on_failure": true, "on_exhausted": "continue""#;
    let (mut world, id) = minutely(99, fields);
    world.advance_to("2026-03-02T12:00:00Z");
    assert_eq!(world.get(id).status, Status::Paused);
}

#[test]
fn a_schedule_made_by_a_program_has_ten_minutes_unless_it_says_otherwise() {
    for (timeout, expected) in [
        ("", ["n0-rc0 09:10 timed_out"]),
        (r#", "timeout_seconds": 600"#, ["n0-rc0 09:10 timed_out"]),
        (r#", "timeout_seconds": 7200"#, ["n0-rc0 09:10 succeeded"]),
        (r#", "timeout_seconds": 0"#, ["n0-rc0 09:10 succeeded"]),
    ] {
        let mut world = World::new("2026-03-02T09:00:00Z").working(|_| (seconds(3_600), success()));
        let workflow = world.workflow("w", None);
        let text =
            format!(r#"{{"name": "s", "at": "2026-03-02T09:10", "max_retries": 0{timeout}}}"#);
        let id = world.schedule(workflow, &text);
        // The API shows the timeout that applies to the run.
        let shown = world.get(id).declared.to_written()["timeout_seconds"].clone();
        let in_force = world.get(id).declared.timeout().map_or(0, |limit| limit.as_secs());
        assert_eq!(shown.as_i64(), Some(in_force), "{timeout}");
        world.advance_to("2026-03-02T12:00:00Z");
        assert_eq!(world.runs(id), expected, "{timeout}");
    }
}
