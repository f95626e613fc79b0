//! **What people write.** Definitions of workflows and declarations of schedules: read, checked,
//! described.
//!
//! | for | see |
//! |---|---|
//! | a workflow: its steps, triggers, producers, consumers | [`definition`] |
//! | the declaration of a schedule, and the plan that follows from it | [`schedule`] |
//! | conditions and templates | [`expression`] |
//! | the input that a workflow expects | [`input_schema`] |
//! | overlap and retry | [`policy`] |
//! | the channels by which a node can notify people | [`notification_setup`] |
//!
//! This crate turns text into checked values and reports every mistake with its position. It knows
//! no store, no clock and no run: `engine` decides what follows from a checked definition.
#![forbid(unsafe_code)]

pub mod definition;
pub mod expression;
pub mod input_schema;
pub mod notification_setup;
pub mod policy;
mod rules;
pub mod schedule;

pub use rules::Rules;
