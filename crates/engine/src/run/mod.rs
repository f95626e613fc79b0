//! Runs: one execution of a workflow, step after step, and the one transition function.

mod decide;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use decide::decide;

use crate::ids::{NodeId, RunId, RunKey, ScheduleId, WorkflowId};

/// A runner that does not answer so long after a cancel is not waited for any more: longer than the
/// grace that it gives the attempt itself.
pub const CANCEL_LIMIT: SignedDuration = SignedDuration::from_secs(15);

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Created, waiting for a free place. Moved on by the driver when a limit allows.
    Pending,
    /// An attempt is going on. Moved on by its report, by cancel, by timeout.
    Running,
    /// It waits for a time, to try a step again, or for a free place to go on. Moved on by its wakeup,
    /// or by the driver when there is a place.
    Waiting,
    /// What became of an attempt is unknown and it must not be tried twice. Moved on by a person.
    Suspended,
    /// All steps are done.
    Succeeded,
    /// A step failed for good.
    Failed,
    /// Someone, or the overlap policy, cancelled it.
    Cancelled,
    /// It took longer than it may.
    TimedOut,
}

impl RunStatus {
    /// Every status, in the order of their stored numbers.
    pub const ALL: [RunStatus; 8] = [
        RunStatus::Pending,
        RunStatus::Running,
        RunStatus::Waiting,
        RunStatus::Suspended,
        RunStatus::Succeeded,
        RunStatus::Failed,
        RunStatus::Cancelled,
        RunStatus::TimedOut,
    ];

    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            RunStatus::Pending => "pending",
            RunStatus::Running => "running",
            RunStatus::Waiting => "waiting",
            RunStatus::Suspended => "suspended",
            RunStatus::Succeeded => "succeeded",
            RunStatus::Failed => "failed",
            RunStatus::Cancelled => "cancelled",
            RunStatus::TimedOut => "timed_out",
        }
    }

    /// Whether nothing can come any more.
    pub fn has_ended(self) -> bool {
        self as u8 >= RunStatus::Succeeded as u8
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// All steps are done.
    Succeeded,
    /// A step failed for good.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// It took longer than it may.
    TimedOut,
}

impl Ending {
    /// Every ending, in the order of their stored numbers.
    pub const ALL: [Ending; 4] =
        [Ending::Succeeded, Ending::Failed, Ending::Cancelled, Ending::TimedOut];

    /// The status that says so.
    pub fn status(self) -> RunStatus {
        match self {
            Ending::Succeeded => RunStatus::Succeeded,
            Ending::Failed => RunStatus::Failed,
            Ending::Cancelled => RunStatus::Cancelled,
            Ending::TimedOut => RunStatus::TimedOut,
        }
    }
}

/// What a run was born from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TriggeredBy {
    /// An occurrence, or a retry of one.
    Schedule,
    /// A person or a program, by hand.
    Manual,
    /// A manual retry of an earlier run.
    Retry,
}

impl TriggeredBy {
    /// Every origin, in the order of their stored numbers.
    pub const ALL: [TriggeredBy; 3] =
        [TriggeredBy::Schedule, TriggeredBy::Manual, TriggeredBy::Retry];

    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            TriggeredBy::Schedule => "schedule",
            TriggeredBy::Manual => "manual",
            TriggeredBy::Retry => "retry",
        }
    }
}

/// One execution of a workflow.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its place in the store.
    pub key: RunKey,
    /// What it is called.
    pub id: RunId,
    /// Of which workflow.
    pub workflow: WorkflowId,
    /// Of which version.
    pub version: u32,
    /// Started by which schedule, also if by hand.
    pub schedule: Option<ScheduleId>,
    /// What it was born from.
    pub triggered_by: TriggeredBy,
    /// Who started it, if by hand.
    pub by: Option<String>,
    /// What the rule says, if born from an occurrence.
    pub nominal: Option<Timestamp>,
    /// When the occurrence was due.
    pub effective: Option<Timestamp>,
    /// Where it stands.
    pub status: RunStatus,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its first step started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// How long it may take from its start.
    pub timeout: SignedDuration,
    /// What it works on.
    pub input: Box<RawValue>,
    /// What came out: the last step's output.
    pub output: Option<Box<RawValue>>,
    /// What went wrong.
    pub error: Option<RunError>,
    /// The run that this one tries again.
    pub retry_of: Option<RunId>,
    /// Where it is in its steps.
    pub position: Position,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunError {
    /// For programs: `exit_code`, `timeout`, …
    pub code: String,
    /// For people.
    pub message: String,
    /// In which step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

/// Where a run is in its steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The step it is at, by its place in the definition.
    pub step: u32,
    /// Attempts at this step so far.
    pub attempt: u32,
    /// The fencing token of the last attempt: a report with another one is refused.
    pub token: u32,
    /// When the attempt started.
    pub since: Option<Timestamp>,
    /// Who performs the attempt that is going on.
    pub owner: Option<NodeId>,
    /// When a waiting step is tried again; a waiting run without it waits for a place.
    pub retry_at: Option<Timestamp>,
    /// It is being ended, for this reason, until then at the latest.
    pub ending: Option<BeingEnded>,
}

