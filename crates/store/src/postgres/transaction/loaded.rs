//! The rows that a PostgreSQL transaction has loaded, and which of them it has locked.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use engine::run::{Run, StepRecord};
use engine::schedule::{Override, Schedule};
use engine::turn::{ById, Wakeup, Workflow};
use engine::{RunKey, ScheduleId, WorkflowId};

use crate::failure::Failure;
use crate::postgres::transaction::apply_progress::PreviousRow;
use crate::postgres::transaction::topic_load::LoadedTopics;

/// The rows that were loaded.
#[derive(Default)]
pub(crate) struct Loaded {
    pub(crate) schedules: ById<ScheduleId, Box<Schedule>>,
    /// Each schedule the engine was given, as it was loaded.
    pub(crate) before: ById<ScheduleId, PreviousRow>,
    pub(crate) runs: ById<RunKey, Box<Run>>,
    /// Runs that cannot be read, and why.
    pub(crate) unreadable: ById<RunKey, String>,
    /// The workflows, or why they cannot be read: only what needs such a workflow fails.
    pub(crate) workflows: ById<WorkflowId, Result<Workflow, String>>,
    /// The overrides of schedules, or why they cannot be read.
    pub(crate) overrides: ById<ScheduleId, Result<Vec<Override>, String>>,
    /// Workflows whose row this transaction has locked and may change.
    pub(crate) owned_workflows: HashSet<WorkflowId>,
    /// Schedules that this transaction has locked.
    pub(crate) locked: HashSet<ScheduleId>,
    /// Runs that this transaction has locked, or whose schedule it has locked: no other transaction
    /// decides them.
    pub(crate) locked_runs: HashSet<RunKey>,
    /// The runs of which only the schedule is locked: runs this node wrote itself, with the stamp
    /// each row must still carry.
    pub(crate) unlocked: ById<RunKey, i64>,
    /// Pending runs that are locked and may begin, by workflow and oldest first; and whether there
    /// may be more.
    pub(crate) pending: ById<WorkflowId, (VecDeque<RunKey>, bool)>,
    /// Records of the parts of a step.
    pub(crate) steps: ById<(RunKey, u32), Vec<StepRecord>>,
    /// Loaded schedules whose next time may come from an older calendar.
    pub(crate) outdated: Vec<ScheduleId>,
    /// Something was locked by another node and was passed over.
    pub(crate) passed_over: bool,
    pub(crate) topics: LoadedTopics,
    /// Set-aside schedules, runs and handlers: skipped if they cannot be read.
    pub(crate) set_aside: Arc<HashSet<Wakeup>>,
}

impl Loaded {
    /// Whether the run's row was found, readable or not.
    pub(crate) fn has_run(&self, key: RunKey) -> bool {
        self.runs.contains_key(&key) || self.unreadable.contains_key(&key)
    }

    /// Drops the handlers of workflows that are not locked exclusively. Such a workflow had no
    /// handlers when it was loaded, so these were read without the lock that covers them.
    pub(crate) fn forget_others_handlers(&mut self, workflows: &[i64]) {
        for id in workflows.iter().copied().map(WorkflowId) {
            if !self.owned_workflows.contains(&id) {
                let known = self.topics.handlers_of.remove(&id).unwrap_or_default();
                known.iter().for_each(|handler| drop(self.topics.handlers.remove(handler)));
            }
        }
    }

    /// Returns the row that was read, or `None` if it cannot be read and is already set aside. Any
    /// other failure to read it names the row.
    pub(crate) fn readable<T>(
        &self,
        what: Wakeup,
        read: Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(_) if self.set_aside.contains(&what) => Ok(None),
            Err(failure) => Err(failure.about(Some(what))),
        }
    }

    /// Hands a loaded schedule to the engine to change.
    pub(crate) fn give(&mut self, id: ScheduleId) -> Option<Box<Schedule>> {
        let schedule = self.schedules.remove(&id)?;
        self.before.insert(id, PreviousRow::of(&schedule));
        Some(schedule)
    }
}

/// What was loaded for the engine, which needs it now. That it cannot be read is a failure of what
/// the engine is deciding.
pub(crate) fn readable<T: Clone>(loaded: Option<&Result<T, String>>) -> Result<Option<T>, Failure> {
    let unreadable = |why: String| Failure::Undecidable { what: None, why };
    loaded.cloned().transpose().map_err(unreadable)
}
