//! Incidents: from the moment that something has finally failed until it succeeds again.
//!
//! A schedule's incident begins when an occurrence fails and is not tried again, or when the schedule dies, and ends
//! with its next success. Runs that no schedule started share the incident of their workflow. Each incident tells
//! once that it begins (`on_failure`) and at most once that it is over (`on_recovery`): both are decided in the
//! transaction in which the run ends.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{IncidentKey, ScheduleId, WorkflowId};

/// An incident as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Its place in the store.
    pub key: IncidentKey,
    /// Of which workflow.
    pub workflow: WorkflowId,
    /// Of which schedule; of the runs that no schedule started, if nothing.
    pub schedule: Option<ScheduleId>,
    /// The run that failed. A schedule may die without one.
    pub run: Option<String>,
    /// When the occurrence was due by its rule, if it is one.
    pub nominal: Option<Timestamp>,
    /// What went wrong.
    pub error: String,
    /// When it began.
    pub began_at: Timestamp,
    /// What came of `on_failure`.
    pub told: Vec<Told>,
    /// How it ended, if it has.
    pub end: Option<IncidentEnd>,
}

/// The end of an incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncidentEnd {
    /// What ended it.
    pub how: How,
    /// When.
    pub at: Timestamp,
    /// The run that succeeded.
    pub run: Option<String>,
    /// What came of `on_recovery`.
    pub told: Vec<Told>,
}

impl IncidentEnd {
    /// It is over without a success, and nobody is told.
    pub fn of_itself(how: How, at: Timestamp) -> IncidentEnd {
        IncidentEnd { how, at, run: None, told: Vec::new() }
    }
}

/// What ends an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// A success: the only end that is told.
    Recovered,
    /// The schedule died meanwhile, which is an incident of its own.
    Died,
    /// The schedule or workflow is gone.
    Removed,
}

impl How {
    /// Every end, in the order of their stored numbers.
    pub const ALL: [How; 3] = [How::Recovered, How::Died, How::Removed];

    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            How::Recovered => "recovered",
            How::Died => "died",
            How::Removed => "removed",
        }
    }
}

/// What came of one channel, or of one workflow that was to be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Whom or what, without secrets: `email ops@example.com`, `webhook hooks.example.com`, `start repair`.
    pub what: String,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: ToldOutcome,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToldOutcome {
    /// This run tells it, or is what was to be started.
    Run(String),
    /// Nothing was started, for this reason.
    Refused(String),
}

impl Told {
    /// Who was not told and why, in one line; nothing if a run was started.
    pub fn refusal(&self) -> Option<String> {
        match &self.outcome {
            ToldOutcome::Run(_) => None,
            ToldOutcome::Refused(why) => Some(format!("{}: {why}", self.what)),
        }
    }
}
