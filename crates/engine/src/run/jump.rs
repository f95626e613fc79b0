//! On to another step after an error: ahead, or back to one that is done again.

use std::collections::BTreeSet;

use super::decide::Decider;
use super::input::Facts;
use super::position::{Active, StepState};
use super::{Ending, RunError, StepStatus};

/// A run that goes back and forth for ever is stopped.
const JUMPS: u32 = 100;

impl<F: Facts> Decider<'_, F> {
    /// The run goes on with `target` instead of what depends on `from`.
    pub(super) fn jump(&mut self, from: u32, target: &str, error: RunError) {
        let Some(target) = self.graph.index(target) else {
            return self.end_from_outside(Ending::Failed, error, false);
        };
        self.run.position.jumps += 1;
        if self.run.position.jumps > JUMPS {
            let message =
                format!("went on elsewhere more than {JUMPS} times; last: {}", error.message);
            let error = self.error(from, "too_many_jumps", message);
            return self.end_from_outside(Ending::Failed, error, false);
        }
        if self.state(target) != StepState::Pending {
            self.do_again(target);
        }
        self.run.position.jumped_to.push(target);
        self.agenda.insert(target);
    }

    /// The step and everything that depends on it begins anew. What is going on of it is given up.
    fn do_again(&mut self, target: u32) {
        let mut again = BTreeSet::from([target]);
        let mut open = vec![target];
        while let Some(step) = open.pop() {
            let further = self.graph.dependents(step).iter().copied();
            open.extend(further.filter(|step| again.insert(*step)));
        }
        let is_one = |active: &Active| again.contains(&active.step);
        while let Some(at) = self.run.position.active.iter().position(is_one) {
            self.abandon(at, StepStatus::Cancelled, None);
        }
        self.run.position.jumped_to.retain(|step| !again.contains(step));
        self.run.position.routes.retain(|(gateway, _)| !again.contains(gateway));
        for step in again {
            self.unwatch(step);
            self.agenda.remove(&step);
            self.run.position.states.set(step, StepState::Pending);
        }
    }
}
