//! The transition function of runs: total over status and input.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use language::Rules;
use language::definition::{Definition, EXEC_NOT_ALLOWED, Graph, Step};
use serde_json::value::RawValue;

use super::input::{AttemptEnd, Decision, Input, Resolution, Retryability, RunHistory};
use super::item::Item;
use super::scope::ItemScope;
use super::state::{Activity, ActivityStatus, States};
use super::stored_input::StoredInput;
use super::{Ending, Refusal, Run, RunError, RunStatus, StepStatus};
use crate::ids::NodeId;
use crate::stop::{Stop, refuse};
use crate::turn::Damaged;

/// The node that performs attempts, and how many more it can start.
pub struct NodeCapacity<'a> {
    pub node: NodeId,
    /// The free slots of the node.
    pub free: &'a mut usize,
    /// How many parts may still begin in this turn, wherever they are performed. The rest waits for
    /// the next turn, as if no slot were free.
    pub starts_left: &'a mut usize,
    /// Whether the run's workflow is paused, which stops the clocks of pausable deadlines.
    pub is_paused: bool,
    /// Whether steps that do nothing end in the turn that begins them.
    pub ends_noops: bool,
}

/// Decides one input. A refusal changes nothing.
pub fn decide<F: RunHistory>(
    run: &mut Run,
    definition: &Definition,
    rules: &Rules,
    input: Input,
    now: Timestamp,
    capacity: NodeCapacity<'_>,
    history: &mut F,
) -> Result<Decision, Stop<Refusal, F::Error>> {
    let graph = definition.graph();
    let decision = Decision::default();
    let agenda = BTreeSet::new();
    let stamp = run.stamp(now);
    let performed_since = run.state.performed_since();
    let mut decider = Decider {
        run,
        definition,
        graph,
        rules,
        now,
        stamp,
        capacity,
        history,
        decision,
        agenda,
        item_scope: None,
    };
    let is_offer = matches!(input, Input::Arrived { .. });
    decider.take(input)?;
    if is_offer && !decider.decision.took_event {
        // The event is not the awaited one, so nothing has changed.
        return Ok(decider.decision);
    }
    decider.end_if_used_up();
    decider.advance()?;
    decider.count_performed(performed_since);
    Ok(decider.decision)
}

/// A decision in progress.
pub(super) struct Decider<'a, F: RunHistory> {
    pub(super) run: &'a mut Run,
    pub(super) definition: &'a Definition,
    pub(super) graph: &'a Graph,
    pub(super) rules: &'a Rules,
    pub(super) now: Timestamp,
    /// The time to record for this decision.
    pub(super) stamp: Timestamp,
    pub(super) capacity: NodeCapacity<'a>,
    pub(super) history: &'a mut F,
    pub(super) decision: Decision,
    /// Steps that may be able to begin.
    pub(super) agenda: BTreeSet<u32>,
    /// The scope of templates in a `for_each`, built once and used for each of its items.
    pub(super) item_scope: Option<ItemScope>,
}

pub(super) type Taken<E> = Result<(), Stop<Refusal, E>>;

