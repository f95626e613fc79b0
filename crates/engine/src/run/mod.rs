//! Runs: one execution of a workflow, and its transition function.
//!
//! `decide` takes one input; `advance` then carries out what follows until nothing more can begin.
//! `start` says what a step of each type does when it begins, `settle` how its parts end, and
//! `ending` how a run that does not succeed stops.

mod advance;
mod deadline_math;
mod decide;
mod ending;
mod events;
pub(crate) mod family;
mod fitting;
mod input;
mod item;
mod items;
mod jump;
mod reconcile;
mod routes;
mod scope;
mod settle;
mod start;
mod state;
pub(crate) mod stored_input;
mod waits;
mod watch;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use decide::{NodeCapacity, decide};
pub use events::required_event;
pub use input::{
    Alert, Approval, AttemptEnd, Awaiting, Decision, Input, NewChild, Part, Published, Queueing,
    Resolution, Retryability, RunHistory,
};
pub use item::{Item, UnknownItem};
pub use scope::{ItemScope, scope_of_part};
pub use start::action_of;
pub use state::{Activity, ActivityStatus, Claimant, RunState, States, StepState, Watch};
pub use stored_input::trigger_of;
pub use watch::watch_new_run;

use crate::ids::{RunId, RunKey, ScheduleId, WorkflowId};
use crate::trace::TraceContext;

/// How long a run waits for its attempts to end after a cancel. It is longer than the grace period
/// that a runner gives the attempt itself.
pub const CANCEL_LIMIT: SignedDuration = SignedDuration::from_secs(15);

/// The largest difference between the order in which overlapping transactions read the clock and
/// the order in which they commit.
const OVERLAP: SignedDuration = SignedDuration::from_secs(5);

/// The status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Created, waiting for a free slot. The driver begins it when a limit allows.
    Pending,
    /// An attempt is being performed. Its report, a cancel or a timeout moves the run on.
    Running,
    /// Waits for a time, for the retry of a step, or for a free slot. Its wakeup moves it on, or
    /// the driver when a slot is free.
    Waiting,
    /// The result of an attempt is unknown, and the step must not be repeated. A person moves it
    /// on.
    Suspended,
    /// All steps have ended well.
    Succeeded,
    /// A step has finally failed.
    Failed,
    /// A person, or the overlap policy, cancelled the run.
    Cancelled,
    /// The run exceeded its timeout.
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

    /// The name in the API and on pages.
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

    /// Whether the status is final.
    pub fn has_ended(self) -> bool {
        self as u8 >= RunStatus::Succeeded as u8
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// All steps have ended well.
    Succeeded,
    /// A step has finally failed.
    Failed,
    /// A person, or the overlap policy, cancelled the run.
    Cancelled,
    /// The run exceeded its timeout.
    TimedOut,
}

impl Ending {
    /// Every ending, in the order of their stored numbers.
    pub const ALL: [Ending; 4] =
        [Ending::Succeeded, Ending::Failed, Ending::Cancelled, Ending::TimedOut];

    /// The status of a run that ended this way.
    pub fn status(self) -> RunStatus {
        match self {
            Ending::Succeeded => RunStatus::Succeeded,
            Ending::Failed => RunStatus::Failed,
            Ending::Cancelled => RunStatus::Cancelled,
            Ending::TimedOut => RunStatus::TimedOut,
        }
    }
}

/// The origin of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TriggeredBy {
    /// An occurrence, or a retry of one.
    Schedule,
    /// A caller who started it by hand.
    Manual,
    /// A manual retry of an earlier run.
    Retry,
    /// A step of another run.
    SubProcess,
    /// The deadline of another run.
    Deadline,
    /// A call to the URL of a webhook trigger.
    Webhook,
    /// An event on a topic.
    Event,
    /// The end of a consumer's sleep.
    Wakeup,
    /// A run has failed, or succeeded again. This run notifies somebody, or is what the definition
    /// starts for that.
    Incident,
}

impl TriggeredBy {
    /// Origins whose pending runs wait while their workflow is paused. The others go on: a person
    /// asked for them, or they belong to a run that has begun.
    pub const HELD_BY_PAUSE: [TriggeredBy; 3] =
        [TriggeredBy::Schedule, TriggeredBy::Webhook, TriggeredBy::Event];

    /// Every origin, in the order of their stored numbers.
    pub const ALL: [TriggeredBy; 9] = [
        TriggeredBy::Schedule,
        TriggeredBy::Manual,
        TriggeredBy::Retry,
        TriggeredBy::SubProcess,
        TriggeredBy::Deadline,
        TriggeredBy::Webhook,
        TriggeredBy::Event,
        TriggeredBy::Wakeup,
        TriggeredBy::Incident,
    ];

