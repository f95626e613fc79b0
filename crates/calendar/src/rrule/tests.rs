use super::*;
use crate::zones::Zones;
use expand::fill_in;

fn recurrence(start: &str, zone: &str, rule: &str) -> Recurrence {
    let zone = Zones::bundled().get(zone).unwrap();
    Recurrence::new(Rrule::parse(rule).unwrap(), start.parse().unwrap(), zone)
}

fn walls(dates: &[&str]) -> Vec<DateTime> {
    dates.iter().map(|date| date.parse().unwrap()).collect()
}

/// The first occurrences with their offsets. Searching backward must give the same ones.
fn first(recurrence: &Recurrence, n: usize) -> Vec<String> {
    let next = |at: &Timestamp| recurrence.next_after(*at);
    let found: Vec<Timestamp> =
        std::iter::successors(recurrence.next_after(Timestamp::MIN), next).take(n).collect();
    let mut before = found
        .last()
        .map_or(Timestamp::MAX, |at| at.checked_add(jiff::SignedDuration::from_nanos(1)).unwrap());
    for &at in found.iter().rev() {
        assert_eq!(recurrence.previous_before(before), Some(at));
        before = at;
    }
    assert_eq!(recurrence.previous_before(before).filter(|_| !found.is_empty()), None);
    found.iter().map(|&at| recurrence.zone.rfc3339(at)).collect()
}

fn check(start: &str, zone: &str, rule: &str, expected: &[&str]) {
    let found = first(&recurrence(start, zone, rule), expected.len() + 1);
    let ends = found.len() == expected.len();
    let shown = &found[..expected.len().min(found.len())];
    assert_eq!(shown, expected, "{rule}");
    assert!(ends || !rule.contains("COUNT"), "{rule} goes on with {found:?}");
}

#[test]
fn gaps_are_left_out_and_not_counted() {
    for (start, zone, rule, expected) in [
        (
            "2026-03-07T02:30",
            "America/New_York",
            "FREQ=DAILY;COUNT=3",
            &[
                "2026-03-07T02:30:00-05:00",
                "2026-03-09T02:30:00-04:00",
                "2026-03-10T02:30:00-04:00",
            ][..],
        ),
        (
            "2026-03-08T00:30",
            "America/New_York",
            "FREQ=HOURLY;COUNT=4",
            &[
                "2026-03-08T00:30:00-05:00",
                "2026-03-08T01:30:00-05:00",
                "2026-03-08T03:30:00-04:00",
                "2026-03-08T04:30:00-04:00",
            ],
        ),
        (
            "2026-03-08T01:59:59",
            "America/New_York",
            "FREQ=SECONDLY;COUNT=2",
            &["2026-03-08T01:59:59-05:00", "2026-03-08T03:00:00-04:00"],
        ),
        // A date that does not exist.
        (
            "2011-12-29T12:00",
            "Pacific/Apia",
            "FREQ=DAILY;COUNT=2",
            &["2011-12-29T12:00:00-10:00", "2011-12-31T12:00:00+14:00"],
        ),
        // A change of half an hour.
        (
            "2026-10-03T02:15",
            "Australia/Lord_Howe",
            "FREQ=DAILY;COUNT=2",
            &["2026-10-03T02:15:00+10:30", "2026-10-05T02:15:00+11:00"],
        ),
        // The start itself is in the gap.
        (
            "2026-03-08T02:30",
            "America/New_York",
            "FREQ=DAILY;COUNT=1",
            &["2026-03-09T02:30:00-04:00"],
        ),
    ] {
        check(start, zone, rule, expected);
    }
}

#[test]
fn a_fold_means_its_first_pass() {
    for (start, rule, expected) in [
        (
            "2026-10-31T01:30",
            "FREQ=DAILY;COUNT=3",
            &[
                "2026-10-31T01:30:00-04:00",
                "2026-11-01T01:30:00-04:00",
                "2026-11-02T01:30:00-05:00",
            ][..],
        ),
        (
            "2026-11-01T00:30",
            "FREQ=HOURLY;COUNT=3",
            &[
                "2026-11-01T00:30:00-04:00",
                "2026-11-01T01:30:00-04:00",
                "2026-11-01T02:30:00-05:00",
            ],
        ),
    ] {
        check(start, "America/New_York", rule, expected);
    }
    let every_second = recurrence("2026-10-31T00:00", "America/New_York", "FREQ=SECONDLY");
    let second_pass: Timestamp = "2026-11-01T06:30:00Z".parse().unwrap();
    let next = every_second.next_after(second_pass).unwrap();
    assert_eq!(next.to_string(), "2026-11-01T07:00:00Z");
    let previous = every_second.previous_before(second_pass).unwrap();
    assert_eq!(previous.to_string(), "2026-11-01T05:59:59Z");
}

