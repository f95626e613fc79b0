//! How a run that does not succeed ends: active attempts are told to stop, completed steps are
//! undone, and then the run has ended.

use jiff::Timestamp;
use serde_json::value::RawValue;

use super::decide::Decider;
use super::input::{AttemptEnd, Part, Retryability, RunHistory};
use super::item::Item;
use super::state::{Activity, ActivityStatus, StepState};
use super::{BeingEnded, CANCEL_LIMIT, Ending, RunError, StepStatus};
use crate::ids::NodeId;
use crate::turn::Damaged;

impl<F: RunHistory> Decider<'_, F> {
    pub(super) fn is_ending(&self) -> bool {
        self.run.state.ending.is_some()
    }

    /// Whether the run still waits for active attempts to stop.
    pub(super) fn is_stopping(&self) -> bool {
        self.run.state.is_stopping()
    }

    /// Begins to end the run. Active attempts are told to stop; parts that only wait end at once.
    pub(super) fn end_from_outside(
        &mut self,
        ending: Ending,
        error: RunError,
        retryability: Retryability,
    ) {
        if self.run.started_at.is_none() {
            return self.end(ending, Some(error), retryability);
        }
        self.agenda.clear();
        let mut at = 0;
        while let Some(active) = self.run.state.active.get(at) {
            match &active.status {
                ActivityStatus::Performed { token, .. } => self.decision.cancel.push(*token),
                // The worker learns of it with its next heartbeat.
                ActivityStatus::Claimed { .. } => {}
                // They are told below.
                ActivityStatus::Child { .. } => {}
                _ => {
                    let active = self.remove(at);
                    self.cancel_waiting(&active, &error);
                    continue;
                }
            }
            at += 1;
        }
        // If nothing is being performed, the run undoes its completed steps at once.
        let waits = !self.run.state.active.is_empty();
        let until = waits.then(|| self.cancel_limit());
        let (error, tell_children_at) = (Some(error), None);
        self.run.state.ending =
            Some(BeingEnded { ending, error, retryability, until, tell_children_at });
        self.run.state.watches.clear();
        self.tell_children();
    }

    /// When the run stops waiting for what it has told to stop at this moment.
    fn cancel_limit(&self) -> Timestamp {
        self.now.checked_add(CANCEL_LIMIT).unwrap_or(self.now)
    }

    /// Tells the children of a run that is being ended to end too, as many as this turn may still
    /// cancel. For the others the run is woken in the next turn.
    pub(super) fn tell_children(&mut self) {
        let (until, now) = (self.cancel_limit(), self.now);
        let Some(ending) = &mut self.run.state.ending else { return };
        let reason = ending.error.as_ref().map(|error| error.message.as_str()).unwrap_or_default();
        let mut is_left = false;
        for active in &self.run.state.active {
            let ActivityStatus::Child { run, .. } = active.status else { continue };
            if *self.capacity.starts_left == 0 {
                is_left = true;
                break;
            }
            *self.capacity.starts_left -= 1;
            self.decision.cancel_runs.push((run, reason.to_owned()));
        }
        ending.tell_children_at = is_left.then_some(now);
        // The time limit counts from when the last child was told.
        ending.until = ending.until.map(|_| until);
    }

    /// Cancels a part that nobody performs.
    fn cancel_waiting(&mut self, active: &Activity, error: &RunError) {
        let has_begun = active.attempt > 0 || active.status.since().is_some();
        if has_begun {
            let mut error = error.clone();
            error.step = self.step(active.step).map(|step| step.id.clone());
            self.record(active, StepStatus::Cancelled, None, Some(error));
        }
        if active.item == Item::Whole {
            self.run.state.states.set(active.step, StepState::Cancelled);
        }
    }

    /// Takes the result of an attempt after the run was told to end.
    pub(super) fn ended_from_outside(&mut self, at: usize, end: AttemptEnd) {
        let active = self.remove(at);
        let (succeeded, output) = match end {
            AttemptEnd::Succeeded { output } => (true, Some(output)),
            AttemptEnd::Failed { output, .. } => (false, output),
            AttemptEnd::NotAllowed { .. }
            | AttemptEnd::Cancelled { .. }
            | AttemptEnd::Unknown { .. } => (false, None),
        };
        self.stopped(&active, succeeded, output);
    }

    /// Ends a stopped part. If it has succeeded nevertheless and has a compensation, it will be
    /// undone too.
    pub(super) fn stopped(
        &mut self,
        active: &Activity,
        succeeded: bool,
        output: Option<Box<RawValue>>,
    ) {
        let has_undoing = self.step(active.step).is_some_and(|step| step.compensation.is_some());
        if succeeded && has_undoing && active.item == Item::Whole {
            self.record(active, StepStatus::Completed, output, None);
            self.run.state.to_undo.push(active.step);
            self.run.state.states.set(active.step, StepState::Completed);
            return;
        }
        let mut error = self.run.state.ending.as_ref().and_then(|ending| ending.error.clone());
        if let Some(error) = &mut error {
            error.step = self.step(active.step).map(|step| step.id.clone());
        }
        self.record(active, StepStatus::Cancelled, output, error);
        if active.item == Item::Whole {
            self.run.state.states.set(active.step, StepState::Cancelled);
        }
    }

    /// Stops waiting for attempts that have not reported. Their later reports will be refused.
    pub(super) fn stop_waiting(&mut self) {
        while !self.run.state.active.is_empty() {
            let active = self.remove(0);
            self.stopped(&active, false, None);
        }
    }

    /// Handles an attempt that reports itself as cancelled although the run is not being ended.
    pub(super) fn ended_itself(&mut self, at: usize, message: String) {
        let active = self.remove(at);
        let error = self.error(active.step, "cancelled", message);
        self.record(&active, StepStatus::Cancelled, None, Some(error.clone()));
        if active.item == Item::Undoing {
            return;
        }
        if active.item == Item::Whole {
            self.unwatch(active.step);
            self.run.state.states.set(active.step, StepState::Cancelled);
        }
        self.end_from_outside(Ending::Cancelled, error, Retryability::Permanent);
    }

    /// Continues a run that is ending and has no active parts: undoes the step that was completed
    /// last, or ends the run.
    pub(super) fn nothing_goes_on(&mut self) -> Result<(), F::Error> {
        let ending = self.run.state.ending.as_ref().map(|ending| ending.ending);
        if ending == Some(Ending::Succeeded) {
            self.run.state.to_undo.clear();
        }
        loop {
            if let Some(ending) = &mut self.run.state.ending {
                ending.until = None;
            }
            let Some(step) = self.run.state.to_undo.pop() else { break };
            self.run.state.active.push(Activity {
                step,
                item: Item::Undoing,
                attempt: 0,
                enabled_at: self.stamp,
                status: ActivityStatus::Ready,
            });
            let at = self.run.state.active.len() - 1;
            if self.can_start(at) {
                self.begin_part(at)?;
            }
            if !self.run.state.active.is_empty() {
                return Ok(());
            }
        }
        let missing = || Damaged(format!("run {} is not being ended", self.run.id));
        let being_ended = self.run.state.ending.take().ok_or_else(missing)?;
        let BeingEnded { ending, error, retryability, .. } = being_ended;
        self.end(ending, error, retryability);
        Ok(())
    }

    pub(super) fn end(
        &mut self,
        ending: Ending,
        error: Option<RunError>,
        retryability: Retryability,
    ) {
        let pending = self.run.state.states.iter();
        let pending = pending.filter(|(_, state)| *state == StepState::Pending);
        for step in pending.map(|(step, _)| step).collect::<Vec<u32>>() {
            self.run.state.states.set(step, StepState::Cancelled);
        }
        self.agenda.clear();
        self.run.status = ending.status();
        self.run.ended_at = Some(self.stamp);
        self.run.error = error;
        self.run.waits_for_slot = false;
        self.run.state.ending = None;
        self.run.state.watches.clear();
        self.decision.retryability = retryability;
    }

    /// Handles the attempts of a dead node: they are repeated if that is safe.
    pub(super) fn owner_gone(&mut self, gone: NodeId) {
        let is_lost = |active: &Activity| active.owner() == Some(gone);
        while let Some(at) = self.run.state.active.iter().position(is_lost) {
            self.lost(at, "the node that performed this step is gone");
        }
    }

    /// Whether the part can safely be repeated when its result is unknown.
    pub(super) fn may_be_repeated(&self, part: Part) -> bool {
        part.item == Item::Undoing || self.step(part.step).is_none_or(|step| step.idempotent)
    }

    /// Handles an attempt whose node or worker is gone.
    pub(super) fn lost(&mut self, at: usize, how: &str) {
        if self.is_stopping() {
            let active = self.remove(at);
            return self.stopped(&active, false, None);
        }
        let active = &self.run.state.active[at];
        let step = active.step;
        if self.may_be_repeated(active.part()) {
            let lost = active.clone();
            let error = self.error(step, "lost", how);
            self.is_followed(&lost, StepStatus::Cancelled, error);
            let active = &mut self.run.state.active[at];
            // The lost attempt does not count as a failure of the step.
            active.attempt = active.attempt.saturating_sub(1);
            active.status = ActivityStatus::Ready;
            return;
        }
        let message = format!("{how}, and the step must not be repeated");
        let error = self.error(step, "unknown_outcome", message);
        self.unknown_outcome(at, error);
    }
}