    /// The name in the API and on pages.
    pub fn name(self) -> &'static str {
        match self {
            TriggeredBy::Schedule => "schedule",
            TriggeredBy::Manual => "manual",
            TriggeredBy::Retry => "retry",
            TriggeredBy::SubProcess => "sub_process",
            TriggeredBy::Deadline => "deadline",
            TriggeredBy::Webhook => "webhook",
            TriggeredBy::Event => "event",
            TriggeredBy::Wakeup => "wakeup",
            TriggeredBy::Incident => "incident",
        }
    }
}

/// One execution of a workflow.
#[derive(Clone, Debug)]
pub struct Run {
    /// The key in the store.
    pub key: RunKey,
    /// The id that callers see.
    pub id: RunId,
    pub workflow: WorkflowId,
    /// The revision of the workflow.
    pub version: u32,
    /// The producer or consumer that it is a run of; `None` for a run of the workflow's steps.
    pub handler: Option<String>,
    /// The schedule that started it, also if a person used that schedule.
    pub schedule: Option<ScheduleId>,
    pub triggered_by: TriggeredBy,
    /// Who or what started it, if not an occurrence.
    pub by: Option<String>,
    /// The nominal time, if an occurrence started it.
    pub nominal: Option<Timestamp>,
    /// The effective time, if an occurrence started it.
    pub effective: Option<Timestamp>,
    pub status: RunStatus,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// The limit on the time during which something is performed, if there is one.
    pub timeout: Option<SignedDuration>,
    pub input: Box<RawValue>,
    pub output: Option<Box<RawValue>>,
    pub error: Option<RunError>,
    /// The run that this one retries.
    pub retry_of: Option<RunId>,
    pub parent: Option<Parent>,
    /// The caller's span, or that of the step that started the run.
    pub trace: Option<TraceContext>,
    /// Whether a deadline of the run or of one of its steps has passed.
    pub overdue: bool,
    /// Whether the run has begun and a part of it waits for a free slot.
    pub waits_for_slot: bool,
    pub state: RunState,
}

/// The place of a run in its family, if another run started it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    pub run: RunKey,
    /// The token of the attempt that waits for this run, if one does.
    pub token: Option<u32>,
    /// The number of ancestors, each waiting for the next.
    pub depth: u8,
    /// The first run of the family, which no other run started.
    pub root: RunKey,
    /// The number of events and deadlines between the root and this run.
    pub hops: u8,
}

/// Why a run or a step failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunError {
    /// A code for programs: `exit_code`, `timeout`, …
    pub code: String,
    /// A message for people.
    pub message: String,
    /// The id of the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

impl RunError {
    /// The message in one line, with the step.
    pub fn said(&self) -> String {
        match &self.step {
            Some(step) => format!("step {step}: {}", self.message),
            None => self.message.clone(),
        }
    }
}

/// The intended ending of a run that is being ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeingEnded {
    pub ending: Ending,
    pub error: Option<RunError>,
    /// Whether a retry can help.
    pub retryability: Retryability,
    /// How long active attempts may take to stop. `None` once the run undoes its completed steps.
    pub until: Option<Timestamp>,
    /// When the run tells its children to end, if the turn that began to end it could not: a turn
    /// cancels a limited number of runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tell_children_at: Option<Timestamp>,
}

/// The status of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    Completed,
    /// The last attempt failed; there may be another one.
    Failed,
    /// Its condition did not hold, no route led to it, or it failed and the definition ignores
    /// that.
    Skipped,
    /// Stopped before it was done, for example because the run ended.
    Cancelled,
    /// A step that it depends on has not ended.
    Pending,
    /// Waits for a free slot or a worker.
    Ready,
    /// An attempt is being performed.
    Running,
    /// Waits for a time, a person, another run, or its next attempt.
    Waiting,
}

impl StepStatus {
    /// Every status, in the order of their stored numbers.
    pub const ALL: [StepStatus; 8] = [
        StepStatus::Completed,
        StepStatus::Failed,
        StepStatus::Skipped,
        StepStatus::Cancelled,
        StepStatus::Pending,
        StepStatus::Ready,
        StepStatus::Running,
        StepStatus::Waiting,
    ];

    /// The name in the API and on pages.
    pub fn name(self) -> &'static str {
        match self {
            StepStatus::Completed => "completed",
            StepStatus::Failed => "failed",
            StepStatus::Skipped => "skipped",
            StepStatus::Cancelled => "cancelled",
            StepStatus::Pending => "pending",
            StepStatus::Ready => "ready",
            StepStatus::Running => "running",
            StepStatus::Waiting => "waiting",
        }
    }
}

