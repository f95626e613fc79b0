//! What this node wrote last of the runs that it performs, and of their schedules: when they end, that need not be
//! read again unless somebody else has written since, which the rows' stamps tell.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use engine::run::Run;
use engine::schedule::Schedule;
use engine::turn::{ById, RunWrite, ScheduleWrite, Writes};
use engine::{NodeId, RunKey, ScheduleId, WorkflowId};

/// More than a node performs at a time: what is left over was taken from it by others.
const MOST: usize = 100_000;

/// Each with the stamp of the transaction that wrote it.
#[derive(Default)]
pub(super) struct Remembered {
    pub(super) schedules: ById<ScheduleId, (i64, Box<Schedule>)>,
    pub(super) runs: ById<RunKey, KnownRun>,
}

/// A run as it was written.
pub(super) struct KnownRun {
    pub(super) stamp: i64,
    pub(super) run: Box<Run>,
    /// Its workflow's lock was ours alone then: active runs are counted, or handlers have their turn.
    pub(super) is_limited: bool,
}

/// See the module.
#[derive(Default)]
pub(super) struct Memory(Mutex<Remembered>);

impl Memory {
    /// What is known of these. It is not known any more afterwards.
    pub(super) fn take(&self, schedules: &[i64], runs: &[i64]) -> Remembered {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = Remembered::default();
        for id in schedules.iter().copied().map(ScheduleId) {
            if let Some(schedule) = known.schedules.remove(&id) {
                taken.schedules.insert(id, schedule);
            }
        }
        for key in runs.iter().copied().map(RunKey) {
            if let Some(run) = known.runs.remove(&key) {
                taken.runs.insert(key, run);
            }
        }
        taken
    }

    /// A transaction with this stamp has written this.
    pub(super) fn keep(
        &self,
        stamp: i64,
        node: NodeId,
        writes: Writes,
        limited: &HashSet<WorkflowId>,
    ) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.runs.len() > MOST {
            *known = Remembered::default();
        }
        let mut of_runs = HashSet::new();
        for write in writes.runs {
            let (RunWrite::Insert(run) | RunWrite::Update { after: run, .. }) = write;
            let is_own = run.position.active.iter().any(|active| active.owner() == Some(node));
            if is_own && !run.status.has_ended() {
                of_runs.extend(run.schedule);
                let is_limited = limited.contains(&run.workflow);
                known.runs.insert(run.key, KnownRun { stamp, run, is_limited });
            }
        }
        for write in writes.schedules {
            let schedule = match write {
                ScheduleWrite::Insert(schedule) => schedule,
                ScheduleWrite::Update { after, .. } => after,
                ScheduleWrite::Delete { .. } => continue,
            };
            if of_runs.contains(&schedule.id) {
                known.schedules.insert(schedule.id, (stamp, schedule));
            }
        }
    }
}
