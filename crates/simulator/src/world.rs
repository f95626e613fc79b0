//! Random workflows and schedules of every kind.

use language::schedule::{Declared, read_written};

use crate::calendars;
use crate::clock::instant;
use crate::process::generate;
use crate::random::Random;

const ZONES: [&str; 6] = [
    "UTC",
    "America/New_York",
    "Europe/Berlin",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Pacific/Apia",
];
const REGIONS: [&str; 3] = ["US", "DE-BY", "JP"];
const ROLLS: [&str; 6] =
    ["skip", "next", "previous", "nearest", "modified_next", "modified_previous"];
const OVERLAPS: [&str; 6] = ["skip", "queue", "queue_all", "cancel", "allow", "error"];

/// How often schedules are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rhythm {
    /// The interval is minutes to hours.
    Quick,
    /// Hours to days, for long simulations.
    Slow,
}

/// The text of a definition. The version counts up with each save.
pub(crate) fn definition(random: &mut Random, name: &str, rhythm: Rhythm, now: i64) -> String {
    let mut text = format!("name: {name}\ntimeout: {}\n", random.pick(&["30s", "5m", "1h"]));
    if random.chance(400) {
        text.push_str(&format!("concurrency: {}\n", random.between(1, 3)));
    }
    if random.chance(200) {
        text.push_str(&format!("retention: {}h\n", random.pick(&[2, 20])));
    }
    if random.chance(300) {
        text.push_str("triggers:\n");
        for index in 0..random.between(1, 2) {
            let enabled = random.chance(800);
            let declared = options(random, rhythm, now);
            text.push_str(&format!(
                "  - {{id: t{index}, type: schedule, enabled: {enabled}{declared}}}\n"
            ));
        }
    }
    text.push_str(&incidents(random));
    text.push_str("steps:\n");
    for index in 0..random.between(1, 3) {
        let (tries, idempotent) = (random.between(1, 3), random.chance(800));
        let on_error = random.pick(&["fail_process", "fail_process", "skip_step"]);
        let after = match index {
            1.. if random.chance(700) => format!(", depends_on: s{}", index - 1),
            _ => String::new(),
        };
        text.push_str(&format!(
            "  - {{id: s{index}, type: noop, idempotent: {idempotent}, on_error: {on_error}, \
             retry: {{max: {tries}, delay: 5s}}{after}}}\n"
        ));
    }
    text
}

/// Who is notified of failures, in some definitions.
fn incidents(random: &mut Random) -> String {
    let mut text = String::new();
    for key in ["on_failure", "on_recovery"] {
        if random.chance(500) {
            let to = random.pick(&[
                "{notify: {webhook: 'https://example.com/'}}",
                "[{notify: [{email: a@example.com}, {slack: 'https://example.com/'}]}]",
                "[{notify: {email: a@example.com}}, {start: nobody}]",
                "[]",
            ]);
            text.push_str(&format!("{key}: {to}\n"));
        }
    }
    text
}

/// A schedule as a program would write it.
pub(crate) fn schedule(random: &mut Random, name: &str, rhythm: Rhythm, now: i64) -> Box<Declared> {
    let text = format!("{{\"name\": \"{name}\"{}}}", options(random, rhythm, now));
    match read_written(&text) {
        Ok(written) => written.declared,
        Err(mistakes) => {
            // A mistake in the generator: the schedule is not created.
            debug_assert!(false, "{text}: {mistakes:?}");
            Box::default()
        }
    }
}

/// The rule and all options, each with a comma before: valid as JSON, and as YAML in one line.
fn options(random: &mut Random, rhythm: Rhythm, now: i64) -> String {
    let mut text = rule(random, rhythm, now);
    text.push_str(&format!(", \"overlap\": \"{}\"", random.pick(&OVERLAPS)));
    if random.chance(300) {
        text.push_str(&format!(", \"queue_limit\": {}", random.between(1, 4)));
    }
    if random.chance(700) {
        text.push_str(&catch_up(random));
    }
    if random.chance(700) {
        text.push_str(&format!(", \"max_retries\": {}", random.between(0, 5)));
    }
    if random.chance(250) {
        text.push_str(&format!(", \"total_repeats\": {}", random.spread(1, 60)));
    }
    if random.chance(500) {
        text.push_str(&format!(", \"timeout_seconds\": {}", random.spread(5, 7_200)));
    }
    if random.chance(300) {
        let delay = random.pick(&["1s", "30s", "10m"]);
        text.push_str(&format!(", \"retry\": {{\"delay\": \"{delay}\", \"jitter\": 0.5}}"));
    }
    if random.chance(200) {
        text.push_str(", \"pause_on_failure\": true");
    }
    if random.chance(500) {
        text.push_str(&format!(", \"payload\": {}", generate::payload(random)));
    }
    if random.chance(200) {
        text.push_str(", \"on_failure\": [{\"notify\": {\"email\": \"b@example.com\"}}]");
    }
    if random.chance(150) {
        let hours = random.pick(&[1, 5, 30]);
        text.push_str(&format!(", \"retention\": \"{hours}h\""));
    }
    text
}

