//! The payload that a worker receives with an attempt.

use engine::run::AttemptEnd;
use engine::turn::Perform;
use language::definition::Action;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::dispatch::{filled, not_filled};
use crate::scripts::asked_worker;
use crate::secrets::Secrets;

/// The queue that an attempt was claimed from, and its payload with all templates filled in. An
/// attempt without a payload ends at once.
pub(crate) fn payload(
    perform: &Perform,
    secrets: &Secrets,
) -> Result<(String, Box<RawValue>), AttemptEnd> {
    if let Some(asked) = asked_worker(perform.mutation.as_deref(), secrets) {
        return Ok(asked);
    }
    match filled(perform, secrets).map_err(|error| not_filled(&error, secrets))? {
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
        _ => Err(AttemptEnd::Failed {
            code: "damaged".to_owned(),
            message: format!(
                "the step {} was claimed from a queue, but only steps of type worker and \
                 agent_task are queued",
                perform.step().id
            ),
            retryable: false,
            output: None,
        }),
    }
}

/// The run's input, which was checked when it was received.
fn own_input(perform: &Perform) -> Box<RawValue> {
    RawValue::from_string(perform.input.to_string()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
