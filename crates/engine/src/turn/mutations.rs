//! Mutations of the outside world: how each is recorded, and how its workflow waits while the
//! result is unknown.

use language::definition::handlers::MUTATION;

use super::command::{CommandResult, Refused};
use super::handlers::handler_name;
use super::{TransactionReader, Turn};
use crate::handlers::{Mutation, MutationStatus};
use crate::ids::{RunId, RunKey};
use crate::run::{ActivityStatus, Input, Item, Resolution, RunStatus, StepState};
use crate::stop::refuse;

impl<B: TransactionReader> Turn<'_, B> {
    /// Cancels a run at a person's request. It refuses to cancel a run that may be changing
    /// something outside, since its events would become pending again and the same change would be
    /// repeated.
    pub(super) fn cancel_by_hand(&mut self, id: &RunId, reason: String) -> CommandResult<B::Error> {
        if let Some(key) = self.reader.run_key(id)?
            && self.load_run(key)?
            && let Some(MutationStatus::InFlight | MutationStatus::Unknown) =
                self.mutation_status(key)?
        {
            let message = format!(
                "Run {id} may be changing something outside. Wait for it, or say what became of it: \
                 resolve it."
            );
            return refuse(Refused::Conflict(message));
        }
        if let Some(unfinished) = self.unfinished(id)? {
            return self.resolve_unfinished(id, unfinished, Resolution::Failed, &reason);
        }
        self.change_run(id, Input::Cancel { reason })
    }

    /// Resolves a step, or the failed last phase of a consumer's run, as a person says.
    pub(super) fn resolve_by_hand(
        &mut self,
        id: &RunId,
        step: Option<String>,
        resolution: Resolution,
        by: String,
    ) -> CommandResult<B::Error> {
        if let Some(unfinished) = self.unfinished(id)? {
            return self.resolve_unfinished(id, unfinished, resolution, &format!("says {by}"));
        }
        self.change_run(id, Input::Resolve { step, resolution, by })
    }

    /// Updates the mutation record after a decision about a handler's run. The workflow is paused
    /// while the result of the mutation is unknown.
    pub(super) fn after_phase(
        &mut self,
        key: RunKey,
        before: RunStatus,
        mutation: Option<MutationStatus>,
        said_by: Option<String>,
    ) -> Result<(), B::Error> {
        self.note_mutation(key, mutation, said_by)?;
        let run = self.run(key)?.clone();
        if run.status == RunStatus::Suspended && before != RunStatus::Suspended {
            return self.pause_for(&run, "does not know what became of its mutation");
        }
        if run.status == RunStatus::Suspended || before != RunStatus::Suspended {
            return Ok(());
        }
        let workflow = self.workflow(run.workflow)?;
        if workflow.paused_by == Some(key) {
            let workflow = self.workflow_mut(run.workflow)?;
            workflow.paused = false;
            workflow.paused_reason = None;
            workflow.paused_by = None;
            self.output.notices.push(super::Notice::Workflow { id: run.workflow });
            self.capacity.rescan = true;
        }
        Ok(())
    }

    fn note_mutation(
        &mut self,
        key: RunKey,
        before: Option<MutationStatus>,
        said_by: Option<String>,
    ) -> Result<(), B::Error> {
        let status = self.mutation_status(key)?;
        // The run has not reached its mutation, or nothing has changed about it.
        let Some(status) = status.filter(|_| status != before) else { return Ok(()) };
        let (workflow, definition) = self.whole_definition(key)?;
        let handler = handler_name(self.run(key)?)?.to_owned();
        let process = definition.handler(&handler);
        let step = process.and_then(|process| process.graph().index(MUTATION));
        let record = match step {
            Some(step) => self.step_record(key, step)?,
            None => None,
        };
        let now = self.context.moment.now;
        let run = self.run(key)?;
        let note = match status {
            MutationStatus::Unknown => run.error.as_ref().map(|error| error.message.clone()),
            MutationStatus::Failed => {
                record.as_ref().and_then(|record| record.error.as_ref()).map(|e| e.message.clone())
            }
            _ => None,
        };
        // While the mutation is active there is no step record, and its attempt says when it began.
        let active = step.and_then(|step| run.state.part(step, Item::Whole));
        let since = active.and_then(|active| active.status.since());
        let started_at = since.or(record.map(|record| record.started_at)).unwrap_or(now);
        self.output.writes.mutations.push(Mutation {
            run: key,
            workflow,
            handler,
            status,
            started_at,
            updated_at: now,
            said_by,
            note,
        });
        Ok(())
    }

    /// The status of a run's mutation, if the run has reached it.
    pub(super) fn mutation_status(
        &mut self,
        key: RunKey,
    ) -> Result<Option<MutationStatus>, B::Error> {
        if !self.is_of_handler(key) {
            return Ok(None);
        }
        let (_, definition) = self.whole_definition(key)?;
        let run = self.run(key)?;
        let process = definition.handler(handler_name(run)?);
        // A producer, or a consumer without a mutation phase.
        let Some(step) = process.and_then(|process| process.graph().index(MUTATION)) else {
            return Ok(None);
        };
        if let Some(active) = run.state.part(step, Item::Whole) {
            return Ok(match active.status {
                ActivityStatus::Performed { .. } | ActivityStatus::Claimed { .. } => {
                    Some(MutationStatus::InFlight)
                }
                ActivityStatus::Unknown { .. } => Some(MutationStatus::Unknown),
                _ => None,
            });
        }
        let state = run.state.states.of(step);
        Ok(match state {
            StepState::Completed => Some(MutationStatus::Applied),
            StepState::Failed => Some(MutationStatus::Failed),
            StepState::Cancelled => Some(MutationStatus::Unknown),
            StepState::Skipped => {
                let record = self.step_record(key, step)?;
                record.filter(|record| record.attempts > 0).map(|_| MutationStatus::Skipped)
            }
            _ => None,
        })
    }
}
