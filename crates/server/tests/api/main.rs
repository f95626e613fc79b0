//! The API of a real node: a server on loopback over SQLite in a temporary folder.
#![allow(clippy::unwrap_used, reason = "what a test cannot unwrap fails it")]

mod batch;
mod document;
mod explain;
mod harness;
mod hostile;
mod idempotency;
mod limits;
mod node;
mod occurrences;
mod paging;
mod refusals;
mod schedules;
mod stream;
mod triggers;
