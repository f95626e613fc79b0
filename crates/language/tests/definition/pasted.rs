//! The examples in the design documents are accepted unchanged, because people paste them.

use language::definition::{Action, Timer, TriggerKind, read_script};
use serde_json::json;

use crate::{accept, refuse, with_context};

#[test]
fn presets_as_cron() {
    for preset in ["daily", "hourly", "weekly", "monthly", "every_5min", "every_15min"] {
        accept(&format!(
            "name: t\nsteps: []\ntriggers:\n  - id: daily-check\n    type: schedule\n    \
             cron: {preset}           # Uses preset\n    timezone: UTC\n"
        ));
    }
    for unknown in ["every_10min", "fortnightly", "'@every_hour'"] {
        let text =
            format!("name: t\nsteps: []\ntriggers: [{{id: a, type: schedule, cron: {unknown}}}]");
        let flaws = refuse(&text);
        assert_eq!(flaws[0].code, "cron-preset", "{unknown}");
        let allowed = flaws[0].allowed.as_deref().unwrap_or_default();
        assert!(
            allowed.contains("daily") && allowed.contains("every_15min"),
            "{unknown}: {allowed}"
        );
    }
}

#[test]
fn steps_with_a_timer_between_them() {
    accept(
        "name: t\nsteps:\n  - id: start-task\n    type: agent_task\n    agent: task-agent\n    message: Start the task\n\n  \
         - id: wait-5min\n    type: timer\n    delay: 5m\n    depends_on: [start-task]\n\n  - id: check-result\n    \
         type: agent_task\n    agent: check-agent\n    message: Check if task completed\n    depends_on: [wait-5min]\n",
    );
    let read =
        accept("name: t\nsteps: [{id: wait, type: timer}, {id: also, type: timer, delay: 60}]");
    let delays: Vec<&Timer> = read
        .steps
        .iter()
        .filter_map(|step| match &step.action {
            Action::Timer(timer) => Some(timer),
            _ => None,
        })
        .collect();
    assert_eq!(delays[0], delays[1], "a minute if nothing is said");
}

#[test]
fn a_pattern_with_its_expression() {
    let text =
        |rule: &str| format!("name: t\nsteps: []\ntriggers: [{{id: a, type: schedule, {rule}}}]");
    let read = accept(&text(
        r#"pattern: CRON, expression: "0 9 * * MON-FRI", calendar: US, result: Every working day at 9 AM"#,
    ));
    let TriggerKind::Schedule { .. } = &read.triggers[0].kind else { panic!("{read:?}") };
    for good in [
        "pattern: DAILY",
        "pattern: weekly",
        "pattern: INTERVAL, interval: 5m",
        "pattern: cron, cron: '0 9 * * *'",
        "pattern: MONTHLY, monthly: {day: 1, at: '09:00'}",
    ] {
        accept(&text(good));
    }
    for (bad, path) in [
        ("pattern: CRON", "triggers[0].pattern"),
        ("pattern: SOMETIMES", "triggers[0].pattern"),
        ("pattern: DAILY, expression: '0 9 * * *'", "triggers[0].pattern"),
        ("pattern: CRON, expression: '0 25 * * *'", "triggers[0]"),
    ] {
        let flaws = refuse(&text(bad));
        assert!(flaws[0].path.starts_with(path), "{bad}: {flaws:?}");
    }
}

#[test]
fn policies_in_upper_case() {
    for policy in ["SKIP", "QUEUE", "ERROR", "Queue_All", "allow"] {
        accept(&format!(
            "name: t\nsteps: []\ntriggers: [{{id: a, type: schedule, cron: daily, calendar: US, \
             overlap: {policy}, catch_up: LAST, roll: NEXT}}]"
        ));
    }
    let flaws = refuse(
        "name: t\nsteps: []\ntriggers: [{id: a, type: schedule, cron: daily, overlap: SKIPP}]",
    );
    assert_eq!(flaws[0].remedy.as_deref(), Some("skip"));
    for keys in [
        "cron: daily, dst: {gap: SKIP, fold: BOTH}",
        "cron: daily, calendar: US, fit: HOURS",
        "interval: 5m, from: COMPLETION",
    ] {
        accept(&format!("name: t\nsteps: []\ntriggers: [{{id: a, type: schedule, {keys}}}]"));
    }
    accept("name: t\nsteps: []\ndeadline: {within: 2h, from: STARTED}");
}

#[test]
fn a_wrong_word_is_pointed_at_where_it_is_written() {
    let flaws = refuse(
        "name: t\nsteps: []\ntriggers:\n  - {id: a, type: schedule, cron: daily, \
         dst: {gap: shift, fold: wrong}}",
    );
    let [flaw] = &flaws[..] else { panic!("{flaws:?}") };
    assert_eq!((flaw.path.as_str(), flaw.line), ("triggers[0].dst.fold", 4), "{flaw:?}");
    let (line, mark) = flaw.excerpt.as_ref().unwrap();
    assert_eq!(&line[mark.clone()], "wrong");
}

#[test]
fn producers_that_do_not_say_what_they_publish() {
    let source = "export default workflow({ name: \"poll\", producers: {\n  pollEmail: {\n    \
                  schedule: { interval: \"5m\" },  // or { cron: \"*/5 * * * *\" }\n    \
                  handler: async (ctx, state) => { }\n  }\n} })";
    let described = json!({"name": "poll", "producers": {"pollEmail": {
        "schedule": {"interval": "5m"}, "handler": {"function": true, "line": 4, "column": 14},
    }}});
    let (read, warnings) = with_context(|context| {
        let read =
            read_script(source, &described, context).unwrap_or_else(|flaws| panic!("{flaws:?}"));
        let warnings = language::definition::warnings(&read, context);
        (read, warnings)
    });
    assert!(read.producers[0].publishes.is_empty());
    assert!(warnings.iter().any(|told| told.code == "publishes-nothing"), "{warnings:?}");
}
