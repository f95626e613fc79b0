//! What is said to come is what happens.

use engine::ScheduleId;
use engine::ledger::Outcome;
use engine::schedule::{Ahead, AheadFate, OverrideAction, Status};
use engine::turn::{Command, Verb};
use jiff::Timestamp;
use serde_json::value::RawValue;

use crate::world::{World, at, failure, success};

const MONDAY: &str = "2026-03-02T08:00:00Z";
/// Mondays to Fridays, and one holiday.
const CALENDAR: &str =
    r#"{"id": "office", "timezone": "UTC", "holidays": [{"date": "2026-03-05", "name": "Feast"}]}"#;

/// A line for each occurrence: nominal time, when it starts, and what becomes of it.
type Lines = Vec<(Timestamp, Option<Timestamp>, &'static str)>;

fn promised(world: &World, id: ScheduleId, until: Timestamp) -> Lines {
    let rows = world.outlook(id, |outlook| outlook.coming(500));
    let rows = rows.iter().filter(|row| row.effective.unwrap_or(row.nominal) <= until);
    let mut lines: Lines = rows.map(|row| (row.nominal, row.effective, row.fate.name())).collect();
    lines.sort_unstable();
    lines
}

fn happened(world: &World, id: ScheduleId) -> Lines {
    let rows = world.memory.ledger.values().filter(|entry| entry.schedule == id);
    let mut lines: Lines = rows
        .map(|entry| match entry.outcome {
            Outcome::Started => (entry.nominal, Some(entry.effective), "kept"),
            Outcome::Moved => (entry.nominal, Some(entry.effective), "moved"),
            outcome => (entry.nominal, None, outcome.name()),
        })
        .collect();
    lines.sort_unstable();
    lines
}

fn over(world: &mut World, id: ScheduleId, nominal: &str, action: OverrideAction) {
    let (nominal, by) = (at(nominal), "anna".to_owned());
    world.command(Command::Override { id, nominal, action: Some(action), by }).unwrap();
}

fn world(fields: &str) -> (World, ScheduleId) {
    let mut world = World::new(MONDAY);
    world.rules = world.rules.with(&[serde_json::from_str(CALENDAR).unwrap()]);
    let workflow = world.workflow("w", None);
    let id = world.schedule(workflow, &format!(r#"{{"name": "s", {fields}}}"#));
    (world, id)
}

#[test]
fn what_is_promised_happens() {
    let payload = || OverrideAction::Payload(RawValue::NULL.to_owned());
    let day = |day: u32, hour: u32| format!("2026-03-{day:02}T{hour:02}:00:00Z");
    let moved = |day: u32, hour: u32| {
        OverrideAction::Move(at(&format!("2026-03-{day:02}T{hour:02}:00:00Z")))
    };
    let daily = r#""cron": "0 9 * * *""#;
    let cases: Vec<(String, Vec<(String, OverrideAction)>)> = vec![
        (daily.to_owned(), vec![]),
        (format!(r#"{daily}, "total_repeats": 3"#), vec![]),
        (format!(r#"{daily}, "total_repeats": 3"#), vec![(day(3, 9), OverrideAction::Skip)]),
        (daily.to_owned(), vec![(day(2, 9), OverrideAction::Skip), (day(4, 9), payload())]),
        (daily.to_owned(), vec![(day(3, 9), moved(3, 15)), (day(6, 9), moved(2, 12))]),
        (format!(r#"{daily}, "total_repeats": 2"#), vec![(day(2, 9), moved(5, 15))]),
        (daily.to_owned(), vec![(day(3, 9), moved(4, 9)), (day(8, 9), moved(7, 9))]),
        (format!(r#"{daily}, "calendar": "office""#), vec![]),
        (format!(r#"{daily}, "calendar": "office", "roll": "next""#), vec![]),
        (format!(r#"{daily}, "calendar": "office", "roll": "next", "total_repeats": 6"#), vec![]),
        (format!(r#"{daily}, "calendar": "office", "roll": "previous""#), vec![]),
        (
            format!(r#"{daily}, "calendar": "office", "roll": "next""#),
            vec![(day(7, 9), OverrideAction::Skip), (day(10, 9), moved(10, 11))],
        ),
        // Saturday, Sunday and Monday land on Monday. One that is not skipped or moved starts.
        (
            format!(r#"{daily}, "calendar": "office", "roll": "next""#),
            vec![(day(7, 9), OverrideAction::Skip)],
        ),
        (
            format!(r#"{daily}, "calendar": "office", "roll": "next", "spread": "30m""#),
            vec![
                (day(7, 9), OverrideAction::Skip),
                (day(8, 9), OverrideAction::Skip),
                (day(9, 9), OverrideAction::Skip),
            ],
        ),
        (
            format!(r#"{daily}, "calendar": "office", "roll": "next""#),
            vec![(day(7, 9), moved(10, 11)), (day(8, 9), moved(10, 9))],
        ),
        (
            format!(r#"{daily}, "calendar": "office", "roll": "previous""#),
            vec![(day(6, 9), OverrideAction::Skip), (day(7, 9), moved(10, 11))],
        ),
        (daily.to_owned(), vec![(day(3, 9), OverrideAction::Skip), (day(5, 9), moved(3, 9))]),
        (format!(r#"{daily}, "spread": "30m""#), vec![(day(3, 9), OverrideAction::Skip)]),
        (r#""interval": "7h", "end": "2026-03-06T00:00:00Z""#.to_owned(), vec![]),
        (r#""at": "2026-03-07T09:00:00Z", "calendar": "office""#.to_owned(), vec![]),
        (r#""at": "2026-03-01T09:00:00Z""#.to_owned(), vec![]),
    ];
    let until = "2026-03-11T23:59:00Z";
    for (fields, overrides) in cases {
        let (mut world, id) = world(&fields);
        for (nominal, action) in overrides.clone() {
            over(&mut world, id, &nominal, action);
        }
        // An occurrence in the past is decided as soon as the schedule exists.
        let promised = promised(&world, id, at(until));
        let next = world.next(id);
        world.advance_to(until);
        assert_eq!(promised, happened(&world, id), "{fields} {overrides:?}");
        assert!(!promised.is_empty(), "{fields}");
        assert_eq!(next, promised.iter().filter_map(|line| line.1).min(), "{fields}");
    }
}

#[test]
fn one_of_several_at_the_same_instant_starts() {
    let weekend = |overrides: Vec<(&str, OverrideAction)>| {
        let (mut world, id) = world(r#""cron": "0 9 * * *", "calendar": "office", "roll": "next""#);
        world.advance_to("2026-03-06T10:00:00Z");
        for (nominal, action) in overrides {
            over(&mut world, id, nominal, action);
        }
        world.advance_to("2026-03-09T10:00:00Z");
        let rows = world.memory.ledger.values();
        let rows = rows.filter(|row| row.effective == at("2026-03-09T09:00:00Z"));
        let mut rows: Vec<_> = rows.map(|row| (row.nominal, row.outcome.name())).collect();
        rows.sort_unstable();
        rows.into_iter().map(|(_, outcome)| outcome).collect::<Vec<_>>()
    };
    let (saturday, sunday, monday) =
        ("2026-03-07T09:00:00Z", "2026-03-08T09:00:00Z", "2026-03-09T09:00:00Z");
    let skip = || OverrideAction::Skip;
    let later = || OverrideAction::Move(at("2026-03-20T12:00:00Z"));
    assert_eq!(weekend(vec![]), ["moved", "coalesced", "coalesced"]);
    assert_eq!(weekend(vec![(saturday, skip())]), ["skipped", "moved", "coalesced"]);
    let two = vec![(saturday, skip()), (sunday, skip())];
    assert_eq!(weekend(two), ["skipped", "skipped", "started"]);
    let all = vec![(saturday, skip()), (sunday, skip()), (monday, skip())];
    assert_eq!(weekend(all), ["skipped", "skipped", "skipped"]);
    assert_eq!(weekend(vec![(saturday, later())]), ["moved", "coalesced"]);
    assert_eq!(weekend(vec![(saturday, later()), (sunday, skip())]), ["skipped", "started"]);
}

#[test]
fn while_something_is_paused_nothing_starts() {
    let (mut world, id) = world(r#""cron": "0 9 * * *""#);
    world.control(id, Verb::Pause).unwrap();
    let rows = world.outlook(id, |outlook| outlook.coming(3));
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| row.effective.is_none() && row.fate == AheadFate::Skipped));
    assert_eq!(rows[0].reason.as_deref(), Some("the schedule is paused"));
    assert_eq!(world.next(id), None);
    world.control(id, Verb::Resume { catch_up: false }).unwrap();
    let workflow = world.get(id).workflow;
    world.command(Command::PauseWorkflow { id: workflow, paused: true, reason: None }).unwrap();
    let rows = world.outlook(id, |outlook| outlook.coming(3));
    assert_eq!(rows[2].reason.as_deref(), Some("the workflow is paused"));
    assert_eq!(world.next(id), None);
}

#[test]
fn a_retry_comes_before_the_next_occurrence() {
    let (world, id) = world(r#""interval": "1h", "max_retries": 2, "retry": {"delay": "5m"}"#);
    let mut failures = 1;
    let mut world = world.working(move |_| {
        failures -= 1;
        (jiff::SignedDuration::ZERO, if failures < 0 { success() } else { failure("no luck") })
    });
    world.advance_to("2026-03-02T09:01:00Z");
    let rows = world.outlook(id, |outlook| outlook.coming(2));
    let times: Vec<_> = rows.iter().map(|row| (row.fate, row.effective.unwrap())).collect();
    let retry = (AheadFate::Retried, at("2026-03-02T09:05:00Z"));
    assert_eq!(times, [retry, (AheadFate::Kept, at("2026-03-02T10:00:00Z"))]);
    assert_eq!(rows[0].reason.as_deref(), Some("retry 1 of occurrence 0"));
    assert_eq!(world.next(id), Some(retry.1));
    world.advance_to("2026-03-02T09:06:00Z");
    assert_eq!(world.next(id), Some(at("2026-03-02T10:00:00Z")));
}

#[test]
fn what_is_due_before_a_retry_is_skipped() {
    let fields = r#""interval": "1h", "max_retries": 2, "retry": {"delay": "150m"}"#;
    for (overlap, skipped) in [("skip", 2), ("allow", 0)] {
        let (world, id) = world(&format!(r#"{fields}, "overlap": "{overlap}""#));
        let mut world = world.working(|_| (jiff::SignedDuration::ZERO, failure("no luck")));
        world.advance_to("2026-03-02T09:01:00Z");
        let rows = world.outlook(id, |outlook| outlook.coming(3));
        let reason = "occurrence 0 failed and is tried again at 2026-03-02T11:30:00Z";
        let is_skipped =
            |row: &&Ahead| row.fate == AheadFate::Skipped && row.reason.as_deref() == Some(reason);
        assert_eq!(rows.iter().filter(is_skipped).count(), skipped, "{rows:?}");
        let expected = if skipped > 0 { "2026-03-02T11:30:00Z" } else { "2026-03-02T10:00:00Z" };
        assert_eq!(world.next(id), Some(at(expected)));
        // The promise is kept: nothing starts before.
        world.advance_to("2026-03-02T11:29:00Z");
        let is_open = world.get(id).progress.active.len();
        assert_eq!(is_open > 1, skipped == 0);
    }
}

/// The fate of each row, and when it starts.
fn fates(world: &World, id: ScheduleId, count: usize) -> Vec<(&'static str, String)> {
    let rows = world.outlook(id, |outlook| outlook.coming(count));
    let starts = |row: &Ahead| row.effective.map_or(String::new(), |at| at.to_string());
    rows.iter()
        .map(|row| (row.fate.name(), starts(row).chars().skip(11).take(5).collect()))
        .collect()
}

#[test]
fn what_is_due_before_a_retry_waits_in_the_queue() {
    let fields = r#""interval": "1h", "max_retries": 2, "retry": {"delay": "150m"}"#;
    for (overlap, second) in [("queue", "coalesced"), ("queue_all", "queued")] {
        let (world, id) = world(&format!(r#"{fields}, "overlap": "{overlap}""#));
        let mut failures = 1;
        let mut world = world.working(move |_| {
            failures -= 1;
            let end = if failures < 0 { success() } else { failure("no luck") };
            (jiff::SignedDuration::ZERO, end)
        });
        world.advance_to("2026-03-02T09:01:00Z");
        let expected = [("queued", ""), (second, ""), ("retried", "11:30"), ("kept", "12:00")];
        let expected = expected.map(|(fate, at)| (fate, at.to_owned()));
        assert_eq!(fates(&world, id, 2), expected, "{overlap}");
        let rows = world.outlook(id, |outlook| outlook.coming(1));
        let reason = "waits for its turn: occurrence 0 failed and is tried again at \
                      2026-03-02T11:30:00Z";
        assert_eq!(rows[0].reason.as_deref(), Some(reason));
        world.advance_to("2026-03-02T11:29:00Z");
        let ledger = ["09:00 started", "10:00 queued", &format!("11:00 {second}")];
        assert_eq!(world.ledger(id), ledger);
    }
}

/// A schedule every hour, with a backfill of 09:00 to 11:00 that was asked for at 11:30, one each
/// 90 minutes.
fn backfilled(fields: &str, verb: Option<Verb>) -> (World, ScheduleId) {
    let (mut world, id) = world(&format!(r#""interval": "1h"{fields}"#));
    world.advance_to("2026-03-02T11:30:00Z");
    if let Some(verb) = verb {
        world.control(id, verb).unwrap();
    }
    let (from, to) = (at(MONDAY), at("2026-03-02T11:00:00Z"));
    let pace = Some(jiff::SignedDuration::from_mins(90));
    world.command(Command::Backfill { id, from, to, limit: 10, pace, again: true }).unwrap();
    (world, id)
}

#[test]
fn a_paced_backfill_comes_while_the_schedule_is_paused_or_over() {
    let over = r#", "end": "2026-03-02T11:00:00Z""#;
    for (fields, verb, status) in
        [(over, None, Status::Done), ("", Some(Verb::Pause), Status::Paused)]
    {
        let (mut world, id) = backfilled(fields, verb);
        assert_eq!(world.get(id).status, status);
        let mut starts = fates(&world, id, 5);
        starts.retain(|(_, at)| !at.is_empty());
        assert_eq!(starts, [("queued", "13:00".to_owned()), ("queued", "14:30".to_owned())]);
        assert_eq!(world.next(id), Some(at("2026-03-02T13:00:00Z")));
        let before = world.runs(id).len();
        world.advance_to("2026-03-02T15:00:00Z");
        assert_eq!((before, world.runs(id).len()), (4, 6));
        let (mut world, id) = backfilled(fields, verb);
        let workflow = world.get(id).workflow;
        world.command(Command::PauseWorkflow { id: workflow, paused: true, reason: None }).unwrap();
        assert_eq!(world.next(id), None);
    }
}

#[test]
fn what_is_due_before_the_end_of_a_paced_backfill_is_skipped() {
    let (mut world, id) = backfilled("", None);
    let expected = [
        ("skipped", ""),
        ("queued", "13:00"),
        ("skipped", ""),
        ("skipped", ""),
        ("queued", "14:30"),
        ("kept", "15:00"),
    ];
    assert_eq!(fates(&world, id, 3), expected.map(|(fate, at)| (fate, at.to_owned())));
    world.advance_to("2026-03-02T15:01:00Z");
    let ledger = world.ledger(id);
    let last = ["12:00 skipped", "13:00 skipped", "14:00 skipped", "15:00 started"];
    assert!(ledger.ends_with(&last.map(str::to_owned)), "{ledger:?}");
}

#[test]
fn an_interval_from_completion_is_known_when_its_run_has_ended() {
    let (world, id) = world(r#""interval": "1h", "from": "completion""#);
    let mut world = world.working(|_| (jiff::SignedDuration::from_mins(10), success()));
    assert_eq!(world.outlook(id, |outlook| outlook.coming(5)).len(), 1);
    world.advance_to("2026-03-02T09:05:00Z");
    assert_eq!(world.outlook(id, |outlook| outlook.coming(5)), []);
    world.advance_to("2026-03-02T09:15:00Z");
    assert_eq!(world.next(id), Some(at("2026-03-02T10:10:00Z")));
}

#[test]
fn a_repeat_limit_ends_what_is_listed_for_later_too() {
    let (mut world, id) = world(r#""cron": "0 9 * * *", "total_repeats": 5"#);
    let from = at("2026-03-05T00:00:00Z");
    let later = |world: &World| world.outlook(id, |outlook| outlook.coming_after(from, 10)).len();
    assert_eq!(later(&world), 2);
    world.advance_to("2026-03-09T00:00:00Z");
    assert_eq!((later(&world), world.get(id).status), (0, Status::Done));
}
