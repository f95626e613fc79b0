//! The payload that a worker receives with an attempt.

use engine::turn::Perform;
use language::definition::Action;
use language::expression::ExpressionError;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::dispatch::filled;
use crate::scripts::asked_worker;
use crate::secrets::Secrets;

/// The queue that an attempt was claimed from, and its payload with all templates filled in.
pub(crate) fn payload(
    perform: &Perform,
    secrets: &Secrets,
) -> Result<(String, Box<RawValue>), ExpressionError> {
    if let Some(asked) = asked_worker(perform.mutation.as_deref(), secrets) {
        return Ok(asked);
    }
    match filled(perform, secrets)? {
        Action::Worker(worker) => {
            let payload = match &worker.input {
                Some(input) => raw(input),
                None => own_input(perform),
            };
            Ok((worker.queue, payload))
        }
        Action::AgentTask(task) => {
            let payload = json!({
                "message": task.message,
                "model": task.model,
                "temperature": task.temperature,
                "input": own_input(perform),
            });
            Ok((task.queue(), raw(&payload)))
        }
        // No other action is ever queued.
        _ => Ok((String::new(), own_input(perform))),
    }
}

/// The run's input, which was checked when it was received.
fn own_input(perform: &Perform) -> Box<RawValue> {
    RawValue::from_string(perform.input.to_string()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
