//! What is read, and what it becomes.

use jiff::SignedDuration;
use language::definition::{
    Action, Definition, OnError, StepRetry, TriggerKind, Version, locate, warnings,
};
use serde_json::json;

use crate::{accept, place, read_bytes, with_context};

/// A definition with every key once.
pub(crate) const REPORT: &str = r#"
name: daily-report
version: 1.10
description: Generate daily report
timezone: America/New_York
calendar: us-business
concurrency: 2
timeout: 2h
retention: P30D
calendars:
  - id: us-business
    timezone: America/New_York
    hours: { mon-fri: ["09:00-17:00"] }
    holidays: [ { country: US }, 2026-12-24 ]
triggers:
  - id: morning-run
    type: schedule
    cron: "0 9 * * *"
    roll: next
    enabled: false
  - { id: by-hand, type: manual }
steps:
  - id: send
    type: http
    method: POST
    url: https://example.com/reports
    headers: { Authorization: Bearer x, X-Kind: "1" }
    body: { rows: 9007199254740993, country: no }
    expect: [201, 200]
    redirects: 3
    depends_on: make
    retry: { max: 5, delay: 10s, factor: 1.5, max_delay: 2m }
    on_error: skip_step
    idempotent: false
  - id: make
    name: Make the report
    type: exec
    command: [make, report]
    env: { MODE: full }
    cwd: /srv/reports
    stdin: ""
    timeout: 90
  - { id: done, type: noop, depends_on: [send, make] }
"#;

#[test]
fn everything_that_can_be_said() {
    let read = accept(REPORT);
    assert_eq!((read.name.as_str(), read.version.to_string().as_str()), ("daily-report", "1.10"));
    assert_eq!(read.concurrency, Some(2));
    assert_eq!(read.timeout, Some(SignedDuration::from_hours(2)));
    assert_eq!(read.retention, Some(SignedDuration::from_hours(30 * 24)));
    assert_eq!(read.calendars[0].id, "us-business");
    assert!(!read.triggers[0].enabled && read.triggers[1].enabled);
    assert_eq!(read.triggers[1].kind, TriggerKind::Manual);
    let ids: Vec<&str> = read.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["make", "send", "done"]);
    let [make, send, _] = read.steps.as_slice() else { panic!("three steps") };
    let Action::Exec(exec) = &make.action else { panic!("{make:?}") };
    assert_eq!(exec.command, ["make", "report"]);
    assert_eq!((exec.cwd.as_deref(), exec.stdin.as_deref()), (Some("/srv/reports"), Some("")));
    assert_eq!(make.timeout, Some(SignedDuration::from_secs(90)));
    let Action::Http(http) = &send.action else { panic!("{send:?}") };
    assert_eq!(http.body, Some(json!({"rows": 9_007_199_254_740_993_u64, "country": "no"})));
    assert_eq!(http.expect, [200, 201]);
    assert_eq!((&send.on_error, send.idempotent), (&OnError::SkipStep, false));
    let (delay, max_delay) = (SignedDuration::from_secs(10), SignedDuration::from_mins(2));
    assert_eq!(send.retry, StepRetry { max: 5, delay, factor: 1.5, max_delay, by_default: false });
}

#[test]
fn what_is_left_out() {
    let read = accept("name: t\nsteps: [{id: a, type: noop}, {id: b, type: http, url: http://x}]");
    assert_eq!(read.version, Version::default());
    let step = &read.steps[0];
    assert_eq!(step.retry.max, 3);
    assert_eq!(step.retry.delay, SignedDuration::from_secs(5));
    assert_eq!((step.timeout, step.idempotent), (Some(SignedDuration::from_mins(5)), true));
    assert_eq!(step.on_error, OnError::FailProcess);
    let Action::Http(http) = &read.steps[1].action else { panic!("{read:?}") };
    assert_eq!((http.method.as_str(), http.redirects, http.max_bytes), ("GET", 0, 262_144));
}

#[test]
fn stored_and_read_back() {
    let read = accept(REPORT);
    let stored = serde_json::to_string(&read).unwrap();
    assert_eq!(serde_json::from_str::<Definition>(&stored).unwrap(), read);
}

