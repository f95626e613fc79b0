//! Consumers whose mutation is done and whose last phase has failed. They continue with the live
//! revision, or a person ends them.

use language::definition::Definition;
use language::definition::handlers::{MUTATION, NEXT};

use super::command::{Answer, CommandResult, NewRun, Refused};
use super::worklist::Work;
use super::{TransactionReader, Turn};
use crate::handlers::{Cause, Handler};
use crate::ids::{HandlerId, RunId, RunKey};
use crate::run::{Resolution, Run, RunState, StepRecord, StepState};
use crate::stop::refuse;
use crate::topics::{EventState, EventStatus};

/// An ended run whose events are still reserved, and the consumer that should continue it.
#[derive(Clone, Copy)]
pub(super) struct Unfinished {
    run: RunKey,
    consumer: HandlerId,
}

impl<B: TransactionReader> Turn<'_, B> {
    /// The unfinished run with this id, if a consumer should continue it.
    pub(super) fn unfinished(&mut self, id: &RunId) -> Result<Option<Unfinished>, B::Error> {
        match self.reader.run_key(id)? {
            Some(key) => self.unfinished_run(key),
            None => Ok(None),
        }
    }

    fn unfinished_run(&mut self, key: RunKey) -> Result<Option<Unfinished>, B::Error> {
        if !self.load_run(key)? {
            return Ok(None);
        }
        let run = self.run(key)?;
        // Only runs of consumers continue, and only while the consumer exists.
        let (workflow, Some(name)) = (run.workflow, run.handler.clone()) else { return Ok(None) };
        let Some(consumer) = self.handler_named(workflow, &name)? else { return Ok(None) };
        let resumes = self.handler(consumer)?.resumes;
        Ok(resumes.filter(|resumes| *resumes == key).map(|run| Unfinished { run, consumer }))
    }

    /// Ends or retries the last phase of the run, as a person says.
    pub(super) fn resolve_unfinished(
        &mut self,
        id: &RunId,
        unfinished: Unfinished,
        resolution: Resolution,
        by: &str,
    ) -> CommandResult<B::Error> {
        match resolution {
            Resolution::DidNotHappen => {
                self.call_handler(unfinished.consumer, Cause::ByHand)?;
                let consumer = self.handler_mut(unfinished.consumer)?;
                consumer.retry_at = None;
                let workflow = consumer.workflow;
                self.worklist.add(Work::LookAtHandlers(workflow));
            }
            Resolution::Applied => {
                for status in self.reserved_by(unfinished.run)? {
                    self.move_event(&status, EventState::Consumed, Some(unfinished.run), None)?;
                }
                self.nothing_left(unfinished)?;
            }
            Resolution::Failed | Resolution::Skip => {
                let reserved = self.reserved_by(unfinished.run)?;
                self.skip_mutated(&reserved, by)?;
                self.nothing_left(unfinished)?;
            }
        }
        Ok(Answer::Run(id.to_string()))
    }

    /// Repeats the last phase at once, as a new run, at a person's request.
    pub(super) fn retry_unfinished(
        &mut self,
        unfinished: Unfinished,
        new: &NewRun,
    ) -> CommandResult<B::Error> {
        self.call_handler(unfinished.consumer, Cause::ByHand)?;
        let handler = self.handler_mut(unfinished.consumer)?;
        handler.retry_at = None;
        let handler = handler.clone();
        self.resume_consumer(unfinished.consumer, &handler, unfinished.run, new)?;
        Ok(Answer::Run(RunId::Other(new.id).to_string()))
    }

    /// Continues a run whose mutation is done and whose last phase is not, as a new run, as soon as
    /// the workflow is free.
    pub(super) fn resume_consumer(
        &mut self,
        id: HandlerId,
        handler: &Handler,
        earlier: RunKey,
        new: &NewRun,
    ) -> Result<(), B::Error> {
        // A run that is set aside has no successor yet. It stays with its consumer, which continues
        // it once it can be read.
        let Some(key) = self.go_on_with(earlier, new)? else { return Ok(()) };
        for status in self.reserved_by(earlier)? {
            self.move_event(&status, EventState::Reserved, Some(key), None)?;
        }
        let handling = self.load_workflow(handler.workflow)?.and_then(|workflow| workflow.handling);
        if handling.is_none() {
            self.take_turn(id, key)?;
        }
        let handler = self.handler_mut(id)?;
        handler.run = Some(key);
        // A call by hand stays, so that the run begins even while its workflow is paused.
        handler.cause = handler.cause.filter(|cause| *cause == Cause::ByHand);
        handler.resumes = None;
        self.worklist.add(Work::Begin(key));
        Ok(())
    }

    /// Skips an event that an ended run still holds, at a person's request.
    pub(super) fn skip_reserved(
        &mut self,
        status: &EventStatus,
        message_id: &str,
        by: &str,
    ) -> CommandResult<B::Error> {
        let Some(run) = status.run else {
            let message = format!("Cannot skip event {message_id}: it is reserved by no run.");
            return refuse(Refused::Conflict(message));
        };
        let Some(unfinished) = self.unfinished_run(run)? else {
            let run = self.run_id(Some(run))?.map(|id| id.to_string()).unwrap_or_default();
            let message = format!(
                "Event {message_id} is reserved by run {run}, which works on it. Wait for the run, or cancel it."
            );
            return refuse(Refused::Conflict(message));
        };
        self.skip_mutated(std::slice::from_ref(status), by)?;
        if self.reserved_by(run)?.is_empty() {
            self.nothing_left(unfinished)?;
        }
        Ok(Answer::Count(1))
    }

    /// Skips the events of a run that was cancelled after its mutation. Making them pending again
    /// would repeat the mutation.
    pub(super) fn cancelled_after_mutation(
        &mut self,
        run: &Run,
        reserved: &[EventStatus],
        consumer: HandlerId,
    ) -> Result<(), B::Error> {
        let said = run.error.as_ref().map(|error| error.message.clone());
        self.skip_mutated(reserved, &said.unwrap_or_else(|| "a cancelled run".to_owned()))?;
        self.nothing_left(Unfinished { run: run.key, consumer })
    }

    fn skip_mutated(&mut self, reserved: &[EventStatus], by: &str) -> Result<(), B::Error> {
        for status in reserved {
            let reason = format!("its mutation was done, and the last phase was given up: {by}");
            self.move_event(status, EventState::Skipped, None, Some(reason))?;
        }
        Ok(())
    }

    /// Ends the consumer's unfinished run, so that it looks for other events.
    fn nothing_left(&mut self, unfinished: Unfinished) -> Result<(), B::Error> {
        let consumer = self.handler_mut(unfinished.consumer)?;
        consumer.resumes = None;
        consumer.retry_at = None;
        consumer.failures = 0;
        // The failure that called the consumer is settled.
        consumer.cause = consumer.cause.filter(|cause| *cause != Cause::Retry);
        let (workflow, name) = (consumer.workflow, consumer.name.clone());
        let has_more = match self.live_definition(workflow)? {
            Some(live) => self.has_pending(workflow, &live, &name)?,
            None => false,
        };
        if has_more {
            self.call_handler(unfinished.consumer, Cause::More)?;
        }
        self.worklist.add(Work::LookAtHandlers(workflow));
        Ok(())
    }

    /// The revision, state and records with which a new run continues an earlier one. It uses
    /// the live revision, unless that has no mutation phase: then no record would show that the
    /// mutation was done.
    pub(super) fn carried_over(
        &mut self,
        run: &Run,
        records: Vec<StepRecord>,
    ) -> Result<(u32, RunState, Vec<StepRecord>), B::Error> {
        let state = run.state.where_it_failed(&[]);
        let handler = run.handler.as_deref();
        let live = self.load_workflow(run.workflow)?.and_then(|workflow| workflow.live);
        let before = self.process(run.workflow, run.version, handler)?;
        // The live revision may no longer have the handler.
        let after = match live {
            Some(live) => self.definition(run.workflow, live)?.of_run(handler).cloned(),
            None => None,
        };
        let (Some(live), Some(after)) = (live, after) else {
            return Ok((run.version, state, records));
        };
        if after.graph().index(MUTATION).is_none() {
            return Ok((run.version, state, records));
        }
        let (states, records) = moved_over(&state, records, &before, &after);
        Ok((
            live,
            RunState { states: states.into_iter().collect(), ..RunState::default() },
            records,
        ))
    }
}

/// Maps the earlier revision's phases to the new one's by name. A phase that the earlier revision
/// did not have is skipped, since the mutation is already done.
fn moved_over(
    state: &RunState,
    records: Vec<StepRecord>,
    before: &Definition,
    after: &Definition,
) -> (Vec<StepState>, Vec<StepRecord>) {
    let state = |id: &str| match before.graph().index(id) {
        _ if id == NEXT => StepState::Pending,
        Some(earlier) => state.states.of(earlier),
        None => StepState::Skipped,
    };
    let states = after.steps.iter().map(|step| state(&step.id)).collect();
    let moved = |record: StepRecord| {
        let id = &before.steps.get(record.step as usize)?.id;
        Some(StepRecord { step: after.graph().index(id)?, ..record })
    };
    (states, records.into_iter().filter_map(moved).collect())
}
