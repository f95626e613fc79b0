//! The inputs of a run's state machine, and the decisions it returns.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::item::Item;
use super::{AttemptRecord, Claimant, Ending, RunError, StepRecord};
use crate::ids::{NodeId, RunKey};
use crate::topics::Message;
use crate::turn::Damaged;

/// The stored records that a decision about a run may look up.
pub trait RunHistory {
    /// The error of a failed lookup, or of a stored position that cannot be.
    type Error: From<Damaged>;

    /// The record of one part of a step of this run, as of now.
    fn record(&mut self, step: u32, item: Item) -> Result<Option<StepRecord>, Self::Error>;
    /// The key for a run that is about to be created.
    fn new_run_key(&mut self) -> RunKey;
    /// Why the run must not publish to this topic of its workflow, if it must not.
    fn why_closed(&self, topic: &str) -> Option<String>;
}

/// How an attempt ended, as its runner or worker reports.
#[derive(Clone, Debug)]
pub enum AttemptEnd {
    Succeeded {
        output: Box<RawValue>,
    },
    Failed {
        /// A code for programs.
        code: String,
        /// A message for people.
        message: String,
        /// Whether a retry can help.
        retryable: bool,
        /// Output that the attempt returned although it failed.
        output: Option<Box<RawValue>>,
    },
    /// The node may not perform the step, so the step itself was not tried.
    NotAllowed {
        message: String,
        /// Whether a retry of the step can help.
        retryable: bool,
    },
    /// The attempt was told to end and has ended.
    Cancelled {
        message: String,
    },
    /// The node does not know whether the attempt had its effect.
    Unknown {
        message: String,
    },
}

/// An input to a run.
#[derive(Clone, Debug)]
pub enum Input {
    /// A slot is free, and the run begins.
    Begin,
    /// The attempt with this token has ended.
    Reported { token: u32, end: AttemptEnd },
    /// The run's wakeup is due, or a slot is free.
    Wake,
    /// A person, a parent run or the overlap policy cancels the run.
    Cancel { reason: String },
    /// This node is dead, and the attempts that it performed are lost.
    OwnerGone(NodeId),
    /// A person resolves an attempt whose result is unknown.
    Resolve {
        /// The step's id. It may be omitted if only one step is meant.
        step: Option<String>,
        resolution: Resolution,
        by: String,
    },
    /// A worker claims a queued part.
    Claim {
        part: Part,
        /// The name that the worker gave itself.
        worker: String,
        claimant: Box<Claimant>,
        lease_until: Timestamp,
    },
    /// A worker extends its lease.
    Heartbeat { token: u32, claimant: Claimant, lease_until: Timestamp },
    /// The response to the claim reached nobody: the part returns to its queue as if it had never
    /// been claimed.
    ReturnClaim { token: u32 },
    /// A person decides about an approval step.
    Decide {
        /// The index of the step.
        step: u32,
        approves: bool,
        by: String,
        /// Other names under which the person may decide: one that the step asks for is enough.
        roles: Vec<String>,
        comment: Option<String>,
    },
    /// An event was published that a part may be waiting for.
    Arrived {
        part: Part,
        /// The event as expressions see it.
        event: Box<RawValue>,
    },
    /// The run that an attempt has started has ended.
    ChildEnded {
        token: u32,
        ending: Ending,
        output: Option<Box<RawValue>>,
        error: Option<RunError>,
    },
    /// The run that an attempt asked for, and does not wait for, was created.
    ChildStarted {
        token: u32,
        /// The output of the step.
        output: Box<RawValue>,
    },
    /// The run that an attempt asked for was not created.
    ChildRefused { token: u32, message: String },
}

/// How a person resolves an attempt whose result is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// The attempt did its work: continue.
    Applied,
    /// The attempt did nothing: try again.
    DidNotHappen,
    /// The step has failed.
    Failed,
    /// Continue without the step.
    Skip,
}

/// A step, one of its items, its compensation or its reconciliation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Part {
    /// The index of the step in the definition.
    pub step: u32,
    pub item: Item,
}