impl<F: RunHistory> Decider<'_, F> {
    fn take(&mut self, input: Input) -> Taken<F::Error> {
        match input {
            Input::Begin => self.begin().map_err(Stop::Refused),
            Input::Reported { token, end } => self.reported(token, end),
            Input::Wake => Ok(self.wake()?),
            Input::Cancel { reason } => self.cancel(reason).map_err(Stop::Refused),
            Input::OwnerGone(node) => {
                self.owner_gone(node);
                Ok(())
            }
            Input::Resolve { step, resolution, .. } => self.resolve(step, resolution),
            Input::Claim { part, worker, claimant, lease_until } => {
                self.claim(part, worker, claimant, lease_until).map_err(Stop::Refused)
            }
            Input::Heartbeat { token, claimant, lease_until } => {
                self.heartbeat(token, &claimant, lease_until).map_err(Stop::Refused)
            }
            Input::ReturnClaim { token } => self.return_claim(token).map_err(Stop::Refused),
            Input::Decide { step, approves, by, roles, comment } => {
                self.decided(step, approves, by, &roles, comment)
            }
            Input::Arrived { part, event } => Ok(self.arrived(part, event)?),
            Input::ChildEnded { token, ending, output, error } => {
                self.child_ended(token, ending, output, error)
            }
            Input::ChildStarted { token, output } => self.child_started(token, output),
            Input::ChildRefused { token, message } => self.child_refused(token, &message),
        }
    }

    fn require(&self, verb: &'static str, allowed: &[RunStatus]) -> Result<(), Refusal> {
        let status = self.run.status;
        if allowed.contains(&status) { Ok(()) } else { Err(Refusal::WrongStatus { verb, status }) }
    }

    fn begin(&mut self) -> Result<(), Refusal> {
        self.require("begin", &[RunStatus::Pending])?;
        self.run.started_at = Some(self.stamp);
        if self.run.state.states.is_empty() {
            self.run.state.states = States::new(self.definition.steps.len());
        }
        self.watch_started_run();
        let steps = self.run.state.states.iter();
        self.agenda.extend(steps.filter(|(_, state)| !state.has_ended()).map(|(step, _)| step));
        if let Some(error) = self.unfit_payload() {
            self.end_from_outside(Ending::Failed, error, Retryability::Permanent);
        }
        Ok(())
    }

    /// The error of a run whose payload does not match the input schema. Only payloads that no
    /// caller could be told about get this far: those of events, of other runs, and of schedules
    /// older than the revision. The run is not retried, since the payload would not match later
    /// either.
    fn unfit_payload(&self) -> Option<RunError> {
        let expected = self.definition.input.as_ref()?;
        let payload = StoredInput::of(self.run).payload().get();
        let mistakes = expected.check(&serde_json::from_str(payload).unwrap_or_default());
        let told = mistakes.iter().map(|m| format!("{}: {}", m.path, m.problem.message));
        let told: Vec<String> = told.collect();
        (!told.is_empty()).then(|| RunError {
            code: "input".to_owned(),
            message: format!("not what the workflow expects: {}", told.join("; ")),
            step: None,
        })
    }

    pub(super) fn step(&self, step: u32) -> Option<&Step> {
        self.definition.steps.get(step as usize)
    }

    /// An error that names this step.
    pub(super) fn error(
        &self,
        step: u32,
        code: impl Into<String>,
        message: impl Into<String>,
    ) -> RunError {
        let step = self.step(step).map(|step| step.id.clone());
        RunError { code: code.into(), message: message.into(), step }
    }

    fn reported(&mut self, token: u32, end: AttemptEnd) -> Taken<F::Error> {
        let Some(at) = self.index_of(token) else {
            return refuse(Refusal::OldToken { given: token });
        };
        if matches!(self.run.state.active[at].status, ActivityStatus::Child { .. }) {
            return refuse(Refusal::OldToken { given: token });
        }
        if self.is_stopping() {
            self.ended_from_outside(at, end);
            return Ok(());
        }
        let looks = self.run.state.active[at].item == Item::Reconciling;
        match end {
            AttemptEnd::Succeeded { output } if looks => self.reconciled(at, &output)?,
            AttemptEnd::Succeeded { output } => self.succeeded(at, output)?,
            AttemptEnd::Failed { code, message, retryable, output } => {
                let error = self.error(self.run.state.active[at].step, code, message);
                self.attempt_failed(at, error, Retryability::of(retryable), output)?;
            }
            AttemptEnd::NotAllowed { message, retryable } => {
                let step = self.run.state.active[at].step;
                let error = self.error(step, EXEC_NOT_ALLOWED, message);
                self.attempt_failed(at, error, Retryability::NodeSetup { retryable }, None)?;
            }
            AttemptEnd::Cancelled { message } => self.ended_itself(at, message),
            AttemptEnd::Unknown { message } => {
                let step = self.run.state.active[at].step;
                let message = format!("{message}, and the step must not be repeated");
                let error = self.error(step, "unknown_outcome", message);
                self.unknown_outcome(at, error);
            }
        }
        Ok(())
    }

    fn attempt_failed(
        &mut self,
        at: usize,
        error: RunError,
        retryability: Retryability,
        output: Option<Box<RawValue>>,
    ) -> Result<(), F::Error> {
        if self.run.state.active[at].item != Item::Reconciling {
            return self.failed(at, error, retryability, output);
        }
        self.not_reconciled(at, error, retryability);
        self.say_what_is_unknown();
        Ok(())
    }

    /// The index of the attempt with this token among the active parts.
    pub(super) fn index_of(&self, token: u32) -> Option<usize> {
        let active = &self.run.state.active;
        active.iter().position(|active| active.status.token() == Some(token))
    }

    fn wake(&mut self) -> Result<(), F::Error> {
        if self.run.status.has_ended() || self.run.status == RunStatus::Pending {
            if self.run.status == RunStatus::Pending {
                self.look_at_watches()?;
            }
            return Ok(());
        }
        if let Some(ending) = &self.run.state.ending {
            if ending.tell_children_at.is_some_and(|at| at <= self.now) {
                self.tell_children();
                return Ok(());
            }
            if ending.until.is_some_and(|until| until <= self.now) {
                self.stop_waiting();
                return Ok(());
            }
        }
        let is_suspended = self.run.status == RunStatus::Suspended;
        if !self.is_ending() && !is_suspended && self.is_over_time() {
            self.time_out();
        }
        if !self.is_ending() {
            self.look_at_watches()?;
        }
        self.wake_parts()
    }

    /// Adds to the performed time, which counts towards the timeout. If the earliest performed part
    /// is still the same, nothing needs to be written.
    fn count_performed(&mut self, before: Option<Timestamp>) {
        let position = &mut self.run.state;
        if let Some(since) = before.filter(|_| self.run.timeout.is_some())
            && position.performed_since() != Some(since)
        {
            position.count_performed(since, self.stamp);
        }
    }

    fn is_over_time(&self) -> bool {
        self.run.time_limit().is_some_and(|limit| limit <= self.now)
    }

    /// Ends a run that used up its timeout before it waited, instead of beginning parts that would
    /// be cancelled at once.
    fn end_if_used_up(&mut self) {
        let position = &self.run.state;
        let performed = SignedDuration::from_millis(position.performed);
        let is_used_up = self.run.timeout.is_some_and(|limit| limit <= performed);
        let is_ready = |active: &Activity| active.status == ActivityStatus::Ready;
        let begins = !self.agenda.is_empty() || position.active.iter().any(is_ready);
        let goes_on = matches!(self.run.status, RunStatus::Running | RunStatus::Waiting);
        if is_used_up && begins && goes_on && !self.is_ending() {
            self.time_out();
        }
    }

    fn time_out(&mut self) {
        let limit = self.run.timeout.map(calendar::format_duration).unwrap_or_default();
        let error =
            self.of_what_goes_on("timeout", format!("timeout: performed for longer than {limit}"));
        self.end_from_outside(Ending::TimedOut, error, Retryability::Retryable);
    }

    /// An error that names the active step, if there is only one.
    fn of_what_goes_on(&self, code: &str, message: String) -> RunError {
        let mut steps: Vec<u32> = self.run.state.active.iter().map(|a| a.step).collect();
        steps.dedup();
        match steps[..] {
            [step] => self.error(step, code, message),
            _ => RunError { code: code.to_owned(), message, step: None },
        }
    }

    fn cancel(&mut self, reason: String) -> Result<(), Refusal> {
        use RunStatus::{Pending, Running, Suspended, Waiting};
        self.require("cancel", &[Pending, Running, Waiting, Suspended])?;
        let error = self.of_what_goes_on("cancelled", reason);
        match &mut self.run.state.ending {
            None => self.end_from_outside(Ending::Cancelled, error, Retryability::Permanent),
            // A run that is cancelled while it is already ending is not retried. Completed steps
            // are still undone.
            Some(ending) => {
                ending.ending = Ending::Cancelled;
                ending.error = Some(error);
                ending.retryability = Retryability::Permanent;
            }
        }
        // Without a readable definition, a later report could not be decided.
        if self.definition.steps.is_empty() {
            self.stop_waiting();
        }
        Ok(())
    }

    /// The active part whose result is unknown: of the given step, or the only one.
    fn unknown(&self, step: Option<String>) -> Result<usize, Refusal> {
        let active = self.run.state.active.iter().enumerate();
        let unknown: Vec<(usize, &str)> = active
            .filter(|(_, active)| matches!(active.status, ActivityStatus::Unknown { .. }))
            .filter_map(|(at, active)| Some((at, self.step(active.step)?.id.as_str())))
            .collect();
        match (&*unknown, step) {
            ([], _) => {
                let status = self.run.status;
                Err(Refusal::WrongStatus { verb: "resolve", status })
            }
            ([(at, first), rest @ ..], None) if rest.iter().all(|(_, id)| id == first) => Ok(*at),
            (several, None) => {
                let steps = several.iter().map(|(_, id)| (*id).to_owned()).collect();
                Err(Refusal::WhichStep { steps })
            }
            (several, Some(step)) => match several.iter().find(|(_, id)| *id == step) {
                Some((at, _)) => Ok(*at),
                None => Err(Refusal::WrongStep { verb: "resolve", step }),
            },
        }
    }

    fn resolve(&mut self, step: Option<String>, resolution: Resolution) -> Taken<F::Error> {
        let at = self.unknown(step).map_err(Stop::Refused)?;
        let error = self.run.error.take();
        let step = self.run.state.active[at].step;
        self.stop_looking(step);
        let missing = || Damaged(format!("step {step} of run {} is not unknown", self.run.id));
        let at = self.index_of_unknown(step).ok_or_else(missing).map_err(F::Error::from)?;
        match resolution {
            Resolution::Applied => self.succeeded(at, RawValue::NULL.to_owned())?,
            // The data that a consumer has read may be outdated, so it starts over.
            Resolution::DidNotHappen if self.run.handler.is_some() => self.did_not_happen(at)?,
            Resolution::DidNotHappen => {
                let unknown = self.run.state.active[at].clone();
                let error = self.error(step, "did_not_happen", "a person says it did not happen");
                self.is_followed(&unknown, StepStatus::Cancelled, error);
                self.run.state.active[at].status = ActivityStatus::Ready;
            }
            Resolution::Skip => self.skip_unknown(at)?,
            Resolution::Failed => {
                let own = self.error(step, "unknown_outcome", "a person says that it failed");
                let error = error.filter(|error| error.step == own.step).unwrap_or(own);
                self.failed(at, error, Retryability::Permanent, None)?;
            }
        }
        self.say_what_is_unknown();
        Ok(())
    }

    fn index_of_unknown(&self, step: u32) -> Option<usize> {
        let active = self.run.state.active.iter();
        let mut parts = active.enumerate().filter(|(_, active)| active.step == step);
        parts.find(|(_, a)| matches!(a.status, ActivityStatus::Unknown { .. })).map(|(at, _)| at)
    }

    /// Sets the run's error while the result of an attempt is unknown.
    fn say_what_is_unknown(&mut self) {
        let unknown =
            |active: &&super::Activity| matches!(active.status, ActivityStatus::Unknown { .. });
        let first = self.run.state.active.iter().find(unknown).map(|active| active.step);
        if let Some(step) = first.filter(|_| !self.is_ending()) {
            let message =
                "what became of an attempt is not known, and the step must not be repeated";
            self.run.error = Some(self.error(step, "unknown_outcome", message));
        }
    }
}
