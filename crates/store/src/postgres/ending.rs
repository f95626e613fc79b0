//! How a transaction ends: everything is written, others are told, and what is left to do is asked for.

use std::collections::HashSet;

use engine::NodeId;
use engine::turn::{Effect, RunWrite, ScheduleWrite, Writes};
use jiff::Timestamp;
use tokio_postgres::Row;

use super::apply;
use super::link::{Asked, Link, param};
use super::rows::{self, get};
use super::shared::Shared;
use crate::failure::Failure;
use crate::request::Call;
use crate::stored::ms;

/// What the other nodes have to know.
pub(super) fn calls(writes: &Writes, effects: &[Effect], node: NodeId) -> HashSet<Call> {
    let mut calls = HashSet::new();
    let cancelled: HashSet<_> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Cancel { run, .. } => Some(*run),
            Effect::Perform(_) => None,
        })
        .collect();
    let is_others = |write: &RunWrite| {
        let (RunWrite::Insert(run) | RunWrite::Update { after: run, .. }) = write;
        cancelled.contains(&run.key) && run.position.owner.is_some_and(|owner| owner != node)
    };
    if !cancelled.is_empty() && writes.runs.iter().any(is_others) {
        calls.insert(Call::Renew);
    }
    calls
}

/// The earliest wakeup of everything that waits and is not due yet: what is due has just been claimed, or is
/// being decided by others, and the index is full of what it was until a moment ago.
const NEXT_WAKEUP: &str = "SELECT least(
    (SELECT wake_at FROM progress WHERE wake_at > $2 ORDER BY wake_at LIMIT 1),
    (SELECT wake_at FROM open_runs WHERE wake_at > $2 ORDER BY wake_at LIMIT 1),
    (SELECT min(lease_until) + 1 FROM nodes WHERE id <> $1)),
  EXISTS (SELECT 1 FROM nodes WHERE id <> $1)";

/// The earliest wakeup after the instant.
pub(super) fn ask_next_wakeup(node: NodeId, after: i64) -> Asked {
    Asked::new(NEXT_WAKEUP, vec![param(node.0), param(after)])
}

/// What is left to do when a transaction has ended.
pub(super) struct Left {
    /// The earliest wakeup.
    pub(super) next_wakeup: Option<Timestamp>,
    /// Whether there are other nodes.
    pub(super) others: bool,
}

/// The answer to [`ask_next_wakeup`].
pub(super) fn left(found: Option<&Vec<Row>>) -> Result<Left, Failure> {
    match found.and_then(|rows| rows.first()) {
        Some(row) => Ok(Left { next_wakeup: rows::maybe_instant(row, 0)?, others: get(row, 1)? }),
        None => Ok(Left { next_wakeup: None, others: false }),
    }
}

/// The earliest wakeup among what is written.
fn next_written(writes: &Writes) -> Option<Timestamp> {
    let schedules = writes.schedules.iter().filter_map(|write| match write {
        ScheduleWrite::Insert(schedule) => schedule.wake_at(),
        ScheduleWrite::Update { after, .. } => after.wake_at(),
        ScheduleWrite::Delete { .. } => None,
    });
    let runs = writes.runs.iter().filter_map(|write| {
        let (RunWrite::Insert(run) | RunWrite::Update { after: run, .. }) = write;
        run.wake_at()
    });
    schedules.chain(runs).min()
}

/// The end of a transaction.
pub(super) struct Ending<'a> {
    pub(super) shared: &'a Shared,
    pub(super) writes: &'a Writes,
    pub(super) node: NodeId,
    pub(super) now: Timestamp,
}

impl Ending<'_> {
    /// Writes everything and commits.
    pub(super) fn end(
        &self,
        link: &mut Link,
        calls: &HashSet<Call>,
        besides: Vec<Asked>,
    ) -> Result<Left, Failure> {
        let mut asked = apply::statements(self.writes, self.node)?;
        asked.extend(besides);
        for call in calls {
            asked.push(self.shared.ask_call(*call, self.node));
        }
        asked.push(ask_next_wakeup(self.node, ms(self.now)));
        let found = link.commit(asked)?;
        let mut left = left(found.last())?;
        left.next_wakeup = left.next_wakeup.into_iter().chain(next_written(self.writes)).min();
        Ok(left)
    }
}
