//! Cases that schedulers often get wrong, with answers computed by hand.

use calendar::{Cron, Dst, DstOptions, Fold, Gap, Rule, Zones};
use jiff::Timestamp;

use super::at;

#[track_caller]
fn check(zone: &str, cron: &str, after: &str, expected: &[&str]) {
    check_with(zone, cron, DstOptions::default(), after, expected);
}

#[track_caller]
fn check_with(zone: &str, cron: &str, options: DstOptions, after: &str, expected: &[&str]) {
    let cron = Cron::parse(cron).unwrap();
    let usual = if cron.is_wildcard() { Dst::WILDCARD } else { Dst::FIXED };
    let zone = Zones::bundled().get(zone).unwrap();
    let shown = format!("{cron} in {} after {after}", zone.name());
    let rule = Rule::cron_with(cron, zone, usual.with(options));
    let expected: Vec<Timestamp> = expected.iter().map(|text| at(text)).collect();
    let found: Vec<Timestamp> = rule.after(at(after)).take(expected.len()).collect();
    assert_eq!(found, expected, "{shown}");
    for pair in expected.windows(2) {
        assert_eq!(rule.previous_before(pair[1]), Some(pair[0]), "{shown}");
    }
}

fn gap(gap: Gap) -> DstOptions {
    DstOptions { gap: Some(gap), fold: None }
}

fn fold(fold: Fold) -> DstOptions {
    DstOptions { gap: None, fold: Some(fold) }
}

#[test]
fn a_time_in_the_gap_runs_once_at_its_end() {
    let new_york = "America/New_York";
    let before = "2026-03-08T05:30Z";
    check(new_york, "30 2 * * *", before, &["2026-03-08T07:00Z", "2026-03-09T06:30Z"]);
    check(new_york, "0,30 2 * * *", before, &["2026-03-08T07:00Z", "2026-03-09T06:00Z"]);
    check(
        new_york,
        "0 1-3 * * *",
        before,
        &["2026-03-08T06:00Z", "2026-03-08T07:00Z", "2026-03-09T05:00Z"],
    );
    let last_second = "2026-03-08T06:59:59Z";
    check(new_york, "30 2 * * *", last_second, &["2026-03-08T07:00Z", "2026-03-09T06:30Z"]);
    check(new_york, "30 2 * * *", "2026-03-08T07:00Z", &["2026-03-09T06:30Z"]);
    check(new_york, "*/30 2 * * *", before, &["2026-03-09T06:00Z", "2026-03-09T06:30Z"]);
    check_with(new_york, "30 2 * * *", gap(Gap::Skip), before, &["2026-03-09T06:30Z"]);
    check_with(
        new_york,
        "*/30 2 * * *",
        gap(Gap::Shift),
        before,
        &["2026-03-08T07:00Z", "2026-03-09T06:00Z"],
    );
}

#[test]
fn a_time_in_the_fold_runs_in_its_first_pass() {
    let new_york = "America/New_York";
    let before = "2026-11-01T04:59Z";
    let (first, second) = ("2026-11-01T05:30Z", "2026-11-01T06:30Z");
    let tomorrow = "2026-11-02T06:30Z";
    check(new_york, "30 1 * * *", before, &[first, tomorrow]);
    check_with(new_york, "30 1 * * *", fold(Fold::Last), before, &[second, tomorrow]);
    check_with(new_york, "30 1 * * *", fold(Fold::Both), before, &[first, second, tomorrow]);
    check(
        new_york,
        "0 1-3 * * *",
        before,
        &["2026-11-01T05:00Z", "2026-11-01T07:00Z", "2026-11-01T08:00Z", "2026-11-02T06:00Z"],
    );
    check(
        new_york,
        "*/15 1 * * *",
        before,
        &[
            "2026-11-01T05:00Z",
            "2026-11-01T05:15Z",
            first,
            "2026-11-01T05:45Z",
            "2026-11-01T06:00Z",
            "2026-11-01T06:15Z",
            second,
            "2026-11-01T06:45Z",
            "2026-11-02T06:00Z",
        ],
    );
    let only_once_more = fold(Fold::Last);
    check_with(new_york, "0 30 1 1 11 ? 2026", only_once_more, "2026-11-01T05:45Z", &[second]);
}

