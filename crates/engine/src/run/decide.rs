//! The transition function of runs: total over status and input.

use jiff::{SignedDuration, Timestamp};

use super::{
    AttemptEnd, BeingEnded, CANCEL_LIMIT, Decision, Ending, Input, Refusal, Resolution, Run,
    RunError, RunStatus, StepRecord, StepStatus,
};
use crate::definition::{Definition, OnError, Step};
use crate::ids::NodeId;

/// Decides over one input. A refusal changes nothing.
pub fn decide(
    run: &mut Run,
    definition: &Definition,
    input: Input,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    let mut decider = Decider { run, definition, now, decision: Decision::default() };
    match input {
        Input::Begin(node) => decider.begin(node)?,
        Input::Reported { token, end } => decider.reported(token, end)?,
        Input::Wake(node) => decider.wake(node),
        Input::Cancel { reason } => decider.cancel(reason)?,
        Input::OwnerGone(node) => decider.owner_gone(node),
        Input::Resolve { resolution, node } => decider.resolve(resolution, node)?,
    }
    Ok(decider.decision)
}

struct Decider<'a> {
    run: &'a mut Run,
    definition: &'a Definition,
    now: Timestamp,
    decision: Decision,
}

impl Decider<'_> {
    fn require(&self, verb: &'static str, allowed: &[RunStatus]) -> Result<(), Refusal> {
        let status = self.run.status;
        if allowed.contains(&status) { Ok(()) } else { Err(Refusal::WrongStatus { verb, status }) }
    }

    fn begin(&mut self, node: NodeId) -> Result<(), Refusal> {
        self.require("begin", &[RunStatus::Pending])?;
        self.run.started_at = Some(self.now);
        self.attempt_or_end(Some(node));
        Ok(())
    }

    fn step(&self) -> Option<&Step> {
        self.definition.steps.get(self.run.position.step as usize)
    }

    /// Starts an attempt at the step the run is at, or waits for a place if no node has one; past the
    /// last step, the run has succeeded.
    fn attempt_or_end(&mut self, node: Option<NodeId>) {
        self.run.position.owner = None;
        self.run.position.retry_at = None;
        if self.step().is_none() {
            return self.end(Ending::Succeeded, None, false);
        }
        if self.is_over_time() {
            return self.time_out();
        }
        let Some(node) = node else {
            self.run.status = RunStatus::Waiting;
            return;
        };
        let position = &mut self.run.position;
        position.attempt += 1;
        position.token += 1;
        position.since = Some(self.now);
        position.owner = Some(node);
        self.run.status = RunStatus::Running;
        self.decision.perform = Some(position.step);
    }

    fn reported(&mut self, token: u32, end: AttemptEnd) -> Result<(), Refusal> {
        self.require("report on", &[RunStatus::Running])?;
        let current = self.run.position.token;
        if token != current || self.run.position.owner.is_none() {
            return Err(Refusal::OldToken { given: token, current });
        }
        let node = self.run.position.owner.take();
        if let Some(ending) = self.run.position.ending.take() {
            self.ended_from_outside(&ending, end);
            return Ok(());
        }
        match (end, node) {
            (AttemptEnd::Succeeded { output }, Some(node)) => {
                self.run.output = Some(output.clone());
                self.record(StepStatus::Completed, Some(output), None);
                self.next_step(Some(node));
            }
            (AttemptEnd::Failed { code, message, retryable, output }, Some(node)) => {
                let error = self.error(code, message);
                self.failed(node, error, retryable, output);
            }
            (AttemptEnd::Cancelled { message }, _) => {
                let error = self.error("cancelled", message);
                self.record(StepStatus::Cancelled, None, Some(error.clone()));
                self.end(Ending::Cancelled, Some(error), false);
            }
            (_, None) => {}
        }
        Ok(())
    }

    fn next_step(&mut self, node: Option<NodeId>) {
        self.run.position.step += 1;
        self.run.position.attempt = 0;
        self.attempt_or_end(node);
    }

    fn failed(
        &mut self,
        node: NodeId,
        error: RunError,
        retryable: bool,
        output: Option<Box<serde_json::value::RawValue>>,
    ) {
        let Some(step) = self.step() else { return };
        let attempts = self.run.position.attempt;
        let (retry, on_error) = (step.retry.clone(), step.on_error.clone());
        if retryable && attempts < retry.max {
            self.record(StepStatus::Failed, output, Some(error));
            let at = self.now.checked_add(retry.delay_before(attempts + 1)).unwrap_or(self.now);
            self.run.position.retry_at = Some(at);
            self.run.status = RunStatus::Waiting;
        } else if on_error == OnError::SkipStep {
            self.record(StepStatus::Skipped, output, Some(error));
            self.next_step(Some(node));
        } else {
            self.record(StepStatus::Failed, output, Some(error.clone()));
            self.end(Ending::Failed, Some(error), retryable);
        }
    }

    fn error(&self, code: impl Into<String>, message: impl Into<String>) -> RunError {
        let step = self.step().map(|step| step.id.clone());
        RunError { code: code.into(), message: message.into(), step }
    }

    fn record(
        &mut self,
        status: StepStatus,
        output: Option<Box<serde_json::value::RawValue>>,
        error: Option<RunError>,
    ) {
        let position = &self.run.position;
        self.decision.step = Some(StepRecord {
            step: position.step,
            status,
            attempts: position.attempt,
            started_at: position.since.unwrap_or(self.now),
            ended_at: self.now,
            output,
            error,
        });
    }

    fn end(&mut self, ending: Ending, error: Option<RunError>, retryable: bool) {
        self.run.status = ending.status();
        self.run.ended_at = Some(self.now);
        self.run.error = error;
        self.run.position.owner = None;
        self.run.position.retry_at = None;
        self.run.position.ending = None;
        self.decision.retryable = retryable;
    }

    /// The attempt of a run that was told to end has ended, however it did.
    fn ended_from_outside(&mut self, ending: &BeingEnded, end: AttemptEnd) {
        let output = match end {
            AttemptEnd::Succeeded { output } => Some(output),
            AttemptEnd::Failed { output, .. } => output,
            AttemptEnd::Cancelled { .. } => None,
        };
        self.finish_ending(ending, output);
    }

    fn finish_ending(
        &mut self,
        ending: &BeingEnded,
        output: Option<Box<serde_json::value::RawValue>>,
    ) {
        let code = if ending.ending == Ending::TimedOut { "timeout" } else { "cancelled" };
        let error = self.error(code, ending.message.clone());
        self.record(StepStatus::Cancelled, output, Some(error.clone()));
        self.end(ending.ending, Some(error), ending.ending == Ending::TimedOut);
    }

    fn wake(&mut self, node: Option<NodeId>) {
        let now = self.now;
        if self.run.status.has_ended() || self.run.status == RunStatus::Suspended {
            return;
        }
        if let Some(ending) = self.run.position.ending.clone() {
            if ending.until <= now {
                // Late reports are refused from here on: the attempt has no owner any more.
                self.run.position.owner = None;
                self.finish_ending(&ending, None);
            }
            return;
        }
        if self.is_over_time() {
            return self.time_out();
        }
        let is_ready = self.run.position.retry_at.is_none_or(|at| at <= now);
        if self.run.status == RunStatus::Waiting && is_ready {
            self.attempt_or_end(node);
        }
    }

    fn is_over_time(&self) -> bool {
        let limit = self.run.started_at.and_then(|at| at.checked_add(self.run.timeout).ok());
        limit.is_some_and(|limit| limit <= self.now)
    }

    fn time_out(&mut self) {
        let took = calendar::format_duration(self.run.timeout);
        self.end_from_outside(Ending::TimedOut, format!("timeout: longer than {took}"));
    }

    fn cancel(&mut self, reason: String) -> Result<(), Refusal> {
        use RunStatus::{Pending, Running, Suspended, Waiting};
        self.require("cancel", &[Pending, Running, Waiting, Suspended])?;
        match &mut self.run.position.ending {
            None => self.end_from_outside(Ending::Cancelled, reason),
            // Whoever cancels it does not want it tried again, also if its time was up already.
            Some(ending) => {
                ending.ending = Ending::Cancelled;
                ending.message = reason;
            }
        }
        Ok(())
    }

    /// An attempt that is going on is told to end; without one the run ends at once.
    fn end_from_outside(&mut self, ending: Ending, message: String) {
        if self.run.position.owner.is_some() {
            let until = self.now.checked_add(CANCEL_LIMIT).unwrap_or(self.now);
            self.run.position.ending = Some(BeingEnded { ending, message, until });
            self.decision.cancel = Some(self.run.position.token);
            return;
        }
        let code = if ending == Ending::TimedOut { "timeout" } else { "cancelled" };
        let error = self.error(code, message);
        self.end(ending, Some(error), ending == Ending::TimedOut);
    }

    /// An attempt nobody performs any more: tried again if that does no harm.
    fn owner_gone(&mut self, node: Option<NodeId>) {
        if self.run.status != RunStatus::Running {
            return;
        }
        if let Some(ending) = self.run.position.ending.take() {
            return self.finish_ending(&ending, None);
        }
        if self.step().is_none_or(|step| step.idempotent) {
            // The lost attempt is no failure of the step.
            self.run.position.attempt = self.run.position.attempt.saturating_sub(1);
            return self.attempt_or_end(node);
        }
        let message =
            "the node that performed this step is gone, and the step must not be repeated";
        self.run.error = Some(self.error("unknown_outcome", message));
        self.run.position.owner = None;
        self.run.status = RunStatus::Suspended;
    }

    fn resolve(&mut self, resolution: Resolution, node: Option<NodeId>) -> Result<(), Refusal> {
        self.require("resolve", &[RunStatus::Suspended])?;
        let error = self.run.error.take();
        match resolution {
            Resolution::Applied => {
                self.record(StepStatus::Completed, None, None);
                self.next_step(node);
            }
            Resolution::DidNotHappen => self.attempt_or_end(node),
            Resolution::Failed => {
                self.record(StepStatus::Failed, None, error.clone());
                self.end(Ending::Failed, error, false);
            }
        }
        Ok(())
    }
}

impl crate::definition::StepRetry {
    /// How long attempt number `attempt` (2 is the first retry) waits.
    pub fn delay_before(&self, attempt: u32) -> SignedDuration {
        let exponent = i32::try_from(attempt.saturating_sub(2)).unwrap_or(i32::MAX).min(64);
        let factor = self.factor.max(1.0).powi(exponent);
        let seconds = self.delay.as_secs_f64() * factor;
        let seconds = seconds.min(self.max_delay.as_secs_f64());
        SignedDuration::try_from_secs_f64(seconds).unwrap_or(self.max_delay)
    }
}
