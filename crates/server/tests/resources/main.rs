//! Workflows, runs, calendars and figures of a real node: a server on loopback over SQLite in a
//! temporary folder.
#![allow(clippy::unwrap_used, reason = "what a test cannot unwrap fails it")]

mod calendars;
mod hostile;
mod lifeline;
mod node;
mod peer;
mod runs;
mod steps;
mod upkeep;
mod workflows;
