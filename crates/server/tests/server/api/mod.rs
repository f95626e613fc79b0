//! Schedules, and rules for the whole API.

mod batch;
mod connections;
mod document;
mod explain;
mod gone;
mod hostile;
mod idempotency;
mod incidents;
mod life;
mod limits;
mod node;
mod occurrences;
mod ops;
mod paging;
mod ready;
mod refusals;
mod schedules;
mod stream;
mod triggers;
