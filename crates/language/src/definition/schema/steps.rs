//! The keys of steps, by their type.

use serde_json::{Map, Value, json};

use super::keys::{
    CONDITION, DURATION, ID, Key, NAME, Shape, TEMPLATE, TIME_SPAN, TO, TOPIC, may, must,
};
use super::{by_type, object};
use crate::definition::handlers::phase;
use crate::definition::limits;
use crate::definition::steps::{EACH, PERFORMED, TYPES};

const ON_ERROR: Shape = Shape::Either(&[
    Shape::Choice("What happens when a step has failed", &["fail_process", "skip_step"]),
    Shape::Is("jump"),
    Shape::Text,
]);

/// The keys that all steps have.
const COMMON: &[Key] = &[
    must("id", ID, "Unique in the workflow"),
    may("name", Shape::Line, "What it is called, for people"),
    may("depends_on", Shape::OneOrMany(&ID), "Steps that have ended before this one begins"),
    may("condition", CONDITION, "Whether it runs; if not, it is skipped"),
    may("retry", Shape::Is("retry"), "How often it is tried"),
    may("on_error", ON_ERROR, "fail_process (the default), skip_step, or { goto_step: id }"),
    may("idempotent", Shape::Bool, "Whether doing it twice is harmless; true if left out"),
    may("compensation", Shape::Is("compensation"), "What undoes it if the run does not succeed"),
    may("deadline", Shape::Is("deadline"), "When it is to be done"),
];

const TIMEOUT: Key = may("timeout", DURATION, "How long one attempt may take; 5m if left out");

const HTTP: &[Key] = &[
    may(
        "method",
        Shape::Choice(
            "A method of HTTP",
            &["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"],
        ),
        "GET if left out",
    ),
    must("url", TEMPLATE, "http:// or https://"),
    may("headers", Shape::Texts, "Names and values, as sent; values may hold templates"),
    may("body", Shape::Any, "A text as it is, anything else as JSON; may hold templates"),
    may("expect", Shape::OneOrMany(&Shape::Whole(100, 599)), "Statuses that are a success"),
    may("redirects", Shape::Whole(0, limits::REDIRECTS), "How many are followed; none if left out"),
    may("max_bytes", Shape::Whole(1, limits::PAYLOAD_BYTES as u64), "The most bytes of an answer"),
];

const EXEC: &[Key] = &[
    must(
        "command",
        Shape::Either(&[Shape::List(&TEMPLATE), TEMPLATE]),
        "The program and its arguments; one text with shell: true",
    ),
    may("shell", Shape::Bool, "Whether the command is one text for a shell"),
    may("env", Shape::Texts, "Variables; values may hold templates"),
    may("cwd", TEMPLATE, "Where it runs"),
    may("stdin", TEMPLATE, "What it reads; the run's input as JSON if left out"),
    may(
        "max_output",
        Shape::Whole(1, limits::PAYLOAD_BYTES as u64),
        "Bytes of output that are kept",
    ),
];

const SCRIPT: &[Key] = &[
    may("script", Shape::Text, "The body of an async function of ctx, input and steps"),
    may("source", Shape::Text, "The same as script"),
];

const PUBLISH: &[Key] = &[
    must("topic", TOPIC, "To which topic"),
    may("message_id", TEMPLATE, "What tells it from others in its topic; the step if left out"),
    may("title", TEMPLATE, "In a line"),
    may("payload", Shape::Any, "What it says; the run's payload if left out; may hold templates"),
];

const WAIT_FOR: &[Key] = &[
    must("topic", TOPIC, "An event on this topic"),
    may("condition", CONDITION, "Which event it is: an expression over event; any if left out"),
    may("within", TIME_SPAN, "The step fails if none has come in so long"),
    may("timeout", TIME_SPAN, "The same as within"),
];

const WORKER: &[Key] = &[
    must("queue", Shape::Text, "Who takes it"),
    may("input", Shape::Any, "What it works on; the run's input if left out; may hold templates"),
];

const AGENT_TASK: &[Key] = &[
    must("agent", Shape::Text, "Which agent"),
    must("message", TEMPLATE, "What it is asked"),
    may("model", Shape::Line, "With which model"),
    may("temperature", Shape::Number(0.0, 2.0), "How freely"),
];

const TIMER: &[Key] = &[
    may("delay", TIME_SPAN, "How long it waits; may be a template"),
    may("until", TEMPLATE, "What it waits for: 2026-03-01T09:00, 17:00, or a template"),
];

