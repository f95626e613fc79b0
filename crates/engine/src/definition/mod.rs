//! Definitions: what a workflow is, as people write it and as it is checked.

mod action;
mod model;
mod version;

pub use action::{Action, ExecAction, HttpAction};
pub use model::{Definition, OnError, Step, StepRetry, Trigger, TriggerKind};
pub use version::Version;
