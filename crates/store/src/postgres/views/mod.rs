//! The questions that people and pages ask: read only.

pub(crate) mod access;
pub(crate) mod incidents;
pub(crate) mod not_run;
pub(crate) mod runs;
pub(crate) mod schedules;
pub(crate) mod search;
pub(crate) mod topics;
pub(crate) mod waiting;
pub(crate) mod workflows;
