//! The overlap policies, with occurrences at 09:00, 10:00 and 11:00.

use engine::schedule::Status;
use jiff::SignedDuration;

use crate::world::{World, at, failure, seconds, success};

/// An hourly schedule from 09:00 whose runs take this many hours.
fn hourly(overlap: &str, hours: i64, until: &str) -> (World, engine::ScheduleId) {
    let mut world = World::new("2026-03-02T08:30:00Z")
        .working(move |_| (SignedDuration::from_hours(hours), success()));
    let workflow = world.workflow("w", None);
    let text = format!(
        r#"{{"name": "s", "cron": "0 * * * *", "overlap": "{overlap}", "timeout_seconds": 86400}}"#
    );
    let id = world.schedule(workflow, &text);
    world.advance_to(until);
    (world, id)
}

#[test]
fn skip_skips_ten_and_starts_eleven() {
    let (world, id) = hourly("skip", 2, "2026-03-02T11:30:00Z");
    assert_eq!(world.ledger(id), ["09:00 started", "10:00 skipped", "11:00 started"]);
    assert_eq!(world.runs(id), ["n0-rc0 09:00 succeeded", "n2-rc0 11:00 running"]);
}

#[test]
fn queue_starts_ten_at_eleven_and_eleven_follows_it() {
    let (mut world, id) = hourly("queue", 2, "2026-03-02T11:30:00Z");
    assert_eq!(world.ledger(id), ["09:00 started", "10:00 started", "11:00 queued"]);
    assert_eq!(world.runs(id), ["n0-rc0 09:00 succeeded", "n1-rc0 11:00 running"]);
    world.advance_to("2026-03-02T13:30:00Z");
    let ledger = ["started", "started", "started", "coalesced", "queued"];
    let hours = ["09:00", "10:00", "11:00", "12:00", "13:00"];
    let expected: Vec<String> =
        hours.iter().zip(ledger).map(|(hour, outcome)| format!("{hour} {outcome}")).collect();
    assert_eq!(world.ledger(id), expected);
    assert_eq!(world.runs(id)[2], "n2-rc0 13:00 running");
}

#[test]
fn queue_all_keeps_them_all_up_to_its_limit() {
    let (world, id) = hourly("queue_all", 100, "2026-03-02T14:30:00Z");
    assert_eq!(world.get(id).progress.queued.len(), 5);
    let mut world = World::new("2026-03-02T08:30:00Z")
        .working(|_| (SignedDuration::from_hours(100), success()));
    let workflow = world.workflow("w", None);
    let text = r#"{"name": "s", "cron": "0 * * * *", "overlap": "queue_all", "queue_limit": 2,
                   "timeout_seconds": 86400}"#;
    let id = world.schedule(workflow, text);
    world.advance_to("2026-03-02T12:05:00Z");
    let ledger = ["09:00 started", "10:00 queued", "11:00 queued", "12:00 skipped"];
    assert_eq!(world.ledger(id), ledger);
}

#[test]
fn cancel_ends_the_active_run_and_starts_the_new_one() {
    let (world, id) = hourly("cancel", 2, "2026-03-02T11:30:00Z");
    assert_eq!(world.ledger(id), ["09:00 started", "10:00 started", "11:00 started"]);
    let runs = ["n0-rc0 09:00 cancelled", "n1-rc0 10:00 cancelled", "n2-rc0 11:00 running"];
    assert_eq!(world.runs(id), runs);
    assert_eq!(world.cancelled.len(), 2);
    // A cancelled run is not a failure: no error is counted, and nothing is retried.
    assert_eq!(world.get(id).progress.error_count, 0);
}

#[test]
fn allow_runs_side_by_side() {
    let (world, id) = hourly("allow", 3, "2026-03-02T11:30:00Z");
    let runs = ["n0-rc0 09:00 running", "n1-rc0 10:00 running", "n2-rc0 11:00 running"];
    assert_eq!(world.runs(id), runs);
}

