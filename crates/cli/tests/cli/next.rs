//! Tests of `punctual next`.

use serde_json::Value;

use crate::{file, refused, run, shown};

#[test]
fn holidays_are_skipped_by_name() {
    insta::assert_snapshot!(shown(&[
        "next", "0 9 * * 1-5", "--tz", "Europe/Berlin", "--calendar", "DE-BY", "-n", "4",
        "--from", "2026-12-23T12:00",
    ]), @r#"
    at 09:00 on weekdays, Berlin time; on days off (DE-BY) skipped

      Thu 2026-12-24 09:00:00 +01:00  2026-12-24T08:00:00Z  in 21 hours
      Fri 2026-12-25 09:00:00 +01:00                                     skipped (holiday: Christmas Day)
      Mon 2026-12-28 09:00:00 +01:00  2026-12-28T08:00:00Z  in 4 days
      Tue 2026-12-29 09:00:00 +01:00  2026-12-29T08:00:00Z  in 5 days
      Wed 2026-12-30 09:00:00 +01:00  2026-12-30T08:00:00Z  in 6 days

    Europe/Berlin; zone database … (bundled)
    "#);
}

#[test]
fn gaps_are_told() {
    insta::assert_snapshot!(shown(&[
        "next", "30 2 * * *", "--tz", "America/New_York", "-n", "2", "--from", "2027-03-13T12:00",
    ]), @r#"
    at 02:30 every day, New York time

      Sun 2027-03-14 03:00:00 -04:00  2027-03-14T07:00:00Z  in 14 hours
      Mon 2027-03-15 02:30:00 -04:00  2027-03-15T06:30:00Z  in 37 hours
    ! 02:30 falls in a DST gap on 2027-03-14 (New York time): runs at 03:00, the first instant after the gap

    America/New_York; zone database … (bundled)
    "#);
}

#[test]
fn rolled_times_say_where_they_come_from() {
    insta::assert_snapshot!(shown(&[
        "next", "2026-03-01T09:00", "--tz", "Europe/London", "--calendar", "GB-ENG",
        "--from", "2026-02-01T00:00",
    ]), @r#"
    once, at 2026-03-01T09:00:00Z (Europe/London); on days off (GB-ENG) moved to the next working day

      Mon 2026-03-02 09:00:00 Z  2026-03-02T09:00:00Z  in 29 days  moved from Sun 2026-03-01 09:00 (Sunday)

    Europe/London; zone database … (bundled)
    "#);
}

#[test]
fn every_kind_of_rule_is_recognised() {
    for (rule, words) in [
        ("0 9 * * *", "at 09:00 every day, UTC"),
        ("@daily", "at 00:00 every day, UTC (0 0 * * *)"),
        ("weekdays", "at 00:00 on weekdays, UTC (0 0 * * 1-5)"),
        ("90m", "every 1h30m from 2026-01-01T00:00:00Z"),
        ("every 1d", "every 1d from 2026-01-01T00:00:00Z"),
        ("FREQ=WEEKLY;BYDAY=MO", "every week on Monday at 00:00, UTC"),
        ("2026-03-01T09:00", "once, at 2026-03-01T09:00:00Z (UTC)"),
        (
            "{daily: {at: [\"09:00\", \"17:30\"], days: [MON, WED]}}",
            "at 09:00 on Monday and Wednesday, UTC; and at 17:30 on Monday and Wednesday, UTC",
        ),
        (
            "{monthly: {day: 2nd TUE, at: \"08:00\"}}",
            "at 08:00 on the second Tuesday of the month, UTC",
        ),
        (
            "{monthly: {working_day: -1, at: \"17:00\"}, calendar: US}",
            "at 17:00 on the last working day of the month (US), UTC",
        ),
        (
            "rules: [ {cron: \"0 9 * * *\"}, {cron: \"0 12 * * SAT\"} ]",
            "at 09:00 every day, UTC; and at 12:00 on Saturday, UTC",
        ),
        ("{interval: 5m, from: completion}", "5m after the run before has ended"),
    ] {
        let out = shown(&["next", rule, "--from", "2026-01-01T00:00:00Z", "-n", "2"]);
        assert_eq!(out.lines().next(), Some(words), "{rule}");
    }
}

#[test]
fn mistakes_have_a_place_and_a_remedy() {
    insta::assert_snapshot!(refused(&["next", "0 22-6 * * *"]), @r#"
    the hour range runs backwards
      0 22-6 * * *
        ^^^^
      allowed: a range from the lower to the higher value
      try: 0 22-23,0-6 * * * (two ranges)
    "#);
    insta::assert_snapshot!(refused(&["next", "0 9 * * MONDAY"]), @r#"
    MONDAY is not a day of week
      0 9 * * MONDAY
              ^^^^^^
      allowed: 0-7 or SUN-SAT (0 and 7 are Sunday), with * ? , - / and 5L, 5#3, FRI#L, +MON
      try: 0 9 * * MON
    "#);
    insta::assert_snapshot!(refused(&["next", "*/0 * * * *"]), @r#"
    0 is not a step of the minute field
      */0 * * * *
      ^^^
      allowed: 1-59 (longer periods: a rule such as interval: 90m)
      try: */5 * * * *
    "#);
    insta::assert_snapshot!(refused(&["next", "1,,2 * * * *"]), @r#"
    a list item is empty
      1,,2 * * * *
        ^
      try: 1,2 * * * *
    "#);
    insta::assert_snapshot!(refused(&["next", "TZ=UTC 0 9 * * *"]), @r#"
    the zone is not part of the expression
      TZ=UTC 0 9 * * *
      ^^^^^^
      try: 0 9 * * *  with the option timezone: UTC
    "#);
    insta::assert_snapshot!(refused(&["next", "0 9 * *"]), @r#"
    the expression has 4 fields
      0 9 * *
      ^^^^^^^
      allowed: 5 fields (minute hour day-of-month month day-of-week), 6 with leading seconds, 7 with a trailing year
      try: 0 9 * * MON-FRI
    "#);
    insta::assert_snapshot!(refused(&["next", "H 9 * * *"]), @r#"
    H is not a minute
      H 9 * * *
      ^
      allowed: 0-59, with * , - /
      try: 0, with the option spread: 1h
    "#);
    insta::assert_snapshot!(refused(&["next", "0 0 15W-20 * *"]), @r#"
    15W is not a day of month
      0 0 15W-20 * *
          ^^^
      allowed: 1-31, with * ? , - / and L, L-3, LW, 15W
    "#);
    insta::assert_snapshot!(refused(&["next", "90"]), @r#"
    90 has no unit
      90
      ^^
      allowed: numbers with ms, s, m, h, d or w, such as 90s, 5m, 1h30m, 1d
      try: 90s, 90m or 90h
    "#);
    insta::assert_snapshot!(refused(&["next", "FREQ=DAILY;BYDY=MO"]), @r#"
    no such part: BYDY
      FREQ=DAILY;BYDY=MO
                 ^^^^
      allowed: FREQ, UNTIL, COUNT, INTERVAL, BYSECOND, BYMINUTE, BYHOUR, BYDAY, BYMONTHDAY, BYYEARDAY, BYWEEKNO, BYMONTH, BYSETPOS, WKST
      try: BYDAY
    "#);
    insta::assert_snapshot!(refused(&["next", "2026-02-30T09:00"]), @r#"
    not a time
      2026-02-30T09:00
      ^^^^^^^^^^^^^^^^
      allowed: 2026-03-01T09:00 in the rule's zone, or 2026-03-01T09:00:00Z
    "#);
}

#[test]
fn all_mistakes_of_a_rule_are_told_at_once() {
    insta::assert_snapshot!(
        refused(&["next", "{cron: \"0 99 * * *\", timezone: Europe/Berln, spread: 5, roll: next}"]),
        @r#"
        rule:1:32: timezone: no such time zone
          Europe/Berln
          ^^^^^^^^^^^^
          allowed: an IANA name such as Europe/Berlin, or UTC
          try: Europe/Berlin

        rule:1:8: cron: hour 99 is out of range
          0 99 * * *
            ^^
          allowed: 0-23
          try: 0 23 * * *

        rule:1:54: spread: 5 has no unit
          5
          ^
          allowed: numbers with ms, s, m, h, d or w, such as 90s, 5m, 1h30m, 1d
          try: 5s, 5m or 5h

        rule:1:63: roll: roll needs a calendar
          try: calendar: DE-BY
        "#
    );
    insta::assert_snapshot!(refused(&["next", "{cron: \"0 9 * * *\", rol: next}"]), @r#"
    rule:1:21: unknown field `rol`
      {cron: "0 9 * * *", rol: next}
                          ^^^
      allowed: cron, expression, preset, every, interval, interval_seconds, from, anchor, at, rrule, dtstart, exdate, rdate, daily, weekly, monthly, quarterly, yearly, rules, pattern, result, timezone, calendar, roll, fit, start, end, spread, dst
      try: roll
    "#);
}

#[test]
fn hostile_rules_are_refused() {
    let many_fields = "0 ".repeat(20_000);
    let long_list = format!("{} * * * *", vec!["1"; 20_000].join(","));
    for rule in [
        many_fields.as_str(),
        &long_list,
        "CRON_TZ=UTC",
        "0 0 * * *\u{1}",
        "\u{a0}0 0 * * *",
        "１ * * * *",
        "*/18446744073709551616 * * * *",
        "0s",
        "99999999999999999999d",
        "FREQ=DAILY;COUNT=9223372036854775808",
        "{cron: \"0 0 * * *\", timezone: localtime}",
        "{cron: \"0 0 * * *\", timezone: posixrules}",
        "{cron: \"0 0 * * *\", timezone: \"EST5EDT4,M3.2.0\"}",
        "{cron: \"0 0 * * *\", timezone: \"../../etc/passwd\"}",
        "{rules: [{rules: [{cron: \"@daily\"}]}]}",
        "{rules: [{interval: 5m, from: completion}]}",
        "{rules: []}",
        "{}",
    ] {
        let (code, out, err) = run(&["next", rule]);
        assert_eq!((code, out.as_str()), (1, ""), "{rule:.40}");
        assert!(err.len() < 2000, "{rule:.40}: {err}");
    }
}

#[test]
fn impossible_dates_are_answered_at_once() {
    let out = shown(&["next", "0 0 31 2 *"]);
    assert!(out.contains("! never fires"), "{out}");
}

#[test]
fn json_has_everything() {
    let out = shown(&[
        "next",
        "0 9 25 12 *",
        "--tz",
        "Europe/Berlin",
        "--calendar",
        "DE",
        "--roll",
        "next",
        "--from",
        "2026-12-01T00:00",
        "-n",
        "1",
        "--json",
    ]);
    let json: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(json["occurrences"][0]["nominal"], "2026-12-25T09:00:00+01:00");
    assert_eq!(json["occurrences"][0]["effective"], "2026-12-28T09:00:00+01:00");
    assert_eq!(json["occurrences"][0]["reason"], "holiday: Christmas Day");
    assert_eq!(json["timezone"], "Europe/Berlin");
    assert!(json["tzdb"].as_str().is_some_and(|version| version.starts_with("20")));
}

#[test]
fn calendars_from_a_file() {
    let path = file(
        "night.yaml",
        "calendars:\n\
         - id: day\n  timezone: Europe/Berlin\n  holidays: [ { country: DE-BY } ]\n\
         - id: night\n  timezone: Europe/Berlin\n  hours: { mon-fri: \"22:00-06:00\" }\n",
    );
    let named = format!("{path}#night");
    let out = shown(&[
        "next",
        "0 12 * * *",
        "--tz",
        "Europe/Berlin",
        "--calendar",
        &named,
        "--fit",
        "--from",
        "2026-06-01T00:00",
        "-n",
        "1",
    ]);
    assert!(out.contains("Mon 2026-06-01 22:00:00"), "{out}");
    assert!(out.contains("12:00 is outside of working hours"), "{out}");
    let unknown = refused(&["next", "0 12 * * *", "--calendar", &format!("{path}#nigth")]);
    assert!(unknown.contains("night.yaml#night"), "{unknown}");
}

#[test]
fn the_place_inside_a_spread_window_is_that_of_the_schedule() {
    let ask = |id: &str| {
        shown(&[
            "next",
            "{cron: \"0 * * * *\", spread: 1h}",
            "--id",
            id,
            "-n",
            "1",
            "--from",
            "2026-01-01T00:30:00Z",
            "--json",
        ])
    };
    let effective = |id: &str| -> Value {
        let json: Value = serde_json::from_str(&ask(id)).expect("JSON");
        assert_eq!(json["occurrences"][0]["nominal"], "2026-01-01T01:00:00Z");
        json["occurrences"][0]["effective"].clone()
    };
    assert_eq!(effective("schedule-1"), effective("schedule-1"));
    assert_ne!(effective("schedule-1"), effective("schedule-2"));
    let words = shown(&["next", "{cron: \"0 * * * *\", spread: 10m}", "-n", "1"]);
    assert!(words.starts_with("every hour, UTC; spread over 10m\n"), "{words}");
}

#[test]
fn many_days_off_in_a_row_are_counted() {
    let never = file("closed-for-ever.yaml", "id: never\ntimezone: UTC\nhours: {}\n");
    let from = ["-n", "1", "--from", "2026-03-02T00:00"];
    let out = shown(&[&["next", "0 9 * * *", "--calendar", &never][..], &from].concat());
    assert_eq!(out.matches("skipped (").count(), 3, "{out}");
    assert!(out.contains("… and 401 more are skipped\n"), "{out}");
    assert!(out.contains("! the calendar never has no working time at all\n"), "{out}");
}

#[test]
fn times_in_the_zone_of_nobody_are_told() {
    let out = shown(&["next", "0 9 * * *", "--calendar", "JP", "--from", "2026-03-02T00:00"]);
    let warning = "! the calendar JP has no zone of its own: 09:00 is UTC; write timezone\n";
    assert!(out.contains(warning), "{out}");
    let named = ["next", "0 9 * * *", "--calendar", "JP", "--tz", "Asia/Tokyo"];
    assert!(!shown(&named).contains("no zone"));
}

#[test]
fn what_lies_in_the_past_is_told() {
    let out = shown(&["next", "2020-01-01T00:00", "--from", "2026-01-01T00:00"]);
    assert!(out.contains("lies in the past: a new schedule runs it at once, unless"), "{out}");
    let bounded =
        shown(&["next", "{cron: \"@daily\", end: 2026-01-02T00:00}", "--from", "2026-01-01T00:00"]);
    assert_eq!(bounded.matches("2026-01-02T00:00:00Z").count(), 2, "{bounded}");
    assert!(!bounded.contains("2026-01-03"), "{bounded}");
}

#[test]
fn a_wrong_command_line_has_its_own_code() {
    assert_eq!(run(&["next"]).0, 2);
    assert_eq!(run(&["next", "@daily", "-n", "0"]).0, 2);
    assert_eq!(run(&["nxt"]).0, 2);
    assert_eq!(run(&["next", "@daily", "--calendar", "nowhere.yaml"]).0, 3);
}

#[test]
fn times_as_a_calendar_file() {
    let out = shown(&["next", "@monthly", "--from", "2026-01-15T00:00:00Z", "-n", "2", "--ics"]);
    assert!(out.starts_with("BEGIN:VCALENDAR\r\n"));
    assert_eq!(out.matches("DTSTART:20260201T000000Z\r\n").count(), 1);
    assert_eq!(out.matches("BEGIN:VEVENT").count(), 2);
}

#[test]
fn the_tour_shows_every_stop() {
    let out = shown(&["tour"]);
    assert_eq!(out.matches("$ punctual ").count(), 6);
    assert!(out.contains("skipped (holiday: Christmas Day)"));
    assert!(out.contains("try: 0 22-23,0-6 * * *"));
}
