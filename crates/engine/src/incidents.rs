//! Incidents: from the moment that something has finally failed until it succeeds again.
//!
//! A schedule's incident begins when an occurrence fails and is not retried, or when the schedule
//! dies, and ends with its next success. Runs that no schedule started share the incident of their
//! workflow. Each incident sends its notifications once when it begins (`on_failure`) and at most
//! once when it is over (`on_recovery`). Both are decided in the transaction in which the run ends.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{IncidentKey, ScheduleId, WorkflowId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    pub key: IncidentKey,
    pub workflow: WorkflowId,
    /// The schedule; `None` for the runs of the workflow that no schedule started.
    pub schedule: Option<ScheduleId>,
    /// The run that failed. A schedule may die without one.
    pub run: Option<String>,
    /// The nominal time of the occurrence, if there was one.
    pub nominal: Option<Timestamp>,
    pub error: String,
    pub began_at: Timestamp,
    /// The results of `on_failure`.
    pub told: Vec<Told>,
    pub end: Option<IncidentEnd>,
}

/// The end of an incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncidentEnd {
    pub how: How,
    pub at: Timestamp,
    /// The run that succeeded.
    pub run: Option<String>,
    /// The results of `on_recovery`.
    pub told: Vec<Told>,
}

impl IncidentEnd {
    /// The end of an incident without a success. Nobody is notified.
    pub fn of_itself(how: How, at: Timestamp) -> IncidentEnd {
        IncidentEnd { how, at, run: None, told: Vec::new() }
    }
}

/// The cause that ended an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// A run has succeeded. Only this end is notified.
    Recovered,
    /// The schedule has died, which begins another incident.
    Died,
    /// The schedule or workflow was removed.
    Removed,
}

impl How {
    /// Every end, in the order of their stored numbers.
    pub const ALL: [How; 3] = [How::Recovered, How::Died, How::Removed];

    /// The name in the API and on pages.
    pub fn name(self) -> &'static str {
        match self {
            How::Recovered => "recovered",
            How::Died => "died",
            How::Removed => "removed",
        }
    }
}

/// The result for one notification channel, or for one workflow to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// The recipient or workflow, without secrets: `email ops@example.com`, `webhook
    /// hooks.example.com`, `start repair`.
    pub what: String,
    #[serde(flatten)]
    pub outcome: ToldOutcome,
}

/// Whether a notification or workflow was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToldOutcome {
    /// The run that delivers the notification, or the run that was to be started.
    Run(String),
    /// The reason why nothing was started.
    Refused(String),
}

impl Told {
    /// The recipient and the reason in one line; `None` if a run was started.
    pub fn refusal(&self) -> Option<String> {
        match &self.outcome {
            ToldOutcome::Run(_) => None,
            ToldOutcome::Refused(why) => Some(format!("{}: {why}", self.what)),
        }
    }
}