const HUMAN_APPROVAL: &[Key] = &[
    must("title", TEMPLATE, "What is asked, in a line"),
    may("description", TEMPLATE, "In full"),
    may("assignees", Shape::OneOrMany(&TEMPLATE), "Who may decide; anyone who may, if left out"),
];

const GATEWAY: &[Key] = &[
    may(
        "kind",
        Shape::Choice("How many routes are taken", &["exclusive", "parallel", "inclusive"]),
        "The first whose condition holds (exclusive, the default), all, or all whose conditions hold",
    ),
    must("routes", Shape::List(&Shape::Is("route")), "In the order in which they are tried"),
    may("default_route", ID, "The target if no condition holds"),
];

const NOTIFICATION: &[Key] = &[
    must("to", TO, "Whom, and how"),
    may("subject", TEMPLATE, "In a line"),
    must("message", TEMPLATE, "What"),
    may(
        "data",
        Shape::Any,
        "JSON that a webhook receives beside the message; its strings may be templates",
    ),
];

const SUB_PROCESS: &[Key] = &[
    must("workflow", NAME, "Its name"),
    may("input_mapping", Shape::Mapping, "Its payload, key by key; this run's if left out"),
    may("output_key", ID, "The step's output holds the child's under this key"),
    may("wait_for_completion", Shape::Bool, "Whether the step ends with the child; true"),
    may("timeout", DURATION, "How long it may take; no limit if left out"),
];

const FOR_EACH: &[Key] = &[
    must("items", Shape::Either(&[Shape::List(&Shape::Any), TEMPLATE]), "A list, or a template"),
    may(
        "max_parallel",
        Shape::Whole(1, limits::CONCURRENCY),
        "How many at a time; 100 if left out",
    ),
    must("step", Shape::Is("item_step"), "What is done with each; item and index are known"),
];

/// The keys that only this type has, and whether its attempts have a timeout.
fn own(kind: &str) -> (&'static [Key], bool) {
    match kind {
        "http" => (HTTP, true),
        "exec" => (EXEC, true),
        "script" => (SCRIPT, true),
        "publish" => (PUBLISH, false),
        "wait_for" => (WAIT_FOR, false),
        "worker" => (WORKER, true),
        "agent_task" => (AGENT_TASK, true),
        "timer" => (TIMER, false),
        "human_approval" => (HUMAN_APPROVAL, false),
        "gateway" => (GATEWAY, false),
        "notification" => (NOTIFICATION, true),
        "sub_process" => (SUB_PROCESS, false),
        "for_each" => (FOR_EACH, true),
        _ => (&[], true),
    }
}

fn of_type(kind: &'static str, around: &[Key], with_timeout: bool) -> Value {
    let (own, has_timeout) = own(kind);
    let mut keys = vec![must("type", Shape::Const(kind), "What it does")];
    keys.extend_from_slice(around);
    keys.extend_from_slice(own);
    keys.extend((with_timeout && has_timeout).then_some(TIMEOUT));
    let mut step = object(&keys);
    if kind == "script" {
        step["anyOf"] = json!([{ "required": ["script"] }, { "required": ["source"] }]);
    }
    step
}

pub(super) fn defs() -> Map<String, Value> {
    let mut defs = Map::new();
    let retry = &[may("retry", Shape::Is("retry"), "How often it is tried")];
    for kind in TYPES {
        defs.insert(format!("{kind}_step"), of_type(kind, COMMON, true));
    }
    for kind in PERFORMED {
        defs.insert(format!("{kind}_compensation"), of_type(kind, retry, true));
    }
    for kind in EACH {
        defs.insert(format!("{kind}_item"), of_type(kind, &[], false));
    }
    let named = |types: &[&'static str], suffix: &str| -> Vec<(&'static str, String)> {
        types.iter().map(|kind| (*kind, format!("{kind}_{suffix}"))).collect()
    };
    let performed = "What is done";
    defs.insert("step".into(), by_type("The type of a step", &named(&TYPES, "step")));
    defs.insert("compensation".into(), by_type(performed, &named(&PERFORMED, "compensation")));
    defs.insert("item_step".into(), by_type(performed, &named(&EACH, "item")));
    // The action for an item has only its own keys, like a phase.
    defs.insert("phase_action".into(), by_type(performed, &named(&phase::TYPES, "item")));
    defs.insert("phase_script".into(), object(&[must("script", Shape::Text, "Its text")]));
    let phases = [Shape::Text, Shape::Is("phase_script"), Shape::Is("phase_action")];
    let phases: Vec<Value> = phases.iter().map(Shape::value).collect();
    defs.insert("phase".into(), json!({ "anyOf": phases }));
    defs
}