#[test]
fn error_marks_the_schedule_dead_at_ten() {
    let (world, id) = hourly("error", 2, "2026-03-02T12:30:00Z");
    assert_eq!(world.ledger(id), ["09:00 started", "10:00 failed"]);
    let schedule = world.get(id);
    assert_eq!((schedule.status, schedule.progress.next), (Status::Dead, None));
    let error = schedule.progress.last_error.as_deref().unwrap();
    assert_eq!(error, "occurrence 0 was active, and overlap is error");
    assert_eq!(world.runs(id), ["n0-rc0 09:00 succeeded"]);
}

/// Why it died stays, however the run ends that was the reason.
#[test]
fn the_reason_of_death_by_overlap_outlives_the_failure_of_the_earlier_run() {
    let mut world = World::new("2026-03-02T08:30:00Z")
        .working(|_| (SignedDuration::from_hours(2), failure("exit code 7")));
    let workflow = world.workflow("w", None);
    let text =
        r#"{"name": "s", "cron": "0 * * * *", "overlap": "error", "timeout_seconds": 86400}"#;
    let id = world.schedule(workflow, text);
    world.advance_to("2026-03-02T12:30:00Z");
    assert_eq!(world.runs(id), ["n0-rc0 09:00 failed"]);
    let schedule = world.get(id);
    assert_eq!(schedule.status, Status::Dead);
    let error = schedule.progress.last_error.as_deref().unwrap();
    assert_eq!(error, "occurrence 0 was active, and overlap is error");
}

#[test]
fn a_run_that_ends_at_an_instant_is_settled_before_an_occurrence_due_at_it() {
    let (world, id) = hourly("skip", 1, "2026-03-02T11:30:00Z");
    assert_eq!(world.ledger(id), ["09:00 started", "10:00 started", "11:00 started"]);
}

#[test]
fn five_minute_and_hourly_schedules_never_affect_each_other() {
    let mut world = World::new("2026-03-02T08:59:00Z").working(|_| (seconds(10), success()));
    let workflow = world.workflow("w", None);
    let often = world.schedule(workflow, r#"{"name": "often", "cron": "*/5 * * * *"}"#);
    let hourly = world.schedule(workflow, r#"{"name": "hourly", "cron": "0 * * * *"}"#);
    let slow =
        world.schedule(workflow, r#"{"name": "slow", "interval": "7m", "total_repeats": 1}"#);
    world.advance_to("2026-03-02T11:59:00Z");
    assert_eq!(world.get(often).progress.run_count, 36);
    assert_eq!(world.get(hourly).progress.run_count, 3);
    assert!(
        world.ledger(often).iter().chain(&world.ledger(hourly)).all(|l| l.ends_with("started"))
    );
    assert_eq!(world.get(slow).status, Status::Done);
}

#[test]
fn an_occurrence_that_was_queued_in_time_was_not_missed_by_the_node_that_starts_it() {
    let mut world = World::new("2026-03-02T09:00:00Z").working(|_| (seconds(100), success()));
    let workflow = world.workflow("w", None);
    let text = r#"{"name": "s", "cron": "* * * * *", "overlap": "queue", "timeout_seconds": 0}"#;
    let id = world.schedule(workflow, text);
    world.advance_to("2026-03-02T09:02:10Z");
    assert_eq!(world.ledger(id), ["09:01 started", "09:02 queued"]);
    world.awake_since = at("2026-03-02T09:02:30Z");
    world.advance_to("2026-03-02T09:02:50Z");
    let reason = |nominal| {
        let mut rows = world.memory.ledger.values();
        let row = rows.rfind(|row| row.nominal == at(nominal));
        row.map(|row| row.reason.to_string()).unwrap_or_default()
    };
    let said = reason("2026-03-02T09:02:00Z");
    assert!(said.starts_with("due") && !said.contains("no node was running"), "{said}");
}
