//! The steps that a checked step names.

use serde_json::Value;

use super::action::Action;
use super::model::{Output, Step};
use crate::expression::{References, check_condition, check_template};

/// In its condition, its routes and its texts, and in those of what finds out whether it was done.
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

/// In the texts of what undoes it.
pub(super) fn of_compensation(step: &Step) -> Vec<String> {
    let mut ids = Vec::new();
    if let Some(compensation) = &step.compensation {
        of_action(&compensation.action, &mut ids);
    }
    ids
}

/// In the value of an output.
pub(super) fn of_output(output: &Output) -> Vec<String> {
    let mut ids = Vec::new();
    of_value(&output.source, &mut ids);
    ids
}

/// Whether it is to be filled in when it begins, or looks at what is known by itself.
pub(super) fn has_template(action: &Action) -> bool {
    is_script(action) || serde_json::to_string(action).is_ok_and(|stored| stored.contains("{{"))
}

/// Whether it is a script, or one for each item: what it names cannot be told from its text.
pub(super) fn is_script(action: &Action) -> bool {
    match action {
        Action::Script(_) => true,
        Action::ForEach(each) => is_script(&each.action),
        _ => false,
    }
}

fn of_action(action: &Action, ids: &mut Vec<String>) {
    match action {
        // Braces mean something else there.
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
        // Whatever an action holds, its texts are those of its stored form.
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

/// A definition is checked before it is stored: every text can be read.
fn add(ids: &mut Vec<String>, references: Option<References>) {
    let steps = references.into_iter().flat_map(|references| references.steps);
    ids.extend(steps.map(|step| step.id));
}
