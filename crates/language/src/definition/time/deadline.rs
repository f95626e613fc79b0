//! Deadlines: by when work should be done, and what happens before, at and after that.

use serde::{Deserialize, Serialize};

use super::time_span::TimeSpan;
use crate::definition::steps::Channel;

/// By when a run or a step should be done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deadline {
    pub limit: Limit,
    /// The calendar for working time; the workflow's if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calendar: Option<String>,
    pub from: From,
    /// Whether the clock stops while the run is suspended or its workflow is paused.
    #[serde(default)]
    pub pausable: bool,
    /// The actions of the deadline, each with its time; never empty.
    pub actions: Vec<DeadlineAction>,
}

/// How long a run or a step may take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The limit is this long.
    Within(TimeSpan),
    /// Until the next time that the clock in the workflow's zone shows this: hours and minutes.
    At(u8, u8),
}

/// From when a deadline counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum From {
    /// From when the run or step could begin.
    #[default]
    Enabled,
    /// From when the run or step began.
    Started,
}

/// One action of a deadline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeadlineAction {
    pub when: When,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<Channel>,
    /// The workflow that is started, with the run as its input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// How the run or step ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<DeadlineEnd>,
}

/// When an action of a deadline happens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// When this percentage of the allowed time has passed.
    Share(f64),
    /// This long before the deadline.
    Before(TimeSpan),
    /// The action happens at the deadline.
    Deadline,
    /// This long after the deadline.
    After(TimeSpan),
}

/// How a deadline ends work that is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadlineEnd {
    /// The run or step fails.
    Fail,
    /// The run is cancelled.
    Cancel,
    /// The run or step counts as done.
    Complete,
    /// The step is skipped.
    Skip,
}
