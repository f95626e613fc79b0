//! The keys of triggers, by their type.

use serde_json::{Map, Value};

use super::keys::{CONDITION, ID, Key, Shape, TOPIC, may, must};
use super::schedules::{rule, schedule};
use super::{by_type, object};
use crate::definition::trigger::TYPES;

/// The keys that all triggers have.
const COMMON: &[Key] = &[
    must("id", ID, "Unique in the workflow"),
    may("enabled", Shape::Bool, "Whether it starts the workflow at present; true if left out"),
    may("description", Shape::Text, "What it is for"),
];

const WEBHOOK: &[Key] = &[
    may("secret", ID, "The name of the secret that callers sign with"),
    may("payload", Shape::Any, "Made from input.body and input.headers; the body if left out"),
    may("publish", TOPIC, "It is published to this topic instead of starting a run"),
];

const EVENT: &[Key] = &[
    must("topic", TOPIC, "An event on this topic starts the workflow"),
    may("condition", CONDITION, "Which event does: an expression over event; any if left out"),
    may("payload", Shape::Any, "Made from event; its payload if left out"),
];

pub(super) fn defs() -> Map<String, Value> {
    let mut defs = Map::new();
    for kind in TYPES {
        let own = match kind {
            "schedule" => schedule(),
            "webhook" => WEBHOOK.to_vec(),
            "event" => EVENT.to_vec(),
            _ => Vec::new(),
        };
        let mut keys = vec![must("type", Shape::Const(kind), "What starts it")];
        keys.extend_from_slice(COMMON);
        let is_common = |key: &Key| COMMON.iter().any(|common| common.name == key.name);
        keys.extend(own.into_iter().filter(|key| !is_common(key)));
        defs.insert(format!("{kind}_trigger"), object(&keys));
    }
    let types: Vec<(&str, String)> =
        TYPES.iter().map(|kind| (*kind, format!("{kind}_trigger"))).collect();
    defs.insert("rule".into(), rule());
    defs.insert("producer_schedule".into(), object(&schedule()));
    defs.insert("trigger".into(), by_type("The type of a trigger", &types));
    defs
}
