//! Tests of a real node over loopback: on SQLite in a temporary folder, or with
//! `PUNCTUAL_TEST_STORE=postgres` on a schema of its own in the PostgreSQL at
//! `PUNCTUAL_TEST_POSTGRES`.
#![allow(clippy::unwrap_used, reason = "what a test cannot unwrap fails it")]

mod access;
mod ahead;
mod api;
mod gated;
mod ground;
mod harness;
mod lifeline;
mod nodes;
mod pages;
mod peer;
mod processes;
mod resources;
mod topics;
mod traces;
