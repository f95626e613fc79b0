//! Rules that take long to search, or that have no occurrence: every query ends.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use calendar::{Timing, Zones};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::some_calendar;
use super::some_timing::{self, ROLLS};
use super::walked_clock;

const CRONS: [&str; 20] = [
    "0 0 31 2 *",
    "0 0 30 2 +MON",
    "0 0 29 2 *",
    "0 0 29 2 +MON",
    "0 0 31W 2 *",
    "0 0 L-30 2,4 *",
    "0 0 0 29 2 ? 9996",
    "0 0 0 29 2 ? 2025-9999/4",
    "0 0 0 29 2 ? 2100,2200,2300",
    "0 0 0 1 1 ? 1970",
    "* * * * *",
    "* * * * * *",
    "*/7 */7 */7 * * *",
    "59 59 23 31 12 *",
    "0 9 * * SUN",
    "0 9 * * SUN#5",
    "30 2 * * *",
    "0 0 1 1 *",
    "0 12 25 12 *",
    "*/10 * * * SAT,SUN",
];

fn rules() -> Vec<Value> {
    let mut rules: Vec<Value> = CRONS.iter().map(|cron| json!({"cron": cron})).collect();
    rules.extend([
        json!({"interval": "100ms", "anchor": "2026-01-01T00:00:00Z"}),
        json!({"interval": "365000d", "anchor": "0001-01-01T00:00:00Z"}),
        json!({"at": "2026-03-01T09:00"}),
        json!({"at": "9998-01-01T00:00:00Z"}),
        json!({"monthly": {"day": ["31", "last", "5th MON"], "at": ["09:00", "02:30"]}}),
        json!({"rules": CRONS.map(|cron| json!({"cron": cron}))}),
    ]);
    rules
}

/// Rules that are not too dense, because a search with a calendar visits every occurrence in turn.
fn rules_of_some_density() -> Vec<Value> {
    let dense = |rule: &Value| rule["interval"] == "1ms" || !rule["rules"].is_null();
    rules().into_iter().filter(|rule| !dense(rule)).collect()
}

fn calendars() -> Vec<(&'static str, Value)> {
    let never: Value = json!({"hours": {"mon-sun": []}});
    let once_in_a_while = json!({
        "hours": {"mon-sun": []}, "exceptions": [{"date": "2031-06-18", "working": true}],
    });
    let long_closure = json!({
        "holidays": [{"from": "2026-01-01", "to": "2029-12-31", "name": "closed"}],
    });
    let nights = json!({"hours": {"mon-fri": ["22:00-06:00"], "sun": ["00:00-24:00"]}});
    let splinter = |n: u32| {
        let (hour, minute) = (n / 2, n % 2 * 30);
        format!("{hour:02}:{minute:02}-{hour:02}:{:02}", minute + 5)
    };
    let splinters: Vec<String> = (0..47).map(splinter).collect();
    let split = json!({"hours": {"mon-sun": splinters}});
    let usual = json!({"hours": {"mon-fri": "09:00-17:00"}, "holidays": [{"country": "US"}]});
    vec![
        ("never open", never),
        ("one day in 2031", once_in_a_while),
        ("closed for years", long_closure),
        ("nights", nights),
        ("47 shifts a day", split),
        ("usual", usual),
    ]
}

/// The slowest calls of each kind, in a report that is shown only with `--nocapture`.
#[derive(Default)]
struct Slowest(BTreeMap<String, Vec<(Duration, String)>>);

impl Slowest {
    #[allow(clippy::disallowed_methods, reason = "it is the clock that is measured here")]
    fn time<T>(&mut self, kind: String, subject: &str, call: impl Fn() -> T) {
        let start = std::time::Instant::now();
        black_box(call());
        self.0.entry(kind).or_default().push((start.elapsed(), subject.to_owned()));
    }

    #[allow(clippy::print_stdout, reason = "a report for people")]
    fn report(mut self) {
        for (kind, calls) in &mut self.0 {
            calls.sort_by(|a, b| b.cmp(a));
            let slow = calls.iter().filter(|(took, _)| *took > Duration::from_millis(1)).count();
            println!("{kind}: {slow} of {} calls took more than 1 ms", calls.len());
            for (took, subject) in calls.iter().take(3) {
                println!("{took:>12.1?}  {subject:.200}");
            }
        }
    }
}

fn ask(slowest: &mut Slowest, on: &str, timing: &Timing, subject: &str, at: Timestamp) {
    slowest.time(format!("next_after, {on}"), subject, || timing.next_after(at));
    slowest.time(format!("previous_before, {on}"), subject, || timing.previous_before(at));
}

#[test]
fn every_question_is_answered() {
    let zones = Zones::bundled();
    let walk = &walked_clock::minutes()[1];
    assert_eq!(walk.zone, "America/New_York");
    let times = ["2026-03-01T00:00Z", "2026-03-08T06:59:59.5Z", "2099-12-31T23:59Z"].map(super::at);
    let mut slowest = Slowest::default();
    for mut rule in rules() {
        rule["timezone"] = json!(walk.zone);
        let timing = some_timing::build(&zones, times[0], None, &rule);
        let subject = rule.to_string();
        times.iter().for_each(|at| ask(&mut slowest, "no calendar", &timing, &subject, *at));
        slowest.time("warnings".into(), &subject, || timing.warnings(times[0]));
    }
    for (name, declaration) in calendars() {
        let calendar = some_calendar::build(&zones, walk, "cal", &declaration);
        // The holidays are computed once, before anything is measured.
        calendar.between(super::at("1900-01-02T00:00Z"), super::at("1999-01-01T00:00Z"));
        calendar.between(super::at("1999-01-01T00:00Z"), super::at("2098-01-01T00:00Z"));
        for (rule, roll) in
            rules_of_some_density().iter().flat_map(|rule| ROLLS.map(|roll| (rule, roll)))
        {
            let mut spec = rule.clone();
            spec["timezone"] = json!(walk.zone);
            spec["calendar"] = json!("cal");
            spec["roll"] = json!(roll);
            for fit in [Value::Null, json!("hours")] {
                spec["fit"] = fit;
                let timing = some_timing::build(&zones, times[0], Some(&calendar), &spec);
                ask(&mut slowest, name, &timing, &spec.to_string(), times[1]);
            }
        }
        for hours in [-8_000_000, -8, 8, 8_000_000] {
            let duration = SignedDuration::from_hours(hours);
            let subject = format!("{hours} h");
            slowest.time(format!("add_time, {name}"), &subject, || {
                calendar.add_time(times[1], duration)
            });
        }
        slowest.time("between".into(), name, || calendar.between(times[1], times[2]));
    }
    slowest.report();
}
