//! The questions that people and pages ask: read only, and written once for both stores.
//!
//! A view asks a [`Reader`], which is a connection of either store. Statements name their
//! parameters `$1`, `$2` and so on. Where the two databases need different texts,
//! [`Reader::either`] has both.

pub(crate) mod access;
pub(crate) mod calendars;
mod conditions;
pub(crate) mod figures;
pub(crate) mod incidents;
pub(crate) mod not_run;
mod reader;
pub(crate) mod runs;
pub(crate) mod schedules;
mod search;
pub(crate) mod set_aside;
pub(crate) mod topics;
pub(crate) mod waiting;
pub(crate) mod workflows;

pub(crate) use conditions::{Conditions, run_condition};
pub(crate) use reader::{Param, Reader, limit_in_sql, params};
