//! Definitions: what a workflow is, as people write it and as it is checked.

mod action;

pub use action::{Action, ExecAction, HttpAction};
