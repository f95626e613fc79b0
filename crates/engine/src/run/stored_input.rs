//! The stored input of a run: its payload, and where the run came from.

use jiff::Timestamp;
use language::definition::Definition;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Run;

/// The fields read from a run's input. Absent ones are empty.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct StoredInput<'r> {
    #[serde(borrow)]
    payload: Option<&'r RawValue>,
    schedule_id: Option<String>,
    schedule_name: Option<String>,
    n: Option<u64>,
    retry: Option<u64>,
    nominal_at: Option<String>,
    effective_at: Option<String>,
    coalesced: u64,
    trigger_id: Option<String>,
    trigger_node_id: Option<String>,
    event: Option<Value>,
}

impl<'r> StoredInput<'r> {
    /// Reads the input of this run. Fields that this version does not know are ignored.
    pub(crate) fn of(run: &'r Run) -> StoredInput<'r> {
        serde_json::from_str(run.input.get()).unwrap_or_default()
    }

    /// The run's payload as it is stored.
    pub(crate) fn payload(&self) -> &'r RawValue {
        self.payload.unwrap_or(RawValue::NULL)
    }

    /// The run's payload: `input` in expressions and scripts. A missing one is an empty object
    /// where the definition expects an object.
    pub(crate) fn payload_for(&self, definition: &Definition) -> Box<RawValue> {
        let payload = self.payload();
        let takes_none = || definition.input.as_ref().is_some_and(|i| i.takes_none_for_empty());
        if payload.get() == "null" && takes_none() {
            return RawValue::from_string("{}".to_owned()).unwrap_or_default();
        }
        payload.to_owned()
    }

    /// The run's metadata: `run` in expressions and scripts.
    pub(super) fn shown(&self, run: &Run) -> Value {
        // A run that retries another one has that run's input and no times of its own.
        let time = |own: Option<Timestamp>, stored: &Option<String>| {
            own.map(|at| at.to_string()).or_else(|| stored.clone())
        };
        json!({
            "id": run.id.to_string(),
            "schedule_id": self.schedule_id,
            "schedule_name": self.schedule_name,
            "n": self.n,
            "retry": self.retry,
            "nominal_at": time(run.nominal, &self.nominal_at),
            "effective_at": time(run.effective, &self.effective_at),
            "triggered_by": run.triggered_by.name(),
            "by": run.by,
            "merged": self.coalesced,
            "created_at": run.created_at.to_string(),
            "started_at": run.started_at.map(|at| at.to_string()),
            "trigger_id": self.trigger_id.as_ref().or(self.trigger_node_id.as_ref()),
            "event": self.event,
            "handler": run.handler,
        })
    }
}

/// The trigger that started the run or declares its schedule.
pub fn trigger_of(run: &Run) -> Option<String> {
    let input = StoredInput::of(run);
    input.trigger_id.or(input.trigger_node_id)
}