/// The same definition in JSON, with tabs, CRLF or a byte order mark, and with either kind of
/// quotes.
#[test]
fn the_same_in_every_form() {
    let yaml =
        accept("name: t\nsteps:\n- id: a\n  type: exec\n  command: [echo, \"\\ud83d\\ude00/\"]\n");
    for text in [
        r#"{"name": "t", "steps": [{"id": "a", "type": "exec", "command": ["echo", "\ud83d\ude00\/"]}]}"#,
        "{\n\t\"name\": \"t\",\n\t\"steps\": [\n\t\t{\"id\":\"a\",\"type\":\"exec\",\t\"command\":[\"echo\",\"😀/\"]}\n\t]\n}\n",
        "{\"name\":\"t\",\"steps\":[{\"id\":\"a\",\"type\":\"exec\",\"command\":[\"echo\",\"😀/\"]}]}",
        "\u{feff}name: t\r\nsteps:\r\n- id: a\r\n  type: exec\r\n  command: ['echo', '😀/']\r\n",
        "# remark\n---\nname: t # remark\nsteps:\n  -\n    id: a\n    type: exec\n    command:\n    - echo\n    - 😀/\n...\n",
    ] {
        assert_eq!(accept(text), yaml, "{text}");
    }
    assert_eq!(
        with_context(|context| read_bytes(b"name: t\nsteps: []", context)).unwrap().name,
        "t"
    );
}

