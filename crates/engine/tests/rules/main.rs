//! The rules that the design began with, each with a test that names it.

#![allow(clippy::unwrap_used, reason = "what a test cannot unwrap fails it")]

mod catch_up;
mod chains;
mod control;
mod handlers;
mod incidents;
mod limits;
mod memory;
mod outlook;
mod overlap;
mod panics;
mod processes;
mod repeats;
mod retries;
mod topics;
mod world;
mod written;
