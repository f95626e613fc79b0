//! Checks how runs end: as their steps say, with completed steps undone in order, and with nothing
//! left.

use engine::run::RunStatus::{Cancelled, Failed, Succeeded, TimedOut};
use engine::run::{Ending, Item, RunError, StepState, StepStatus};
use language::definition::OnError;
use serde_json::{Map, Value};

use super::{OVERLAP, Seen, Story};
use crate::model::{Checked, broken};
use crate::watch::RunRow;

impl Seen<'_> {
    fn has_undoing(&self, step: u32) -> bool {
        self.is.definition.steps[step as usize].compensation.is_some()
    }

    /// Checks that the step that completed last is undone first.
    pub(super) fn check_undoing(&self, story: &mut Story) -> Checked {
        // A run does not undo what an earlier run of the retry chain has done.
        let has_begun = self.after.started_at.is_some();
        for step in self.steps().filter(|step| self.has_undoing(*step)) {
            let new = self.new_row(step, Item::Whole);
            if new.is_some_and(|row| row.status == StepStatus::Completed) && has_begun {
                story.done.insert(step, self.commit);
            }
        }
        for active in self.after.state.active.iter().filter(|active| active.item == Item::Undoing) {
            let step = active.step;
            if self.was_active(active.part()).is_some() {
                continue;
            }
            let Some(done) = story.done.get(&step) else {
                return self.broken("undoing", step, "undone, and was not done");
            };
            let later = story.done.iter().find(|(other, at)| {
                **at > *done && !story.undone.contains(*other) && **other != step
            });
            if let Some((other, _)) = later {
                let message = format!("undone before step {other}, which was done later");
                return self.broken("undoing", step, &message);
            }
            story.undone.insert(step);
        }
        Ok(())
    }

    /// Checks that a run times out exactly when its time is over.
    pub(super) fn check_time(&self, story: &mut Story) -> Checked {
        // Activity changes only with commits, so between two commits the clock of the timeout
        // either runs or stands still.
        let performed = self
            .before
            .is_some_and(|before| before.state.active.iter().any(|active| active.status.counts()));
        if performed {
            story.performed += (self.now - story.seen_at).max(0);
        }
        story.seen_at = self.now;
        let times_out = |row: &RunRow| {
            let ending = row.state.ending.as_ref().map(|ending| ending.ending);
            ending == Some(Ending::TimedOut) || row.status == TimedOut
        };
        if !times_out(self.after) || self.before.is_some_and(times_out) {
            return Ok(());
        }
        if self.after.timeout.is_some_and(|limit| limit <= story.performed + OVERLAP) {
            Ok(())
        } else {
            broken("ending", format!("run {} is in time", self.after.key))
        }
    }

    pub(super) fn check_ended(&self, story: &Story) -> Checked {
        let key = self.after.key;
        if !self.after.state.active.is_empty() {
            return broken("left", format!("run {key} has ended, and something goes on"));
        }
        let error: Option<RunError> =
            self.after.error.as_deref().and_then(|error| serde_json::from_str(error).ok());
        self.check_states()?;
        self.check_undone(story, error.as_ref())?;
        match self.after.status {
            Succeeded if error.is_none() => self.check_output(story),
            Failed => self.check_failed(error.as_ref()),
            _ => Ok(()),
        }
    }

    fn check_states(&self) -> Checked {
        // A run that never began has no states at all.
        if self.after.started_at.is_none() {
            return Ok(());
        }
        for step in self.steps() {
            let state = self.state(step);
            let fails_the_run =
                self.is.definition.steps[step as usize].on_error == OnError::FailProcess;
            let fits = match (self.after.status, state) {
                (_, StepState::Pending | StepState::Active) => false,
                (Succeeded, StepState::Failed) => !fails_the_run || self.after.error.is_some(),
                (Succeeded, StepState::Cancelled) => self.after.error.is_some(),
                _ => true,
            };
            if !fits {
                let message = format!("{state:?} when the run has {:?}", self.after.status);
                return self.broken("ending", step, &message);
            }
        }
        Ok(())
    }

    fn check_failed(&self, error: Option<&RunError>) -> Checked {
        let definition = &self.is.definition;
        let failed = self.steps().any(|step| {
            self.state(step) == StepState::Failed
                && definition.steps[step as usize].on_error == OnError::FailProcess
        });
        let others = ["output", "too_many_jumps", "deadline"];
        if failed || error.is_some_and(|error| others.contains(&error.code.as_str())) {
            Ok(())
        } else {
            broken("ending", format!("run {} has failed: {error:?}", self.after.key))
        }
    }

    /// Checks that a run that did not succeed has undone everything that can be undone, and a run
    /// that succeeded has undone nothing.
    fn check_undone(&self, story: &Story, error: Option<&RunError>) -> Checked {
        let is_undone = |step: u32| self.is.row(step, Item::Undoing).is_some();
        match self.after.status {
            Succeeded => match self.steps().find(|step| is_undone(*step)) {
                Some(step) => self.broken("undoing", step, &format!("undone: {error:?}")),
                None => Ok(()),
            },
            Failed | Cancelled | TimedOut => {
                match story.done.keys().find(|step| !is_undone(**step)) {
                    Some(step) => self.broken("undoing", *step, "was done, and is not undone"),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn check_output(&self, _: &Story) -> Checked {
        let outputs = &self.is.definition.outputs;
        if outputs.is_empty() {
            return Ok(());
        }
        let expected: Option<Map<String, Value>> = outputs
            .iter()
            .map(|output| Some((output.name.clone(), self.filled(&output.source)?)))
            .collect();
        let expected = expected.map(Value::Object);
        if expected == self.is.output {
            Ok(())
        } else {
            let message = format!("gives {:?}, expected {expected:?}", self.is.output);
            broken("outputs", format!("run {}: {message}", self.after.key))
        }
    }
}
