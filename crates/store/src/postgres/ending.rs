//! How a transaction ends: everything is written, others are told, and what is left to do is asked for.

use std::collections::HashSet;

use engine::run::Active;
use engine::turn::{ById, Effect, HandlerWrite, Recovered, RunWrite, ScheduleWrite, Writes};
use engine::{NodeId, RunKey, ScheduleId};
use jiff::Timestamp;
use tokio_postgres::Row;

use super::apply::{self, Before};
use super::apply_progress::Was;
use super::link::{Asked, Link, param};
use super::rows::get;
use super::shared::Shared;
use super::tallies;
use crate::failure::Failure;
use crate::request::Call;
use crate::stored::ms;

/// What the other nodes have to know.
pub(super) fn calls(writes: &Writes, effects: &[Effect], node: NodeId) -> HashSet<Call> {
    let mut calls = HashSet::new();
    let position = |of: RunKey| {
        writes.runs.iter().find_map(|write| {
            let (RunWrite::Insert(run) | RunWrite::Update { after: run, .. }) = write;
            (run.key == of).then_some(&run.position)
        })
    };
    // Whose an attempt was that is given up, the position does not say any more.
    let is_others = |effect: &Effect| match effect {
        Effect::Cancel { run, token } => {
            let attempt = position(*run).and_then(|position| position.with_token(*token));
            attempt.and_then(Active::owner) != Some(node)
        }
        Effect::Perform(_) | Effect::Claimed { .. } => false,
    };
    if effects.iter().any(is_others) {
        calls.insert(Call::Renew);
    }
    calls
}

macro_rules! ahead {
    ($runs:literal) => {
        concat!(
            "SELECT least((SELECT wake_at FROM progress WHERE wake_at > $2 ORDER BY wake_at LIMIT 1),
               (SELECT due FROM handlers WHERE due > $2 ORDER BY due LIMIT 1)), ",
            $runs,
            ", (SELECT min(lease_until) + 1 FROM nodes WHERE id <> $1),
               EXISTS (SELECT 1 FROM nodes WHERE id <> $1)"
        )
    };
}

/// The earliest wakeups after an instant: of schedules and handlers, of runs, of other nodes' leases; and whether there are
/// other nodes.
const AHEAD: &str =
    ahead!("(SELECT wake_at FROM open_runs WHERE wake_at > $2 ORDER BY wake_at LIMIT 1)");
/// The same where the runs' is known.
const AHEAD_OF_SCHEDULES: &str = ahead!("NULL::bigint");

/// Everything, from the beginning.
pub(super) fn ask_everything(node: NodeId) -> Asked {
    Asked::new(AHEAD, vec![param(node.0), param(i64::MIN)])
}

/// What lies ahead, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ahead {
    /// Of schedules and handlers.
    pub(super) schedule: Option<i64>,
    pub(super) run: Option<i64>,
    lease: Option<i64>,
    others: bool,
}

impl Ahead {
    /// The answer to [`ask_everything`].
    pub(super) fn of(found: Option<&Vec<Row>>) -> Result<Ahead, Failure> {
        let Some(row) = found.and_then(|rows| rows.first()) else { return Ok(Ahead::default()) };
        Ok(Ahead {
            schedule: get(row, 0)?,
            run: get(row, 1)?,
            lease: get(row, 2)?,
            others: get(row, 3)?,
        })
    }

    pub(super) fn earliest(self) -> Result<Option<Timestamp>, Failure> {
        let earliest = [self.schedule, self.run, self.lease].into_iter().flatten().min();
        let earliest = earliest.map(Timestamp::from_millisecond).transpose();
        earliest.map_err(|error| Failure::Damaged(format!("a wakeup: {error}")))
    }
}

/// What is left to do when a transaction has ended.
pub(super) struct Left {
    /// The earliest wakeup.
    pub(super) next_wakeup: Option<Timestamp>,
    /// Whether there are other nodes.
    pub(super) others: bool,
}

