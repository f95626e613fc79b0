//! Compares RFC 5545 rules with answers on which other implementations agree, and with a slow
//! model.
#![allow(clippy::unwrap_used, reason = "what a test cannot unwrap fails it")]

use std::path::PathBuf;

use calendar::{Recurrence, Rrule, Zone, Zones};
use jiff::civil::{Date, DateTime, Time};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::Value;

/// Cases of other projects that expect something other than RFC 5545, by a text that their rule
/// contains.
const DIFFERING: [(&str, &str); 1] =
    [("BYEASTER", "not in RFC 5545: refused, the dates can be given as rdate")];

/// Random texts made of the parts of rules.
const SCRAPS: &str =
    "(RRULE:)?((FREQ|INTERVAL|COUNT|BYDAY|UNTIL|é)(=|;|,|-|[0-9]{1,3}|MO|YEARLY){0,4}){0,4}";

fn first(recurrence: &Recurrence, n: usize) -> Vec<Timestamp> {
    following(recurrence, Timestamp::MIN, n)
}

fn following(recurrence: &Recurrence, after: Timestamp, n: usize) -> Vec<Timestamp> {
    let next = |at: &Timestamp| recurrence.next_after(*at);
    std::iter::successors(recurrence.next_after(after), next).take(n).collect()
}

fn preceding(recurrence: &Recurrence, before: Timestamp, n: usize) -> Vec<Timestamp> {
    let previous = |at: &Timestamp| recurrence.previous_before(*at);
    let mut found: Vec<_> =
        std::iter::successors(recurrence.previous_before(before), previous).take(n).collect();
    found.reverse();
    found
}

fn just_after(at: Timestamp) -> Timestamp {
    at.checked_add(SignedDuration::from_nanos(1)).unwrap()
}

/// Compares one row, forward and backward. The error says what differs.
fn check(zones: &Zones, row: &Value) -> Result<(), String> {
    let text = row["rrule"].as_str().unwrap();
    let expected: Vec<&str> =
        row["expected"].as_array().unwrap().iter().map(|e| e.as_str().unwrap()).collect();
    let rrule = match Rrule::parse(text) {
        Ok(rrule) => rrule,
        Err(problem) => {
            let known = DIFFERING.iter().any(|(part, _)| text.contains(part));
            return if known { Ok(()) } else { Err(problem.to_string()) };
        }
    };
    let again = Rrule::parse(&rrule.to_string()).map_err(|problem| problem.to_string())?;
    if again != rrule {
        return Err(format!("{text} is written as {rrule}, which means something else"));
    }
    // Without a zone, wall times are compared; in UTC, each of them occurs once.
    let zone = zones.get(row["tz"].as_str().unwrap_or("UTC")).unwrap();
    let start = row["dtstart"].as_str().unwrap().parse().unwrap();
    let recurrence = Recurrence::new(rrule, start, zone.clone());
    let found = first(&recurrence, row["n"].as_u64().map_or(expected.len() + 1, |n| n as usize));
    let shown: Vec<String> = found
        .iter()
        .map(|&at| if row["tz"].is_null() { zone.wall(at).to_string() } else { at.to_string() })
        .collect();
    if shown != expected {
        return Err(format!("{text}\n  expected {expected:?}\n  found    {shown:?}"));
    }
    if let Some(&last) = found.last() {
        let back = preceding(&recurrence, just_after(last), found.len() + 1);
        if back != found {
            return Err(format!("{text}\n  forwards  {found:?}\n  backwards {back:?}"));
        }
    }
    Ok(())
}

fn check_rows(text: &str) -> usize {
    let zones = Zones::bundled();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let rows: Vec<Value> =
        rows.filter(|row| row["kind"].as_str().is_none_or(|kind| kind.contains("rrule"))).collect();
    let failures: Vec<String> = rows
        .iter()
        .filter_map(|row| check(&zones, row).err().map(|e| format!("{row}\n{e}")))
        .collect();
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
    rows.len()
}

