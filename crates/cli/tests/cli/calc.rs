//! Tests of `punctual calc` with malformed lines, and with one question at a time.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::json;

use crate::{calc, punctual};

const NINE: &str = r#"{"id":"a","kind":"cron_next","expr":"0 9 * * *","tz":"UTC","after":"2026-01-01T00:00:00Z","n":1}"#;

#[test]
fn a_wrong_line_is_answered_and_the_next_one_read() {
    let long = format!("{{\"kind\":\"{}\"}}", "x".repeat(2 << 20));
    let deep = "[".repeat(100_000);
    let lines = [
        "nonsense",
        "{}",
        r#"{"id":1,"kind":"cron_nxt"}"#,
        r#"{"id":[2],"kind":"cron_next","expr":"0 9 * *","tz":"UTC","after":"2026-01-01T00:00:00Z","n":1}"#,
        r#"{"id":3,"kind":"cron_next","expr":"0 9 * * *","tz":"Mars/Base","after":"2026-01-01T00:00:00Z","n":1}"#,
        r#"{"id":4,"kind":"cron_next","expr":"* * * * *","tz":"UTC","after":"2026-01-01T00:00:00Z","n":10000000}"#,
        r#"{"id":5,"kind":"cron_next","expr":"* * * * *","tz":"UTC","after":"yesterday","n":1}"#,
        r#"{"id":6,"kind":"interval_next","every":"0s","anchor":"2026-01-01T00:00:00Z","after":"2026-01-01T00:00:00Z","n":1}"#,
        r#"{"id":7,"kind":"work_minutes","start":"2026-01-01T00:00:00Z","minutes":5,"calendar":{"hours":{"mon":[["09:00","09:00"]]}}}"#,
        r#"{"id":8,"kind":"holidays","country":"XX","year":2026}"#,
        r#"{"id":9,"kind":"rrule","rrule":"FREQ=DAILY;COUNT=9223372036854775808","dtstart":"20260101T000000","n":5}"#,
        &long,
        &deep,
        "",
        NINE,
    ];
    let answers = calc(&(lines.join("\n") + "\n"));
    let codes: Vec<&str> =
        answers.iter().map(|a| a["error"]["code"].as_str().unwrap_or("none")).collect();
    assert_eq!(
        codes,
        [
            "json",
            "json",
            "kind",
            "cron-fields",
            "zone-unknown",
            "count",
            "instant",
            "interval-short",
            "hours",
            "calendar-unknown",
            "rrule-range",
            "line-length",
            "json",
            "none",
        ]
    );
    assert_eq!(answers[2]["error"]["remedy"], "cron_next");
    assert_eq!(answers[3]["id"], json!([2]));
    assert_eq!(answers.last().unwrap(), &json!({"id": "a", "result": ["2026-01-01T09:00:00Z"]}));
}

#[test]
fn a_last_line_without_an_end_is_answered() {
    assert_eq!(calc(NINE).len(), 1);
    assert_eq!(calc("").len(), 0);
}

#[test]
fn each_answer_comes_before_the_next_question() {
    let mut child = punctual()
        .arg("calc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut input = child.stdin.take().expect("piped");
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    for _ in 0..3 {
        writeln!(input, "{NINE}").expect("it listens");
        let mut answer = String::new();
        output.read_line(&mut answer).expect("it answers");
        assert!(answer.contains("2026-01-01T09:00:00Z"));
    }
    drop(input);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn daylight_saving_can_be_overridden() {
    let ask = |dst: &str| {
        let line = format!(
            r#"{{"kind":"cron_next","expr":"30 2 * * *","tz":"America/New_York","after":"2026-03-08T00:00:00Z","n":1,"dst":{dst}}}"#
        );
        calc(&line)[0]["result"][0].clone()
    };
    assert_eq!(ask("{}"), "2026-03-08T07:00:00Z");
    assert_eq!(ask(r#"{"gap":"skip"}"#), "2026-03-09T06:30:00Z");
}
