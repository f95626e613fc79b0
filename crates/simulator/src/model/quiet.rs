//! When the driver goes to sleep, nothing may be left to do.

use engine::run::RunStatus;

use super::{Checked, Model, broken};
use crate::clock::instant;
use crate::work::Work;

/// What is seen of the driver when it goes to sleep.
pub(crate) struct Awake<'a> {
    pub(crate) now: i64,
    pub(crate) node: i64,
    /// Attempts it could still take on.
    pub(crate) free: usize,
    pub(crate) work: &'a Work,
    /// When it wants to be woken.
    pub(crate) alarm: Option<i64>,
}

impl Model {
    /// Everything due is decided, everything stored as being performed is, and no run waits for a
    /// place that is free.
    pub(crate) fn check_quiet(&self, awake: &Awake<'_>) -> Checked {
        if let Some((when, id)) = self.due.first().filter(|(when, _)| *when <= awake.now) {
            let message = format!(
                "schedule {id} was to be looked at by {}, it is {}",
                instant(*when),
                instant(awake.now)
            );
            return broken("late", message);
        }
        if let Some((when, id)) = self.due.first()
            && awake.alarm.is_none_or(|alarm| alarm > *when)
        {
            let message = format!(
                "schedule {id} is due at {}, the alarm is {:?}",
                instant(*when),
                awake.alarm
            );
            return broken("alarm", message);
        }
        for run in self.runs.values() {
            match run.status {
                RunStatus::Running => self.check_running(run, awake)?,
                RunStatus::Waiting => check_waiting(run, awake)?,
                RunStatus::Pending if awake.free > 0 => self.check_pending(run)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn check_running(&self, run: &crate::watch::RunRow, awake: &Awake<'_>) -> Checked {
        let key = run.key;
        if run.owner != Some(awake.node) {
            return broken("performed", format!("run {key} is running for nobody: {run:?}"));
        }
        // One that was told to end need not be begun.
        if !run.is_ending && !awake.work.was_given(key, run.token) {
            return broken("performed", format!("run {key}: attempt {} is lost", run.token));
        }
        let limit = run.started_at.map(|at| at + run.timeout);
        if !run.is_ending
            && limit.is_some_and(|limit| awake.alarm.is_none_or(|alarm| alarm > limit))
        {
            return broken(
                "alarm",
                format!("run {key} is over at {limit:?}, the alarm is {:?}", awake.alarm),
            );
        }
        if limit.is_some_and(|limit| limit <= awake.now) && !run.is_ending {
            return broken("late", format!("run {key} is over its timeout: {run:?}"));
        }
        Ok(())
    }

    fn check_pending(&self, run: &crate::watch::RunRow) -> Checked {
        let limit = self.workflows.get(&run.workflow).and_then(|row| row.concurrency);
        let begun = self.begun.get(&run.workflow).copied().unwrap_or(0);
        if limit.is_none_or(|limit| begun < limit) {
            return broken("places", format!("run {} is pending, and there is a place", run.key));
        }
        Ok(())
    }
}

/// For a time that is to come, or for a place where none is free.
fn check_waiting(run: &crate::watch::RunRow, awake: &Awake<'_>) -> Checked {
    match run.retry_at {
        Some(at) if at <= awake.now => {
            broken("late", format!("run {} waits for too long", run.key))
        }
        None if awake.free > 0 => {
            broken("places", format!("run {} could go on, and there is a place", run.key))
        }
        _ => Ok(()),
    }
}