#[test]
fn sample_of_the_shared_vectors() {
    assert!(check_rows(include_str!("data/rrule-sample.jsonl")) >= 60);
}

#[test]
fn shared_vectors() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors");
    for file in ["rrule.jsonl", "peer_suites.jsonl"] {
        match std::fs::read_to_string(folder.join(file)) {
            Ok(text) => assert!(check_rows(&text) > 200),
            Err(error) => println!("skipped: {}: {error}", folder.join(file).display()),
        }
    }
}

/// The parts of a generated rule, for the model below.
#[derive(Clone, Debug)]
struct Parts {
    frequency: usize,
    interval: i64,
    week_start: i8,
    months: Vec<i8>,
    month_days: Vec<i8>,
    year_days: Vec<i16>,
    weekdays: Vec<(i8, i8)>,
    hours: Vec<i8>,
    minutes: Vec<i8>,
    positions: Vec<i64>,
    start: DateTime,
}

const FREQUENCIES: [&str; 7] =
    ["SECONDLY", "MINUTELY", "HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY"];
const NAMES: [&str; 7] = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"];
const SECONDLY: usize = 0;
const HOURLY: usize = 2;
const DAILY: usize = 3;
const WEEKLY: usize = 4;
const MONTHLY: usize = 5;
const YEARLY: usize = 6;

impl Parts {
    fn text(&self) -> String {
        fn part<T: ToString>(name: &str, items: impl IntoIterator<Item = T>) -> String {
            let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
            if items.is_empty() { String::new() } else { format!(";{name}={}", items.join(",")) }
        }
        let weekdays = self.weekdays.iter().map(|&(nth, day)| match nth {
            0 => NAMES[day as usize].to_owned(),
            _ => format!("{nth}{}", NAMES[day as usize]),
        });
        [
            format!("FREQ={};INTERVAL={}", FREQUENCIES[self.frequency], self.interval),
            format!(";WKST={}", NAMES[self.week_start as usize]),
            part("BYMONTH", &self.months),
            part("BYMONTHDAY", &self.month_days),
            part("BYYEARDAY", &self.year_days),
            part("BYDAY", weekdays),
            part("BYHOUR", &self.hours),
            part("BYMINUTE", &self.minutes),
            part("BYSETPOS", &self.positions),
        ]
        .concat()
    }

    fn recurrence(&self, zone: &Zone) -> Recurrence {
        Recurrence::new(Rrule::parse(&self.text()).unwrap(), self.start, zone.clone())
    }

    /// The number of the period that contains a time.
    fn period(&self, at: DateTime) -> i64 {
        let seconds = at.duration_since(DateTime::constant(1970, 1, 5, 0, 0, 0, 0)).as_secs();
        let year = i64::from(at.year());
        match self.frequency {
            YEARLY => year,
            MONTHLY => year * 12 + i64::from(at.month()),
            WEEKLY => (seconds.div_euclid(86_400) - i64::from(self.week_start)).div_euclid(7),
            shorter => seconds.div_euclid([1, 60, 3600, 86_400][shorter]),
        }
    }

    fn passes_day(&self, date: Date) -> bool {
        let from_end = |day: i16, length: i16| day - length - 1;
        let any_day =
            self.month_days.is_empty() && self.year_days.is_empty() && self.weekdays.is_empty();
        let month = self.months.is_empty() || self.months.contains(&date.month());
        let month_day = self.month_days.is_empty()
            || self.month_days.contains(&date.day())
            || self.month_days.contains(&(date.day() - date.days_in_month() - 1));
        let year_day = self.year_days.is_empty()
            || self.year_days.contains(&date.day_of_year())
            || self.year_days.contains(&from_end(date.day_of_year(), date.days_in_year()));
        let weekday = self.weekdays.is_empty()
            || self.weekdays.iter().any(|&(nth, day)| {
                let of_year = self.frequency == YEARLY && self.months.is_empty();
                let (place, length) = if of_year {
                    (date.day_of_year(), date.days_in_year())
                } else {
                    (i16::from(date.day()), i16::from(date.days_in_month()))
                };
                let numbered = nth != 0 && self.frequency >= MONTHLY;
                let nth = i16::from(nth);
                date.weekday().to_monday_zero_offset() == day
                    && (!numbered || nth == (place + 6) / 7 || -nth == (length - place + 7) / 7)
            });
        let given = self.start.date();
        let like_start = match self.frequency {
            _ if !any_day => true,
            YEARLY => {
                date.day() == given.day()
                    && (!self.months.is_empty() || date.month() == given.month())
            }
            MONTHLY => date.day() == given.day(),
            WEEKLY => date.weekday() == given.weekday(),
            _ => true,
        };
        month && month_day && year_day && weekday && like_start
    }

