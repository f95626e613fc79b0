//! The last versions this node wrote of the runs it performs, and of their schedules. When an
//! attempt ends they need not be read again, unless a row's stamp shows that another transaction
//! has written it.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use engine::run::Run;
use engine::schedule::Schedule;
use engine::turn::{ById, RunWrite, ScheduleWrite, Writes};
use engine::{NodeId, RunKey, ScheduleId, WorkflowId};

/// More runs than a node performs at a time: what is beyond that was taken over by others, so the
/// cache is cleared.
const MOST: usize = 100_000;

/// Cached schedules and runs, each with the stamp of the transaction that wrote it.
#[derive(Default)]
pub(crate) struct Remembered {
    pub(crate) schedules: ById<ScheduleId, (i64, Box<Schedule>)>,
    pub(crate) runs: ById<RunKey, KnownRun>,
}

/// A run as this node wrote it.
pub(crate) struct KnownRun {
    pub(crate) stamp: i64,
    pub(crate) run: Box<Run>,
    /// Whether its workflow was locked exclusively then, because active runs are counted or it has
    /// handlers.
    pub(crate) is_limited: bool,
}

/// The cache of one node.
#[derive(Default)]
pub(crate) struct RowCache(Mutex<Remembered>);

impl RowCache {
    /// Removes these from the cache and returns them.
    pub(crate) fn take(&self, schedules: &[i64], runs: &[i64]) -> Remembered {
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

    /// Caches what the transaction with this stamp has written.
    pub(crate) fn keep(
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
            let is_own = run.state.active.iter().any(|active| active.owner() == Some(node));
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
