//! Payloads are checked against the input schema of their workflow wherever a caller supplies one.

use calendar::Mistake;
use serde_json::value::RawValue;

use super::command::Refused;
use super::{TransactionReader, Turn};
use crate::ids::{ScheduleId, WorkflowId};
use crate::stop::{Stop, refuse};

impl<B: TransactionReader> Turn<'_, B> {
    /// The mistakes in a payload according to the live revision. A workflow without an input schema
    /// accepts any payload.
    pub(super) fn payload_mistakes(
        &mut self,
        workflow: WorkflowId,
        payload: Option<&RawValue>,
    ) -> Result<Vec<Mistake>, B::Error> {
        // Nothing is expected as long as no revision is live.
        let Some(live) = self.load_workflow(workflow)?.and_then(|workflow| workflow.live) else {
            return Ok(Vec::new());
        };
        let definition = self.definition(workflow, live)?;
        let Some(expected) = &definition.input else { return Ok(Vec::new()) };
        let payload = payload.map_or("null", RawValue::get);
        Ok(expected.check(&serde_json::from_str(payload).unwrap_or_default()))
    }

    pub(super) fn check_payload(
        &mut self,
        workflow: WorkflowId,
        payload: Option<&RawValue>,
    ) -> Result<(), Stop<Refused, B::Error>> {
        let mistakes = self.payload_mistakes(workflow, payload)?;
        if mistakes.is_empty() { Ok(()) } else { refuse(Refused::Invalid(vec![(0, mistakes)])) }
    }

    /// Checks the payload of a schedule's run: the given one, or else the schedule's own. Producers
    /// accept any payload.
    pub(super) fn check_payload_for_schedule(
        &mut self,
        id: ScheduleId,
        given: Option<&RawValue>,
    ) -> Result<(), Stop<Refused, B::Error>> {
        let schedule = self.schedule(id)?;
        if schedule.producer().is_some() {
            return Ok(());
        }
        let own = schedule.declared.payload.clone();
        self.check_payload(schedule.workflow, given.or(own.as_deref()))
    }
}
