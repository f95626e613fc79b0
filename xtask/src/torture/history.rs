//! What happened, as far as somebody outside can know it: what clients asked for and were told,
//! what arrived at the sink, which faults there were, and what the API says when everything has
//! ended.

use std::collections::BTreeMap;

/// Milliseconds since 1970 by the host's clock.
pub(super) type Millis = i64;

/// Everything that the judge looks at.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) asks: Vec<Ask>,
    pub(super) hits: Vec<Hit>,
    pub(super) faults: Vec<Fault>,
    /// What had not ended in time, in words, before anything else was asked.
    pub(super) stuck: Vec<String>,
    /// The largest size of an embedded store's log that was seen, in bytes.
    pub(super) log_bytes: u64,
    /// Nodes that do not take a request in the end, although nothing disturbs them any more.
    pub(super) deaf: Vec<String>,
    pub(super) end: Observed,
}

/// A request that changes something, and what its sender knows about it.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) sent: Millis,
    /// When the sender stopped waiting: at the answer, or without one.
    pub(super) done: Millis,
    pub(super) what: What,
    pub(super) reply: Reply,
}

/// The answer that a client received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// A status of 200 to 299.
    Acknowledged,
    /// A status of 400 to 499: nothing has changed.
    Refused(u16, String),
    /// No answer, or one of 500 to 599: it may have been done.
    Unknown(String),
    /// No node took the connection.
    NeverSent,
}

impl Reply {
    /// Whether what was asked for may have been done.
    pub(super) fn may_be_done(&self) -> bool {
        matches!(self, Reply::Acknowledged | Reply::Unknown(_))
    }
}

/// A request of a client.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// Schedules, in one transaction: all of them or none.
    Create(Vec<Wish>),
    /// A run by hand, with this token in its payload.
    Start { token: String, work: Work },
    /// The only occurrence of the schedule of this token is to be at another time.
    Edit { token: String, at: Millis },
    /// The schedule of this token is to go.
    Delete { token: String },
    /// This revision of the workflow `evolving` is to be live.
    Republish { revision: u64 },
    /// Events with these ids.
    Events(Vec<String>),
    /// An approval of the run of this token.
    Decide { token: String, approve: bool },
    /// The run of this token is to end.
    Cancel { token: String },
}

/// A schedule that somebody asks for. Its name is its token, and so is `token` in the payload of
/// its runs.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) token: String,
    pub(super) work: Work,
    pub(super) rule: Rule,
    pub(super) repeats: u64,
}

/// When a schedule is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The schedule runs once.
    At(Millis),
    /// So many milliseconds apart, since its creation.
    Every(Millis),
    /// At whole multiples of so many seconds of the minute.
    Cron(Millis),
}

/// The workflows, by what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Work {
    /// Nothing: the step is done as soon as it begins.
    Quick,
    /// The condition of its only step is false: it ends in the decision that starts it.
    Empty,
    /// The run sends one request.
    Post,
    /// One request, which the sink refuses the first time.
    Flaky,
    /// One request, which the sink always refuses.
    Failing,
    /// A second of waiting, then a request.
    Timer,
    /// A person decides, then a request.
    Approval,
    /// A run of `child`, then a request.
    Parent,
    /// What `parent` starts: one request.
    Child,
    /// A request for each of some items.
    Each,
    /// One request, to a path that its revision names.
    Evolving,
    /// One slow request; few at a time.
    LimitedA,
    /// The same as another workflow.
    LimitedB,
}

impl Work {
    pub(super) const ALL: [Work; 13] = [
        Work::Quick,
        Work::Empty,
        Work::Post,
        Work::Flaky,
        Work::Failing,
        Work::Timer,
        Work::Approval,
        Work::Parent,
        Work::Child,
        Work::Each,
        Work::Evolving,
        Work::LimitedA,
        Work::LimitedB,
    ];

    /// The name of the workflow.
    pub(super) fn name(self) -> &'static str {
        match self {
            Work::Quick => "quick",
            Work::Empty => "empty",
            Work::Post => "post",
            Work::Flaky => "flaky",
            Work::Failing => "failing",
            Work::Timer => "timer",
            Work::Approval => "approval",
            Work::Parent => "parent",
            Work::Child => "child",
            Work::Each => "each",
            Work::Evolving => "evolving",
            Work::LimitedA => "limited-a",
            Work::LimitedB => "limited-b",
        }
    }

    /// The workflow of this name.
    pub(super) fn named(name: &str) -> Option<Work> {
        Work::ALL.into_iter().find(|work| work.name() == name)
    }

    /// What its requests at the sink end their keys with. Items have their number behind it.
    pub(super) fn keys(self) -> &'static [&'static str] {
        match self {
            Work::Quick | Work::Empty => &[],
            Work::Each => &["work/1", "work/2", "work/3"],
            _ => &["work"],
        }
    }
}

/// A request that arrived at the sink.
#[derive(Clone, Debug)]
pub(super) struct Hit {
    /// When the request arrived.
    pub(super) at: Millis,
    /// When the sink had it done, just before it answered.
    pub(super) done: Millis,
    pub(super) method: String,
    pub(super) path: String,
    /// The value of the header `Idempotency-Key`.
    pub(super) key: String,
    pub(super) body: String,
    /// The status that the sink answered.
    pub(super) status: u16,
}

/// Something that went wrong on purpose. Work that was under way meanwhile may be done again.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) begin: Millis,
    pub(super) end: Millis,
    /// For those who read a history that is wrong.
    #[expect(dead_code, reason = "it is shown with the history, and nothing is decided by it")]
    pub(super) what: String,
}

/// What the API says in the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    pub(super) schedules: Vec<Schedule>,
    /// By the id of the schedule.
    pub(super) ledger: BTreeMap<String, Vec<Occurrence>>,
    pub(super) runs: Vec<Run>,
    pub(super) events: Vec<Event>,
    pub(super) mutations: Vec<Mutation>,
    /// Steps that still ask people.
    pub(super) approvals: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Schedule {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) status: String,
    pub(super) created: Millis,
}

#[derive(Clone, Debug)]
pub(super) struct Occurrence {
    pub(super) n: u64,
    pub(super) count: u64,
    pub(super) nominal: Millis,
    pub(super) outcome: String,
    pub(super) run: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) id: String,
    /// The name of the workflow.
    pub(super) workflow: String,
    pub(super) handler: Option<String>,
    pub(super) revision: u64,
    pub(super) schedule: Option<String>,
    pub(super) n: Option<u64>,
    pub(super) retry: u64,
    pub(super) status: String,
    pub(super) effective: Option<Millis>,
    pub(super) created: Millis,
    pub(super) ended: Option<Millis>,
    /// The token in its payload.
    pub(super) token: Option<String>,
    pub(super) parent: Option<String>,
    /// Of an approval: whether it was approved.
    pub(super) approved: Option<bool>,
    /// Of a timer: how long its step took.
    pub(super) waited: Option<Millis>,
}

impl Run {
    pub(super) fn has_ended(&self) -> bool {
        matches!(&*self.status, "succeeded" | "failed" | "cancelled" | "timed_out")
    }
}

#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) id: String,
    pub(super) state: String,
    pub(super) run: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Mutation {
    pub(super) run: String,
    pub(super) status: String,
}
