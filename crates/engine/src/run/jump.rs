//! Jumps to another step after an error: ahead, or back to a step that is repeated.

use std::collections::BTreeSet;

use super::decide::Decider;
use super::input::{Retryability, RunHistory};
use super::item::Item;
use super::state::{Activity, StepState};
use super::{AttemptRecord, Ending, RunError, StepStatus};

/// The maximum number of jumps of one run, which stops a run that jumps back and forth forever.
const JUMPS: u32 = 100;

impl<F: RunHistory> Decider<'_, F> {
    /// Continues the run with `target` instead of the steps that depend on `from`.
    pub(super) fn jump(
        &mut self,
        from: u32,
        target: &str,
        error: RunError,
    ) -> Result<(), F::Error> {
        let Some(target) = self.graph.index(target) else {
            self.end_from_outside(Ending::Failed, error, Retryability::Permanent);
            return Ok(());
        };
        self.run.state.jumps += 1;
        if self.run.state.jumps > JUMPS {
            let message =
                format!("went on elsewhere more than {JUMPS} times; last: {}", error.message);
            let error = self.error(from, "too_many_jumps", message);
            self.end_from_outside(Ending::Failed, error, Retryability::Permanent);
            return Ok(());
        }
        if self.state(target) != StepState::Pending {
            self.do_again(target)?;
        }
        self.run.state.jumped_to.push(target);
        self.agenda.insert(target);
        Ok(())
    }

    /// Resets the step and everything that depends on it. Active parts of these steps are
    /// abandoned.
    fn do_again(&mut self, target: u32) -> Result<(), F::Error> {
        let mut again = BTreeSet::from([target]);
        let mut open = vec![target];
        while let Some(step) = open.pop() {
            let further = self.graph.dependents(step).iter().copied();
            open.extend(further.filter(|step| again.insert(*step)));
        }
        let is_one = |active: &Activity| again.contains(&active.step);
        while let Some(at) = self.run.state.active.iter().position(is_one) {
            self.abandon(at, StepStatus::Cancelled, None);
        }
        self.run.state.jumped_to.retain(|step| !again.contains(step));
        self.run.state.routes.retain(|(gateway, _)| !again.contains(gateway));
        for step in again {
            self.remember(step)?;
            self.unwatch(step);
            self.agenda.remove(&step);
            self.run.state.states.set(step, StepState::Pending);
        }
        Ok(())
    }

    /// Keeps the result of a step that will be repeated among its attempts. Results of its items
    /// are not kept.
    fn remember(&mut self, step: u32) -> Result<(), F::Error> {
        if !self.state(step).has_ended() && !self.was_recorded_now(step) {
            return Ok(());
        }
        // A step that was cancelled before it began has no record.
        let Some(record) = self.known_record(step)? else { return Ok(()) };
        if record.attempts > 0 {
            self.decision.earlier.push(AttemptRecord {
                step,
                item: record.item,
                attempt: record.attempts,
                status: record.status,
                started_at: record.started_at,
                ended_at: record.ended_at,
                error: record.error,
            });
        }
        Ok(())
    }

    fn was_recorded_now(&self, step: u32) -> bool {
        self.decision.records.iter().any(|record| record.step == step && record.item == Item::Whole)
    }
}
