//! What keeps a store sound: expiry, checks and repairs, backups.

pub(crate) mod calendars;
pub(crate) mod check;
pub(crate) mod check_file;
pub(crate) mod check_runs;
pub(crate) mod check_schedules;
pub(crate) mod expiry;
pub(crate) mod topic_expiry;
