//! The end of a transaction: writes everything, notifies other nodes, and finds the next wakeup.

use std::collections::HashSet;

use engine::run::{Activity, RunStatus};
use engine::turn::{
    ById, Effect, HandlerWrite, Recovered, RunWrite, ScheduleWrite, Workflow, Writes,
};
use engine::{NodeId, RunKey, ScheduleId};
use jiff::Timestamp;
use tokio_postgres::Row;

use crate::failure::Failure;
use crate::postgres::connections::tx_connection::{Query, TxConnection, param};
use crate::postgres::transaction::apply::{self, Before};
use crate::postgres::transaction::apply_progress::PreviousRow;
use crate::postgres::transaction::minute_counts;
use crate::postgres::transaction::shared::Shared;
use crate::request::Call;
use crate::rows::Row as _;
use crate::stage::Stage;
use crate::stored::ms;

/// The messages that the other nodes need.
pub(crate) fn calls(writes: &Writes, effects: &[Effect], node: NodeId) -> HashSet<Call> {
    let mut calls = HashSet::new();
    let position = |of: RunKey| {
        writes.runs.iter().find_map(|write| {
            let (RunWrite::Insert(run) | RunWrite::Update { after: run, .. }) = write;
            (run.key == of).then_some(&run.state)
        })
    };
    // An attempt that was given up no longer names its owner, so any owner but this node counts.
    let is_others = |effect: &Effect| match effect {
        Effect::Cancel { run, token } => {
            let attempt = position(*run).and_then(|position| position.with_token(*token));
            attempt.and_then(Activity::owner) != Some(node)
        }
        Effect::Perform(_) | Effect::Claimed { .. } => false,
    };
    if effects.iter().any(is_others) {
        calls.insert(Call::Renew);
    }
    calls
}

/// Whether this transaction gives other nodes runs to begin: a run has come to wait for a slot, or
/// a workflow has fallen below its limit. A node calls the others for new runs only. Each node
/// itself remembers the waiting runs that it found and could not begin.
pub(crate) fn gives_others_work(writes: &Writes) -> bool {
    let waits = writes.runs.iter().any(|write| {
        let (RunWrite::Insert(run) | RunWrite::Update { after: run, .. }) = write;
        run.is_ready() || run.status == RunStatus::Pending
    });
    let has_room = |workflow: &Workflow| {
        workflow.concurrency.is_none_or(|concurrency| workflow.active < concurrency)
    };
    waits || writes.workflows.iter().any(has_room)
}

macro_rules! next_wakeups {
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

/// The earliest wakeups after an instant: of schedules and handlers, of runs, and of other nodes'
/// leases; and whether there are other nodes.
const NEXT_WAKEUPS: &str =
    next_wakeups!("(SELECT wake_at FROM open_runs WHERE wake_at > $2 ORDER BY wake_at LIMIT 1)");
/// As [`NEXT_WAKEUPS`], if the next wakeup of runs is known.
const NEXT_OF_SCHEDULES: &str = next_wakeups!("NULL::bigint");

/// The query for the earliest wakeups of all time.
pub(crate) fn ask_everything(node: NodeId) -> Query {
    Query::new(NEXT_WAKEUPS, vec![param(node.0), param(i64::MIN)])
}

/// The earliest wakeups, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NextWakeups {
    /// Of schedules and handlers.
    pub(crate) schedule: Option<i64>,
    pub(crate) run: Option<i64>,
    lease: Option<i64>,
    others: bool,
}

impl NextWakeups {
    /// Reads the answer to [`ask_everything`].
    pub(crate) fn of(found: Option<&Vec<Row>>) -> Result<NextWakeups, Failure> {
        let Some(row) = found.and_then(|rows| rows.first()) else {
            return Ok(NextWakeups::default());
        };
        let (schedule, run, lease, others) = row.tuple()?;
        Ok(NextWakeups { schedule, run, lease, others })
    }

    pub(crate) fn earliest(self) -> Result<Option<Timestamp>, Failure> {
        let earliest = [self.schedule, self.run, self.lease].into_iter().flatten().min();
        let earliest = earliest.map(Timestamp::from_millisecond).transpose();
        earliest.map_err(|error| Failure::Damaged(format!("a wakeup: {error}")))
    }
}