/// Only a rule, for edits.
pub(crate) fn rule(random: &mut Random, rhythm: Rhythm, now: i64) -> String {
    let zone = random.pick(&ZONES);
    let (minute, hour) = (random.below(60), random.below(24));
    let quick = rhythm == Rhythm::Quick;
    let seconds = if quick { random.spread(40, 20_000) } else { random.spread(3_600, 200_000) };
    let mut text = match random.below(10) {
        0 | 1 => format!(", \"interval_seconds\": {seconds}"),
        2 => format!(", \"interval_seconds\": {seconds}, \"from\": \"completion\""),
        3 if quick => {
            let cron = random.pick(&["*/5 * * * *", "*/15 * * * *", "0 * * * *", "*/7 1-5 * * *"]);
            format!(", \"cron\": \"{cron}\"")
        }
        3 | 4 => format!(", \"cron\": \"{minute} {hour} * * *\""),
        5 => format!(", \"cron\": \"{minute} */{} * * MON-FRI\"", random.between(2, 6)),
        6 => {
            let start =
                instant(now - 86_400_000 * random.between(0, 400)).strftime("%Y-%m-%dT09:30");
            let rrule = random.pick(&[
                "FREQ=HOURLY;INTERVAL=3",
                "FREQ=DAILY",
                "FREQ=WEEKLY;BYDAY=MO,WE,SA",
                "FREQ=MONTHLY;BYDAY=-1FR",
            ]);
            format!(", \"rrule\": \"{rrule}\", \"dtstart\": \"{start}\"")
        }
        7 => {
            let at = instant(now + 1_000 * random.between(-7_200, 172_800));
            format!(", \"at\": \"{}\"", at.strftime("%Y-%m-%dT%H:%M:%SZ"))
        }
        8 => format!(
            ", \"rules\": [{{\"cron\": \"{minute} {hour} * * *\"}}, {{\"interval\": \"{}h\"}}]",
            random.between(1, 9)
        ),
        _ => format!(", \"daily\": {{\"at\": \"{hour:02}:{minute:02}\"}}"),
    };
    text.push_str(&format!(", \"timezone\": \"{zone}\""));
    if random.chance(300) {
        let calendar =
            if random.chance(500) { random.pick(&calendars::NAMES) } else { random.pick(&REGIONS) };
        let roll = random.pick(&ROLLS);
        text.push_str(&format!(", \"calendar\": \"{calendar}\", \"roll\": \"{roll}\""));
    }
    if random.chance(200) {
        text.push_str(&format!(", \"spread\": \"{}m\"", random.between(1, 30)));
    }
    if random.chance(100) {
        let end = instant(now + 3_600_000 * random.between(12, 120));
        text.push_str(&format!(", \"end\": \"{}\"", end.strftime("%Y-%m-%dT%H:%M:%SZ")));
    }
    text
}

fn catch_up(random: &mut Random) -> String {
    let policy = random.pick(&["none", "last", "all"]);
    if random.chance(500) {
        return format!(", \"catch_up\": \"{policy}\"");
    }
    let mut text = format!(", \"catch_up\": {{\"policy\": \"{policy}\"");
    if random.chance(500) {
        text.push_str(&format!(", \"window\": \"{}m\"", random.spread(1, 600)));
    }
    if random.chance(500) {
        text.push_str(&format!(", \"limit\": {}", random.between(1, 20)));
    }
    if random.chance(500) {
        text.push_str(&format!(", \"pace\": \"1/{}s\"", random.spread(1, 300)));
    }
    text.push('}');
    text
}
