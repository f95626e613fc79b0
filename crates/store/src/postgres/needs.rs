//! What a transaction turned out to need when it could not wait for it any more: it begins anew, and takes it from
//! the beginning, in the order of locks.

use std::collections::BTreeSet;

/// Ids and keys.
#[derive(Default)]
pub(super) struct Needs {
    /// Schedules that are going to be changed.
    pub(super) schedules: BTreeSet<i64>,
    /// Runs that are going to be changed.
    pub(super) runs: BTreeSet<i64>,
    /// Workflows that are going to be changed, and that nobody else may read meanwhile.
    pub(super) own: BTreeSet<i64>,
    /// Workflows that are read, or whose handlers are.
    pub(super) workflows: BTreeSet<i64>,
    /// Topics that are going to be changed, or their events.
    pub(super) topics: BTreeSet<i64>,
    /// How many times the transaction has begun anew for something that it turned out to need.
    pub(super) rounds: usize,
}