#[test]
fn until_is_a_day_a_wall_time_or_an_instant() {
    for (until, count) in [
        ("20260303", 3),
        ("20260303T090000", 3),
        ("20260303T085959", 2),
        ("20260303T140000Z", 3),
        ("20260303T135959Z", 2),
        ("20260228", 0),
        ("20260301t235960", 1),
    ] {
        let rule = format!("FREQ=DAILY;UNTIL={until}");
        let daily = recurrence("2026-03-01T09:00", "America/New_York", &rule);
        assert_eq!(first(&daily, 10).len(), count, "{until}");
    }
    // The second pass of a fold belongs to the day, and to the instants up to its end.
    let rule = "FREQ=HOURLY;UNTIL=20261101T063000Z";
    let hourly = recurrence("2026-11-01T00:00", "America/New_York", rule);
    assert_eq!(first(&hourly, 10).len(), 2);
}

#[test]
fn exceptions_count_and_additions_do_not() {
    let daily = recurrence("2026-03-01T09:00", "UTC", "FREQ=DAILY;COUNT=3")
        .exclude(walls(&["2026-03-02T09:00", "2026-03-02T10:00"]))
        .include(walls(&["2026-03-01T09:00", "2026-03-09T08:00", "2026-03-02T10:00"]));
    let expected = ["2026-03-01T09:00:00Z", "2026-03-03T09:00:00Z", "2026-03-09T08:00:00Z"];
    assert_eq!(first(&daily, 9), expected);
    assert!(daily.words().ends_with("3 times, except 2 dates, and on 3 dates, UTC"));
    // An addition in a gap uses the offset before the gap.
    let added = recurrence("2027-01-01T00:00", "America/New_York", "FREQ=YEARLY;COUNT=1")
        .include(walls(&["2026-03-08T02:30"]));
    let expected = ["2026-03-08T03:30:00-04:00", "2027-01-01T00:00:00-05:00"];
    assert_eq!(first(&added, 9), expected);
}

#[test]
fn sets_and_positions() {
    for (start, rule, expected) in [
        // Plain and numbered weekdays are combined.
        (
            "2026-03-01T09:00",
            "FREQ=MONTHLY;BYDAY=SU,1MO;COUNT=3",
            &["2026-03-01T09:00:00Z", "2026-03-02T09:00:00Z", "2026-03-08T09:00:00Z"][..],
        ),
        // The set of a week covers the whole week, even the one that contains the start.
        (
            "2026-03-04T09:00",
            "FREQ=WEEKLY;BYDAY=MO,FR;BYSETPOS=1;COUNT=1",
            &["2026-03-09T09:00:00Z"],
        ),
        (
            "2026-01-01T00:00",
            "FREQ=YEARLY;BYHOUR=0,23;BYMINUTE=0,59;BYSECOND=0,60;BYSETPOS=-1;COUNT=1",
            &["2026-01-01T23:59:59Z"],
        ),
        (
            "2026-01-01T00:00",
            "FREQ=HOURLY;INTERVAL=7;BYMINUTE=10,20,30;BYSETPOS=-1,1;COUNT=3",
            &["2026-01-01T00:10:00Z", "2026-01-01T00:30:00Z", "2026-01-01T07:10:00Z"],
        ),
        ("2026-01-01T00:00", "FREQ=SECONDLY;BYHOUR=9;BYSETPOS=2;COUNT=1", &[]),
        // Most days of the week from Wednesday 27 December lie in 2017, so it is week 52.
        (
            "2017-12-31T00:00",
            "FREQ=YEARLY;BYWEEKNO=52;BYDAY=MO;WKST=WE;COUNT=2",
            &["2018-01-01T00:00:00Z", "2018-12-31T00:00:00Z"],
        ),
        // Across a century without a leap day.
        (
            "2096-02-29T00:00",
            "FREQ=YEARLY;COUNT=2",
            &["2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"],
        ),
    ] {
        check(start, "UTC", rule, expected);
    }
}

