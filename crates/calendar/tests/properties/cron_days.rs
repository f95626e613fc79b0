//! Compares cron's dates over decades with a walk over every day.

use calendar::{Cron, Rule, Zone};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::cron_expression::{Expression, any_expression};

const DAYS: usize = 366 * 12;

fn naive_next(cron: &Expression, after: Timestamp) -> Option<Timestamp> {
    let times: Vec<u32> = (0..86_400).filter(|&second| cron.matches_time(second)).collect();
    let start = TimeZone::UTC.to_datetime(after).date();
    let mut days = start.series(jiff::Span::new().days(1)).take(DAYS);
    days.find_map(|date| {
        if !cron.matches_date(date) {
            return None;
        }
        times.iter().map(|&second| moment(date, second)).find(|at| *at > after)
    })
}

fn naive_previous(cron: &Expression, before: Timestamp) -> Option<Timestamp> {
    let times: Vec<u32> = (0..86_400).filter(|&second| cron.matches_time(second)).collect();
    let start = TimeZone::UTC.to_datetime(before).date();
    let mut days = start.series(jiff::Span::new().days(-1)).take(DAYS);
    days.find_map(|date| {
        if !cron.matches_date(date) {
            return None;
        }
        times.iter().rev().map(|&second| moment(date, second)).find(|at| *at < before)
    })
}

fn moment(date: Date, second: u32) -> Timestamp {
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let wall = date.at(hour as i8, minute as i8, second as i8, 0);
    TimeZone::UTC.to_timestamp(wall).unwrap()
}

#[test]
fn every_day_of_twelve_years() {
    let zone = Zone::utc();
    let start = 0..4_102_444_800i64;
    proptest!(super::cases(1200), |(
        cron in any_expression(), unix in start, nanos in prop_oneof![Just(0), 1..1_000_000_000i32]
    )| {
        let rule = Rule::cron(Cron::parse(&cron.to_string()).unwrap(), zone.clone());
        let from = Timestamp::new(unix, nanos).unwrap();
        let reach = jiff::SignedDuration::from_hours(24 * (DAYS as i64 - 2));
        let (earliest, latest) = (from - reach, from + reach);
        let next = rule.next_after(from).filter(|at| *at < latest);
        prop_assert_eq!(next, naive_next(&cron, from).filter(|at| *at < latest), "{}", cron);
        let previous = rule.previous_before(from).filter(|at| *at > earliest);
        let expected = naive_previous(&cron, from).filter(|at| *at > earliest);
        prop_assert_eq!(previous, expected, "{}", cron);
    });
}
