//! Schedules, runs and handlers that are set aside because they cannot be read or decided as they
//! are stored. The driver passes over them, so that everything else goes on; a person or `punctual
//! doctor --repair` brings them back.

use std::panic::{AssertUnwindSafe, catch_unwind};

use engine::turn::{Answer, Wakeup};
use jiff::Timestamp;

use crate::failure::Failure;
use crate::request::Report;
use crate::view::Finding;

/// A schedule, run or handler that is set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    pub what: Wakeup,
    /// The id that people know: a run's public id, or the number of a schedule or handler.
    pub id: String,
    /// Why it cannot be read or decided.
    pub reason: String,
    pub since: Timestamp,
}

impl SetAside {
    /// `schedule`, `run` or `handler`.
    pub fn kind(&self) -> &'static str {
        kind(self.what)
    }
}

/// The finding of a check. `repaired` means that it is no longer set aside.
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
    let can_be_repaired = is_readable;
    Finding { repaired, can_be_repaired, ..Finding::new("set-aside", message) }
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

/// The answer to a command, plus the schedules that were deleted outside the engine because it
/// cannot read them.
pub(crate) fn counting(answer: Answer, deleted: u64) -> Answer {
    match answer {
        Answer::Count(count) => Answer::Count(count + deleted),
        other => other,
    }
}

/// The only schedule, run or handler the turn decided, if it decided just one: a failure of the
/// turn is about it. Wakeups of gone nodes do not count: their attempts are taken over whatever
/// else is decided.
pub(crate) fn the_only_one(due: &[(i64, Wakeup)], reports: &[Report]) -> Option<Wakeup> {
    let due = due.iter().map(|(_, wakeup)| *wakeup);
    let due = due.filter(|wakeup| !matches!(wakeup, Wakeup::Node(_)));
    let mut all = due.chain(reports.iter().map(|report| Wakeup::Run(report.run)));
    all.next().filter(|_| all.next().is_none())
}

/// Leaves an unreadable row out of a list, so that it does not hide the others. The row is set
/// aside, or will be, and is listed there.
pub(crate) fn if_readable<T>(read: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(failure) if failure.is_about_a_row() => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Runs `work` and turns a panic in it into a failure, so that the store's thread survives.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    // After a failure every caller rolls back the transaction and drops its caches.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<&str>().map(|said| (*said).to_owned());
        let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
        let why = format!("deciding it panicked: {}", said.as_deref().unwrap_or("without words"));
        Err(Failure::Undecidable { what: None, why })
    })
}
