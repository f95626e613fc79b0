//! The ledger: the outcome of each occurrence, with its reason.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{RunKey, ScheduleId};
use crate::schedule::Numbered;

/// The outcome of an occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A run was created.
    Started,
    /// A run was created at another time than the rule gives: the calendar or an override moved it.
    Moved,
    /// The occurrence waits because the schedule is busy, or its run waits for a free slot. Later
    /// it is started or dropped.
    Queued,
    /// The occurrence does not run because of overlap, a day off or an override.
    Skipped,
    /// Another occurrence stands for it.
    Coalesced,
    /// The occurrence was due while no node was running, and the catch-up policy does not run it.
    Missed,
    /// The occurrence waited, and the schedule gave it up before it started.
    Dropped,
    /// Its retries are exhausted, or it was due while the schedule was busy and overlap is `error`.
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

    /// The name in the API and on pages.
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

/// One row: an occurrence, or many occurrences with the same outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub schedule: ScheduleId,
    /// The number of the occurrence, or of the first one.
    pub n: u64,
    /// The number of occurrences in this row.
    pub count: u64,
    /// The nominal time of the occurrence, or of the first one.
    pub nominal: Timestamp,
    /// The nominal time of the last occurrence.
    pub last_nominal: Timestamp,
    /// When the occurrence happens.
    pub effective: Timestamp,
    pub decided_at: Timestamp,
    pub outcome: Outcome,
    pub reason: Cow<'static, str>,
    pub run: Option<RunKey>,
}

impl Entry {
    /// The row of one occurrence.
    pub(crate) fn of(
        schedule: ScheduleId,
        occurrence: &Numbered,
        decided_at: Timestamp,
        outcome: Outcome,
        reason: Cow<'static, str>,
        run: Option<RunKey>,
    ) -> Entry {
        let Numbered { n, due, .. } = *occurrence;
        let (nominal, last_nominal, effective) = (due.nominal, due.nominal, due.effective);
        let count = 1;
        Entry {
            schedule,
            n,
            count,
            nominal,
            last_nominal,
            effective,
            decided_at,
            outcome,
            reason,
            run,
        }
    }
}