#[test]
fn unusual_zones_follow_the_same_rule() {
    let cases: [(&str, &str, &str, &[&str]); 14] = [
        ("Antarctica/Troll", "30 1 * * *", "2026-03-29T00:00Z", &["2026-03-29T01:00Z"]),
        ("Antarctica/Troll", "15 2 * * *", "2026-03-29T00:00Z", &["2026-03-29T01:00Z"]),
        (
            "Antarctica/Troll",
            "30 1,2 * * *",
            "2026-10-24T22:00Z",
            &["2026-10-24T23:30Z", "2026-10-25T00:30Z", "2026-10-26T01:30Z"],
        ),
        (
            "Australia/Lord_Howe",
            "15 2 * * *",
            "2026-10-03T15:00Z",
            &["2026-10-03T15:30Z", "2026-10-04T15:15Z"],
        ),
        (
            "Australia/Lord_Howe",
            "45 1 * * *",
            "2026-04-04T14:00Z",
            &["2026-04-04T14:45Z", "2026-04-05T15:15Z"],
        ),
        (
            "Pacific/Chatham",
            "0 3 * * *",
            "2026-09-26T10:00Z",
            &["2026-09-26T14:00Z", "2026-09-27T13:15Z"],
        ),
        (
            "America/Santiago",
            "0 0 * * *",
            "2026-09-05T05:00Z",
            &["2026-09-06T04:00Z", "2026-09-07T03:00Z"],
        ),
        (
            "Africa/Cairo",
            "30 0 * * *",
            "2026-04-23T00:00Z",
            &["2026-04-23T22:00Z", "2026-04-24T21:30Z"],
        ),
        (
            "Europe/Dublin",
            "30 1 * * *",
            "2026-03-28T12:00Z",
            &["2026-03-29T01:00Z", "2026-03-30T00:30Z"],
        ),
        (
            "Europe/Dublin",
            "30 1 * * *",
            "2026-10-24T12:00Z",
            &["2026-10-25T00:30Z", "2026-10-26T01:30Z"],
        ),
        (
            "Africa/Casablanca",
            "30 2 * * *",
            "2025-02-22T12:00Z",
            &["2025-02-23T01:30Z", "2025-02-24T02:30Z"],
        ),
        (
            "Africa/Casablanca",
            "30 2 * * *",
            "2025-04-05T12:00Z",
            &["2025-04-06T02:00Z", "2025-04-07T01:30Z"],
        ),
        (
            "Pacific/Apia",
            "0 9 * * *",
            "2011-12-28T20:00Z",
            &["2011-12-29T19:00Z", "2011-12-30T19:00Z"],
        ),
        ("Pacific/Apia", "0 9 30 12 *", "2011-01-01T00:00Z", &["2012-12-29T19:00Z"]),
    ];
    for (zone, cron, after, expected) in cases {
        check(zone, cron, after, expected);
    }
}

#[test]
fn dates_that_only_some_months_have() {
    let cases: [(&str, &str, &[&str]); 9] = [
        ("0 0 L 2 +0", "1976-03-01T00:00Z", &["1982-02-28T00:00Z", "1993-02-28T00:00Z"]),
        ("0 0 29 2 *", "2096-03-01T00:00Z", &["2104-02-29T00:00Z", "2108-02-29T00:00Z"]),
        ("0 0 31W * *", "2026-02-01T00:00Z", &["2026-03-31T00:00Z", "2026-05-29T00:00Z"]),
        ("0 0 1W * *", "2026-07-31T00:00Z", &["2026-08-03T00:00Z", "2026-09-01T00:00Z"]),
        ("0 0 * * 5#5", "2026-01-01T00:00Z", &["2026-01-30T00:00Z", "2026-05-29T00:00Z"]),
        ("0 0 LW * *", "2026-01-01T00:00Z", &["2026-01-30T00:00Z", "2026-02-27T00:00Z"]),
        ("0 0 L-30 * *", "2026-01-15T00:00Z", &["2026-03-01T00:00Z", "2026-05-01T00:00Z"]),
        ("0 0 13 * +FRI", "2026-01-01T00:00Z", &["2026-02-13T00:00Z", "2026-03-13T00:00Z"]),
        ("0 0 0 1 1 ? 5000", "2026-01-01T00:00Z", &["5000-01-01T00:00Z"]),
    ];
    for (cron, after, expected) in cases {
        check("UTC", cron, after, expected);
    }
}

#[test]
fn impossible_dates_never_come() {
    let zones = Zones::bundled();
    for cron in [
        "0 0 31 2 *",
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        "0 0 31W 2 *",
        "0 0 L-30 2,4 *",
        "0 0 30 2 +MON",
        "0 0 0 29 2 ? 2025-2027",
        "0 0 0 29 2 ? 2100",
        "0 0 0 1 1 ? 1970",
    ] {
        for zone in ["UTC", "America/New_York", "Antarctica/Troll"] {
            let rule = Rule::cron(Cron::parse(cron).unwrap(), zones.get(zone).unwrap());
            assert_eq!(rule.next_after(at("2026-01-01T00:00Z")), None, "{cron} in {zone}");
        }
    }
}
