//! Compares working time with counting working minutes one by one.

use calendar::{Between, Reason, Zones};
use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp, ToSpan};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestCaseResult};
use serde_json::{Value, json};

use super::some_calendar::{build, compose, some_calendar, worked};
use super::walked_clock::{self, Walk, instant};

#[derive(Debug)]
struct Case {
    walk: &'static Walk,
    calendar: Value,
    other: Value,
}

fn case() -> impl Strategy<Value = Case> {
    (0..walked_clock::planned_minutes().len()).prop_flat_map(|at| {
        let walk = &walked_clock::planned_minutes()[at];
        (some_calendar(walk), some_calendar(walk)).prop_map(move |(calendar, other)| Case {
            walk,
            calendar,
            other,
        })
    })
}

/// Starting points in the walk, and the working time to add from there.
fn places() -> impl Strategy<Value = Vec<(i64, i64, i64)>> {
    let near = -3_000..3_000i64;
    let place = prop_oneof![2 => near.clone(), 1 => -9_000..9_000i64];
    let minutes = prop_oneof![1 => Just(0), 3 => -600..600i64, 2 => -6_000..6_000i64];
    prop::collection::vec((place, minutes, 0..60_000_000_000i64), 12)
}

fn naive_add(worked: &[bool], start: usize, minutes: i64) -> Option<usize> {
    if minutes < 0 {
        let mut back = (0..start).rev().filter(|&n| worked[n]);
        return back.nth(minutes.unsigned_abs() as usize - 1);
    }
    let mut on = (start..worked.len()).filter(|&n| worked[n]);
    match minutes {
        0 => on.next(),
        _ => on.nth(minutes as usize - 1).map(|last| last + 1),
    }
}

fn check(case: &Case, zones: &Zones, places: &[(i64, i64, i64)]) -> TestCaseResult {
    let Case { walk, .. } = case;
    let calendar = build(zones, walk, "one", &case.calendar);
    let worked = worked(walk, &calendar);
    let instant_of = |n: usize| instant(walk.moments[n].unix);
    for &(place, minutes, nanos) in places {
        let start = (worked.len() as i64 / 2 + place) as usize;
        let from = instant_of(start);
        let duration = SignedDuration::from_mins(minutes);

        let expected = naive_add(&worked, start, minutes);
        let found = calendar.add_time(from, duration);
        // A result at the first or last minute of the walk may begin or end outside of it.
        let inside = |at: Option<Timestamp>| {
            at.filter(|at| (instant_of(1)..instant_of(worked.len() - 1)).contains(at))
        };
        let in_walk = expected.filter(|&n| n > 0 && n + 1 < worked.len()).map(instant_of);
        prop_assert_eq!(inside(found), in_walk, "{} + {} min", from, minutes);

        let later = from.checked_add(SignedDuration::from_nanos(nanos)).unwrap();
        let minute = start + (nanos / 60_000_000_000) as usize;
        prop_assert_eq!(calendar.is_open(later), worked[minute], "open at {}", later);
        let fitted = if worked[minute] {
            Some(later)
        } else {
            naive_add(&worked, minute, 0).map(instant_of)
        };
        prop_assert_eq!(inside(calendar.fit(later)), fitted, "fit {}", later);

        let end = (start as i64 + minutes) as usize;
        let expected = naive_between(case, &worked, &calendar, start, end);
        prop_assert_eq!(calendar.between(from, instant_of(end)), Some(expected));

        let inner = start > 0 && worked[start] && worked[start - 1];
        if let (Some(found), true) = (in_walk, inner) {
            let back = calendar.add_time(found, -duration);
            prop_assert_eq!(back, Some(from), "{} + {} min and back", from, minutes);
            let between = calendar.between(from, found).unwrap();
            prop_assert_eq!(between.working, duration, "between {} and {}", from, found);
        }
    }
    Ok(())
}

fn naive_between(
    case: &Case,
    worked: &[bool],
    calendar: &calendar::Calendar,
    start: usize,
    end: usize,
) -> Between {
    let (first, last) = (start.min(end), start.max(end));
    let sign = if end < start { -1 } else { 1 };
    let minutes = worked[first..last].iter().filter(|worked| **worked).count() as i64;
    let mut between =
        Between { working: SignedDuration::from_mins(minutes) * sign, ..Between::default() };
    let date_at = |n: usize| case.walk.moments[n].date;
    for date in dates(date_at(first), date_at((last.max(1) - 1).max(first))) {
        let plan = calendar.day(date);
        let count = match plan.reason {
            _ if plan.is_working() => &mut between.working_days,
            Reason::Holiday(_) => &mut between.holidays,
            Reason::Exception(_) => &mut between.exceptions,
            _ => &mut between.weekend_days,
        };
        *count += sign;
    }
    between
}

fn dates(first: Date, last: Date) -> impl Iterator<Item = Date> {
    first.series(1.day()).take_while(move |date| *date <= last)
}

#[test]
fn every_worked_minute_is_counted() {
    let zones = Zones::bundled();
    proptest!(super::cases(500), |(case in case(), places in places())| {
        let Case { walk, calendar, .. } = &case;
        let show = |error| TestCaseError::fail(format!("{walk:?} {calendar}: {error}"));
        check(&case, &zones, &places).map_err(show)?;
    });
}

#[test]
fn composed_calendars_are_worked_where_their_parts_say() {
    let zones = Zones::bundled();
    proptest!(super::cases(250), |(case in case())| {
        let Case { walk, .. } = case;
        let one = build(&zones, walk, "one", &case.calendar);
        let two = build(&zones, walk, "two", &case.other);
        let (in_one, in_two) = (worked(walk, &one), worked(walk, &two));
        type Compose = fn(bool, bool) -> bool;
        let ways: [(Value, Compose); 3] = [
            (json!({"union": ["one", "two"]}), |one, two| one || two),
            (json!({"intersection": ["one", "two"]}), |one, two| one && two),
            (json!({"base": "one", "all_but": ["two"]}), |one, two| one && !two),
        ];
        for (declaration, join) in ways {
            let composed = compose(&zones, walk, "composed", &declaration, &[&one, &two]);
            let found = worked(walk, &composed);
            // At the ends of the walk, overnight shifts may begin outside of it.
            for n in 3000..found.len() - 3000 {
                let at = instant(walk.moments[n].unix);
                prop_assert_eq!(
                    found[n], join(in_one[n], in_two[n]),
                    "{} at {} with {} and {}", declaration, at, case.calendar, case.other
                );
            }
            for n in (5000..found.len() - 5000).step_by(977) {
                let at = instant(walk.moments[n].unix);
                prop_assert_eq!(composed.is_open(at), found[n], "{} open at {}", declaration, at);
            }
        }
    });
}