/// What is left to do after a transaction.
pub(crate) struct AfterCommit {
    pub(crate) next_wakeup: Option<Timestamp>,
    pub(crate) others: bool,
}

/// The earliest wakeups among the writes: of schedules and handlers, and of runs.
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

/// A transaction that writes at least this many runs does not query the next wakeup of runs if the
/// cache of wakeups has one. That run may have ended, and the node then wakes once for nothing;
/// but the index is full of entries of ended runs, and scanning it costs more.
const BUSY: usize = 8;

/// The parts of a transaction that its end needs.
pub(crate) struct Ending<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) writes: &'a Writes,
    pub(crate) node: NodeId,
    pub(crate) now: Timestamp,
    /// The stamp of the turn that writes; 0 if it is not a turn.
    pub(crate) stamp: i64,
    /// The schedules as they were loaded.
    pub(crate) before: &'a ById<ScheduleId, PreviousRow>,
    /// Runs that were not locked, with the stamp each row must still carry, or nothing is written.
    pub(crate) unlocked: &'a ById<RunKey, i64>,
    /// Whether the transaction holds a workflow or topic exclusively: it must then not wait for a
    /// run's lock.
    pub(crate) must_not_wait: bool,
}

impl Ending<'_> {
    /// Adds what was recovered after downtime to the node's row. Other turns of this node may write
    /// the same row at the same time, so this also comes last.
    fn ask_recovered(&self) -> Option<Query> {
        let Recovered { missed, made_up, coalesced, taken_over } = self.writes.recovered;
        let sql = "UPDATE nodes SET missed = missed + $2, made_up = made_up + $3,
                     coalesced = coalesced + $4, taken_over = taken_over + $5 WHERE id = $1";
        let counts =
            [missed, made_up, coalesced, taken_over].map(|count| param(count.cast_signed()));
        let params = [param(self.node.0)].into_iter().chain(counts).collect();
        (!self.writes.recovered.is_nothing()).then(|| Query::new(sql, params))
    }

    /// Writes everything and commits.
    pub(crate) fn end(
        &self,
        tx: &mut TxConnection,
        calls: &HashSet<Call>,
        besides: Vec<Query>,
    ) -> Result<AfterCommit, Failure> {
        let may_be_there = tx.has_met_others();
        let before = Before {
            schedules: self.before,
            unlocked: self.unlocked,
            may_be_there,
            must_not_wait: self.must_not_wait,
        };
        let mut queries = apply::statements(self.writes, self.stamp, before)?;
        queries.extend(besides);
        for call in calls {
            queries.push(self.shared.ask_call(*call, Some(self.node)));
        }
        // Written last: whoever waits for these rows holds up nobody else.
        queries.extend(minute_counts::ask_write(self.writes));
        queries.extend(self.ask_recovered());
        let (now, wakeup_cache) = (ms(self.now), &self.shared.wakeup_cache);
        // Due wakeups were just claimed, or another node decides them: only later ones are queried.
        let is_busy = self.writes.runs.len() >= BUSY;
        let known_run = if is_busy { wakeup_cache.next_run(now) } else { None };
        let sql = if known_run.is_some() { NEXT_OF_SCHEDULES } else { NEXT_WAKEUPS };
        queries.push(Query::new(sql, vec![param(self.node.0), param(now)]));
        Stage::Written.is_over();
        let found = tx.commit(queries)?;
        Stage::Committed.is_over();
        let mut next = NextWakeups::of(found.last())?;
        if known_run.is_none() {
            wakeup_cache.found_run(next.run);
        }
        let (schedule, run) = written(self.writes);
        wakeup_cache.written(schedule, run);
        let earlier = |a: Option<i64>, b: Option<i64>| a.into_iter().chain(b).min();
        next.schedule = earlier(next.schedule, schedule);
        next.run = earlier(earlier(next.run, known_run.flatten()), run);
        Ok(AfterCommit { next_wakeup: next.earliest()?, others: next.others })
    }
}
