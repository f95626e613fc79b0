//! Steps of type `sub_process`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::action::SubProcess;
use crate::definition::reading::{Fields, Reading, names};
use crate::definition::templates::Place;
use crate::definition::text::Flaw;

pub(super) fn read(reading: &mut Reading<'_>, fields: &mut Fields<'_>) -> Option<SubProcess> {
    let workflow = fields.require("workflow", "workflow: send-report");
    let workflow = workflow.and_then(|field| names::workflow(reading, &field));
    let mapping = fields.take("input_mapping");
    let mapping = mapping.map(|field| {
        let value = reading.filled_value(&field, Place::Decided);
        match value {
            Value::Object(map) => map.into_iter().collect::<BTreeMap<String, Value>>(),
            _ => {
                let message = format!("expected a mapping, found {}", field.node.describe());
                let flaw = Flaw::new("type", message).suggest("{ day: \"{{ input.day }}\" }");
                reading.refuse(&field, flaw);
                BTreeMap::new()
            }
        }
    });
    let output_key = fields.take("output_key");
    let output_key = output_key.and_then(|field| names::identifier(reading, &field));
    let wait = fields.boolean(reading, "wait_for_completion");
    Some(SubProcess {
        workflow: workflow?,
        input_mapping: mapping,
        output_key,
        wait_for_completion: wait.unwrap_or(true),
    })
}
