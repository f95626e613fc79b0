//! Runs the cron cases of other projects' test suites. Where we differ, the rule we follow is
//! named.

use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{calc, shared_vectors};

const GAP: &str = "a fixed time in a gap runs once, at the first instant after the gap";
const FOLD: &str = "a fixed time in a fold runs on the first pass only";
const OPEN_STEP: &str = "5/15 means 5-59/15";
const LAST_RANGE: &str = "L stands alone or as L-3, LW; it does not end a range";

/// Cases with another answer of ours, by their position in the other project's suite, with our
/// rule.
const DIFFERING: [(&str, &str); 17] = [
    ("cron/spec_test.go:114", GAP),
    ("cron/spec_test.go:133", GAP),
    ("cron/spec_test.go:137", FOLD),
    ("cron/spec_test.go:146", FOLD),
    ("cron/spec_test.go:164", FOLD),
    ("croner/test/stepping.test.ts:26", OPEN_STEP),
    ("croner/test/stepping.test.ts:101", OPEN_STEP),
    ("croner/test/strict-range-parsing.test.ts:48", OPEN_STEP),
    ("croner/test/strict-range-parsing.test.ts:58", OPEN_STEP),
    ("croner/test/strict-range-parsing.test.ts:68", OPEN_STEP),
    ("croner/test/strict-range-parsing.test.ts:78", OPEN_STEP),
    ("croner/test/strict-range-parsing.test.ts:88", OPEN_STEP),
    ("croner/test/strict-range-parsing.test.ts:98", OPEN_STEP),
    ("croner/test/strict-range-parsing.test.ts:108", OPEN_STEP),
    ("croner/test/strict-range-parsing.test.ts:118", OPEN_STEP),
    ("croner/test/strict-range-parsing.test.ts:216", OPEN_STEP),
    ("croniter/tests/test_croniter.py", LAST_RANGE),
];

/// Parses `Mon Jul 9 15:00 2012` (whose weekday is not always right) or `2012-03-11T00:00:00-0500`.
fn instant(text: &str) -> Timestamp {
    let text = text.split_once("TZ=America/New_York ").map_or(text, |(_, rest)| rest);
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        let zoned = jiff::fmt::strtime::parse("%Y-%m-%dT%H:%M:%S%z", text).expect("a time");
        return zoned.to_timestamp().expect("an instant");
    }
    let (_, rest) = text.split_once(' ').expect("a weekday");
    let wall = ["%b %d %H:%M %Y", "%b %d %H:%M:%S %Y"]
        .iter()
        .find_map(|form| DateTime::strptime(form, rest).ok())
        .expect("a time");
    wall.in_tz("UTC").map_or_else(|_| utc(wall), |zoned| zoned.timestamp())
}

fn utc(wall: DateTime) -> Timestamp {
    format!("{wall}Z").parse().expect("an instant")
}

/// Translates a case into a question for `calc` and the answer that the suite expects.
fn translated(row: &Value) -> (Value, Value) {
    let spec = row["spec"].as_str().expect("a spec");
    let ask = |expr: &str, tz: &str, after: Timestamp, n: u64| json!({"kind": "cron_next", "expr": expr, "tz": tz, "after": after, "n": n});
    match row["kind"].as_str().expect("a kind") {
        "suite_cron_reject" => (json!({"kind": "cron_syntax", "expr": spec}), json!("reject")),
        "suite_cron_active" => {
            let time = instant(row["time"].as_str().expect("a time"));
            (ask(spec, "UTC", time - SignedDuration::from_secs(1), 1), json!([time]))
        }
        "suite_cron_next" => {
            let time = row["time"].as_str().expect("a time");
            // The suite writes the zone before the expression; `calc` takes it as a field.
            let (zone, expr) =
                match spec.split_once("TZ=").and_then(|(_, rest)| rest.split_once(' ')) {
                    Some((zone, expr)) => (zone, expr),
                    None if time.contains("TZ=") => ("America/New_York", spec),
                    None if time.ends_with("+0530") => ("Asia/Kolkata", spec),
                    None => ("UTC", spec),
                };
            let expected = row["expected"].as_str().filter(|text| !text.is_empty()).map(instant);
            (ask(expr, zone, instant(time), 1), json!(Vec::from_iter(expected)))
        }
        other => panic!("{other}"),
    }
}

/// The case expects only some fields of some occurrences; the others are not compared.
fn fields_agree(row: &Value, answer: &Value) -> bool {
    row["expected"].as_object().expect("an object").iter().all(|(n, fields)| {
        let n: usize = n.parse().expect("a number");
        let Some(at) = answer["result"][n - 1].as_str() else { return false };
        let wall: DateTime = at.trim_end_matches('Z').parse().expect("a time");
        fields.as_object().expect("an object").iter().all(|(field, value)| match field.as_str() {
            "month" => value.as_i64() == Some(wall.month().into()),
            "day" => value.as_i64() == Some(wall.day().into()),
            "hour" => value.as_i64() == Some(wall.hour().into()),
            "minute" => value.as_i64() == Some(wall.minute().into()),
            "tzinfo" => value.is_null(),
            other => panic!("{other}"),
        })
    })
}

fn agrees(row: &Value) -> bool {
    if row["kind"] == "suite_cron_fields" {
        let base = utc(row["base"].as_str().expect("a time").parse().expect("a time"));
        let question =
            json!({"kind": "cron_next", "expr": row["spec"], "tz": "UTC", "after": base, "n": 9});
        return fields_agree(row, &calc(&question.to_string())[0]);
    }
    let (question, expected) = translated(row);
    let answer = &calc(&question.to_string())[0];
    let active = row["expected"] != json!(false);
    (answer["result"] == expected) == active
}

#[test]
fn cron_cases_of_robfig_croner_and_croniter() {
    let Some(folder) = shared_vectors() else { return };
    let text = std::fs::read_to_string(folder.join("peer_suites.jsonl")).expect("the file");
    let mut unexpected = Vec::new();
    for line in text.lines().filter(|line| line.contains("\"suite_cron_")) {
        let row: Value = serde_json::from_str(line).expect("JSON");
        let place = row["at"].as_str().expect("a place");
        let rule = DIFFERING.iter().find(|(at, _)| place.starts_with(at));
        let rule = rule.filter(|(_, rule)| *rule != LAST_RANGE || line.contains("29-L"));
        if agrees(&row) == rule.is_some() {
            unexpected.push(format!("{line} ({rule:?})"));
        }
    }
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
}
