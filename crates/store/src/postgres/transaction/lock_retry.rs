//! What a transaction turned out to need when it could no longer wait for the lock: it begins anew
//! and locks it from the beginning, in lock order.

use std::collections::BTreeSet;

/// Ids and keys of the rows to lock.
#[derive(Default)]
pub(crate) struct LockNeeds {
    /// Schedules that will be changed.
    pub(crate) schedules: BTreeSet<i64>,
    /// Runs that will be changed.
    pub(crate) runs: BTreeSet<i64>,
    /// Workflows that will be changed: locked exclusively.
    pub(crate) own: BTreeSet<i64>,
    /// Workflows that are read, or whose handlers are.
    pub(crate) workflows: BTreeSet<i64>,
    /// Topics that will be changed, or whose events will be.
    pub(crate) topics: BTreeSet<i64>,
    /// How many times the transaction has begun anew because it needed more.
    pub(crate) rounds: usize,
}

impl LockNeeds {
    /// Whether the transaction needs no lock but those of workflows that it reads.
    pub(crate) fn is_only_workflows(&self) -> bool {
        let LockNeeds { schedules, runs, own, workflows: _, topics, rounds: _ } = self;
        [schedules, runs, own, topics].into_iter().all(BTreeSet::is_empty)
    }
}
