//! What keeps a store sound: expiry, checks and repairs, backups.

pub(crate) mod calendars;
pub(crate) mod check;
pub(crate) mod check_runs;
pub(crate) mod check_schedules;
pub(crate) mod check_schema;
pub(crate) mod expiry;
pub(crate) mod migrate;
pub(crate) mod topic_expiry;
