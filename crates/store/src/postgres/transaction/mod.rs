//! One transaction: what it reads, locks, decides and writes.

pub(crate) mod access;
pub(crate) mod after_commit;
pub(crate) mod apply;
pub(crate) mod apply_progress;
pub(crate) mod apply_runs;
pub(crate) mod apply_topics;
pub(crate) mod apply_waiting;
pub(crate) mod bulk_insert;
pub(crate) mod claims;
pub(crate) mod core;
pub(crate) mod incidents;
pub(crate) mod last_steps;
pub(crate) mod load;
pub(crate) mod loaded;
pub(crate) mod lock_order;
pub(crate) mod lock_retry;
pub(crate) mod minute_counts;
pub(crate) mod reader;
pub(crate) mod related_rows;
pub(crate) mod report_loader;
pub(crate) mod row_cache;
pub(crate) mod set_aside;
pub(crate) mod shared;
pub(crate) mod topic_load;
pub(crate) mod topic_reader;
pub(crate) mod wakeup_cache;
