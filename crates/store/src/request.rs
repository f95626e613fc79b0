//! What a store is asked for, and what it answers with.

use engine::run::AttemptEnd;
use engine::trace::Span;
use engine::turn::{Answer, Command, Effect, Notice, Places, Recovered, Wakeup};
use engine::{Moment, NodeId, RunKey};
use jiff::{SignedDuration, Timestamp};

use crate::access::AuditEntry;

/// One turn of the driver.
#[derive(Clone, Debug)]
pub struct TurnRequest {
    /// Now.
    pub moment: Moment,
    /// Which node takes the turn.
    pub node: NodeId,
    /// Attempts that have ended.
    pub reports: Vec<Report>,
    /// How many wakeups are claimed at most.
    pub limit: usize,
    /// A run that is pending or ready is decided over, whoever's turn it is.
    pub begin: Option<RunKey>,
    /// What the node can take on, after these reports.
    pub places: Places,
    /// After a commit whose outcome was not known: the attempts that the node is performing. Effects of
    /// others that are stored as its own were lost, and are handed out again.
    pub performed: Option<Vec<(RunKey, u32)>>,
    /// Whether what ends is wanted as spans.
    pub traced: bool,
}

/// An attempt has ended.
#[derive(Clone, Debug)]
pub struct Report {
    /// Of which run.
    pub run: RunKey,
    /// Which attempt.
    pub token: u32,
    /// How.
    pub end: AttemptEnd,
}

/// What came of a turn, all of it committed.
#[derive(Debug)]
pub struct Turned {
    /// To be done now.
    pub effects: Vec<Effect>,
    /// What happened.
    pub notices: Vec<Notice>,
    /// What has ended, if that was wanted.
    pub spans: Vec<Span>,
    /// How many wakeups were claimed.
    pub claimed: usize,
    /// How many reports came too late.
    pub refused: usize,
    /// What was found after downtime.
    pub recovered: Recovered,
    /// The earliest wakeup that is left, or an instant before it. If it is due already, there was more than
    /// the limit.
    pub next_wakeup: Option<Timestamp>,
    /// What the node can take on now.
    pub places: Places,
}

/// A command.
#[derive(Clone, Debug)]
pub struct CommandRequest {
    /// What is asked for.
    pub command: Command,
    /// Now.
    pub moment: Moment,
    /// On which node.
    pub node: NodeId,
    /// So that asking twice does once.
    pub idempotency: Option<Idempotency>,
    /// Whether what ends is wanted as spans.
    pub traced: bool,
    /// Who asks, if that is to be written to the audit log.
    pub audit: Option<AuditEntry>,
}

/// A key given by the caller, and what it was given for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    /// The key.
    pub key: String,
    /// A hash of the request.
    pub fingerprint: [u8; 32],
}

/// What came of a command, committed.
#[derive(Debug)]
pub struct Commanded {
    /// The answer.
    pub answer: Answer,
    /// Whether it is the answer to an earlier request with the same key.
    pub replayed: bool,
    /// To be done now.
    pub effects: Vec<Effect>,
    /// What happened.
    pub notices: Vec<Notice>,
    /// What has ended, if that was wanted.
    pub spans: Vec<Span>,
    /// The earliest wakeup.
    pub next_wakeup: Option<Timestamp>,
    /// Whether runs may be waiting for a place.
    pub look: bool,
}

/// A node has joined.
#[derive(Clone, Debug)]
pub struct Joined {
    /// Its id.
    pub node: NodeId,
    /// The earliest wakeup.
    pub next_wakeup: Option<Timestamp>,
    /// Earlier lives of nodes whose work is to be taken over.
    pub gone: usize,
    /// How many lives of this node in a row died early: see [`Store::has_settled`](crate::Store::has_settled).
    pub early_deaths: u32,
    /// The thing at which the last of them died, if it is known: it has to be set aside.
    pub culprit: Option<Wakeup>,
}

/// A node lives.
#[derive(Clone, Debug)]
pub struct RenewRequest {
    /// Which node.
    pub node: NodeId,
    /// Now.
    pub moment: Moment,
    /// Attempts at a time.
    pub capacity: usize,
    /// The attempts it is performing.
    pub performed: Vec<(RunKey, u32)>,
}

/// What a node learns when it renews its lease.
#[derive(Clone, Debug, Default)]
pub struct Renewed {
    /// Attempts that are to end: cancelled through another node, or taken over by one.
    pub effects: Vec<Effect>,
    /// The earliest wakeup.
    pub next_wakeup: Option<Timestamp>,
    /// Whether runs may be waiting for a place.
    pub look: bool,
}

/// What a node calls out to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// Runs are waiting for a place, and it has none.
    Look,
    /// An attempt of another node is to end: it finds out by renewing its lease.
    Renew,
    /// A token was made or revoked, or somebody has signed out: what is remembered of access is forgotten.
    Access,
}

/// What was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    /// How many runs, ledger rows, events, remembered answers, sign-ins and rows of the audit log.
    pub removed: u64,
    /// Whether there may be more.
    pub more: bool,
    /// When something of what was looked at may go, at the earliest; nothing if nothing of it ever does.
    pub next: Option<Timestamp>,
    /// The shortest time that a schedule or workflow keeps its history, if one says so itself. Known when there is no
    /// more to remove now.
    pub shortest: Option<SignedDuration>,
}