/// The history of a step, of one of its items, or of its compensation.
#[derive(Clone, Debug)]
pub struct StepRecord {
    /// The index of the step in the definition.
    pub step: u32,
    /// [`Item::Whole`], [`Item::Undoing`], [`Item::Reconciling`], or an item of a `for_each`.
    pub item: Item,
    pub status: StepStatus,
    /// The number of attempts so far.
    pub attempts: u32,
    /// When the last attempt started, or the step was skipped.
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub output: Option<Box<RawValue>>,
    pub error: Option<RunError>,
    /// Why the step was skipped, or that its output was cut.
    pub reason: Option<String>,
    /// Whether the step's deadline passed before it ended.
    pub overdue: bool,
}

/// An attempt that was followed by another one, so that its result is not the step's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRecord {
    /// The index of the step in the definition.
    pub step: u32,
    pub item: Item,
    /// The number of the attempt. An attempt that was lost with its node or worker does not count,
    /// so two attempts can have the same number. Counting starts again after the run has jumped
    /// back.
    pub attempt: u32,
    pub status: StepStatus,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub error: Option<RunError>,
}

/// Why a run refuses an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The run's status does not allow the request.
    WrongStatus { verb: &'static str, status: RunStatus },
    /// The attempt is no longer active.
    OldToken {
        /// The token that the caller gave.
        given: u32,
    },
    /// The attempt was claimed with another access token.
    ClaimedByOther {
        /// The token that the caller gave.
        given: u32,
    },
    /// The step is not in a state that allows the request.
    WrongStep { verb: &'static str, step: String },
    /// The caller must say which of several steps is meant.
    WhichStep { steps: Vec<String> },
    /// The caller is not among the assignees of the approval.
    NotTheirs { by: String, assignees: Vec<String> },
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::WrongStatus { verb, status } => {
                write!(f, "Cannot {verb} run with status '{}'.", status.name())
            }
            Refusal::OldToken { given } => {
                write!(
                    f,
                    "The report of attempt {given} is too late, or its token is not the attempt's."
                )
            }
            Refusal::ClaimedByOther { given } => {
                write!(
                    f,
                    "Attempt {given} was claimed with another token: only that one reports on it."
                )
            }
            Refusal::WrongStep { verb, step } => {
                write!(f, "Cannot {verb} step '{step}': it is not waiting for that.")
            }
            Refusal::WhichStep { steps } => {
                write!(f, "Say which step is meant: {}.", steps.join(", "))
            }
            Refusal::NotTheirs { by, assignees } => {
                write!(f, "This is for {} to decide, not for {by}.", assignees.join(", "))
            }
        }
    }
}

impl Run {
    /// When the run must be woken next.
    pub fn wake_at(&self) -> Option<Timestamp> {
        if self.status.has_ended() {
            return None;
        }
        let position = &self.state;
        let parts = position.active.iter().filter_map(|active| active.status.wake_at());
        if let Some(ending) = &position.ending {
            return parts.chain(ending.until).chain(ending.tell_children_at).min();
        }
        // Only a person moves a suspended run on. A timeout would retry it.
        let limit = self.time_limit().filter(|_| self.status != RunStatus::Suspended);
        let watches = position.watches.iter().filter_map(Watch::wake_at);
        parts.chain(watches).chain(limit).min()
    }

    /// The time to record for a decision made at `now`. It is never before what the run has already
    /// recorded, even if `now` was read before that was committed. A clock that was set back by
    /// more than `OVERLAP` is believed.
    fn stamp(&self, now: Timestamp) -> Timestamp {
        let parts = self.state.active.iter().filter_map(|active| active.status.since());
        let known = parts.chain(self.started_at).fold(self.created_at, Timestamp::max);
        if known.duration_since(now) <= OVERLAP { known.max(now) } else { now }
    }

    /// When the run's timeout expires if its attempts continue. Only time in which something is
    /// performed counts.
    pub fn time_limit(&self) -> Option<Timestamp> {
        self.state.time_limit(self.timeout?)
    }

    /// Whether the run has begun and only needs a free slot to continue.
    pub fn is_ready(&self) -> bool {
        self.waits_for_slot && !self.status.has_ended()
    }

    /// How the run ended; `None` while its status is not final.
    pub fn ending(&self) -> Option<Ending> {
        Ending::ALL.into_iter().find(|ending| ending.status() == self.status)
    }
}