/// The consequences of an input.
#[derive(Debug, Default)]
pub struct Decision {
    /// Attempts for this node to perform, with their tokens.
    pub perform: Vec<(Part, u32)>,
    /// Tokens of attempts that did nothing: they have begun and ended.
    pub noops: Vec<u32>,
    /// Tokens of attempts to cancel.
    pub cancel: Vec<u32>,
    /// The records of parts that have ended or will be retried.
    pub records: Vec<StepRecord>,
    /// Attempts that are followed by another attempt.
    pub earlier: Vec<AttemptRecord>,
    /// Indexes of those `records` whose part had begun.
    pub begun: Vec<usize>,
    /// Parts that enter or leave worker queues.
    pub queueing: Vec<Queueing>,
    pub approvals: Vec<Approval>,
    /// Steps whose approvals are withdrawn. Withdrawals are written before the requests in
    /// `approvals`.
    pub withdrawn: Vec<u32>,
    pub children: Vec<NewChild>,
    /// Runs to cancel, with the reason.
    pub cancel_runs: Vec<(RunKey, String)>,
    /// Deadline actions to carry out.
    pub alerts: Vec<Alert>,
    /// Parts that begin or stop waiting for an event.
    pub awaiting: Vec<Awaiting>,
    pub published: Vec<Published>,
    /// Whether the run took the event that was offered to it.
    pub took_event: bool,
    /// The token of the attempt that a worker has claimed.
    pub claimed: Option<u32>,
    /// Whether the worker should stop its attempt.
    pub is_ending: bool,
    /// Whether a retry of the run can help, if it has ended.
    pub retryability: Retryability,
}

/// Whether a retry can help after a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retryability {
    /// The next attempt may end differently.
    Retryable,
    /// Every attempt ends the same, as long as the workflow stays as it is.
    #[default]
    Permanent,
    /// The node may not perform the work, so the work itself was not tried. No schedule dies of
    /// it. `retryable` says whether a retry of the step can help.
    NodeSetup { retryable: bool },
    /// The work certainly had no effect, so a consumer repeats it at once.
    NoEffect,
}

impl Retryability {
    /// The retryability of a failure about which no more than this is known.
    pub fn of(retryable: bool) -> Retryability {
        if retryable { Retryability::Retryable } else { Retryability::Permanent }
    }

    /// Whether another attempt at the step, or another run of the handler, can help.
    pub fn can_help(self) -> bool {
        match self {
            Retryability::Retryable | Retryability::NoEffect => true,
            Retryability::Permanent => false,
            Retryability::NodeSetup { retryable } => retryable,
        }
    }
}

/// A change to a worker queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// The part waits for a worker in this queue.
    Put(String, Part),
    /// The part waits no longer.
    Take(Part),
}

/// A change to the parts that wait for events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaiting {
    /// The part waits for an event of the topic with this name.
    Begin(String, Part),
    /// The part waits no longer.
    End(Part),
}

/// An event that a step publishes.
#[derive(Clone, Debug)]
pub struct Published {
    pub topic: String,
    pub message: Message,
}

/// An approval that a step asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    pub step: u32,
    pub title: String,
    pub description: Option<String>,
    /// Who may decide; anyone if empty.
    pub assignees: Vec<String>,
}

/// A run that a step starts.
#[derive(Clone, Debug)]
pub struct NewChild {
    pub key: RunKey,
    pub part: Part,
    /// The number of the attempt.
    pub attempt: u32,
    /// When the attempt began.
    pub since: Timestamp,
    pub workflow: String,
    pub payload: Box<RawValue>,
    /// The token of the attempt.
    pub token: u32,
    /// Whether the attempt waits for the end of the run, or only for its start.
    pub waits: bool,
}

/// An action of a deadline whose instant has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alert {
    /// The step; `None` for the deadline of the run.
    pub step: Option<u32>,
    /// The index of the action in the deadline.
    pub action: u32,
    /// When the action was due.
    pub at: Timestamp,
    pub due: Timestamp,
}