    fn passes_time(&self, time: Time) -> bool {
        let start = self.start.time();
        let hour = if self.hours.is_empty() {
            self.frequency < DAILY || time.hour() == start.hour()
        } else {
            self.hours.contains(&time.hour())
        };
        let minute = if self.minutes.is_empty() {
            self.frequency < HOURLY || time.minute() == start.minute()
        } else {
            self.minutes.contains(&time.minute())
        };
        hour && minute && (self.frequency == SECONDLY || time.second() == start.second())
    }

    /// All occurrences up to a time, found by checking every minute (or second) from the start of
    /// the first period on.
    fn model(&self, from: Date, to: Date) -> Vec<DateTime> {
        let step = SignedDuration::from_secs(if self.frequency == SECONDLY { 1 } else { 60 });
        let mut found: Vec<(i64, DateTime)> = Vec::new();
        for date in from.series(jiff::Span::new().days(1)).take_while(|date| *date < to) {
            if !self.passes_day(date) {
                continue;
            }
            let mut at =
                date.at(0, 0, if self.frequency == SECONDLY { 0 } else { self.start.second() }, 0);
            while at.date() == date {
                if self.passes_time(at.time()) {
                    found.push((self.period(at), at));
                }
                at = at.checked_add(step).unwrap();
            }
        }
        let origin = self.period(self.start);
        let mut kept = Vec::new();
        for set in found.chunk_by(|a, b| a.0 == b.0) {
            let active = (set[0].0 - origin).rem_euclid(self.interval) == 0;
            for (index, &(_, at)) in set.iter().enumerate() {
                let (index, count) = (index as i64, set.len() as i64);
                let picked = self.positions.is_empty()
                    || self.positions.contains(&(index + 1))
                    || self.positions.contains(&(index - count));
                if active && picked && at >= self.start {
                    kept.push(at);
                }
            }
        }
        kept
    }
}

fn some<T: Clone + std::fmt::Debug + 'static>(
    values: impl IntoIterator<Item = T>,
    most: usize,
) -> BoxedStrategy<Vec<T>> {
    let values: Vec<T> = values.into_iter().collect();
    let subset = proptest::sample::subsequence(values, 1..=most);
    prop_oneof![3 => Just(Vec::new()), 1 => subset].boxed()
}

prop_compose! {
    fn parts(frequencies: std::ops::Range<usize>)(
        frequency in frequencies,
        interval in prop_oneof![Just(1i64), 1i64..8, 1i64..100],
        week_start in 0i8..7,
        months in some(1i8..=12, 6),
        month_days in some((-31i8..=31).filter(|&n| n != 0), 12),
        year_days in some((-366i16..=366).filter(|&n| n != 0), 60),
        weekdays in some((-5i8..=5).flat_map(|nth| (0..7).map(move |day| (nth, day))), 5),
        hours in some(0i8..24, 4),
        minutes in some(0i8..60, 3),
        positions in some((-6i64..=6).filter(|&n| n != 0), 3),
        day in 1i8..=28, month in 1i8..=12, year in 2019i16..2025,
        hour in 0i8..24, minute in 0i8..60,
    ) -> Parts {
        let mut parts = Parts {
            frequency, interval, week_start, months, month_days, year_days, weekdays, hours,
            minutes, positions, start: Date::constant(year, month, day).at(hour, minute, 0, 0),
        };
        if parts.text().matches(";BY").count() == 1 {
            parts.positions.clear();
        }
        parts
    }
}