#[test]
fn texts_stay_texts_and_numbers_stay_exact() {
    for (written, expected) in [
        ("no", json!("no")),
        ("yes", json!("yes")),
        ("on", json!("on")),
        ("True", json!(true)),
        ("~", json!(null)),
        ("09:00", json!("09:00")),
        ("2026-01-01", json!("2026-01-01")),
        ("1_000", json!("1_000")),
        ("'010'", json!("010")),
        ("\"null\"", json!("null")),
        ("18446744073709551615", json!(u64::MAX)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("0.1", json!(0.1)),
        ("[]", json!([])),
        ("{ a: { b: [1, { c: x }] } }", json!({"a": {"b": [1, {"c": "x"}]}})),
        ("|\n      two\n      lines\n", json!("two\nlines\n")),
    ] {
        let text = format!(
            "name: t\nsteps: []\ntriggers:\n  - id: x\n    type: schedule\n    cron: daily\n    payload: {written}\n"
        );
        let read = accept(&text);
        let declaration = read.declaration(&read.triggers[0]).unwrap();
        assert_eq!(declaration["payload"], expected, "{written}");
    }
}

#[test]
fn every_way_to_say_when() {
    for rule in [
        "cron: daily",
        "cron: every_5min",
        "cron: \"@hourly\"",
        "preset: weekdays",
        "interval: 5m",
        "interval: 300",
        "every: 90m",
        "interval_seconds: 300",
        "interval: 1h, from: completion",
        "at: 2026-03-01T09:00, calendar: head-office",
        "rrule: \"FREQ=MONTHLY;BYDAY=-1FR\", dtstart: 2026-01-01T09:00",
        "daily: {at: \"09:00\", days: [MON, WED]}",
        "monthly: {working_day: -1, at: \"17:00\"}, calendar: night",
        "rules: [{cron: daily}, {cron: \"0 12 * * *\"}]",
        "cron: daily, calendar: DE-BY, roll: modified_next, fit: hours, spread: 10m",
        "cron: daily, start: 2026-01-01T00:00, end: 2027-01-01T00:00, dst: {gap: skip, fold: both}",
        "cron: daily, overlap: queue_all, queue_limit: 5, catch_up: all, total_repeats: 3",
        "cron: daily, catch_up: {policy: all, window: 1d, limit: 20, pace: 1/10s}",
        "cron: daily, max_retries: 0, timeout_seconds: 60, retry: {delay: 1m, jitter: 0.5}",
        "every: 1h, retry: {delay: 10, max_delay: 600}, retention: 86400",
        "cron: daily, name: x, pause_on_failure: true, retention: 90d",
    ] {
        accept(&format!(
            "name: t\nsteps: []\ncalendars: [{{id: night, timezone: UTC, hours: {{mon-fri: 22:00-06:00}}}}]\n\
             triggers: [{{id: x, type: schedule, {rule}}}]"
        ));
    }
}

#[test]
fn triggers_take_zone_and_calendar_from_the_definition() {
    let read = accept(REPORT);
    let declaration = read.declaration(&read.triggers[0]).unwrap();
    assert_eq!(declaration["timezone"], "America/New_York");
    assert_eq!(declaration["calendar"], "us-business");
    assert_eq!(read.declaration(&read.triggers[1]), None);
    let own = "name: t\ntimezone: UTC\ncalendar: US\nsteps: []\ntriggers: [{id: x, type: schedule, cron: daily, timezone: Asia/Tokyo, calendar: null}]";
    let own = accept(own);
    let declaration = own.declaration(&own.triggers[0]).unwrap();
    assert_eq!(declaration["timezone"], "Asia/Tokyo");
    assert!(declaration["calendar"].is_null());
}

#[test]
fn steps_come_in_the_order_of_the_text_where_they_can() {
    let text = "name: t\nsteps:\n- {id: d, type: noop, depends_on: [b, c]}\n- {id: z, type: noop}\n- {id: b, type: noop}\n- {id: c, type: noop, depends_on: b}\n- {id: a, type: noop}\n";
    let ids: Vec<String> = accept(text).steps.into_iter().map(|step| step.id).collect();
    assert_eq!(ids, ["z", "b", "c", "d", "a"]);
}

#[test]
fn a_shell_only_where_it_is_asked_for() {
    let text = "name: t\nsteps: [{id: a, type: exec, shell: true, command: \"ls | wc -l\"}]";
    let Action::Exec(exec) = &accept(text).steps[0].action else { panic!() };
    assert_eq!(exec.command, ["/bin/sh", "-c", "ls | wc -l"]);
}

#[test]
fn warnings_have_a_place() {
    let text = "name: t\ntimezone: Europe/Berlin\ntriggers:\n  - {id: x, type: schedule, cron: \"0 0 31 2 *\"}\n  - {id: y, type: schedule, cron: \"30 2 * * *\"}\nsteps: []\n";
    let read = accept(text);
    let found = with_context(|context| locate(warnings(&read, context), text));
    let printed: Vec<String> = found.iter().map(place).collect();
    insta::assert_snapshot!(printed.join("\n"), @r#"
    4:35 triggers[0].cron: never fires: no such time was found
        - {id: x, type: schedule, cron: "0 0 31 2 *"}
                                        ^^^^^^^^^^^^
    5:35 triggers[1].cron: 02:30 falls in a DST gap on 2026-03-29 (Berlin time): runs at 03:00, the first instant after the gap
        - {id: y, type: schedule, cron: "30 2 * * *"}
                                        ^^^^^^^^^^^^
    5:35 triggers[1].cron: 02:30 happens twice on 2026-10-25 (Berlin time): runs the first time only
        - {id: y, type: schedule, cron: "30 2 * * *"}
                                        ^^^^^^^^^^^^
    6:8 steps: there are no steps: a run ends as soon as it starts
      steps: []
             ^^
    "#);
}

#[test]
fn warnings_about_steps() {
    let text = "name: t\ntimeout: 1h\ndeadline: {within: 2h}\ntriggers: [{id: h, type: webhook}]\nsteps:\n  - {id: last, type: timer, delay: 2h, depends_on: first}\n  - {id: first, type: timer, until: 2025-01-01T09:00}\n  - {id: again, type: sub_process, workflow: t}\n  - {id: fine, type: timer, delay: 59m}\n  - {id: fine-too, type: timer, until: \"17:00\"}\n";
    let read = accept(text);
    let found = with_context(|context| locate(warnings(&read, context), text));
    let printed: Vec<String> = found.iter().map(place).collect();
    insta::assert_snapshot!(printed.join("\n"), @r#"
    4:26 triggers[0].type: calls are not signed: anyone who knows the address may start it
      triggers: [{id: h, type: webhook}]
                               ^^^^^^^
      try: secret: hook-key
    7:37 steps[1].until: this time is over: the timer does not wait
        - {id: first, type: timer, until: 2025-01-01T09:00}
                                          ^^^^^^^^^^^^^^^^
    8:46 steps[2].workflow: the workflow starts itself, again and again unless a condition ends it
        - {id: again, type: sub_process, workflow: t}
                                                   ^
    "#);
}

/// Commands are found wherever a definition allows them.
#[test]
fn commands_have_places() {
    let text = "name: t\nsteps:\n- {id: z, type: exec, command: [a], depends_on: b}\n- {id: b, type: noop, compensation: {type: exec, command: [a]}}\n- {id: c, type: for_each, items: [1], step: {type: exec, command: [a]}}\n- {id: d, type: noop}\n";
    let found = language::definition::commands(&accept(text), text);
    let mut places: Vec<(&str, u32)> =
        found.iter().map(|flaw| (flaw.path.as_str(), flaw.line)).collect();
    places.sort_unstable();
    let expected =
        [("steps[0].type", 3), ("steps[1].compensation.type", 4), ("steps[2].step.type", 5)];
    assert_eq!(places, expected);
}

#[test]
fn a_timer_that_waits_longer_than_a_timeout_is_told_what_limits_it() {
    let told = |delay: &str| {
        let text = format!(
            "name: t\ntriggers: [{{id: nine, type: schedule, cron: daily, timeout_seconds: 60}}]\n\
             steps: [{{id: wait, type: timer, delay: {delay}}}]"
        );
        let read = accept(&text);
        with_context(|context| language::definition::warnings(&read, context))
    };
    let warnings = told("2m");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(
        (warnings[0].path.as_str(), warnings[0].code),
        ("steps[wait].delay", "after-timeout")
    );
    assert_eq!(
        warnings[0].message,
        "the timer waits 2m; `timeout_seconds: 60` of the trigger nine does not end it, because it counts only while \
         something is performed"
    );
    assert!(told("59s").is_empty());
    assert!(told("2m, deadline: {within: 1h}").is_empty(), "a deadline counts while it waits");
    let text = "name: t\ntimeout: 5m\ntriggers: [{id: nine, type: schedule, cron: daily}]\n\
                steps: [{id: wait, type: timer, delay: 10m}]";
    let inherited = with_context(|context| language::definition::warnings(&accept(text), context));
    let message = &inherited[0].message;
    assert!(message.contains("`timeout: 5m` of the workflow does not end it"), "{message}");
}

#[test]
fn what_lies_in_the_past_is_told_as_its_catch_up_says() {
    let told = |catch_up: &str| {
        let text = format!(
            "name: t\ntriggers: [{{id: once, type: schedule, at: \"2020-01-01T09:00:00Z\"{catch_up}}}]\n\
             steps: [{{id: a, type: noop}}]"
        );
        let read = accept(&text);
        let told = with_context(|context| language::definition::warnings(&read, context));
        assert_eq!((told.len(), told[0].code), (1, "past"), "{told:?}");
        told[0].message.clone()
    };
    assert!(
        told("").ends_with("a new schedule runs it at once; one that has run it does not again")
    );
    assert!(told(", catch_up: none").ends_with("does not run it, because its catch_up is none"));
    let windowed = told(", catch_up: {policy: last, window: 1h}");
    assert!(windowed.ends_with("the window of its catch_up is 1h"), "{windowed}");
}

#[test]
fn a_region_that_has_no_zone_is_told_unless_somebody_wrote_one() {
    let told = |zone: &str| {
        let text = format!(
            "name: t\n{zone}triggers: [{{id: nine, type: schedule, cron: \"0 9 * * *\", calendar: JP}}]\n\
             steps: [{{id: a, type: noop}}]"
        );
        let read = accept(&text);
        let told = with_context(|context| language::definition::warnings(&read, context));
        told.into_iter().map(|told| told.message).collect::<Vec<_>>()
    };
    let expected = "the calendar JP has no zone of its own: 09:00 is UTC; write timezone";
    assert_eq!(told(""), [expected]);
    assert!(told("timezone: Asia/Tokyo\n").is_empty());
}

#[test]
fn a_calendar_that_never_works_is_told() {
    let read = accept("name: t\nsteps: []\ncalendars: [{id: never, timezone: UTC, hours: {}}]");
    let told = with_context(|context| language::definition::warnings(&read, context));
    assert!(told.iter().any(|told| told.code == "no-working-time"), "{told:?}");
}
