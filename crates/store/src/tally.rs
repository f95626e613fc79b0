//! How many occurrences were decided and how many runs ended, minute by minute. Each commit adds
//! its own counts, so that no view has to count rows. Runs that deliver notifications are left out,
//! as they are in lists.

use std::collections::BTreeMap;

use engine::ledger::Outcome;
use engine::run::RunStatus;
use engine::turn::{RunWrite, SetOfIds, Writes};
use jiff::Timestamp;

use crate::stored::{code, ms};

/// Tallies are kept for this many minutes: a week, and one more day to compare its first day with.
pub(crate) const KEPT_MINUTES: i64 = 8 * 24 * 60;
/// Codes of run statuses begin here, codes of outcomes at 0; the gap leaves room for more outcomes.
const RUNS: i64 = 16;
/// The condition in SQL that tally `t` is of a kind that is known.
pub(crate) const KINDS: &str = "(t.kind BETWEEN 0 AND 7 OR t.kind BETWEEN 16 AND 23)";

/// How often the same thing happened in one minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    pub minute: Timestamp,
    pub kind: TallyKind,
    pub count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TallyKind {
    /// An occurrence had this outcome. A queued occurrence is counted as queued, and again when it
    /// is started or dropped.
    Occurrence(Outcome),
    /// A run ended with this status.
    Run(RunStatus),
}

impl TallyKind {
    fn code(self) -> i64 {
        match self {
            TallyKind::Occurrence(outcome) => code(&Outcome::ALL, outcome),
            TallyKind::Run(status) => RUNS + code(&RunStatus::ALL, status),
        }
    }

    fn of(code: i64) -> Option<TallyKind> {
        let index = |from: i64| usize::try_from(code - from).ok();
        let outcome = index(0).and_then(|index| Outcome::ALL.get(index));
        let status = index(RUNS).and_then(|index| RunStatus::ALL.get(index));
        outcome.copied().map(TallyKind::Occurrence).or(status.copied().map(TallyKind::Run))
    }
}

impl Tally {
    /// A tally from its stored row, if it can be one. A damaged tally hides no other.
    pub(crate) fn read(minute: i64, kind: i64, count: i64) -> Option<Tally> {
        let minute = minute.checked_mul(60_000).map(Timestamp::from_millisecond);
        let kind = TallyKind::of(kind);
        let minute = minute?.ok()?;
        Some(Tally { minute, kind: kind?, count: u64::try_from(count).ok()? })
    }
}

/// The number of the minute that an instant is in.
pub(crate) fn minute(at: Timestamp) -> i64 {
    ms(at).div_euclid(60_000)
}

/// The minutes that begin at or after `from` and before `to`, as a half-open range.
pub(crate) fn minutes(from: Timestamp, to: Timestamp) -> (i64, i64) {
    let begins = |at: Timestamp| ms(at).div_euclid(60_000) + i64::from(ms(at) % 60_000 != 0);
    (begins(from), begins(to))
}

/// What a transaction adds, by minute and kind. The map's order is the same on every node, so locks
/// are taken in one order.
pub(crate) fn tallied(writes: &Writes) -> BTreeMap<(i64, i64), i64> {
    let mut tallies = BTreeMap::new();
    let mut add = |at: Timestamp, kind: TallyKind, count: u64| {
        let counted: &mut i64 = tallies.entry((minute(at), kind.code())).or_default();
        *counted = counted.saturating_add_unsigned(count);
    };
    // If a turn writes an occurrence more than once, only its last outcome counts.
    let mut said = SetOfIds::default();
    said.reserve(writes.ledger.len());
    for entry in writes.ledger.iter().rev() {
        if said.insert((entry.schedule, entry.n)) {
            add(entry.decided_at, TallyKind::Occurrence(entry.outcome), entry.count);
        }
    }
    for write in &writes.runs {
        let run = match write {
            RunWrite::Insert(run) => run,
            RunWrite::Update { old_status, .. } if old_status.has_ended() => continue,
            RunWrite::Update { after, .. } => after,
        };
        if writes.notice_workflow == Some(run.workflow) {
            continue;
        }
        if let Some(at) = run.ended_at.filter(|_| run.status.has_ended()) {
            add(at, TallyKind::Run(run.status), 1);
        }
    }
    tallies
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_kind_has_its_number() {
        let outcomes = Outcome::ALL.map(TallyKind::Occurrence);
        let runs = RunStatus::ALL.map(TallyKind::Run);
        let mut codes = HashSet::new();
        for kind in outcomes.into_iter().chain(runs) {
            assert_eq!(TallyKind::of(kind.code()), Some(kind));
            assert!(codes.insert(kind.code()));
        }
        assert_eq!((TallyKind::of(-1), TallyKind::of(8), TallyKind::of(24)), (None, None, None));
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        let sql = format!("SELECT {KINDS} FROM (SELECT ?1 AS kind) AS t");
        for code in -1..100 {
            let is_known: bool = connection.query_row(&sql, [code], |row| row.get(0)).unwrap();
            assert_eq!(is_known, TallyKind::of(code).is_some(), "{code}");
        }
    }
}
