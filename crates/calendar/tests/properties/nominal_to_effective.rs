//! Compares calendars, rolling and fitting with moving every nominal time on its own.

use std::collections::{BTreeMap, BTreeSet};

use calendar::{Calendar, Fate, Occurrence, Timing, Zones};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestCaseResult};
use serde_json::Value;

use super::same;
use super::some_calendar::{self, some_calendar, worked};
use super::some_timing::{self, Density, some_rule, with_options};
use super::walked_clock::{self, Walk, fixed_instant, instant, nanosecond_before, reference_zone};

/// Longer closures would move occurrences from outside into the walk.
const LONGEST_CLOSURE: usize = 16;
const REACH: i64 = 5 * 86_400;
/// How many occurrences on one instant are walked through.
const SHARED: usize = 60;

#[derive(Debug)]
struct Case {
    walk: &'static Walk,
    calendar: Value,
    spec: Value,
}

fn case() -> impl Strategy<Value = Case> {
    let walks = walked_clock::minutes_of_ordinary_dates();
    (0..walks.len()).prop_flat_map(move |at| {
        let walk = &walks[at];
        let near = instant(middle(walk));
        let spec = some_rule(near, Density::Minutes, true)
            .prop_flat_map(move |rule| with_options(rule, near));
        (some_calendar(walk), spec).prop_map(move |(calendar, spec)| Case { walk, calendar, spec })
    })
}

fn middle(walk: &Walk) -> i64 {
    (walk.start() + walk.end() + 60) / 2
}

/// A calendar with its working minutes, for moving times.
struct Mover<'a> {
    walk: &'a Walk,
    calendar: &'a Calendar,
    zone: TimeZone,
    worked: Vec<bool>,
    roll: &'a str,
    fit: bool,
}

impl Mover<'_> {
    fn is_working(&self, date: Date) -> bool {
        self.calendar.day(date).is_working()
    }

    fn target(&self, date: Date) -> Option<Date> {
        if self.is_working(date) {
            return Some(date);
        }
        let search = |step: i64| {
            (1..=92).map(|n| date + (n * step).days()).find(|date| self.is_working(*date))
        };
        let (next, previous) = (search(1), search(-1));
        let in_month = |to: &Date| to.month() == date.month();
        let distance = |to: Date| (to - date).get_days().abs();
        match self.roll {
            "skip" => None,
            "next" => next,
            "previous" => previous,
            "modified_next" => next.filter(in_month).or(previous),
            "modified_previous" => previous.filter(in_month).or(next),
            _ => match (previous, next) {
                (Some(before), Some(after)) if distance(before) < distance(after) => previous,
                _ => next.or(previous),
            },
        }
    }

    /// The effective time of a nominal one; `None` if it does not happen.
    fn effective(&self, nominal: Timestamp) -> Option<Timestamp> {
        let moment = self.walk.moments[self.walk.index_of(nominal.as_second())];
        let second = moment.second_of_day + (nominal.as_second() - moment.unix) as u32;
        let to = self.target(moment.date)?;
        let rolled = if to == moment.date {
            nominal
        } else {
            let (hour, minute) = ((second / 3600) as i8, (second / 60 % 60) as i8);
            fixed_instant(&self.zone, to.at(hour, minute, (second % 60) as i8, 0))?
        };
        if self.fit { self.fitted(rolled) } else { Some(rolled) }
    }

    fn fitted(&self, at: Timestamp) -> Option<Timestamp> {
        let n = self.walk.index_of(at.as_second());
        if *self.worked.get(n)? {
            return Some(at);
        }
        let next = (n..self.worked.len()).find(|&n| self.worked[n])?;
        Some(instant(self.walk.moments[next].unix))
    }

    fn longest_closure(&self) -> usize {
        let first = self.walk.moments[0].date - 40.days();
        let days: Vec<bool> =
            first.series(1.day()).take(130).map(|date| self.is_working(date)).collect();
        days.split(|working| *working).map(<[bool]>::len).max().unwrap_or(0)
    }
}

