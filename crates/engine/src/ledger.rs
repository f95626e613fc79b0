//! The ledger: what became of each occurrence, and why.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{RunKey, ScheduleId};

/// What became of an occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A run was created.
    Started,
    /// A run was created at another time than the rule says: rolled by the calendar or overridden.
    Moved,
    /// It waits: the schedule is busy and its policy keeps it. Later started or dropped.
    Queued,
    /// It does not run: overlap, a day off, an override.
    Skipped,
    /// Another one stands for it.
    Coalesced,
    /// It was due while nobody was awake, and its policy does not make up for it.
    Missed,
    /// It waited, and was given up before it started.
    Dropped,
    /// Its retries are exhausted, or it was due while busy under `error`.
    Failed,
}

impl Outcome {
    /// Every outcome, in the order of their stored numbers.
    pub const ALL: [Outcome; 8] = [
        Outcome::Started,
        Outcome::Moved,
        Outcome::Queued,
        Outcome::Skipped,
        Outcome::Coalesced,
        Outcome::Missed,
        Outcome::Dropped,
        Outcome::Failed,
    ];

    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Started => "started",
            Outcome::Moved => "moved",
            Outcome::Queued => "queued",
            Outcome::Skipped => "skipped",
            Outcome::Coalesced => "coalesced",
            Outcome::Missed => "missed",
            Outcome::Dropped => "dropped",
            Outcome::Failed => "failed",
        }
    }
}

/// One row: an occurrence, or a row of many with the same fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whose.
    pub schedule: ScheduleId,
    /// Its number; of several, the first.
    pub n: u64,
    /// How many occurrences this row stands for.
    pub count: u64,
    /// What the rule says; of several, the first.
    pub nominal: Timestamp,
    /// Of several, the last nominal time.
    pub last_nominal: Timestamp,
    /// When it happens.
    pub effective: Timestamp,
    /// When this was decided.
    pub decided_at: Timestamp,
    /// What became of it.
    pub outcome: Outcome,
    /// Why, in words.
    pub reason: Cow<'static, str>,
    /// The run that was created for it.
    pub run: Option<RunKey>,
}
