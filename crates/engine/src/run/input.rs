//! What can happen to a run, and what follows.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::item::Item;
use super::{AttemptRecord, Claimant, Ending, RunError, StepRecord};
use crate::ids::{NodeId, RunKey};
use crate::topics::Message;

/// What a decision may have to look up.
pub trait Facts {
    /// Why something cannot be read.
    type Error;

    /// What became of a part of a step of this run, as of now.
    fn record(&mut self, step: u32, item: Item) -> Result<Option<StepRecord>, Self::Error>;
    /// A key for a run that is going to be created.
    fn new_run_key(&mut self) -> RunKey;
}

/// How an attempt ended, as its runner or its worker reports.
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
    /// Whether it had its effect is not known.
    Unknown {
        /// What is known.
        message: String,
    },
}

/// What can happen to a run.
#[derive(Clone, Debug)]
pub enum Input {
    /// A place is free: it begins.
    Begin,
    /// The attempt with this token has ended.
    Reported {
        /// Which attempt.
        token: u32,
        /// How.
        end: AttemptEnd,
    },
    /// Its wakeup has come, or a place is free.
    Wake,
    /// Someone cancels it.
    Cancel {
        /// Why, in words.
        reason: String,
    },
    /// This node is gone, and with it the attempts that it performed.
    OwnerGone(NodeId),
    /// A person says what became of an attempt whose end is unknown.
    Resolve {
        /// Of which step, by its id; need not be said if there is only one.
        step: Option<String>,
        /// What.
        resolution: Resolution,
        /// Who says so.
        by: String,
    },
    /// A worker takes what is queued.
    Claim {
        /// Which.
        part: Part,
        /// What it calls itself.
        worker: String,
        /// Whose it is from then on.
        claimant: Box<Claimant>,
        /// How long it may be silent.
        lease_until: Timestamp,
    },
    /// A worker is still at it.
    Heartbeat {
        /// Which attempt.
        token: u32,
        /// Who says so.
        claimant: Claimant,
        /// How long it may be silent.
        lease_until: Timestamp,
    },
    /// Nobody heard of the claim: the part goes back into its queue as if it had never been taken.
    ReturnClaim {
        /// Which attempt.
        token: u32,
    },
    /// A person decides.
    Decide {
        /// About which step.
        step: u32,
        /// Whether they approve.
        approves: bool,
        /// Who.
        by: String,
        /// What else they are: it is enough if one of these is asked.
        roles: Vec<String>,
        /// What they say about it.
        comment: Option<String>,
    },
    /// An event was published that a part may wait for.
    Arrived {
        /// Which part.
        part: Part,
        /// The event, as expressions see it.
        event: Box<RawValue>,
    },
    /// The run that an attempt has started has ended.
    ChildEnded {
        /// Which attempt.
        token: u32,
        /// How.
        ending: Ending,
        /// What came out.
        output: Option<Box<RawValue>>,
        /// What went wrong.
        error: Option<RunError>,
    },
    /// The run that an attempt wanted to start, and does not wait for, was created.
    ChildStarted {
        /// Which attempt.
        token: u32,
        /// The output of its step.
        output: Box<RawValue>,
    },
    /// The run that an attempt wanted to start was not created.
    ChildRefused {
        /// Which attempt.
        token: u32,
        /// Why.
        message: String,
    },
}

/// What became of an attempt whose end is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// It did its work: go on.
    Applied,
    /// It did nothing: try it again.
    DidNotHappen,
    /// Give up: the step has failed.
    Failed,
    /// Go on without it.
    Skip,
}

/// A step, one of its items, or what undoes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Part {
    /// The step's place in the definition.
    pub step: u32,
    /// [`Item::Whole`], [`Item::Undoing`], or the number of an item.
    pub item: Item,
}

/// What follows.
#[derive(Debug, Default)]
pub struct Decision {
    /// Attempts for this node to perform, with their tokens.
    pub perform: Vec<(Part, u32)>,
    /// Attempts to cancel, by their tokens.
    pub cancel: Vec<u32>,
    /// What became of steps.
    pub records: Vec<StepRecord>,
    /// Attempts that others follow.
    pub earlier: Vec<AttemptRecord>,
    /// Which of these records tell of something that had begun, by their places.
    pub begun: Vec<usize>,
    /// What is put into queues for workers, or taken out of them.
    pub queueing: Vec<Queueing>,
    /// What people are asked from now on.
    pub approvals: Vec<Approval>,
    /// What they are not asked any more; what they are asked anew comes after it.
    pub withdrawn: Vec<u32>,
    /// Runs to create.
    pub children: Vec<NewChild>,
    /// Runs to cancel, and why.
    pub cancel_runs: Vec<(RunKey, String)>,
    /// What a deadline has brought about.
    pub alerts: Vec<Alert>,
    /// What waits for an event, or does not any more.
    pub awaiting: Vec<Awaiting>,
    /// Events to publish.
    pub published: Vec<Published>,
    /// Whether the event that arrived is the one that was waited for.
    pub took: bool,
    /// The token of the attempt that a worker has taken.
    pub claimed: Option<u32>,
    /// Whether a worker is to give up what it performs.
    pub is_ending: bool,
    /// Whether trying the run again can help, if it has ended.
    pub retryable: bool,
}

/// A change of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// It waits for a worker.
    Put(String, Part),
    /// It does not any more.
    Take(Part),
}

/// A change of what is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaiting {
    /// A part waits for an event of this topic.
    Begin(String, Part),
    /// It does not any more.
    End(Part),
}

/// An event that a step publishes.
#[derive(Clone, Debug)]
pub struct Published {
    /// To which topic.
    pub topic: String,
    /// What it says.
    pub message: Message,
}

/// What a person is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// By which step.
    pub step: u32,
    /// In a line.
    pub title: String,
    /// In full.
    pub description: Option<String>,
    /// Who may decide; anyone, if empty.
    pub assignees: Vec<String>,
}

/// A run that a step starts.
#[derive(Clone, Debug)]
pub struct NewChild {
    /// Its key.
    pub key: RunKey,
    /// Of which step.
    pub part: Part,
    /// Which attempt at it.
    pub attempt: u32,
    /// When that began.
    pub since: Timestamp,
    /// Of which workflow.
    pub workflow: String,
    /// What it works on.
    pub payload: Box<RawValue>,
    /// The attempt that starts it.
    pub token: u32,
    /// Whether that attempt waits for its end, or only for its start.
    pub waits: bool,
}

/// What a deadline has brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alert {
    /// Of which step; of the run, if nothing.
    pub step: Option<u32>,
    /// Which of the deadline's actions.
    pub action: u32,
    /// When it was to happen.
    pub at: Timestamp,
    /// When the deadline is.
    pub due: Timestamp,
}