/// A run that has been told to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeingEnded {
    /// How it will have ended.
    pub ending: Ending,
    /// Why.
    pub message: String,
    /// The runner is not waited for longer than this.
    pub until: Timestamp,
}

/// How an attempt ended, as its runner reports.
#[derive(Clone, Debug)]
pub enum AttemptEnd {
    /// With this output.
    Succeeded {
        /// JSON.
        output: Box<RawValue>,
    },
    /// Not well.
    Failed {
        /// For programs.
        code: String,
        /// For people.
        message: String,
        /// Whether trying again can help.
        retryable: bool,
        /// What came out all the same.
        output: Option<Box<RawValue>>,
    },
    /// It was told to end, and has.
    Cancelled {
        /// How.
        message: String,
    },
}

/// What can happen to a run.
#[derive(Clone, Debug)]
pub enum Input {
    /// A place is free: it begins, performed by this node.
    Begin(NodeId),
    /// The attempt with this token has ended.
    Reported {
        /// Which attempt.
        token: u32,
        /// How.
        end: AttemptEnd,
    },
    /// Its wakeup has come, or a place is free. It goes on with this node, if one has a place.
    Wake(Option<NodeId>),
    /// Someone cancels it.
    Cancel {
        /// Why, in words.
        reason: String,
    },
    /// Whoever performed the attempt is gone. This node goes on, if it has a place.
    OwnerGone(Option<NodeId>),
    /// A person says what became of the attempt whose end is unknown.
    Resolve {
        /// What is to happen.
        resolution: Resolution,
        /// Who performs the next attempt, if someone has a place.
        node: Option<NodeId>,
    },
}

/// What became of an attempt whose end is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// It did its work: go on with the next step.
    Applied,
    /// It did nothing: try it again.
    DidNotHappen,
    /// Give up: the run has failed.
    Failed,
}

/// What follows.
#[derive(Debug, Default)]
pub struct Decision {
    /// An attempt to perform: the step's place. Its token and owner are in the run's position.
    pub perform: Option<u32>,
    /// An attempt to cancel, by its token.
    pub cancel: Option<u32>,
    /// What became of a step.
    pub step: Option<StepRecord>,
    /// Whether trying the run again can help, if it has ended.
    pub retryable: bool,
}

/// Where a step stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Done.
    Completed,
    /// Failed; it may be tried again.
    Failed,
    /// Failed, and the definition says to go on.
    Skipped,
    /// Ended from outside.
    Cancelled,
}

impl StepStatus {
    /// Every status, in the order of their stored numbers.
    pub const ALL: [StepStatus; 4] =
        [StepStatus::Completed, StepStatus::Failed, StepStatus::Skipped, StepStatus::Cancelled];

    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            StepStatus::Completed => "completed",
            StepStatus::Failed => "failed",
            StepStatus::Skipped => "skipped",
            StepStatus::Cancelled => "cancelled",
        }
    }
}

/// What became of a step, kept as its history.
#[derive(Clone, Debug)]
pub struct StepRecord {
    /// Its place in the definition.
    pub step: u32,
    /// Where it stands.
    pub status: StepStatus,
    /// Attempts so far.
    pub attempts: u32,
    /// When the last attempt started.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// What came out.
    pub output: Option<Box<RawValue>>,
    /// What went wrong.
    pub error: Option<RunError>,
}

/// Why a run does not do what it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not from this status.
    WrongStatus {
        /// What was asked.
        verb: &'static str,
        /// Where it stands.
        status: RunStatus,
    },
    /// The attempt is not the one that is going on.
    OldToken {
        /// What was given.
        given: u32,
        /// What is going on.
        current: u32,
    },
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::WrongStatus { verb, status } => {
                write!(f, "Cannot {verb} run with status '{}'.", status.name())
            }
            Refusal::OldToken { given, current } => {
                write!(f, "The report of attempt {given} is too late: attempt {current} counts.")
            }
        }
    }
}

impl Run {
    /// When to look at it again.
    pub fn wake_at(&self) -> Option<Timestamp> {
        if self.status.has_ended() {
            return None;
        }
        if self.status == RunStatus::Suspended {
            // Only a person moves it on: a timeout would have it tried again.
            return None;
        }
        let limit = self.started_at.and_then(|at| at.checked_add(self.timeout).ok());
        match &self.position.ending {
            Some(ending) => Some(ending.until),
            None => self.position.retry_at.into_iter().chain(limit).min(),
        }
    }

    /// Whether it has begun, and only a place is missing for it to go on.
    pub fn is_ready(&self) -> bool {
        self.status == RunStatus::Waiting && self.position.retry_at.is_none()
    }

    /// How it ended, if it has.
    pub fn ending(&self) -> Option<Ending> {
        Ending::ALL.into_iter().find(|ending| ending.status() == self.status)
    }
}