#[test]
fn week_numbers_are_those_of_iso_8601() {
    for number in [1, 2, 52, 53, -1, -52] {
        let rule = Rrule::parse(&format!("FREQ=YEARLY;BYWEEKNO={number}")).unwrap();
        let days = days::Days::of(&fill_in(&rule, 0));
        let (mut date, end) = (Date::constant(1995, 1, 1), Date::constant(2030, 1, 1));
        while date < end {
            let week = date.iso_week_date();
            let from_end = week.week() - week.weeks_in_year() - 1;
            let day = civil::day_from_date(date);
            let passes = days.count(day, day + 1) == 1;
            assert_eq!(passes, [week.week(), from_end].contains(&number), "{date} {number}");
            date = date.tomorrow().unwrap();
        }
    }
}

#[test]
fn every_search_is_bounded() {
    let all = |end: u32| (0..end).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let product = format!("BYHOUR={};BYMINUTE={};BYSECOND={}", all(24), all(60), all(60));
    for (rule, most) in [
        ("FREQ=DAILY", 3),
        ("FREQ=MINUTELY;INTERVAL=20;BYHOUR=9,10,11;BYDAY=MO", 6),
        ("FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30", 3),
        ("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO", 3),
        ("FREQ=DAILY;INTERVAL=7919;BYMONTH=2;BYMONTHDAY=29", 1000),
        (&*format!("FREQ=YEARLY;{product};BYSETPOS=-1"), 10),
        (&*format!("FREQ=DAILY;{product};BYSETPOS=366,-366"), 3),
        ("FREQ=SECONDLY;INTERVAL=999983;BYHOUR=3;BYMINUTE=3;BYSECOND=3", SEARCH_LEAPS),
        ("FREQ=SECONDLY;INTERVAL=2;BYSECOND=1,3,5", SEARCH_LEAPS),
        ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=300", SEARCH_LEAPS),
        ("FREQ=YEARLY;INTERVAL=1000000;BYMONTHDAY=1", 3),
    ] {
        let rule = Rrule::parse(rule).unwrap();
        for start in ["-009999-01-01T00:00", "2026-01-01T00:00", "9999-12-31T23:59:59"] {
            let start = civil::local_from_datetime(start.parse().unwrap());
            let plan = Plan::new(&rule, start);
            for direction in [Direction::Forward, Direction::Backward] {
                for from in [-377_000_000_000, start, 0, 1_800_000_000, 253_000_000_000] {
                    let mut leaps = Leaps::limit(SEARCH_LEAPS);
                    plan.seek(from, direction, &mut leaps);
                    let taken = SEARCH_LEAPS - leaps.left();
                    assert!(taken <= most, "{rule} {direction:?} from {from}: {taken}");
                }
            }
        }
    }
}

#[test]
fn impossible_and_extreme_rules_are_answered() {
    for rule in [
        "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=DAILY;INTERVAL=7;BYDAY=TU",
        "FREQ=MONTHLY;BYDAY=20MO",
        "FREQ=YEARLY;BYMONTH=3;BYDAY=2SU;BYHOUR=2;BYMINUTE=30",
    ] {
        // 2026-01-01 is a Thursday.
        let never = recurrence("2026-01-01T00:00", "America/New_York", rule);
        assert_eq!(never.next_after(Timestamp::MIN), None, "{rule}");
        assert_eq!(never.previous_before(Timestamp::MAX), None, "{rule}");
    }
    for start in ["-009999-01-01T00:00", "9999-12-31T23:59:59"] {
        for rule in ["FREQ=DAILY", "FREQ=SECONDLY;INTERVAL=7", "FREQ=WEEKLY;BYDAY=MO;BYSETPOS=1"] {
            let edge = recurrence(start, "Pacific/Apia", rule);
            for at in [Timestamp::MIN, Timestamp::UNIX_EPOCH, Timestamp::MAX] {
                assert!(edge.next_after(at).is_none_or(|next| next > at));
                assert!(edge.previous_before(at).is_none_or(|previous| previous < at));
            }
        }
    }
}
