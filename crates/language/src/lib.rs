//! **What people write.** Definitions of workflows and declarations of schedules: read, checked, described.
//!
//! | for | see |
//! |---|---|
//! | a workflow: its steps, triggers, producers, consumers | [`definition`] |
//! | a schedule, as its declaration is written, and the plan that follows from it | [`schedule`] |
//! | conditions and templates | [`expression`] |
//! | the input that a workflow expects | [`input_schema`] |
//! | overlap and retry | [`policy`] |
//! | the channels that a node can reach people by | [`notification_setup`] |
//!
//! This crate turns text into checked values and reports every mistake with its place. It knows no store,
//! no clock and no run: what a checked definition leads to is decided by `engine`.
#![forbid(unsafe_code)]

pub mod definition;
pub mod expression;
pub mod input_schema;
pub mod notification_setup;
pub mod policy;
mod rules;
pub mod schedule;

pub use rules::Rules;