/// The earliest wakeups among what is written, of schedules and handlers, and of runs.
fn written(writes: &Writes) -> (Option<i64>, Option<i64>) {
    let schedules = writes.schedules.iter().filter_map(|write| match write {
        ScheduleWrite::Insert(schedule) => schedule.wake_at(),
        ScheduleWrite::Update { after, .. } => after.wake_at(),
        ScheduleWrite::Delete { .. } => None,
    });
    let runs = writes.runs.iter().filter_map(|write| {
        let (RunWrite::Insert(run) | RunWrite::Update { after: run, .. }) = write;
        run.wake_at()
    });
    let handlers = writes.handlers.iter().filter_map(|write| match write {
        HandlerWrite::Insert(handler) | HandlerWrite::Update { after: handler, .. } => {
            handler.due()
        }
        HandlerWrite::Delete { .. } => None,
    });
    (schedules.chain(handlers).map(ms).min(), runs.map(ms).min())
}

/// From so many runs on, the next run's time is not asked for if it is known: it may have ended since, and the
/// node wakes up once for nothing, but the index is full of those that have.
const BUSY: usize = 8;

/// The end of a transaction.
pub(super) struct Ending<'a> {
    pub(super) shared: &'a Shared,
    pub(super) writes: &'a Writes,
    pub(super) node: NodeId,
    pub(super) now: Timestamp,
    /// Which turn writes; 0 if it is none.
    pub(super) stamp: i64,
    /// The schedules that were loaded, as they were.
    pub(super) before: &'a ById<ScheduleId, Was>,
    /// Runs whose rows have these stamps, or nothing is written.
    pub(super) unlocked: &'a ById<RunKey, i64>,
    /// Whether a workflow or a topic is held alone: nobody is waited for with that in hand.
    pub(super) must_not_wait: bool,
}

impl Ending<'_> {
    /// What was found after downtime is kept with the life that found it. Others of this node's turns may write there
    /// at the same time, so that it comes last as well.
    fn ask_recovered(&self) -> Option<Asked> {
        let Recovered { missed, made_up, coalesced, taken_over } = self.writes.recovered;
        let sql = "UPDATE nodes SET missed = missed + $2, made_up = made_up + $3,
                     coalesced = coalesced + $4, taken_over = taken_over + $5 WHERE id = $1";
        let counts =
            [missed, made_up, coalesced, taken_over].map(|count| param(count.cast_signed()));
        let params = [param(self.node.0)].into_iter().chain(counts).collect();
        (!self.writes.recovered.is_nothing()).then(|| Asked::new(sql, params))
    }

    /// Writes everything and commits.
    pub(super) fn end(
        &self,
        link: &mut Link,
        calls: &HashSet<Call>,
        besides: Vec<Asked>,
    ) -> Result<Left, Failure> {
        let may_be_there = link.has_met_others();
        let before = Before {
            schedules: self.before,
            unlocked: self.unlocked,
            may_be_there,
            must_not_wait: self.must_not_wait,
        };
        let mut asked = apply::statements(self.writes, self.node, self.stamp, before)?;
        asked.extend(besides);
        for call in calls {
            asked.push(self.shared.ask_call(*call, self.node));
        }
        // The last that is written: nobody who has to wait for it holds up anybody else.
        asked.extend(tallies::ask_write(self.writes));
        asked.extend(self.ask_recovered());
        let (now, horizon) = (ms(self.now), &self.shared.horizon);
        // What is due has just been claimed, or is being decided by others: what comes after it is asked for.
        let is_busy = self.writes.runs.len() >= BUSY;
        let known_run = if is_busy { horizon.next_run(now) } else { None };
        let ahead = if known_run.is_some() { AHEAD_OF_SCHEDULES } else { AHEAD };
        asked.push(Asked::new(ahead, vec![param(self.node.0), param(now)]));
        let found = link.commit(asked)?;
        let mut ahead = Ahead::of(found.last())?;
        if known_run.is_none() {
            horizon.found_run(ahead.run);
        }
        let (schedule, run) = written(self.writes);
        horizon.written(schedule, run);
        let earlier = |a: Option<i64>, b: Option<i64>| a.into_iter().chain(b).min();
        ahead.schedule = earlier(ahead.schedule, schedule);
        ahead.run = earlier(earlier(ahead.run, known_run.flatten()), run);
        Ok(Left { next_wakeup: ahead.earliest()?, others: ahead.others })
    }
}
