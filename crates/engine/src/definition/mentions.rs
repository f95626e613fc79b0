//! The steps that a checked step names.

use serde_json::Value;

use super::action::Action;
use super::model::{Output, Step};
use crate::expression::{References, check_condition, check_template};

/// In its condition, its routes and its texts.
pub(super) fn of_step(step: &Step) -> Vec<String> {
    let mut ids = Vec::new();
    let routes = match &step.action {
        Action::Gateway(gateway) => gateway.routes.as_slice(),
        other => {
            of_action(other, &mut ids);
            &[]
        }
    };
    let of_routes = routes.iter().filter_map(|route| route.condition.as_ref());
    for condition in step.condition.iter().chain(of_routes) {
        add(&mut ids, check_condition(condition).ok());
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

/// Whether a text of it is to be filled in when it begins.
pub(super) fn has_template(action: &Action) -> bool {
    serde_json::to_string(action).is_ok_and(|stored| stored.contains("{{"))
}

fn of_action(action: &Action, ids: &mut Vec<String>) {
    // Whatever an action holds, its texts are those of its stored form.
    if let Ok(stored) = serde_json::to_value(action) {
        of_value(&stored, ids);
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
