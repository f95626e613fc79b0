//! Deadlines: when work is to be done, and what happens before, at and after that.

use serde::{Deserialize, Serialize};

use super::action::Channel;
use super::stretch::Stretch;

/// When a run or a step is to be done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deadline {
    /// How long it may take.
    pub limit: Limit,
    /// What working time means; the workflow's calendar if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calendar: Option<String>,
    /// From when it counts.
    pub from: From,
    /// Whether the clock stands while the run is suspended or its workflow paused.
    #[serde(default)]
    pub pausable: bool,
    /// What happens when; never empty.
    pub actions: Vec<DeadlineAction>,
}

/// How long something may take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// So long.
    Within(Stretch),
    /// Until the next time that the clock shows this, in the workflow's zone: hours and minutes.
    At(u8, u8),
}

/// From when a deadline counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum From {
    /// Since it could begin.
    #[default]
    Enabled,
    /// Since it began.
    Started,
}

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeadlineAction {
    /// When.
    pub when: When,
    /// Who is told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<Channel>,
    /// The workflow that is started, with the run as its input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// What becomes of the run or step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<DeadlineEnd>,
}

/// When something happens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// When this share of the time allowed is over, in percent.
    Share(f64),
    /// So long before the deadline.
    Before(Stretch),
    /// At the deadline.
    Deadline,
    /// So long after it.
    After(Stretch),
}

/// What becomes of work that is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadlineEnd {
    /// It has failed.
    Fail,
    /// The run is cancelled.
    Cancel,
    /// It counts as done.
    Complete,
    /// It is passed over.
    Skip,
}
