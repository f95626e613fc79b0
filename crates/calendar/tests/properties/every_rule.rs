//! Properties that hold for every kind of rule, with every option.

use calendar::{CatchUp, Occurrence, Policy, Timing, Zones};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestCaseResult};
use serde_json::{Value, json};

use super::some_calendar::{self, some_calendar};
use super::some_timing::{self, Density, some_rule, with_options};
use super::walked_clock::{self, Walk, instant, nanosecond_before};

const IN_A_ROW: usize = 12;
const POLICIES: [Policy; 3] = [Policy::None, Policy::Last, Policy::All];

#[derive(Debug)]
struct Case {
    walk: &'static Walk,
    calendar: Value,
    spec: Value,
    from: Timestamp,
    /// Positions between two occurrences, in thousandths.
    between: Vec<i128>,
}

fn case() -> impl Strategy<Value = Case> {
    let walks = walked_clock::minutes_of_ordinary_dates();
    (0..walks.len()).prop_flat_map(move |at| {
        let walk = &walks[at];
        let near = instant(walk.start() + 25 * 86_400);
        let plain = || some_rule(near, Density::Seconds, false);
        let moved = some_rule(near, Density::Seconds, true)
            .prop_flat_map(move |rule| with_options(rule, near));
        let seconds = -20 * 86_400..20 * 86_400i64;
        let nanos = prop_oneof![Just(0i64), 1..1_000_000_000i64, Just(999_999_999)];
        let from = (seconds, nanos).prop_map(move |(s, n)| {
            near + SignedDuration::from_secs(s) + SignedDuration::from_nanos(n)
        });
        let between = prop::collection::vec(0..1000i128, 3);
        (some_calendar(walk), prop_oneof![plain().boxed(), moved.boxed()], from, between).prop_map(
            move |(calendar, spec, from, between)| Case { walk, calendar, spec, from, between },
        )
    })
}

/// The queries that rules and timings have in common.
trait Answers {
    fn next(&self, after: Timestamp) -> Option<Timestamp>;
    fn previous(&self, before: Timestamp) -> Option<Timestamp>;
}

impl Answers for calendar::Rule {
    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.next_after(after)
    }

    fn previous(&self, before: Timestamp) -> Option<Timestamp> {
        self.previous_before(before)
    }
}

impl Answers for Timing {
    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.next_after(after).map(|occurrence| occurrence.effective)
    }

    fn previous(&self, before: Timestamp) -> Option<Timestamp> {
        self.previous_before(before).map(|occurrence| occurrence.effective)
    }
}

fn check(answers: &impl Answers, from: Timestamp, between: &[i128]) -> TestCaseResult {
    let mut found = Vec::new();
    let mut after = from;
    while let Some(next) = answers.next(after).filter(|_| found.len() < IN_A_ROW) {
        prop_assert!(next > after, "next after {} is {}", after, next);
        let span = next.as_nanosecond() - after.as_nanosecond();
        for part in between {
            let inside = Timestamp::from_nanosecond(after.as_nanosecond() + span * part / 1000);
            let inside = inside.unwrap();
            prop_assert_eq!(answers.next(inside), Some(next), "skipping to {}", inside);
            prop_assert!(
                answers.previous(inside).is_none_or(|previous| previous <= after),
                "nothing lies between {} and {}",
                after,
                inside
            );
        }
        prop_assert_eq!(answers.next(nanosecond_before(next)), Some(next), "just before");
        let just_after = next.checked_add(SignedDuration::from_nanos(1)).unwrap();
        prop_assert_eq!(answers.previous(just_after), Some(next), "just after");
        if let Some(&last) = found.last() {
            prop_assert_eq!(answers.previous(next), Some(last), "before {}", next);
        }
        found.push(next);
        after = next;
    }
    let mut before = from;
    for _ in 0..IN_A_ROW {
        let Some(previous) = answers.previous(before) else { break };
        prop_assert!(previous < before, "previous before {} is {}", before, previous);
        let next = answers.next(previous);
        let expected = if before == from { next.filter(|n| *n >= from) } else { Some(before) };
        prop_assert_eq!(next, expected, "after {}", previous);
        prop_assert_eq!(answers.next(nanosecond_before(previous)), Some(previous));
        before = previous;
    }
    Ok(())
}

fn build(zones: &Zones, case: &Case) -> Timing {
    let calendar = some_calendar::build(zones, case.walk, "cal", &case.calendar);
    some_timing::build(zones, case.from, Some(&calendar), &case.spec).for_schedule("key")
}

fn shown(case: &Case, error: TestCaseError) -> TestCaseError {
    let Case { walk, calendar, spec, from, .. } = case;
    match error {
        TestCaseError::Fail(why) => {
            TestCaseError::fail(format!("{spec} from {from} in {walk:?} on {calendar}: {why}"))
        }
        rejected => rejected,
    }
}

#[test]
fn next_and_previous_agree() {
    let zones = Zones::bundled();
    proptest!(super::cases(1500), |(case in case())| {
        let timing = build(&zones, &case);
        check(timing.rule(), case.from, &case.between).map_err(|error| shown(&case, error))?;
        check(&timing, case.from, &case.between).map_err(|error| shown(&case, error))?;
    });
}