/// Compares the days before `to`. The model covers whole weeks, months and years, so that it sees
/// the sets that BYSETPOS picks from.
fn check_model(parts: &Parts, to: Date) {
    let utc = Zones::bundled().get("UTC").unwrap();
    let week = jiff::Span::new().days(7);
    let (from, whole_weeks) = if parts.frequency == SECONDLY {
        (parts.start.date(), to)
    } else {
        let new_year = Date::constant(parts.start.year(), 1, 1);
        (new_year.checked_sub(week).unwrap(), to.checked_add(week).unwrap())
    };
    let limit = to.at(0, 0, 0, 0);
    let expected: Vec<DateTime> =
        parts.model(from, whole_weeks).into_iter().filter(|&at| at < limit).collect();
    let recurrence = parts.recurrence(&utc);
    let end = limit.to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp();
    let found = first(&recurrence, expected.len() + 1);
    let found: Vec<DateTime> =
        found.into_iter().filter(|&at| at < end).map(|at| utc.wall(at)).collect();
    assert_eq!(found, expected, "{} from {}", parts.text(), parts.start);
    let back = preceding(&recurrence, end, expected.len() + 1);
    let back: Vec<DateTime> = back.into_iter().map(|at| utc.wall(at)).collect();
    assert_eq!(back, expected, "backwards: {} from {}", parts.text(), parts.start);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn agrees_with_a_model_that_looks_at_every_minute(parts in parts(1..7)) {
        check_model(&parts, Date::constant(parts.start.year() + 2, 1, 1));
    }

    #[test]
    fn agrees_with_a_model_that_looks_at_every_second(parts in parts(0..1)) {
        check_model(&parts, parts.start.date().checked_add(jiff::Span::new().days(3)).unwrap());
    }

    #[test]
    fn is_ordered_and_the_same_both_ways_in_any_zone(
        parts in parts(0..7),
        zone in proptest::sample::select(vec![
            "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia",
            "Antarctica/Troll", "Africa/Cairo", "UTC",
        ]),
        after in 1_300_000_000i64..1_900_000_000,
        nanosecond in prop_oneof![Just(0i32), 1i32..1_000_000_000],
    ) {
        let zone = Zones::bundled().get(zone).unwrap();
        let recurrence = parts.recurrence(&zone);
        let after = Timestamp::new(after, nanosecond).unwrap();
        let found = following(&recurrence, after, 12);
        prop_assert!(found.first().is_none_or(|&at| at > after));
        prop_assert!(found.is_sorted_by(|a, b| a < b));
        for &at in &found {
            prop_assert!(zone.wall(at) >= parts.start);
        }
        for pair in found.windows(2) {
            let between = pair[0].as_second() + (pair[1].as_second() - pair[0].as_second()) / 2;
            let between = Timestamp::from_second(between).unwrap();
            prop_assert_eq!(recurrence.next_after(between), Some(pair[1]));
            prop_assert_eq!(recurrence.previous_before(just_after(between)), Some(pair[0]));
        }
        if let Some(&last) = found.last() {
            let back = preceding(&recurrence, just_after(last), found.len());
            prop_assert_eq!(&back, &found);
        }
        if let (Some(before), Some(&next)) =
            (recurrence.previous_before(just_after(after)), found.first())
        {
            prop_assert!(before <= after);
            prop_assert_eq!(recurrence.previous_before(next), Some(before));
        }
    }

    #[test]
    fn any_text_is_answered(text in SCRAPS) {
        if let Ok(rrule) = Rrule::parse(&text) {
            prop_assert_eq!(Rrule::parse(&rrule.to_string()), Ok(rrule));
        }
    }
}
