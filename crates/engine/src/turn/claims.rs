//! Attempts: handed out to this node or claimed by workers, with their heartbeats and reports.

use jiff::Timestamp;
use language::definition::{Action, WorkerAction};

use super::command::{Answer, CommandResult, Refused, unknown_run};
use super::{Effect, Perform, TransactionReader, Turn, Wakeup, not_there};
use crate::ids::{RunId, RunKey};
use crate::run::{self, ActivityStatus, AttemptEnd, Claimant, Input, Part, Run, RunHistory as _};
use crate::stop::{Stop, refuse, unless_refused};

/// The payloads of one claim add up to at most this many bytes, not counting the last one, because
/// the response holds all of them.
const CLAIMED_BYTES: usize = 4 << 20;

impl<B: TransactionReader> Turn<'_, B> {
    /// Hands the attempt to this node to perform.
    pub(super) fn hand_out(&mut self, key: RunKey, part: Part, token: u32) -> Result<(), B::Error> {
        if let Some(perform) = self.perform(key, part, token)? {
            self.output.effects.push(Effect::Perform(Box::new(perform)));
        }
        Ok(())
    }

    /// Notes attempts that did nothing, and began and ended in this turn.
    pub(super) fn note_noops(&mut self, key: RunKey, tokens: &[u32]) -> Result<(), B::Error> {
        let run = self.loaded.runs.get(key).ok_or_else(|| not_there::<B::Error>(key))?;
        self.output.noops.extend(tokens.iter().map(|token| due_of_attempt(run, *token)));
        Ok(())
    }

    fn perform(
        &mut self,
        key: RunKey,
        part: Part,
        token: u32,
    ) -> Result<Option<Perform>, B::Error> {
        let run = self.run(key)?;
        let (workflow, version, handler) = (run.workflow, run.version, run.handler.clone());
        let definition = self.process(workflow, version, handler.as_deref())?;
        let action = run::action_of(&definition, part);
        let mutation = match action {
            Some(Action::Mutation) => self.asked_mutation(key)?,
            _ => None,
        };
        let phase_input = match &handler {
            Some(_) => Some(self.phase_input(key, part)?.to_string()),
            None => None,
        };
        let entity = self.loaded.runs.loaded(key).ok_or_else(|| not_there::<B::Error>(key))?;
        let mut history =
            super::history::LoadedHistory::new(self.reader, key, &entity.notes.records);
        // A phase receives its input directly. Only a script of a process reads the outputs of
        // other steps.
        let is_given = handler.is_some() && matches!(action, Some(Action::Script(_)));
        let scope = if is_given {
            None
        } else {
            let kept = &mut self.loaded.item_scope;
            run::scope_of_part(&entity.now, &definition, part, &mut history, kept)?
        };
        let active = entity.now.state.part(part.step, part.item);
        let attempt = active.map_or(0, |active| active.attempt);
        let since =
            active.and_then(|active| active.status.since()).unwrap_or(self.context.moment.now);
        // Only a notification needs the output of the attempt before it: it says who was already
        // notified.
        let tells = matches!(run::action_of(&definition, part), Some(Action::Notification(_)));
        let earlier = if tells && attempt > 1 {
            history.record(part.step, part.item)?.and_then(|record| record.output)
        } else {
            None
        };
        let trace = self.trace_of_attempt(key, part, attempt, since);
        let run = self.run(key)?;
        Ok(Some(Perform {
            run: key,
            workflow: run.workflow,
            run_id: run.id.clone(),
            definition,
            part,
            attempt,
            token,
            input: phase_input.as_deref().unwrap_or(run.input.get()).into(),
            earlier,
            mutation,
            handler,
            scope: scope.map(|scope| scope.map(Box::new)),
            due: due_of_attempt(run, token),
            trace,
        }))
    }

    /// Claims queued parts for a worker, oldest first, until the response would become too large.
    pub(super) fn claim(
        &mut self,
        queues: &[String],
        limit: usize,
        worker: &str,
        claimant: &Claimant,
        lease_until: Timestamp,
    ) -> CommandResult<B::Error> {
        let (mut count, mut bytes) = (0, 0);
        for (key, part) in self.reader.queued(queues, limit)? {
            if self.passes_over(Wakeup::Run(key)) {
                continue;
            }
            let (worker, claimant) = (worker.to_owned(), Box::new(claimant.clone()));
            let input = Input::Claim { part, worker, claimant, lease_until };
            // The run refuses the claim of a part that is no longer queued.
            let decided = unless_refused(self.decide_run(key, input))?;
            let Some(token) = decided.and_then(|decided| decided.claimed) else { continue };
            let lease_until = self.lease_of(key, token).unwrap_or(lease_until);
            if let Some(perform) = self.perform(key, part, token)? {
                bytes += if limit > 1 { payload_bytes(&perform) } else { 0 };
                let perform = Box::new(perform);
                self.output.effects.push(Effect::Claimed { perform, lease_until });
                count += 1;
                if bytes >= CLAIMED_BYTES {
                    break;
                }
            }
        }
        Ok(Answer::Count(count))
    }

    /// Takes a worker's report of how an attempt has ended. It refuses the report unless this
    /// claimant holds the claim: a node reports its own attempts, and another worker its own
    /// claims.
    pub(super) fn worker_report(
        &mut self,
        id: &RunId,
        token: u32,
        said_by: &Claimant,
        end: AttemptEnd,
    ) -> CommandResult<B::Error> {
        let Some(key) = self.reader.run_key(id)? else { return refuse(unknown_run(id)) };
        self.load_run(key)?;
        let run = self.loaded.runs.get(key);
        let active = run.and_then(|run| run.state.with_token(token));
        let admitted = match active.map(|active| &active.status) {
            Some(ActivityStatus::Claimed { claimant, .. }) => claimant.admits(said_by, token),
            _ => Err(run::Refusal::OldToken { given: token }),
        };
        admitted.map_err(|refusal| Stop::Refused(Refused::Run(refusal)))?;
        let end = self.phase_end(key, token, end)?;
        self.decide_run(key, Input::Reported { token, end })?;
        Ok(Answer::Run(id.to_string()))
    }

    /// Extends a worker's lease. The answer says whether the worker should stop.
    pub(super) fn heartbeat(
        &mut self,
        id: &RunId,
        token: u32,
        claimant: Claimant,
        lease_until: Timestamp,
    ) -> CommandResult<B::Error> {
        let Some(key) = self.reader.run_key(id)? else { return refuse(unknown_run(id)) };
        let input = Input::Heartbeat { token, claimant, lease_until };
        let beaten = self.decide_run(key, input)?;
        let until = self.lease_of(key, token).unwrap_or(lease_until);
        Ok(Answer::Lease { until, must_cancel: beaten.is_ending })
    }

    fn lease_of(&self, key: RunKey, token: u32) -> Option<Timestamp> {
        let run = self.loaded.runs.get(key);
        let active = run.and_then(|run| run.state.with_token(token));
        active.and_then(|active| active.status.wake_at())
    }

    /// Records a person's decision about an approval step.
    pub(super) fn decide_approval(
        &mut self,
        id: &RunId,
        step: &str,
        decision: impl FnOnce(u32) -> Input,
    ) -> CommandResult<B::Error> {
        let Some(key) = self.reader.run_key(id)? else { return refuse(unknown_run(id)) };
        self.load_run(key)?;
        let Some((workflow, version)) =
            self.loaded.runs.get(key).map(|run| (run.workflow, run.version))
        else {
            return refuse(unknown_run(id));
        };
        let definition = self.definition(workflow, version)?;
        let Some(index) = definition.graph().index(step) else {
            return refuse(Refused::NotFound { what: "step", id: step.to_owned() });
        };
        self.change_run(id, decision(index))
    }
}

/// When the attempt was due, if it is the first of an occurrence: with it the occurrence begins.
fn due_of_attempt(run: &Run, token: u32) -> Option<Timestamp> {
    let is_first = token == 1 && matches!(run.id, RunId::Occurrence { retry: 0, .. });
    run.effective.filter(|_| is_first)
}

/// The size of what a worker receives for this attempt. A payload that cannot be filled in here,
/// for example because it needs a secret, counts with the size of the run's input.
fn payload_bytes(perform: &Perform) -> usize {
    let filled = match &perform.scope {
        Some(Ok(scope)) => perform.action().filled(scope).ok(),
        _ => None,
    };
    match filled.as_ref().unwrap_or_else(|| perform.action()) {
        Action::Worker(WorkerAction { input: Some(input), .. }) => input.to_string().len(),
        Action::AgentTask(task) => task.message.len() + perform.input.len(),
        _ => perform.input.len(),
    }
}
