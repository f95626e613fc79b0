//! Requests to a store, and its answers.

use engine::run::AttemptEnd;
use engine::trace::Span;
use engine::turn::{
    Answer, ById, Capacity, Command, CreatedRun, Effect, Notice, Recovered, Wakeup,
};
use engine::{Moment, NodeId, RunKey, WorkflowId};
use jiff::{SignedDuration, Timestamp};

use crate::access::AuditEntry;
use crate::deciding::CommandOutcome;

/// One turn of the driver.
#[derive(Clone, Debug)]
pub struct TurnRequest {
    pub moment: Moment,
    /// The node that takes the turn.
    pub node: NodeId,
    /// Attempts that have ended.
    pub reports: Vec<Report>,
    /// At most this many wakeups are claimed.
    pub limit: usize,
    /// Also decide this run, if it is pending or ready, even if others would come first.
    pub begin: Option<RunKey>,
    /// The node's free capacity, after these reports.
    pub capacity: Capacity,
    /// How many slots of the node each workflow holds, without those of these reports.
    pub held: ById<WorkflowId, usize>,
    /// Set after a commit whose outcome was not known: the attempts that the node is performing.
    /// The store returns again the effects of other attempts that are stored as this node's: their
    /// effects were lost.
    pub performed: Option<Vec<(RunKey, u32)>>,
    /// Whether to return spans of the runs and attempts that end.
    pub traced: bool,
}

/// Reports how an attempt ended.
#[derive(Clone, Debug)]
pub struct Report {
    pub run: RunKey,
    /// The attempt's number within its run.
    pub token: u32,
    pub end: AttemptEnd,
}

/// The result of a turn, all of it committed.
#[derive(Debug)]
pub struct Turned {
    /// To be performed now.
    pub effects: Vec<Effect>,
    /// Attempts that did nothing, and began and ended in this turn. The first attempt of an
    /// occurrence with when it was due.
    pub noops: Vec<Option<Timestamp>>,
    pub notices: Vec<Notice>,
    /// Runs and attempts that ended, if spans were asked for.
    pub spans: Vec<Span>,
    /// How many wakeups were claimed.
    pub claimed: usize,
    /// How many reports were refused because they came too late.
    pub refused: usize,
    /// Occurrences and attempts that the turn recovered after downtime.
    pub recovered: Recovered,
    /// The earliest wakeup that is left, or an instant before it. If it is already due, more
    /// wakeups than the limit were due.
    pub next_wakeup: Option<Timestamp>,
    /// The node's free capacity after the turn.
    pub capacity: Capacity,
}

/// A command with who asks for it.
#[derive(Clone, Debug)]
pub struct CommandRequest {
    pub command: Command,
    pub moment: Moment,
    /// The node that carries it out.
    pub node: NodeId,
    /// Makes a repeated request take effect once.
    pub idempotency: Option<Idempotency>,
    /// Whether to return spans of the runs and attempts that end.
    pub traced: bool,
    /// The row for the audit log, if one is to be written.
    pub audit: Option<AuditEntry>,
}

/// The caller's idempotency key, with a fingerprint of the request it was used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    pub key: String,
    /// A hash of the request.
    pub fingerprint: [u8; 32],
}

/// The result of a command, committed.
#[derive(Debug)]
pub struct Commanded {
    pub answer: Answer,
    /// The run that the command created, if nothing more must be read to show it.
    pub created: Option<Box<CreatedRun>>,
    /// Whether this is the answer to an earlier request with the same idempotency key.
    pub replayed: bool,
    /// To be performed now.
    pub effects: Vec<Effect>,
    pub notices: Vec<Notice>,
    /// Runs and attempts that ended, if spans were asked for.
    pub spans: Vec<Span>,
    pub next_wakeup: Option<Timestamp>,
    /// Whether runs may be waiting for capacity.
    pub look: bool,
}

impl Commanded {
    /// The answer to a command beside others in one transaction. What follows from all of them is
    /// in the answer to another one.
    pub(crate) fn beside(told: CommandOutcome) -> Commanded {
        let CommandOutcome { answer, created } = told;
        Commanded {
            answer,
            created,
            replayed: false,
            effects: Vec::new(),
            notices: Vec::new(),
            spans: Vec::new(),
            next_wakeup: None,
            look: false,
        }
    }

    pub(crate) fn new(
        told: CommandOutcome,
        turned: engine::turn::Turned,
        next_wakeup: Option<Timestamp>,
    ) -> Commanded {
        let CommandOutcome { answer, created } = told;
        Commanded {
            answer,
            created,
            replayed: false,
            effects: turned.effects,
            notices: turned.notices,
            spans: turned.spans,
            next_wakeup,
            look: turned.capacity.rescan,
        }
    }

    /// The answer to an earlier request with the same idempotency key.
    pub(crate) fn replayed(answer: Answer, next_wakeup: Option<Timestamp>) -> Commanded {
        Commanded {
            answer,
            created: None,
            replayed: true,
            effects: Vec::new(),
            notices: Vec::new(),
            spans: Vec::new(),
            next_wakeup,
            look: false,
        }
    }
}

/// The result of joining.
#[derive(Clone, Debug)]
pub struct Joined {
    pub node: NodeId,
    pub next_wakeup: Option<Timestamp>,
    /// How many nodes that joined before left work that must be taken over.
    pub gone: usize,
    /// How many starts of this node in a row died early: see
    /// [`Store::has_settled`](crate::Administration::has_settled).
    pub early_deaths: u32,
    /// What the last of these starts was deciding when it died, if it is known to be the cause: it
    /// has to be set aside.
    pub culprit: Option<Wakeup>,
}

/// A node renews its lease.
#[derive(Clone, Debug)]
pub struct RenewRequest {
    pub node: NodeId,
    pub moment: Moment,
    /// How many attempts the node performs at a time.
    pub capacity: usize,
    /// The attempts the node is performing.
    pub performed: Vec<(RunKey, u32)>,
}

/// What a node learns when it renews its lease.
#[derive(Clone, Debug, Default)]
pub struct Renewed {
    /// Attempts that must end: cancelled through another node, or taken over by one.
    pub effects: Vec<Effect>,
    pub next_wakeup: Option<Timestamp>,
    /// Whether runs may be waiting for capacity.
    pub look: bool,
}

/// A message from one node to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// Runs have come to wait for capacity that the sender could not or may not begin: other nodes
    /// may have slots for them.
    Look,
    /// An attempt of another node must end: that node learns of it by renewing its lease.
    Renew,
    /// A token was created or revoked, or somebody signed out: nodes must drop what they cached
    /// about access.
    Access,
}

/// The result of an expiry pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    /// How many runs, ledger rows, events, remembered answers, sign-ins and audit rows were
    /// removed.
    pub removed: u64,
    /// Whether there may be more to remove now.
    pub more: bool,
    /// The earliest time at which some of the rows just looked at may expire; `None` if none ever
    /// will.
    pub next: Option<Timestamp>,
    /// The shortest retention that a schedule or workflow declares itself, if one does. Known only
    /// when there is nothing more to remove now.
    pub shortest: Option<SignedDuration>,
}
