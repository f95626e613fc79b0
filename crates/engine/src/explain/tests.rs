use std::borrow::Cow;

use super::*;
use crate::ids::{RunKey, ScheduleId, WorkflowId};
use crate::schedule::{Due, Numbered, Queued};
use language::Rules;
use language::schedule::read_written;

fn instant(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Explains a schedule created on Monday 2026-03-02, 12:00 UTC, after applying `change`.
fn told(
    fields: &str,
    rows: &[Row],
    overrides: &[Override],
    change: impl FnOnce(&mut Schedule),
) -> Vec<String> {
    with_facts(fields, rows, overrides, change, now)
}

fn with_facts(
    fields: &str,
    rows: &[Row],
    overrides: &[Override],
    change: impl FnOnce(&mut Schedule),
    ask: impl FnOnce(&ScheduleFacts<'_>) -> Vec<String>,
) -> Vec<String> {
    let rules = Rules::new(calendar::Zones::bundled());
    let created = instant("2026-03-02T12:00:00Z");
    let declared = read_written(&format!(r#"{{"name": "n", {fields}}}"#)).unwrap().declared;
    let plan = declared.plan(&rules, created, "7").unwrap();
    let mut schedule = Schedule::new(ScheduleId(7), WorkflowId(1), None, declared, &plan, created);
    change(&mut schedule);
    ask(&ScheduleFacts {
        schedule: &schedule,
        workflow: "w",
        workflow_is_paused: false,
        plan: Some(&plan),
        overrides,
        rows,
        now: created,
    })
}

fn row(outcome: Outcome, reason: &'static str, run: Option<RunStatus>) -> Row {
    let at = instant("2026-03-02T09:00:00Z");
    let run =
        run.map(|status| (RunId::Occurrence { schedule: ScheduleId(7), n: 3, retry: 0 }, status));
    let entry = Entry {
        schedule: ScheduleId(7),
        n: 3,
        count: 1,
        nominal: at,
        last_nominal: at,
        effective: at,
        decided_at: at,
        outcome,
        reason: Cow::Borrowed(reason),
        run: run.is_some().then_some(RunKey(1)),
    };
    Row { entry, run }
}

type Change = Box<dyn FnOnce(&mut Schedule)>;

const DAILY: &str = r#""cron": "0 9 * * *""#;

#[test]
fn every_outcome_has_its_sentence() {
    for (outcome, run, expected) in [
        (Outcome::Started, Some(RunStatus::Failed), "started as run sched-7-n3-rc0, which failed"),
        (
            Outcome::Moved,
            Some(RunStatus::Running),
            "started as run sched-7-n3-rc0, which has not ended",
        ),
        (Outcome::Started, None, "started; its run is not kept any more"),
        (Outcome::Queued, None, "waits"),
        (Outcome::Skipped, None, "did not run"),
        (Outcome::Coalesced, None, "was merged into another"),
        (Outcome::Missed, None, "was missed"),
        (Outcome::Dropped, None, "waited and was given up"),
        (Outcome::Failed, None, "failed"),
    ] {
        let sentences = told(DAILY, &[row(outcome, "why", run)], &[], |_| {});
        let when = "2026-03-02T09:00:00Z";
        assert_eq!(
            sentences[1],
            format!("Occurrence 3 of {when}, {expected}: why (decided {when}).")
        );
    }
    let mut many = row(Outcome::Missed, "why", None);
    many.entry.count = 4;
    many.entry.last_nominal = instant("2026-03-05T09:00:00Z");
    let sentences = told(DAILY, &[many], &[], |_| {});
    assert!(sentences[1].starts_with("Each of 4 occurrences from 3 of 2026-03-02T09:00:00Z to"));
}

#[test]
fn a_schedule_says_where_it_stands() {
    let at = instant("2026-03-02T13:00:00Z");
    let occurrence = Numbered {
        n: 3,
        due: Due { nominal: at, effective: at },
        merged: 0,
        made_up: false,
        backfilled: false,
    };
    let cases: [(&str, Change, &str); 9] = [
        (DAILY, Box::new(|_| {}), "Next is 2026-03-03T09:00:00Z."),
        (
            DAILY,
            Box::new(|s| s.status = Status::Paused),
            "It is paused: resume lets it go on. It was last changed at 2026-03-02T12:00:00Z.",
        ),
        (
            DAILY,
            Box::new(|s| {
                s.status = Status::Dead;
                s.progress.last_error = Some("exit code 1".to_owned());
            }),
            "It is dead: exit code 1. It was last changed at 2026-03-02T12:00:00Z. Revive gives it a new life.",
        ),
        (
            r#""cron": "0 9 * * *", "total_repeats": 2"#,
            Box::new(|s| {
                s.status = Status::Done;
                s.progress.current_repeat = 2;
            }),
            "It is done: 2 occurrences have succeeded, as many as total_repeats allows. It was last \
             changed at 2026-03-02T12:00:00Z.",
        ),
        (
            r#""at": "2026-03-03T00:00:00Z""#,
            Box::new(|s| s.status = Status::Done),
            "It is done: its rule has no later time. It was last changed at 2026-03-02T12:00:00Z.",
        ),
        (
            DAILY,
            Box::new(move |s| {
                let run = RunKey(1);
                s.progress.active = vec![Active::Running { occurrence, retry: 2, run }];
            }),
            "Occurrence 3 is tried again: retry 2 of 3 has not ended.",
        ),
        (
            DAILY,
            Box::new(move |s| {
                s.progress.active = vec![Active::Retrying { occurrence, retry: 1, at }];
            }),
            "Occurrence 3 failed; retry 1 of 3 begins at 2026-03-02T13:00:00Z.",
        ),
        (
            DAILY,
            Box::new(move |s| {
                s.progress.queued = vec![Queued { occurrence, not_before: None }; 2];
            }),
            "2 occurrences wait for their turn, occurrence 3 first.",
        ),
        (
            r#""cron": "0 9 * * sat", "calendar": "US", "roll": "next""#,
            Box::new(|_| {}),
            "Next is 2026-03-09T09:00:00Z, moved from 2026-03-07T09:00:00Z by the calendar \
             (Saturday).",
        ),
    ];
    for (fields, change, expected) in cases {
        let sentences = told(fields, &[], &[], change);
        assert_eq!(sentences[1], expected, "{sentences:#?}");
    }
}

#[test]
fn a_schedule_that_is_paused_or_over_says_what_a_backfill_starts() {
    let at = instant("2026-03-02T13:00:00Z");
    let due = Due { nominal: instant("2026-03-01T09:00:00Z"), effective: at };
    let occurrence = Numbered { n: 3, due, merged: 0, made_up: true, backfilled: true };
    for status in [Status::Paused, Status::Done] {
        let sentences = told(DAILY, &[], &[], |schedule| {
            schedule.status = status;
            schedule.progress.queued = vec![Queued { occurrence, not_before: Some(at) }];
        });
        let last = sentences.last().unwrap();
        assert_eq!(last, "Next is 2026-03-02T13:00:00Z, occurrence 3 waits for its pace.");
    }
}

#[test]
fn a_time_is_explained_whether_it_is_past_to_come_or_none() {
    let by = || "ann".to_owned();
    let nominal = instant("2026-03-04T09:00:00Z");
    let skip = [Override { nominal, action: OverrideAction::Skip, by: by() }];
    let to = instant("2026-03-05T11:00:00Z");
    let moved = [Override { nominal, action: OverrideAction::Move(to), by: by() }];
    let weekdays = r#""cron": "0 9 * * *", "calendar": "US", "roll": "skip""#;
    let cases: Vec<(&str, &[Override], &str, &str)> = vec![
        (DAILY, &[], "2026-03-03T09:00:00Z", "2026-03-03T09:00:00Z is to come."),
        (
            DAILY,
            &skip,
            "2026-03-04T09:00:00Z",
            "2026-03-04T09:00:00Z does not start (skipped by ann).",
        ),
        (weekdays, &[], "2026-03-07T09:00:00Z", "2026-03-07T09:00:00Z does not start (Saturday)."),
        (
            DAILY,
            &moved,
            "2026-03-04T09:00:00Z",
            "2026-03-04T09:00:00Z is to come at 2026-03-05T11:00:00Z (moved by ann).",
        ),
        (
            DAILY,
            &moved,
            "2026-03-05T11:00:00Z",
            "2026-03-04T09:00:00Z is to come at 2026-03-05T11:00:00Z (moved by ann).",
        ),
        (
            r#""cron": "0 9 * * *", "total_repeats": 2"#,
            &[],
            "2026-03-05T09:00:00Z",
            "2026-03-05T09:00:00Z is a time of the rule, and does not start unless one before \
             it fails: total_repeats allows no more.",
        ),
        (
            DAILY,
            &[],
            "2026-03-03T10:00:00Z",
            "Nothing is due at 2026-03-03T10:00:00Z; the rule's times are before it \
             2026-03-03T09:00:00Z and after it 2026-03-04T09:00:00Z.",
        ),
        (
            DAILY,
            &[],
            "2026-03-01T09:00:00Z",
            "Nothing is known of 2026-03-01T09:00:00Z: the schedule was created at \
             2026-03-02T12:00:00Z.",
        ),
    ];
    for (fields, overrides, asked, expected) in cases {
        let ask = |facts: &ScheduleFacts<'_>| at(facts, instant(asked));
        let sentences = with_facts(fields, &[], overrides, |_| {}, ask);
        assert_eq!(sentences[1], expected);
    }
}

/// The start has a fraction of a second, which sentences leave out.
#[test]
fn a_spread_start_is_asked_for_as_it_is_shown() {
    let ask = |facts: &ScheduleFacts<'_>| {
        let starts = facts.outlook().unwrap().coming(1)[0].effective.unwrap();
        assert_ne!(starts.subsec_nanosecond(), 0);
        at(facts, Timestamp::from_second(starts.as_second()).unwrap())
    };
    let fields = r#""cron": "0 9 * * *", "spread": "20m""#;
    let sentences = with_facts(fields, &[], &[], |_| {}, ask);
    assert!(sentences[1].contains("inside its spread window"), "{sentences:?}");
}