fn check(zones: &Zones, case: &Case) -> TestCaseResult {
    let Case { walk, spec, .. } = case;
    let calendar = some_calendar::build(zones, walk, "cal", &case.calendar);
    let mover = Mover {
        walk,
        calendar: &calendar,
        zone: reference_zone(walk.zone),
        worked: worked(walk, &calendar),
        roll: spec["roll"].as_str().unwrap(),
        fit: !spec["fit"].is_null(),
    };
    prop_assume!(mover.longest_closure() <= LONGEST_CLOSURE);
    let centre = instant(middle(walk));
    let timing = some_timing::build(zones, centre, Some(&calendar), spec).for_schedule("key");
    let spread = spec["spread"].as_str().map_or(SignedDuration::ZERO, |window| {
        calendar::spread("key", calendar::parse_duration(window).unwrap())
    });

    let mut by_effective = BTreeMap::<Timestamp, BTreeSet<Timestamp>>::new();
    let nominal = nominal_times(&timing, walk, spec);
    for &nominal in &nominal {
        let effective = mover.effective(nominal);
        let fate = match effective {
            Some(to) if to == nominal => Ok(()),
            Some(to) => Err(Some(to)),
            None => Err(None),
        };
        let near = (nominal - centre).get_seconds().abs() < REACH;
        if near {
            let found = match timing.fate(nominal) {
                Fate::Kept => Ok(()),
                Fate::Moved { to, .. } => Err(Some(to)),
                Fate::Skipped { .. } => Err(None),
            };
            prop_assert_eq!(found, fate, "fate of {}", nominal);
        }
        if let Some(effective) = effective {
            by_effective.entry(effective + spread).or_default().insert(nominal);
        }
    }
    let reach = SignedDuration::from_secs(REACH);
    let (from, to) = (centre - reach, centre + reach);
    let expected: Vec<Occurrence> = by_effective
        .range(from..to)
        .filter_map(|(&effective, all)| Some(Occurrence { effective, nominal: *all.first()? }))
        .collect();
    let start = nanosecond_before(from);
    let found: Vec<Occurrence> = timing.after(start).take_while(|o| o.effective < to).collect();
    same("forwards", &found, &expected)?;

    check_shared(&timing, &expected, &by_effective)?;

    let few = expected.len().saturating_sub(300);
    let mut before = to;
    for occurrence in expected[few..].iter().rev() {
        prop_assert_eq!(timing.previous_before(before), Some(*occurrence), "before {}", before);
        before = occurrence.effective;
    }
    Ok(())
}

/// Of several occurrences that land on one instant, each follows the one before.
fn check_shared(
    timing: &Timing,
    expected: &[Occurrence],
    by_effective: &BTreeMap<Timestamp, BTreeSet<Timestamp>>,
) -> TestCaseResult {
    for pair in expected.windows(2) {
        let (mut last, all) = (pair[0], &by_effective[&pair[0].effective]);
        for &nominal in all.iter().skip(1).take(SHARED) {
            let next = Occurrence { nominal, ..last };
            prop_assert_eq!(timing.following(last), Some(next), "after {:?}", last);
            last = next;
        }
        if all.len() <= SHARED {
            prop_assert_eq!(timing.following(last), Some(pair[1]), "after {:?}", last);
        }
    }
    Ok(())
}

/// The times of the rule within the bounds and the walk.
fn nominal_times(timing: &Timing, walk: &Walk, spec: &Value) -> Vec<Timestamp> {
    let bound = |name: &str| spec[name].as_str().map(super::at);
    let inside = |at: &Timestamp| {
        bound("start").is_none_or(|start| *at >= start) && bound("end").is_none_or(|end| *at <= end)
    };
    let from = nanosecond_before(instant(walk.start() + 86_400));
    let to = instant(walk.end() - 86_400);
    let rule = timing.rule();
    rule.after(from).take_while(|at| *at < to).filter(inside).collect()
}

#[test]
fn every_nominal_time_is_moved_by_the_rules() {
    let zones = Zones::bundled();
    proptest!(super::cases(700), |(case in case())| {
        check(&zones, &case).map_err(|error| match error {
            TestCaseError::Fail(why) => TestCaseError::fail(format!(
                "{} in {:?} on {}: {why}", case.spec, case.walk, case.calendar
            )),
            rejected => rejected,
        })?;
    });
}
