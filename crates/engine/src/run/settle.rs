//! How parts end: completed, failed, skipped or abandoned.

use jiff::SignedDuration;
use language::definition::{Action, OnError, StepRetry};
use serde_json::value::RawValue;

use super::decide::{Decider, Taken};
use super::fitting::fitted;
use super::input::{Awaiting, Part, Queueing, Retryability, RunHistory};
use super::item::Item;
use super::state::{Activity, ActivityStatus, StepState};
use super::{AttemptRecord, Ending, Refusal, RunError, StepRecord, StepStatus};
use crate::stop::refuse;

impl<F: RunHistory> Decider<'_, F> {
    /// Completes a part. An output that exceeds the size limit is cut.
    pub(super) fn succeeded(&mut self, at: usize, output: Box<RawValue>) -> Result<(), F::Error> {
        let (output, said) = fitted(output);
        self.completed(at, output, said)
    }

    /// Completes a part whose output fits, with a message about it if it was cut.
    pub(super) fn completed(
        &mut self,
        at: usize,
        output: Box<RawValue>,
        said: Option<String>,
    ) -> Result<(), F::Error> {
        let active = self.remove(at);
        if active.item == Item::Whole {
            self.run.output = Some(output.clone());
        }
        self.record(&active, StepStatus::Completed, Some(output), None);
        if let (Some(record), Some(_)) = (self.decision.records.last_mut(), &said) {
            record.reason = said;
        }
        match active.item {
            Item::Whole => {
                self.step_completed(active.step);
                Ok(())
            }
            Item::Undoing => Ok(()),
            _ => self.item_ended(active.step),
        }
    }

    pub(super) fn step_completed(&mut self, step: u32) {
        self.unwatch(step);
        if self.step(step).is_some_and(|step| step.compensation.is_some()) {
            self.run.state.to_undo.push(step);
        }
        self.set_state(step, StepState::Completed);
    }

    /// Handles a failed part: it is retried, or the definition's `on_error` applies.
    pub(super) fn failed(
        &mut self,
        at: usize,
        error: RunError,
        retryability: Retryability,
        output: Option<Box<RawValue>>,
    ) -> Result<(), F::Error> {
        let active = &self.run.state.active[at];
        let (step, item, attempts) = (active.step, active.item, active.attempt);
        let retry = self.retry_of(step, item);
        if retryability.can_help() && attempts < retry.max {
            self.try_again(at, retry.delay_before(attempts + 1), error, output);
            return Ok(());
        }
        let active = self.remove(at);
        match item {
            Item::Undoing => {
                self.record(&active, StepStatus::Failed, output, Some(error));
                Ok(())
            }
            Item::Whole => self.step_failed(&active, error, retryability, output),
            _ => {
                self.record(&active, StepStatus::Failed, output, Some(error.clone()));
                self.items_failed(step, error, retryability)
            }
        }
    }

    /// Schedules the next attempt of a part that has failed.
    pub(super) fn try_again(
        &mut self,
        at: usize,
        delay: SignedDuration,
        error: RunError,
        output: Option<Box<RawValue>>,
    ) {
        let tried = self.run.state.active[at].clone();
        self.is_followed(&tried, StepStatus::Failed, error.clone());
        self.record(&tried, StepStatus::Failed, output, Some(error));
        let again = self.now.checked_add(delay).unwrap_or(self.now);
        self.run.state.active[at].status = ActivityStatus::Retrying { at: again };
    }

    /// Records an attempt that has ended and will be followed by another one.
    pub(super) fn is_followed(&mut self, tried: &Activity, status: StepStatus, error: RunError) {
        self.decision.earlier.push(AttemptRecord {
            step: tried.step,
            item: tried.item,
            attempt: tried.attempt,
            status,
            started_at: tried.status.since().unwrap_or(tried.enabled_at),
            ended_at: self.stamp,
            error: Some(error),
        });
    }

    fn retry_of(&self, step: u32, item: Item) -> StepRetry {
        // The definition for cancelling a run whose own cannot be read has no steps.
        let Some(step) = self.step(step) else { return StepRetry::default() };
        match (&step.compensation, item) {
            (Some(undoing), Item::Undoing) => undoing.retry.clone(),
            _ if step.retry.by_default && self.run.state.tries_once => {
                StepRetry { max: 1, ..step.retry.clone() }
            }
            _ => step.retry.clone(),
        }
    }

    pub(super) fn step_failed(
        &mut self,
        active: &Activity,
        error: RunError,
        retryability: Retryability,
        output: Option<Box<RawValue>>,
    ) -> Result<(), F::Error> {
        let step = active.step;
        let on_error = self.step(step).map(|step| step.on_error.clone()).unwrap_or_default();
        match on_error {
            OnError::SkipStep => {
                self.record(active, StepStatus::Skipped, output, Some(error));
                self.unwatch(step);
                self.set_state(step, StepState::Skipped);
            }
            OnError::GotoStep(target) => {
                self.record(active, StepStatus::Failed, output, Some(error.clone()));
                self.unwatch(step);
                self.set_state(step, StepState::Failed);
                self.jump(step, &target, error)?;
            }
            OnError::FailProcess => {
                self.record(active, StepStatus::Failed, output, Some(error.clone()));
                self.unwatch(step);
                self.set_state(step, StepState::Failed);
                self.end_from_outside(Ending::Failed, error, retryability);
            }
        }
        Ok(())
    }

    /// Skips a step that does not run.
    pub(super) fn pass_over(&mut self, step: u32, state: StepState, reason: String) {
        self.decision.records.push(StepRecord {
            step,
            item: Item::Whole,
            status: StepStatus::Skipped,
            attempts: 0,
            started_at: self.stamp,
            ended_at: self.stamp,
            output: None,
            error: None,
            reason: Some(reason),
            overdue: false,
        });
        self.set_state(step, state);
    }

    /// Removes an active part, and withdraws it from its queue, approval or event subscription.
    pub(super) fn remove(&mut self, at: usize) -> Activity {
        let active = self.run.state.active.remove(at);
        let part = active.part();
        match &active.status {
            ActivityStatus::Queued { .. } => self.decision.queueing.push(Queueing::Take(part)),
            ActivityStatus::Asked { .. } => self.withdraw(active.step),
            ActivityStatus::Awaiting { .. } => self.decision.awaiting.push(Awaiting::End(part)),
            _ => {}
        }
        active
    }

    /// Withdraws an approval. One that this same decision would request is not requested.
    fn withdraw(&mut self, step: u32) {
        let asked = &mut self.decision.approvals;
        match asked.iter().position(|approval| approval.step == step) {
            Some(at) => drop(asked.remove(at)),
            None => self.decision.withdrawn.push(step),
        }
    }

    /// Abandons an active part: whoever performs it is told to stop, and not waited for.
    pub(super) fn abandon(&mut self, at: usize, status: StepStatus, error: Option<RunError>) {
        let active = self.give_up(at);
        self.record(&active, status, None, error);
    }

    /// Like [`Self::abandon`], without a record of the part.
    pub(super) fn give_up(&mut self, at: usize) -> Activity {
        let active = self.remove(at);
        match &active.status {
            ActivityStatus::Performed { token, .. } => self.decision.cancel.push(*token),
            ActivityStatus::Child { run, .. } => {
                let why = "the step that started it was given up".to_owned();
                self.decision.cancel_runs.push((*run, why));
            }
            _ => {}
        }
        let items = |a: &Activity| a.step == active.step && a.item.is_nth();
        if active.item == Item::Whole {
            while let Some(at) = self.run.state.active.iter().position(items) {
                self.abandon(at, StepStatus::Cancelled, None);
            }
        }
        active
    }

    pub(super) fn record(
        &mut self,
        active: &Activity,
        status: StepStatus,
        output: Option<Box<RawValue>>,
        error: Option<RunError>,
    ) {
        let (output, reason) = match output.map(fitted) {
            Some((output, said)) => (Some(output), said),
            None => (None, None),
        };
        let overdue = active.item == Item::Whole
            && self.run.state.watches.iter().any(|w| w.step == Some(active.step) && w.overdue);
        if active.status.since().is_some() {
            self.decision.begun.push(self.decision.records.len());
        }
        self.decision.records.push(StepRecord {
            step: active.step,
            item: active.item,
            status,
            attempts: active.attempt,
            started_at: active.status.since().unwrap_or(active.enabled_at),
            ended_at: self.stamp,
            output,
            error,
            reason,
            overdue,
        });
    }

    /// Completes a step whose child run was created and that does not wait for its end.
    pub(super) fn child_started(&mut self, token: u32, output: Box<RawValue>) -> Taken<F::Error> {
        let Some(at) = self.index_of(token) else {
            return refuse(Refusal::OldToken { given: token });
        };
        if self.is_stopping() {
            let active = self.remove(at);
            self.stopped(&active, true, Some(output));
        } else {
            self.succeeded(at, output)?;
        }
        Ok(())
    }

    /// Fails a step whose child run was refused. It is not retried, since that would not help.
    pub(super) fn child_refused(&mut self, token: u32, message: &str) -> Taken<F::Error> {
        let Some(at) = self.index_of(token) else {
            return refuse(Refusal::OldToken { given: token });
        };
        if self.is_stopping() {
            let active = self.remove(at);
            self.stopped(&active, false, None);
            return Ok(());
        }
        let step = self.run.state.active[at].step;
        let message = format!("the run could not be started: {message}");
        let error = self.error(step, "sub_process", message);
        self.failed(at, error, Retryability::Permanent, None)?;
        Ok(())
    }

    pub(super) fn child_ended(
        &mut self,
        token: u32,
        ending: Ending,
        output: Option<Box<RawValue>>,
        error: Option<RunError>,
    ) -> Taken<F::Error> {
        let Some(at) = self.index_of(token) else {
            return refuse(Refusal::OldToken { given: token });
        };
        let step = self.run.state.active[at].step;
        let item = self.run.state.active[at].item;
        if self.is_stopping() {
            let active = self.remove(at);
            self.stopped(&active, ending == Ending::Succeeded, output);
            return Ok(());
        }
        if ending == Ending::Succeeded {
            let output = output.unwrap_or_else(|| RawValue::NULL.to_owned());
            let key = match super::start::action_of(self.definition, Part { step, item }) {
                Some(Action::SubProcess(child)) => child.output_key.clone(),
                _ => None,
            };
            let output = match key {
                Some(key) => under(&key, &output),
                None => output,
            };
            self.succeeded(at, output)?;
            return Ok(());
        }
        let what = error.map_or_else(|| "it says nothing".to_owned(), |error| error.message);
        let ended = match ending {
            Ending::Succeeded => "has succeeded",
            Ending::Failed => "has failed",
            Ending::Cancelled => "was cancelled",
            Ending::TimedOut => "has timed out",
        };
        let message = format!("the run it started {ended}: {what}");
        let error = self.error(step, "sub_process", message);
        let retryability = Retryability::of(ending != Ending::Cancelled);
        self.failed(at, error, retryability, output)?;
        Ok(())
    }

    /// Takes a person's decision about an approval.
    pub(super) fn decided(
        &mut self,
        step: u32,
        approves: bool,
        by: String,
        roles: &[String],
        comment: Option<String>,
    ) -> Taken<F::Error> {
        let id = self.step(step).map(|step| step.id.clone()).unwrap_or_default();
        let wrong = Refusal::WrongStep { verb: "decide over", step: id };
        let Some(at) = self.index_of_part(step, Item::Whole) else { return refuse(wrong) };
        let ActivityStatus::Asked { assignees, .. } = &self.run.state.active[at].status else {
            return refuse(wrong);
        };
        let is_asked = assignees.contains(&by) || roles.iter().any(|role| assignees.contains(role));
        if !assignees.is_empty() && !is_asked {
            return refuse(Refusal::NotTheirs { by, assignees: assignees.clone() });
        }
        let decision = if approves { "approved" } else { "rejected" };
        let output = serde_json::json!({
            "decision": decision, "decided_by": by, "comment": comment,
        });
        let output = super::start::raw(&output);
        if approves {
            self.succeeded(at, output)?;
        } else {
            let said = comment.map(|comment| format!(": {comment}")).unwrap_or_default();
            let error = self.error(step, "rejected", format!("rejected by {by}{said}"));
            self.failed(at, error, Retryability::Permanent, Some(output))?;
        }
        Ok(())
    }
}

fn under(key: &str, output: &RawValue) -> Box<RawValue> {
    let key = serde_json::Value::from(key);
    let text = format!("{{{key}:{output}}}");
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
