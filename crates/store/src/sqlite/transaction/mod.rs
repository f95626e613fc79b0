//! One transaction: what it reads, locks, decides and writes.

pub(crate) mod access;
pub(crate) mod apply;
pub(crate) mod apply_runs;
pub(crate) mod apply_topics;
pub(crate) mod core;
pub(crate) mod incidents;
pub(crate) mod many_rows;
pub(crate) mod minute_counts;
pub(crate) mod reader;
pub(crate) mod row_cache;
pub(crate) mod set_aside;
pub(crate) mod topic_reader;
pub(crate) mod wakeups;
