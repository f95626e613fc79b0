//! Runs: one execution of a workflow, and the one transition function.
//!
//! `decide` takes one input; what follows from it is worked off in `advance` until nothing can begin any more.
//! What a step of each type does when it begins is in `start`; how parts of it end, in `settle`; how a run that
//! does not succeed comes to rest, in `ending`.

mod advance;
mod decide;
mod ending;
mod events;
pub(crate) mod family;
mod fitting;
mod input;
mod item;
mod items;
mod jump;
mod moments;
mod position;
mod reconcile;
mod routes;
mod scope;
mod settle;
mod start;
pub(crate) mod stored_input;
mod waits;
mod watch;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use decide::{Performer, decide};
pub use input::{
    Alert, Approval, AttemptEnd, Awaiting, Decision, Facts, Input, NewChild, Part, Published,
    Queueing, Resolution,
};
pub use item::Item;
pub use position::{Active, Claimant, Doing, Position, States, StepState, Watch};
pub use scope::{ItemScope, scope_of_part};
pub use start::action_of;
pub use watch::watch_new_run;

use crate::ids::{RunId, RunKey, ScheduleId, WorkflowId};
use crate::trace::TraceContext;

/// A runner that does not answer so long after a cancel is not waited for any more: longer than the
/// grace that it gives the attempt itself.
pub const CANCEL_LIMIT: SignedDuration = SignedDuration::from_secs(15);

/// Transactions that overlap may have read the clock in another order than they commit; by no more than this.
const OVERLAP: SignedDuration = SignedDuration::from_secs(5);

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
    /// A step of another run.
    SubProcess,
    /// The deadline of another run.
    Deadline,
    /// Somebody called the address of a trigger.
    Webhook,
    /// An event on a topic.
    Event,
    /// A consumer's sleep was over.
    Wakeup,
    /// Another run has failed, or succeeded again: it tells somebody, or does what was said for that.
    Incident,
}

impl TriggeredBy {
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

    /// As it is shown.
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
    /// Its place in the store.
    pub key: RunKey,
    /// What it is called.
    pub id: RunId,
    /// Of which workflow.
    pub workflow: WorkflowId,
    /// Of which version.
    pub version: u32,
    /// Of which of its producers or consumers; of its steps, if nothing.
    pub handler: Option<String>,
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
    /// For how long something of it may be performed, if that is limited.
    pub timeout: Option<SignedDuration>,
    /// What it works on.
    pub input: Box<RawValue>,
    /// What came out.
    pub output: Option<Box<RawValue>>,
    /// What went wrong.
    pub error: Option<RunError>,
    /// The run that this one tries again.
    pub retry_of: Option<RunId>,
    /// The run that has started this one.
    pub parent: Option<Parent>,
    /// The span that the run is part of: of whoever asked for it, or of the step that has started it.
    pub trace: Option<TraceContext>,
    /// Whether it has not been done in the time it was promised.
    pub overdue: bool,
    /// Whether it has begun, and something of it could begin if there were a place.
    pub lacks_place: bool,
    /// Where it is in its steps.
    pub position: Position,
}

/// Where a run comes from that another run has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Which.
    pub run: RunKey,
    /// The attempt that waits for this run, if one does.
    pub token: Option<u32>,
    /// How many runs stand above this one, each waiting for the next.
    pub depth: u8,
    /// The first run of the family: nothing that runs has started it.
    pub root: RunKey,
    /// How many events and deadlines lie between the root and this run.
    pub hops: u8,
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

impl RunError {
    /// In a line, with the step.
    pub fn said(&self) -> String {
        match &self.step {
            Some(step) => format!("step {step}: {}", self.message),
            None => self.message.clone(),
        }
    }
}

/// A run that is coming to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeingEnded {
    /// How it will have ended.
    pub ending: Ending,
    /// Why.
    pub error: Option<RunError>,
    /// Whether trying it again can help.
    pub retryable: bool,
    /// Those who still perform something are not waited for longer than this; nothing once what was done is
    /// being undone.
    pub until: Option<Timestamp>,
}

