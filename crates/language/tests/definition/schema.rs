//! The schema and the examples in the documentation agree with the reader.

use std::collections::BTreeSet;

use language::definition::{schedule_schema, schema};
use serde_json::{Value, json};

use crate::{accept, refuse};

const GUIDE: &str = include_str!("../../../../docs/definitions.md");
const README: &str = include_str!("../../../../README.md");

/// The examples in a document that are definitions, or parts of definitions made complete.
fn examples(document: &str) -> Vec<String> {
    let blocks = document.split("```yaml\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap_or_default());
    let has = |block: &str, key: &str| block.lines().any(|line| line.starts_with(key));
    let parts = ["name:", "steps:", "triggers:"];
    blocks
        .filter(|block| parts.iter().any(|part| has(block, part)))
        .map(|block| {
            let name = if has(block, "name:") { "" } else { "name: example\n" };
            let steps = if has(block, "steps:") { "" } else { "steps: []\n" };
            format!("{name}{block}{steps}")
        })
        .collect()
}

/// The YAML text as JSON, which is what the schema describes. Only numbers differ from the texts.
fn as_json(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

#[track_caller]
fn check(text: &str, valid: bool) {
    let validator = jsonschema::draft202012::new(&schema()).expect("a schema");
    let value = as_json(text);
    let errors: Vec<String> = validator
        .iter_errors(&value)
        .map(|error| format!("{} at {}", error, error.instance_path()))
        .collect();
    assert_eq!(errors.is_empty(), valid, "{text}\n{errors:#?}");
}

#[test]
fn the_schema_is_one() {
    assert!(jsonschema::meta::is_valid(&schema()));
}

#[test]
fn examples_are_right() {
    let mut seen = 0;
    for text in [GUIDE, README].into_iter().flat_map(examples) {
        accept(&text);
        check(&text, true);
        seen += 1;
    }
    assert!(seen >= 15, "{seen} examples");
    let whole = [crate::accepted::REPORT, crate::processes::INVOICE, crate::handlers::ORDERS];
    for text in whole {
        check(text, true);
    }
}

#[test]
fn what_is_wrong_is_wrong_for_both() {
    for text in [
        "steps: []",
        "name: t",
        "name: T\nsteps: []",
        "name: t\nstep: []",
        "name: t\nsteps: {}",
        "name: t\nsteps: [{id: a}]",
        "name: t\nsteps: [{id: a, type: nop}]",
        "name: t\nsteps: [{id: a b, type: noop}]",
        "name: t\nsteps: [{id: a, type: noop, url: x}]",
        "name: t\nsteps: [{id: a, type: http}]",
        "name: t\nsteps: [{id: a, type: http, url: http://x, method: FETCH}]",
        "name: t\nsteps: [{id: a, type: timer, delay: 5m, timeout: 1m}]",
        "name: t\nsteps: [{id: a, type: noop, retry: {max: 0}}]",
        "name: t\nsteps: [{id: a, type: noop, on_error: {goto: b}}]",
        "name: t\nsteps: [{id: a, type: noop, compensation: {type: timer, delay: 5m}}]",
        "name: t\nsteps: [{id: a, type: noop, deadline: {within: 0}}]",
        "name: t\nsteps: [{id: a, type: notification, to: {fax: x}, message: x}]",
        "name: t\nsteps: [{id: a, type: for_each, items: [1], step: {type: noop, id: b}}]",
        "name: t\nsteps: []\ntriggers: [{id: a, type: shedule}]",
        "name: t\nsteps: []\ntriggers: [{id: a, type: schedule, crno: daily}]",
        "name: t\nsteps: []\ntriggers: [{id: a, type: schedule, cron: daily, overlap: maybe}]",
        "name: t\nsteps: []\noutputs: [{name: a}]",
        "name: t\nsteps: [{id: a, type: script}]",
        "name: t\nsteps: [{id: a, type: publish}]",
        "name: t\ntopics: [a]\nsteps: [{id: a, type: wait_for, topic: a, for: 1h}]",
        "name: t\ntopics: [a b]\nsteps: []",
        "name: t\ntopics: [{name: a, max_attempts: 0}]\nsteps: []",
        "name: t\nsecrets: A\nsteps: []",
        "name: t\nproducers: []",
        "name: t\ntopics: {a: {external: true}}\nproducers: {p: {publishes: a, handler: x}}",
        "name: t\ntopics: [a]\nconsumers: {c: {subscribe: a, prepare: {type: timer, delay: 5m}}}",
        "name: t\ntopics: [a]\nconsumers: {1c: {subscribe: a, prepare: x}}",
    ] {
        refuse(text);
        check(text, false);
    }
}

/// A key that nobody would write, and that is near to none, so that the reader lists all keys it
/// knows.
const NOBODY: &str = "qqqqqqqqqqqqqqqqqqqq";

#[track_caller]
fn same_keys(text: &str, def: &str) {
    let flaws = refuse(&text.replace("NOBODY", &format!("{NOBODY}: 1")));
    let flaw = flaws.iter().find(|flaw| flaw.message.contains(NOBODY)).expect(text);
    let allowed = flaw.allowed.as_deref().unwrap_or_default();
    let mut read: BTreeSet<&str> = allowed.split(", ").collect();
    let schema = schema();
    let properties = match def {
        "" => &schema["properties"],
        def => &schema["$defs"][def]["properties"],
    };
    let known: BTreeSet<&str> =
        properties.as_object().expect(def).keys().map(String::as_str).collect();
    // The reader knows `timeout` for every step, to explain why a step that waits has none.
    if ["timer_step", "human_approval_step", "gateway_step", "publish_step"].contains(&def) {
        read.remove("timeout");
    }
    assert_eq!(read, known, "{def}");
    let described = |value: &Value| value["description"].as_str().is_some_and(|d| !d.is_empty());
    assert!(properties.as_object().expect(def).values().all(described), "{def}");
}

#[test]
fn the_schema_has_the_keys_of_the_reader() {
    same_keys("name: t\nsteps: []\nNOBODY", "");
    for kind in schema()["$defs"]["step"]["properties"]["type"]["enum"].as_array().unwrap() {
        let kind = kind.as_str().unwrap();
        same_keys(
            &format!("name: t\nsteps: [{{id: a, type: {kind}, NOBODY}}]"),
            &format!("{kind}_step"),
        );
    }
    for kind in ["http", "exec", "script", "worker", "agent_task", "notification", "noop"] {
        let text = format!(
            "name: t\nsteps: [{{id: a, type: noop, compensation: {{type: {kind}, NOBODY}}}}]"
        );
        same_keys(&text, &format!("{kind}_compensation"));
    }
    for kind in schema()["$defs"]["item_step"]["properties"]["type"]["enum"].as_array().unwrap() {
        let kind = kind.as_str().unwrap();
        let text = format!(
            "name: t\nsteps: [{{id: a, type: for_each, items: [], step: {{type: {kind}, NOBODY}}}}]"
        );
        same_keys(&text, &format!("{kind}_item"));
    }
    for kind in ["schedule", "webhook", "event", "manual"] {
        let text = format!("name: t\nsteps: []\ntriggers: [{{id: a, type: {kind}, NOBODY}}]");
        same_keys(&text, &format!("{kind}_trigger"));
    }
    for (keys, def) in [
        ("retry: {NOBODY}", "retry"),
        ("on_error: {NOBODY}", "jump"),
        ("deadline: {NOBODY}", "deadline"),
        ("deadline: {within: 1h, actions: [{NOBODY}]}", "deadline_action"),
        ("deadline: {within: 1h, actions: [{at: 80%, notify: {NOBODY}}]}", "channel"),
    ] {
        same_keys(&format!("name: t\nsteps: [{{id: a, type: noop, {keys}}}]"), def);
    }
    same_keys("name: t\nsteps: [{id: a, type: gateway, routes: [{NOBODY}]}]", "route");
    same_keys("name: t\nsteps: []\noutputs: [{NOBODY}]", "output");
    same_keys("name: t\nsteps: []\ntopics: [{NOBODY}]", "topic_entry");
    same_keys("name: t\nsteps: []\ntopics: {a: {NOBODY}}", "topic_options");
    same_keys("name: t\nproducers: {a: {NOBODY}}", "producer");
    same_keys("name: t\nproducers: {a: {schedule: {NOBODY}}}", "producer_schedule");
    same_keys("name: t\nproducers: {a: {handler: {script: x, NOBODY}}}", "phase_script");
    same_keys("name: t\nconsumers: {a: {NOBODY}}", "consumer");
    same_keys("name: t\nsteps: []\ncalendars: [{id: a, timezone: UTC, NOBODY}]", "calendar");
}

/// The guide mentions every key.
#[test]
fn the_guide_has_every_key() {
    let schema = schema();
    let defs = schema["$defs"].as_object().unwrap().values().chain([&schema]);
    let keys: BTreeSet<&str> = defs
        .filter_map(|def| def["properties"].as_object())
        .flat_map(|properties| properties.keys().map(String::as_str))
        .collect();
    assert!(keys.len() > 100, "{}", keys.len());
    for key in keys {
        let said = |around: [&str; 2]| GUIDE.contains(&format!("{}{key}{}", around[0], around[1]));
        let forms = [
            ["`", "`"],
            ["`", ":"],
            [" ", ":"],
            ["\n", ":"],
            ["{ ", ":"],
            ["or ", ";"],
            ["or ", ","],
            [" ", ","],
        ];
        assert!(forms.into_iter().any(said), "{key} is not in docs/definitions.md");
    }
    assert_eq!(schema["$schema"], json!("https://json-schema.org/draft/2020-12/schema"));
}

/// For single keys, the API's schema of a schedule agrees with the reader.
#[test]
fn a_schedule_in_the_api_is_as_its_schema_says() {
    let validator = jsonschema::draft202012::new(&schedule_schema()).expect("a schema");
    for (text, expected) in [
        (r#"{"name": "n", "cron": "@daily"}"#, true),
        (r#"{"name": null}"#, false),
        (r#"{"cron": 5}"#, false),
        (
            r#"{"cron": null, "timezone": null, "overlap": null, "retry": null, "rules": null}"#,
            true,
        ),
        (
            r#"{"overlap": "queue_all", "roll": "nearest", "fit": "hours", "from": "completion"}"#,
            true,
        ),
        (r#"{"overlap": "sometimes"}"#, false),
        (r#"{"roll": "sometimes"}"#, false),
        (r#"{"interval": "5m", "spread": "1m", "retention": "7d"}"#, true),
        (r#"{"interval": 300}"#, false),
        (r#"{"every": 300}"#, false),
        (r#"{"interval_seconds": 300}"#, true),
        (r#"{"interval_seconds": "300"}"#, false),
        (r#"{"retry": {"delay": "5s", "max_delay": "1m", "jitter": 0.5}}"#, true),
        (r#"{"retry": {"delay": 5}}"#, false),
        (r#"{"retry": {"dealy": "5s"}}"#, false),
        (r#"{"catch_up": "all"}"#, true),
        (r#"{"catch_up": {"policy": "all", "window": "1d", "limit": 5, "pace": "1/10s"}}"#, true),
        (r#"{"catch_up": {"polciy": "all"}}"#, false),
        (r#"{"daily": {"at": "09:00", "days": ["MON", "WED"]}}"#, true),
        (r#"{"daily": {"days": "MON"}}"#, false),
        (r#"{"weekly": {"on": "MON", "at": ["09:00", "17:00"]}}"#, true),
        (r#"{"monthly": {"day": [1, "last"], "at": "09:00"}}"#, true),
        (r#"{"yearly": {"working_day": -1, "at": "09:00"}}"#, true),
        (r#"{"rules": [{"cron": "@daily"}, {"interval": "5m"}]}"#, true),
        (r#"{"rules": [{"corn": "@daily"}]}"#, false),
        (r#"{"dst": {"gap": "skip", "fold": "both"}}"#, true),
        (r#"{"dst": {"gap": "maybe"}}"#, false),
        (r#"{"workflow_id": 7, "owner": "o", "trigger_payload": [1]}"#, true),
        (r#"{"workflow_id": [7]}"#, false),
        (r#"{"max_retries": -1}"#, false),
        (r#"{"total_repeats": 1.5}"#, false),
        (r#"{"pause_on_failure": "yes"}"#, false),
        (r#"{"overlpa": "skip"}"#, false),
    ] {
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(validator.is_valid(&value), expected, "the schema: {text}");
        assert_eq!(language::schedule::read_written(text).is_ok(), expected, "the reader: {text}");
    }
}
