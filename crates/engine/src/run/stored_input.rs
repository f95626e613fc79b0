//! The stored input of a run: its payload, and where the run came from.

use jiff::Timestamp;
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
    event: Option<Value>,
}

impl<'r> StoredInput<'r> {
    /// Reads the input of this run. Fields that this version does not know are ignored.
    pub(crate) fn of(run: &'r Run) -> StoredInput<'r> {
        serde_json::from_str(run.input.get()).unwrap_or_default()
    }

    /// The run's payload: `input` in expressions and scripts.
    pub(crate) fn payload(&self) -> &'r RawValue {
        self.payload.unwrap_or(RawValue::NULL)
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
            "trigger_id": self.trigger_id,
            "event": self.event,
            "handler": run.handler,
        })
    }
}
