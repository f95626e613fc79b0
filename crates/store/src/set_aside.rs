//! What is set aside: a schedule, run or handler that cannot be read or decided as it is stored. The driver passes
//! over it, so that everything else goes on; a person or `punctual doctor --repair` brings it back.

use std::panic::{AssertUnwindSafe, catch_unwind};

use engine::turn::{Answer, Wakeup};
use engine::{HandlerId, RunKey, ScheduleId};
use jiff::Timestamp;

use crate::failure::Failure;
use crate::request::Report;
use crate::view::Finding;

/// One thing that is set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Which.
    pub what: Wakeup,
    /// Its id as people know it: of a run its id, else a number.
    pub id: String,
    /// Why it cannot be read or decided.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
}

impl SetAside {
    /// `schedule`, `run` or `handler`.
    pub fn kind(&self) -> &'static str {
        kind(self.what)
    }
}

/// What a check says of it. `repaired`: it is there again.
pub(crate) fn finding(aside: &SetAside, is_readable: bool, repaired: bool) -> Finding {
    let SetAside { what, id, reason, since } = aside;
    let remedy = match (is_readable, what) {
        _ if repaired => "it can be read, and is there again".to_owned(),
        (true, _) => "it can be read: `punctual doctor --repair` brings it back".to_owned(),
        (false, Wakeup::Schedule(_)) => {
            format!("restore a copy that has it, or delete it: `punctual schedule delete {id}`")
        }
        (false, Wakeup::Run(_)) => {
            format!("restore a copy that has it, or cancel it: `punctual run cancel {id}`")
        }
        (false, _) => "restore a copy that has it".to_owned(),
    };
    let message = format!(
        "{} {id} is set aside since {since}, and passed over: {reason} ({remedy})",
        aside.kind()
    );
    Finding { code: "set-aside", message, repaired }
}

/// `schedule`, `run`, `handler` or `node`.
pub fn kind(what: Wakeup) -> &'static str {
    match what {
        Wakeup::Run(_) => "run",
        Wakeup::Schedule(_) => "schedule",
        Wakeup::Handler(_) => "handler",
        Wakeup::Node(_) => "node",
    }
}

/// The answer to a command, with the schedules that were deleted beside it because the engine cannot read them.
pub(crate) fn counting(answer: Answer, deleted: u64) -> Answer {
    match answer {
        Answer::Count(count) => Answer::Count(count + deleted),
        other => other,
    }
}

/// The stored number of a kind, and the id.
pub(crate) fn stored(what: Wakeup) -> (i16, i64) {
    match what {
        Wakeup::Run(key) => (0, key.0),
        Wakeup::Schedule(id) => (1, id.0),
        Wakeup::Node(node) => (2, node.0),
        Wakeup::Handler(id) => (3, id.0),
    }
}

/// The other way round.
pub(crate) fn read(kind: i16, id: i64) -> Result<Wakeup, Failure> {
    match kind {
        0 => Ok(Wakeup::Run(RunKey(id))),
        1 => Ok(Wakeup::Schedule(ScheduleId(id))),
        3 => Ok(Wakeup::Handler(HandlerId(id))),
        _ => Err(Failure::Damaged(format!("set_aside has a row of an unknown kind {kind}"))),
    }
}

/// What a failure of a turn is about, if the turn decided over one thing only. Nodes that are gone do not count: what
/// they leave behind is taken over with whatever else is decided.
pub(crate) fn the_only_one(due: &[(i64, Wakeup)], reports: &[Report]) -> Option<Wakeup> {
    let due = due.iter().map(|(_, wakeup)| *wakeup);
    let due = due.filter(|wakeup| !matches!(wakeup, Wakeup::Node(_)));
    let mut all = due.chain(reports.iter().map(|report| Wakeup::Run(report.run)));
    all.next().filter(|_| all.next().is_none())
}

/// Leaves out of a list what cannot be read: one bad row does not hide the others. It is set aside, or will be, and
/// shown with what is.
pub(crate) fn if_readable<T>(read: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(Failure::Undecidable { .. }) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Does `work`; a panic in it is a failure like any other, so that a thread of the store outlives it.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    // Whoever calls this undoes the transaction and forgets what it remembers after a failure.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<&str>().map(|said| (*said).to_owned());
        let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
        let why = format!("deciding it panicked: {}", said.as_deref().unwrap_or("without words"));
        Err(Failure::Undecidable { what: None, why })
    })
}
