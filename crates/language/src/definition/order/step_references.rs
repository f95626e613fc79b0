//! The steps that a checked step mentions.

use serde_json::Value;

use crate::definition::model::{Output, Step};
use crate::definition::steps::Action;
use crate::expression::{References, check_condition, check_template};

/// The steps mentioned in its condition, its routes, its texts and its reconciliation.
pub(super) fn of_step(step: &Step) -> Vec<String> {
    let mut ids = Vec::new();
    if let Some(condition) = &step.condition {
        add(&mut ids, check_condition(condition).ok());
    }
    of_action(&step.action, &mut ids);
    if let Some(reconcile) = &step.reconcile {
        of_action(reconcile, &mut ids);
    }
    ids
}

/// The steps mentioned in its compensation.
pub(super) fn of_compensation(step: &Step) -> Vec<String> {
    let mut ids = Vec::new();
    if let Some(compensation) = &step.compensation {
        of_action(&compensation.action, &mut ids);
    }
    ids
}

/// The steps mentioned in the value of an output.
pub(super) fn of_output(output: &Output) -> Vec<String> {
    let mut ids = Vec::new();
    of_value(&output.source, &mut ids);
    ids
}

/// Whether the action contains templates, or is a script, which reads results itself.
pub(super) fn has_template(action: &Action) -> bool {
    is_script(action) || serde_json::to_string(action).is_ok_and(|stored| stored.contains("{{"))
}

/// Whether the action is a script, or a script for each item. Its text does not tell which steps it
/// reads.
pub(super) fn is_script(action: &Action) -> bool {
    match action {
        Action::Script(_) => true,
        Action::ForEach(each) => is_script(&each.action),
        _ => false,
    }
}

fn of_action(action: &Action, ids: &mut Vec<String>) {
    match action {
        // Braces are not templates in scripts.
        Action::Script(_) => {}
        Action::Gateway(gateway) => {
            let conditions = gateway.routes.iter().filter_map(|route| route.condition.as_ref());
            conditions.for_each(|condition| add(ids, check_condition(condition).ok()));
        }
        Action::WaitFor(wait) => {
            let condition = wait.condition.as_ref();
            add(ids, condition.and_then(|condition| check_condition(condition).ok()));
        }
        Action::ForEach(each) => {
            of_value(&each.items, ids);
            of_action(&each.action, ids);
        }
        // Whatever the action, the texts of its stored form are its texts.
        other => {
            if let Ok(stored) = serde_json::to_value(other) {
                of_value(&stored, ids);
            }
        }
    }
}

fn of_value(value: &Value, ids: &mut Vec<String>) {
    match value {
        Value::String(text) if text.contains("{{") => add(ids, check_template(text).ok()),
        Value::Array(items) => items.iter().for_each(|item| of_value(item, ids)),
        Value::Object(map) => map.values().for_each(|value| of_value(value, ids)),
        _ => {}
    }
}

/// Adds the mentioned steps. A definition is checked before it is stored, so every text can be
/// parsed.
fn add(ids: &mut Vec<String>, references: Option<References>) {
    let steps = references.into_iter().flat_map(|references| references.steps);
    ids.extend(steps.map(|step| step.id));
}
