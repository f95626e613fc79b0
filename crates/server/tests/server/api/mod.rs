//! Schedules, and what holds for the whole API.

mod batch;
mod document;
mod explain;
mod hostile;
mod idempotency;
mod limits;
mod node;
mod occurrences;
mod ops;
mod paging;
mod refusals;
mod schedules;
mod stream;
mod triggers;