/// Where a step stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Done.
    Completed,
    /// Failed; it may be tried again.
    Failed,
    /// Passed over: its condition did not hold, no route led to it, or it failed and that does not matter.
    Skipped,
    /// Ended from outside.
    Cancelled,
    /// Something it depends on has not ended.
    Pending,
    /// It could begin if there were a place or a worker.
    Ready,
    /// An attempt is going on.
    Running,
    /// It waits for a time, a person, another run, or its next attempt.
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

    /// As it is shown.
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

/// What became of a step, of one of its items or of what undoes it, kept as its history.
#[derive(Clone, Debug)]
pub struct StepRecord {
    /// Its place in the definition.
    pub step: u32,
    /// [`Item::Whole`], [`Item::Undoing`], or the number of an item.
    pub item: Item,
    /// Where it stands.
    pub status: StepStatus,
    /// Attempts so far.
    pub attempts: u32,
    /// When the last attempt started, or it was passed over.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// What came out.
    pub output: Option<Box<RawValue>>,
    /// What went wrong.
    pub error: Option<RunError>,
    /// Why it was passed over, in words.
    pub reason: Option<String>,
    /// Whether it was not done in the time it was promised.
    pub overdue: bool,
}

/// An attempt that another one follows: what it left is not the last word on its step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRecord {
    /// Its step's place in the definition.
    pub step: u32,
    /// [`Item::Whole`], [`Item::Undoing`], [`Item::Reconciling`], or the number of an item.
    pub item: Item,
    /// Which attempt. One that was lost with whoever performed it does not count, so that two can have the same number;
    /// after a run has gone back, counting begins anew.
    pub attempt: u32,
    /// How it ended.
    pub status: StepStatus,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
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
    /// The attempt is not going on any more.
    OldToken {
        /// What was given.
        given: u32,
    },
    /// The attempt was claimed with another access token.
    ClaimedByOther {
        /// Which.
        given: u32,
    },
    /// The step is not at a point where that can be said of it.
    WrongStep {
        /// What was asked.
        verb: &'static str,
        /// Of which step.
        step: String,
    },
    /// Several steps wait for that.
    WhichStep {
        /// Which.
        steps: Vec<String>,
    },
    /// It is not for this one to say.
    NotTheirs {
        /// Who.
        by: String,
        /// Whose it is.
        assignees: Vec<String>,
    },
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::WrongStatus { verb, status } => {
                write!(f, "Cannot {verb} run with status '{}'.", status.name())
            }
            Refusal::OldToken { given } => {
                write!(f, "The report of attempt {given} is too late: it is not going on any more.")
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
    /// When to look at it again.
    pub fn wake_at(&self) -> Option<Timestamp> {
        if self.status.has_ended() {
            return None;
        }
        let position = &self.position;
        let parts = position.active.iter().filter_map(|active| active.doing.wake_at());
        if let Some(ending) = &position.ending {
            return parts.chain(ending.until).min();
        }
        // Only a person moves a suspended one on: a timeout would have it tried again.
        let limit = self.time_limit().filter(|_| self.status != RunStatus::Suspended);
        let watches = position.watches.iter().filter_map(Watch::wake_at);
        parts.chain(watches).chain(limit).min()
    }

    /// When a decision happens whose clock shows this: not before what the run has been through, even if the clock was
    /// read before that was committed. A clock that was set back is believed.
    fn stamp(&self, now: Timestamp) -> Timestamp {
        let parts = self.position.active.iter().filter_map(|active| active.doing.since());
        let known = parts.chain(self.started_at).fold(self.created_at, Timestamp::max);
        if known.duration_since(now) <= OVERLAP { known.max(now) } else { now }
    }

    /// When its time is over, if it goes on as it is: only the time in which something is performed counts.
    pub fn time_limit(&self) -> Option<Timestamp> {
        self.position.time_limit(self.timeout?)
    }

    /// Whether it has begun, and only a place is missing for something of it to begin.
    pub fn is_ready(&self) -> bool {
        self.lacks_place && !self.status.has_ended()
    }

    /// How it ended, if it has.
    pub fn ending(&self) -> Option<Ending> {
        Ending::ALL.into_iter().find(|ending| ending.status() == self.status)
    }
}
