//! Checks mutations of the outside world: none happens twice, and no unknown outcome is guessed.

use engine::handlers::MutationStatus;
use engine::run::{Activity, ActivityStatus, Item, Resolution, RunStatus, StepState};
use engine::turn::Command;

use super::{Checked, Model, Seen, broken};
use crate::handlers::phases::{Deed, MUTATION};
use crate::watch::RunRow;

impl Model {
    /// Checks what was really done outside: once for each run and its retries, and once for each
    /// event, unless somebody said that it did not happen.
    pub(crate) fn check_deeds(&mut self, deeds: &[Deed]) -> Checked {
        for deed in deeds {
            let root = self.root(deed.run);
            let had = self.handling.had.get(&deed.run).cloned().unwrap_or_default();
            if had.is_empty() {
                return broken("deeds", format!("{deed:?} was done for no event"));
            }
            for event in had {
                let earlier = self.handling.mutated.insert(event, root);
                let Some(earlier) = earlier else { continue };
                if !self.handling.denied.contains(&earlier) {
                    let message = format!("event {event}: {deed:?} was done, and {earlier} did it");
                    return broken("deeds", message);
                }
            }
        }
        Ok(())
    }

    pub(super) fn check_mutations(&mut self, seen: &Seen<'_>) -> Checked {
        for moved in seen.moved.iter().filter(|moved| moved.row.handler.is_some()) {
            let row = &moved.row;
            if let Some(id) = row.retry_of.as_ref().filter(|_| moved.is_new)
                && let Some(earlier) = self.handling.keys.get(id).copied()
            {
                let root = self.root(earlier);
                self.handling.roots.insert(row.key, root);
                let prepared = self.handling.prepared.get(&earlier).copied();
                self.handling.prepared.extend(prepared.map(|prepared| (row.key, prepared)));
                self.check_goes_on(row)?;
            }
            self.hear(seen, moved.before.as_ref(), row);
            self.check_noted(row)?;
        }
        let mut open = self.runs.values().filter(|run| run.handler.is_some());
        open.try_for_each(|run| self.check_suspended(run))
    }

    /// Checks that a retry begins after the mutation.
    fn check_goes_on(&self, row: &RunRow) -> Checked {
        let Some(step) = row.step_of(MUTATION) else { return Ok(()) };
        match row.state.states.of(step) {
            StepState::Completed | StepState::Skipped => Ok(()),
            state => broken("deeds", format!("run {} is a retry, and {state:?} again", row.key)),
        }
    }

    /// Notes if somebody says that a mutation did not happen.
    fn hear(&mut self, seen: &Seen<'_>, before: Option<&RunRow>, row: &RunRow) {
        let denies = |resolution: &Resolution| {
            matches!(resolution, Resolution::DidNotHappen | Resolution::Failed)
        };
        let is_denied = match seen.command() {
            Some(
                Command::ResolveRun { id, resolution, .. }
                | Command::ResolveStep { id, resolution, .. },
            ) => *id == row.id() && denies(resolution),
            // Whoever cancels a run answers for its mutation.
            Some(Command::CancelRun { id, .. }) => *id == row.id(),
            _ => false,
        };
        let found = seen.gave.iter().any(|gave| {
            let is_it = gave.after.key == row.key && gave.phase == "reconcile";
            is_it && gave.output["status"] == "did_not_happen"
        });
        let was_cancelled = before.is_some_and(|before| {
            let ending = before.state.ending.as_ref();
            ending.is_some_and(|ending| ending.ending == engine::run::Ending::Cancelled)
        });
        if is_denied || found || was_cancelled {
            let root = self.root(row.key);
            self.handling.denied.insert(root);
        }
    }

    /// Checks that a mutation is stored before it is performed, with the status it really has.
    fn check_noted(&self, row: &RunRow) -> Checked {
        let Some(step) = row.step_of(MUTATION) else { return Ok(()) };
        let noted = self.handling.mutations.get(&row.key).copied();
        let status = row.state.part(step, Item::Whole).map(|active| &active.status);
        let expected = match (status, row.state.states.of(step)) {
            (Some(ActivityStatus::Performed { .. } | ActivityStatus::Claimed { .. }), _) => {
                MutationStatus::InFlight
            }
            (Some(ActivityStatus::Unknown { .. }), _) => MutationStatus::Unknown,
            (None, StepState::Completed) if row.retry_of.is_none() => MutationStatus::Applied,
            (None, StepState::Failed) => MutationStatus::Failed,
            _ => return Ok(()),
        };
        if noted == Some(expected) {
            Ok(())
        } else {
            let message = format!("run {}: noted {noted:?}, it is {expected:?}", row.key);
            broken("noted", message)
        }
    }

    /// Checks that the run and its workflow wait while a mutation's outcome is unknown.
    fn check_suspended(&self, row: &RunRow) -> Checked {
        let is_unknown =
            |active: &Activity| matches!(active.status, ActivityStatus::Unknown { .. });
        let is_unknown = row.state.active.iter().any(is_unknown);
        let looks = row.state.active.iter().any(|active| active.item < Item::Whole);
        if is_unknown && row.status != RunStatus::Suspended && !looks {
            return broken("guessed", format!("run {} goes on, and nobody knows", row.key));
        }
        let is_paused = self.workflows.get(&row.workflow).is_some_and(|row| row.paused);
        if row.status == RunStatus::Suspended && !is_paused {
            return broken("guessed", format!("run {} waits, its workflow does not", row.key));
        }
        Ok(())
    }
}
