//! What the phases of handlers return, and what they do to the outside world.

use engine::run::{AttemptEnd, Item};
use engine::turn::Perform;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::generate::{TOPICS, message_id};
use crate::process::generate::QUEUES;
use crate::random::Random;
use crate::work::{Manners, failed};

/// The phase that is a mutation of the outside world.
pub(crate) const MUTATION: &str = "mutation";

/// When a mutation really happens outside, if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happens {
    Never,
    /// The mutation happens whatever becomes of the attempt.
    AtOnce,
    /// The mutation happens only if the attempt ends.
    WithAnswer,
}

/// Something that was done to the outside world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deed {
    pub(crate) run: i64,
    /// The idempotency key by which the outside world recognizes it.
    pub(crate) key: String,
}

impl Deed {
    pub(crate) fn of(perform: &Perform) -> Deed {
        Deed { run: perform.run.0, key: perform.idempotency_key() }
    }
}

/// Whether an attempt is at a mutation.
pub(crate) fn mutates(perform: &Perform) -> bool {
    perform.handler.is_some()
        && perform.part.item != Item::Reconciling
        && perform.step().id == MUTATION
}

/// What is wrong with the input of a phase, if anything: every event must have a topic and a
/// message id.
pub(crate) fn wrong_input(perform: &Perform) -> Option<String> {
    let input: Value = serde_json::from_str(&perform.input).unwrap_or_default();
    let events = input["events"].as_array()?;
    let is_named = |event: &&Value| {
        let topic = event["topic"].as_str();
        topic.is_some_and(|topic| TOPICS.contains(&topic)) && event["message_id"].is_string()
    };
    let wrong = events.iter().find(|event| !is_named(event))?;
    Some(format!("{} was given {wrong}", perform.idempotency_key()))
}

/// How a phase ends. `was_done` is whether the run's mutation has really happened.
pub(crate) fn end(
    random: &mut Random,
    manners: Manners,
    now: i64,
    perform: &Perform,
    was_done: bool,
) -> AttemptEnd {
    if random.chance(manners.fails_for_good / 2) {
        return failed("refused", false);
    }
    if random.chance(manners.fails / 3) {
        return failed("network", true);
    }
    // In the calm phase of a world nothing fails.
    if manners.fails > 0 && random.chance(4) {
        return gives(&json!("what?"));
    }
    if perform.part.item == Item::Reconciling {
        let found = if manners.fails > 0 && random.chance(300) {
            "unknown"
        } else if was_done {
            "applied"
        } else {
            "did_not_happen"
        };
        return gives(&json!({ "status": found, "result": { "v": 1 } }));
    }
    match perform.step().id.as_str() {
        "prepare" => prepare(random, manners, now, &perform.input),
        "mutate" => gives(&mutate(random)),
        "next" if random.chance(300) => gives(&Value::Null),
        _ => gives(&produced(random)),
    }
}

/// How a mutation ends, and when it happens: it may happen without anybody knowing.
pub(crate) fn mutation(random: &mut Random, manners: Manners) -> (AttemptEnd, Happens) {
    let happens = random.pick(&[Happens::AtOnce, Happens::WithAnswer]);
    if random.chance(manners.fails / 3) {
        return (failed("network", random.chance(800)), Happens::Never);
    }
    if random.chance(manners.fails / 3) {
        let message = "no answer came".to_owned();
        let happens = random.pick(&[Happens::AtOnce, Happens::Never]);
        return (AttemptEnd::Unknown { message }, happens);
    }
    (gives(&json!({ "v": 1 })), happens)
}

/// How an attempt ends that takes too long: a mutation may have happened.
pub(crate) fn too_long(perform: &Perform) -> AttemptEnd {
    if mutates(perform) {
        AttemptEnd::Unknown { message: "no answer came in time".to_owned() }
    } else {
        failed("timeout", true)
    }
}

pub(crate) fn gives(output: &Value) -> AttemptEnd {
    let output = to_raw_value(output).unwrap_or_else(|_| RawValue::NULL.to_owned());
    AttemptEnd::Succeeded { output }
}

fn prepare(random: &mut Random, manners: Manners, now: i64, input: &str) -> AttemptEnd {
    let input: Value = serde_json::from_str(input).unwrap_or_default();
    let given = input["events"].as_array().cloned().unwrap_or_default();
    let is_calm = manners.fails == 0;
    let mut reservations: Vec<Value> = Vec::new();
    let most = random.between(1, 5) as usize;
    if is_calm || random.chance(850) {
        for event in given.iter().take(most) {
            let (topic, id) = (&event["topic"], &event["message_id"]);
            match reservations.iter_mut().find(|known| known["topic"] == *topic) {
                Some(known) => known["ids"] = list(&known["ids"], id),
                None => reservations.push(json!({ "topic": topic, "ids": [id] })),
            }
        }
    }
    // Also reserves an event that another run may have, or that does not exist.
    if !is_calm && random.chance(10) {
        reservations.push(json!({ "topic": TOPICS[0], "ids": [message_id(random)] }));
    }
    let mut output = json!({ "reservations": reservations, "data": { "of": given.len() } });
    if random.chance(300) {
        let hours = random.between(-1, 40);
        output["wakeAt"] = Value::from(now + hours * 3_600_000 + random.between(0, 3_600_000));
    }
    gives(&output)
}

fn list(known: &Value, more: &Value) -> Value {
    let mut all = known.as_array().cloned().unwrap_or_default();
    all.push(more.clone());
    Value::Array(all)
}

fn mutate(random: &mut Random) -> Value {
    match random.below(10) {
        0 => Value::Null,
        1 => json!({ "mutation": { "worker": { "queue": random.pick(&QUEUES) } } }),
        _ => json!({ "mutation": { "http": { "method": "POST", "url": "https://example.com/" } } }),
    }
}

fn produced(random: &mut Random) -> Value {
    let mut publish = Vec::new();
    for _ in 0..random.pick(&[0, 0, 1, 1, 2, 4]) {
        let topic = random.pick(&TOPICS);
        publish.push(json!({ "topic": topic, "messageId": message_id(random),
            "payload": { "v": random.between(0, 9) } }));
    }
    json!({ "state": random.below(1_000_000), "publish": publish })
}
