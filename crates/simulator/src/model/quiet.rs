//! Checks that nothing is left to do when the driver goes to sleep.

use engine::run::{ActivityStatus, RunStatus, TriggeredBy};

use super::{Checked, Model, broken};
use crate::clock::instant;
use crate::watch::RunRow;
use crate::work::Work;

/// The state of all drivers when they go to sleep.
pub(crate) struct Awake<'a> {
    pub(crate) now: i64,
    /// How many more attempts they could take on.
    pub(crate) free: usize,
    /// The nodes that are awake, and what each was given to do.
    pub(crate) nodes: Vec<(i64, &'a Work)>,
    /// Nodes that are not, and whose leases have not run out.
    pub(crate) leased: Vec<i64>,
    /// When the first of them wants to be woken.
    pub(crate) alarm: Option<i64>,
}

impl Model {
    /// Checks that everything due is decided, that every attempt stored as performed is being
    /// performed, and that no run waits for capacity that is free.
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
        self.check_handlers_quiet(awake)?;
        for run in self.runs.values() {
            match run.status {
                RunStatus::Pending if awake.free > 0 => self.check_pending(run)?,
                RunStatus::Pending => {}
                _ => check_begun_run(run, awake)?,
            }
            self.reference.check_quiet(awake.now, run)?;
        }
        Ok(())
    }

    fn check_pending(&self, run: &RunRow) -> Checked {
        if run.handler.is_some() {
            return self.check_its_turn(run);
        }
        let limit = self.workflows.get(&run.workflow).and_then(|row| row.concurrency);
        let begun = self.begun.get(&run.workflow).copied().unwrap_or(0);
        if self.is_held(run) {
            return Ok(());
        }
        if limit.is_none_or(|limit| begun < limit) {
            return broken(
                "slots",
                format!("run {} is pending, and there is a free slot", run.key),
            );
        }
        Ok(())
    }
}

impl Model {
    /// Checks that a handler's run only waits while another run has its workflow's turn, or the
    /// workflow is paused.
    fn check_its_turn(&self, run: &RunRow) -> Checked {
        let is_free = self.has_the_turn(run.workflow).is_none_or(|other| other.key == run.key);
        let is_paused = self.workflows.get(&run.workflow).is_none_or(|row| row.paused);
        let is_asked_for = run.triggered_by == TriggeredBy::Manual;
        if is_free && (is_asked_for || !is_paused) {
            return broken("turns", format!("run {} is pending, and could have its turn", run.key));
        }
        Ok(())
    }
}

/// Checks that every active part is performed by a live node or worker, or waits for something that
/// has not come.
fn check_begun_run(run: &RunRow, awake: &Awake<'_>) -> Checked {
    let key = run.key;
    let is_stopping = run.is_stopping();
    let mut looks: Vec<i64> = Vec::new();
    for active in &run.state.active {
        match &active.status {
            ActivityStatus::Performed { token, owner, .. } => {
                let Some((_, work)) = awake.nodes.iter().find(|(node, _)| *node == owner.0) else {
                    if awake.leased.contains(&owner.0) {
                        continue;
                    }
                    let message = format!("run {key} is running for nobody: {run:?}");
                    return broken("performed", message);
                };
                // A cancelled attempt need not have begun.
                if !is_stopping && !work.was_given(key, *token) {
                    return broken("performed", format!("run {key}: attempt {token} is lost"));
                }
            }
            ActivityStatus::Retrying { at } => looks.push(at.as_millisecond()),
            ActivityStatus::Timer { until, .. } => looks.push(until.as_millisecond()),
            ActivityStatus::Claimed { lease_until, .. } => looks.push(lease_until.as_millisecond()),
            ActivityStatus::Awaiting { until, .. } => looks.extend(*until),
            ActivityStatus::Ready if awake.free > 0 && run.waits_for_slot => {
                return broken("slots", format!("run {key} could go on, and there is a free slot"));
            }
            _ => {}
        }
    }
    match &run.state.ending {
        Some(ending) => looks.extend(ending.until.map(|until| until.as_millisecond())),
        // Only a person moves on a suspended run.
        None if run.status == RunStatus::Suspended => {}
        None => {
            let limit = run.timeout.map(jiff::SignedDuration::from_millis);
            let limit = limit.and_then(|limit| run.state.time_limit(limit));
            looks.extend(limit.map(|limit| limit.as_millisecond()));
        }
    }
    let Some(look) = looks.into_iter().min() else { return Ok(()) };
    if look <= awake.now {
        return broken("late", format!("run {key} was to be looked at by {look}: {run:?}"));
    }
    if awake.alarm.is_none_or(|alarm| alarm > look) {
        let message = format!("run {key} is due at {look}, the alarm is {:?}", awake.alarm);
        return broken("alarm", message);
    }
    Ok(())
}