#[test]
fn every_missed_occurrence_is_accounted_for() {
    let zones = Zones::bundled();
    proptest!(super::cases(400), |(
        case in case(),
        policy in prop::sample::select(&POLICIES[..]),
        downtime in 0..3 * 86_400i64,
        window in proptest::option::of(0..2 * 86_400i64),
        limit in 1..20u32,
    )| {
        let timing = build(&zones, &case);
        let window = window.map(SignedDuration::from_secs);
        let now = case.from + SignedDuration::from_secs(downtime);
        let due: Vec<Occurrence> =
            timing.after(case.from).take_while(|o| o.effective <= now).take(90_000).collect();
        prop_assume!(due.len() < 90_000);
        let decided =
            CatchUp { policy, window, limit, pace: None }.decide(&timing, case.from, now);
        let inside: Vec<Occurrence> = due
            .iter()
            .copied()
            .filter(|o| window.is_none_or(|window| o.effective >= now - window))
            .collect();
        let most = match policy {
            Policy::None => 0,
            Policy::Last => 1,
            Policy::All => limit as usize,
        };
        let run = &inside[inside.len().saturating_sub(most)..];
        prop_assert_eq!(&decided.run, run);
        let counted = decided.coalesced.counted + decided.missed.counted;
        prop_assert_eq!(counted as usize + run.len(), due.len());
        if policy != Policy::None {
            prop_assert_eq!(decided.missed.counted as usize, due.len() - inside.len());
        }
    });
}

#[test]
fn the_ends_of_time_are_answered() {
    let zones = Zones::bundled();
    let minute = SignedDuration::from_mins(1);
    let extremes = [
        Timestamp::MIN,
        Timestamp::MIN + SignedDuration::from_nanos(1),
        Timestamp::MIN + minute,
        super::at("-009000-01-01T00:00:00Z"),
        super::at("0000-01-01T00:00:00Z"),
        super::at("1899-12-31T23:59:59Z"),
        super::at("2299-12-31T23:59:59.999Z"),
        super::at("2499-12-31T23:59:59.999Z"),
        super::at("9998-12-31T23:59:59Z"),
        Timestamp::MAX - minute,
        Timestamp::MAX - SignedDuration::from_nanos(1),
        Timestamp::MAX,
    ];
    proptest!(super::cases(150), |(case in case())| {
        let timing = build(&zones, &case);
        for at in extremes {
            for answers in [&timing as &dyn Answers, timing.rule() as &dyn Answers] {
                let next = answers.next(at);
                prop_assert!(next.is_none_or(|next| next > at), "after {}: {:?}", at, next);
                let previous = answers.previous(at);
                prop_assert!(previous.is_none_or(|p| p < at), "before {}: {:?}", at, previous);
            }
            timing.fate(at);
            timing.preview(at, 2);
            timing.warnings(at);
            let calendar = timing.calendar();
            calendar.map(|calendar| calendar.fit(at));
            calendar.map(|calendar| calendar.add_time(at, SignedDuration::MAX));
            calendar.map(|calendar| calendar.add_time(at, -SignedDuration::MAX));
            calendar.map(|calendar| calendar.between(at, Timestamp::MAX));
        }
        // With a calendar, a search ends if there is no occurrence for years.
        let rule = timing.rule();
        if let Some(known) = rule.next_after(case.from).filter(|_| case.spec["calendar"].is_null()) {
            let first = rule.next_after(Timestamp::MIN);
            prop_assert!(first.is_some_and(|first| first <= known), "{} {:?}", case.spec, first);
            let last = rule.previous_before(Timestamp::MAX);
            prop_assert!(last.is_some_and(|last| last >= known), "{} {:?}", case.spec, last);
        }
    });
}

#[test]
fn a_date_that_is_shown_twice_stops_no_search() {
    let zones = Zones::bundled();
    let from = super::at("2010-03-13T00:00:00Z");
    let spec = json!({
        "cron": "38 * * OCT *", "timezone": "America/New_York", "calendar": "cal", "roll": "next",
    });
    let walk = walked_clock::minutes().iter().find(|walk| walk.zone == "America/St_Johns");
    let every_day = json!({"hours": {"mon-sun": "09:00-17:00"}});
    let calendar = some_calendar::build(&zones, walk.unwrap(), "cal", &every_day);
    let timing = some_timing::build(&zones, from, Some(&calendar), &spec);
    let last = timing.previous_before(from).unwrap().effective;
    assert_eq!(last, super::at("2009-11-01T03:38:00Z"));
    let early = super::at("2009-11-01T02:00:00Z");
    let found: Vec<Timestamp> = timing.after(early).take(2).map(|o| o.effective).collect();
    assert_eq!(found, [super::at("2009-11-01T02:38:00Z"), last]);
}

#[test]
fn searches_from_the_ends_of_time_reach_the_present() {
    let zones = Zones::bundled();
    let created = super::at("2026-01-01T00:00:00Z");
    let bounds = json!({
        "calendar": "US", "spread": "1h", "start": "2026-01-01T00:00:00Z",
        "end": "2026-12-31T00:00:00Z", "timezone": "America/New_York",
    });
    let rules = [
        json!({"cron": "0 9 * * *"}),
        json!({"cron": "0 0 9 * * ? 2026"}),
        json!({"monthly": {"working_day": -1, "at": "17:00"}}),
        json!({"yearly": {"working_day": 3, "at": "17:00"}}),
        json!({"interval": "7h"}),
        json!({"at": "2026-03-01T09:00"}),
    ];
    for rule in rules {
        let mut spec = bounds.clone();
        spec.as_object_mut().unwrap().extend(rule.as_object().unwrap().clone());
        let timing = some_timing::build(&zones, created, None, &spec).for_schedule("key");
        let present = timing.next_after(created).unwrap();
        assert_eq!(timing.next_after(Timestamp::MIN), Some(present), "{spec}");
        let last = timing.previous_before(Timestamp::MAX).unwrap();
        assert_eq!(timing.next_after(last.effective), None, "{spec}");
        assert_eq!(timing.previous_before(present.effective), None, "{spec}");
    }
}
