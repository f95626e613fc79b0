//! Begins the steps that can begin after a change, until nothing more can.

use language::definition::Action;

use super::decide::Decider;
use super::input::{Retryability, RunHistory};
use super::item::Item;
use super::start::action_of;
use super::state::{Activity, ActivityStatus, StepState};
use super::{Ending, RunStatus};
use crate::turn::Damaged;

impl<F: RunHistory> Decider<'_, F> {
    /// Begins every part that can begin, ends the run if none is active, and updates its status.
    pub(super) fn advance(&mut self) -> Result<(), F::Error> {
        if self.run.status.has_ended() || self.run.started_at.is_none() {
            return Ok(());
        }
        loop {
            while let Some(step) = self.agenda.pop_first() {
                self.look_at(step)?;
            }
            if self.start_one()? {
                continue;
            }
            // A step that has just begun may have a deadline with an action that is due at once.
            if self.is_ending() || !self.has_due_watch() {
                break;
            }
            self.look_at_watches()?;
        }
        if self.run.state.active.is_empty() && !self.run.status.has_ended() {
            if self.is_ending() { self.nothing_goes_on()? } else { self.succeed()? }
        }
        if !self.run.status.has_ended() {
            self.set_status();
        }
        Ok(())
    }

    pub(super) fn state(&self, step: u32) -> StepState {
        self.run.state.states.of(step)
    }

    pub(super) fn set_state(&mut self, step: u32, state: StepState) {
        self.run.state.states.set(step, state);
        if state.has_ended() {
            self.agenda.extend(self.graph.dependents(step));
        }
    }

    /// Enables a step, or skips it, if everything it depends on has ended.
    fn look_at(&mut self, step: u32) -> Result<(), F::Error> {
        if self.state(step) != StepState::Pending || self.is_ending() {
            return Ok(());
        }
        let jumped_to = &mut self.run.state.jumped_to;
        let is_jumped_to = jumped_to.contains(&step);
        jumped_to.retain(|target| *target != step);
        if !is_jumped_to {
            if self.graph.is_handler(step) {
                return Ok(());
            }
            let depends = self.graph.dependencies(step);
            if depends.iter().any(|on| !self.state(*on).has_ended()) {
                return Ok(());
            }
            if !depends.is_empty() && depends.iter().all(|on| self.is_dead_end(*on, step)) {
                self.pass_over(step, StepState::Bypassed, self.why_bypassed(step));
                return Ok(());
            }
        }
        match self.condition_holds(step) {
            Ok(true) => self.enable(step),
            Ok(false) => {
                let reason = self.why_skipped(step);
                self.pass_over(step, StepState::Skipped, reason);
                Ok(())
            }
            Err(stop) => {
                let error = stop.refusal()?;
                self.enable(step)?;
                let at = self.index_of_step(step)?;
                self.failed(at, error, Retryability::Permanent, None)
            }
        }
    }

    fn why_skipped(&self, step: u32) -> String {
        let condition = self.step(step).and_then(|step| step.condition.as_deref());
        format!("its condition does not hold: {}", condition.unwrap_or_default())
    }

    /// Whether the dependency of `to` on `from` cannot lead to `to`.
    fn is_dead_end(&self, from: u32, to: u32) -> bool {
        self.state(from).leads_nowhere() || self.is_route_not_taken(from, to)
    }

    fn enable(&mut self, step: u32) -> Result<(), F::Error> {
        self.set_state(step, StepState::Active);
        self.run.state.active.push(Activity {
            step,
            item: Item::Whole,
            attempt: 0,
            enabled_at: self.stamp,
            status: ActivityStatus::Ready,
        });
        self.watch_enabled_step(step);
        Ok(())
    }

    pub(super) fn index_of_part(&self, step: u32, item: Item) -> Option<usize> {
        let active = &self.run.state.active;
        active.iter().position(|active| active.step == step && active.item == item)
    }

    /// The index of a step that must be active, among the active parts.
    pub(super) fn index_of_step(&self, step: u32) -> Result<usize, F::Error> {
        let missing = || Damaged(format!("step {step} of run {} is not active", self.run.id));
        Ok(self.index_of_part(step, Item::Whole).ok_or_else(missing)?)
    }

    /// Starts the first part that can start, and returns whether there was one.
    fn start_one(&mut self) -> Result<bool, F::Error> {
        if self.run.status.has_ended() || self.is_stopping() {
            return Ok(false);
        }
        let found = (0..self.run.state.active.len()).find(|at| self.can_start(*at));
        let Some(at) = found else { return Ok(false) };
        self.begin_part(at)?;
        Ok(true)
    }

    /// Begins a part for which [`Self::can_start`] holds.
    pub(super) fn begin_part(&mut self, at: usize) -> Result<(), F::Error> {
        *self.capacity.starts_left = self.capacity.starts_left.saturating_sub(1);
        self.start(at)
    }

    pub(super) fn can_start(&self, at: usize) -> bool {
        let active = &self.run.state.active[at];
        if active.status != ActivityStatus::Ready || *self.capacity.starts_left == 0 {
            return false;
        }
        match action_of(self.definition, active.part()) {
            Some(action) if self.takes_slot(action) => {
                *self.capacity.free > 0 && !self.is_at_its_limit()
            }
            Some(action) if takes_a_share(action) => !self.is_at_its_limit(),
            _ => true,
        }
    }

    /// Whether the action takes one of the node's slots.
    fn takes_slot(&self, action: &Action) -> bool {
        let ends_now = self.capacity.ends_noops && matches!(action, Action::Noop);
        is_performed_here(action) && !ends_now
    }

    /// Whether as many steps are active as the definition allows.
    fn is_at_its_limit(&self) -> bool {
        let Some(limit) = self.definition.max_concurrent_steps else { return false };
        let is_performed = |status: &ActivityStatus| {
            status.is_performed() || matches!(status, ActivityStatus::Queued { .. })
        };
        let going_on = self.run.state.active.iter().filter(|a| is_performed(&a.status)).count();
        going_on >= limit as usize
    }

    /// Whether a part could begin if a slot were free, or in another turn.
    fn waits_for_slot(&self) -> bool {
        let is_over = *self.capacity.starts_left == 0;
        let lacks = |active: &Activity| {
            let action = action_of(self.definition, active.part());
            active.status == ActivityStatus::Ready
                && (is_over || action.is_some_and(|action| self.takes_slot(action)))
        };
        !self.is_stopping() && !self.is_at_its_limit() && self.run.state.active.iter().any(lacks)
    }

    fn set_status(&mut self) {
        let going_on = |status: &ActivityStatus| {
            matches!(status, ActivityStatus::Performed { .. } | ActivityStatus::Claimed { .. })
        };
        self.run.status = if self.run.state.active.iter().any(|active| going_on(&active.status)) {
            RunStatus::Running
        } else if self.run.state.is_unknown() {
            RunStatus::Suspended
        } else {
            RunStatus::Waiting
        };
        self.run.waits_for_slot = self.waits_for_slot();
        let is_suspended = self.run.status == RunStatus::Suspended;
        self.hold_or_release(is_suspended || self.capacity.is_paused);
    }

    /// Ends the run successfully. Steps that nothing led to are bypassed.
    fn succeed(&mut self) -> Result<(), F::Error> {
        let unreached: Vec<u32> = self
            .run
            .state
            .states
            .iter()
            .filter(|(_, state)| *state == StepState::Pending)
            .map(|(step, _)| step)
            .collect();
        for step in unreached {
            self.pass_over(step, StepState::Bypassed, "nothing has led to it".to_owned());
        }
        self.agenda.clear();
        match self.outputs() {
            Ok(Some(output)) => self.run.output = Some(output),
            Ok(None) => {}
            Err(stop) => {
                self.end_from_outside(Ending::Failed, stop.refusal()?, Retryability::Permanent);
                return self.nothing_goes_on();
            }
        }
        self.end(Ending::Succeeded, None, Retryability::Permanent);
        Ok(())
    }
}

/// Whether a node performs the action in one of its slots.
pub(super) fn is_performed_here(action: &Action) -> bool {
    matches!(
        action,
        Action::Noop
            | Action::Http(_)
            | Action::Exec(_)
            | Action::Script(_)
            | Action::Mutation
            | Action::Notification(_)
    )
}

/// Whether the action counts towards the definition's limit on concurrent steps.
fn takes_a_share(action: &Action) -> bool {
    matches!(action, Action::Worker(_) | Action::AgentTask(_) | Action::SubProcess(_))
}
