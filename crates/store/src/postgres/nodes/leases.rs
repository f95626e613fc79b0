//! Lives of nodes: they join, renew their lease, and leave. A node whose lease has run out is taken
//! for dead.

use std::collections::HashSet;

use engine::run::RunState;
use engine::turn::Effect;
use engine::{Moment, NodeId, RunKey};
use jiff::{SignedDuration, Timestamp};
use tokio_postgres::Row;

use crate::codes::sql;
use crate::failure::Failure;
use crate::postgres::connections::tx_connection::{Query, TxConnection, param};
use crate::postgres::nodes::clock::database_now;
use crate::postgres::nodes::starting::begin_start;
use crate::postgres::transaction::after_commit::{NextWakeups, ask_everything};
use crate::postgres::transaction::core::Core;
use crate::postgres::{PostgresClock, Shared};
use crate::request::{Joined, RenewRequest, Renewed};
use crate::rows::{Row as _, columns};
use crate::stored::{milliseconds, ms};

/// The database's time, or the caller's in tests. Begins the transaction.
fn now(tx: &mut TxConnection, shared: &Shared, moment: Moment) -> Result<Timestamp, Failure> {
    let sql = concat!("SELECT ", database_now!());
    let sent = shared.offset.read();
    let found = tx.begin(vec![Query::new(sql, vec![])])?;
    match (shared.clock, found.first().and_then(|rows| rows.first())) {
        (PostgresClock::Database, Some(row)) => {
            let now = row.single()?;
            shared.told_time(sent, now);
            Ok(now)
        }
        _ => Ok(moment.now),
    }
}

fn until(now: Timestamp, lease: SignedDuration) -> i64 {
    ms(now).saturating_add(milliseconds(lease))
}

columns! {
    /// A run of which the node performs something.
    owned_columns = r runs: key, state;
}

/// The node's attempts that have not been cancelled.
fn going_on(runs: &[Row], node: NodeId) -> Result<HashSet<(RunKey, u32)>, Failure> {
    let mut going_on = HashSet::with_capacity(runs.len());
    for row in runs {
        let position: RunState = row.json(owned_columns::state)?;
        if position.is_stopping() {
            continue;
        }
        let key: RunKey = row.read(owned_columns::key)?;
        let own = position.active.iter().filter(|active| active.owner() == Some(node));
        going_on.extend(own.filter_map(|active| Some((key, active.status.token()?))));
    }
    Ok(going_on)
}

/// The unique indexes that keep an occurrence from running twice, if they are missing, not unique
/// or not valid: no node may run without them.
const LOST_INDEXES: &str = "SELECT u.name
     FROM unnest(ARRAY['open_runs_by_occurrence', 'ended_runs_by_occurrence']) AS u (name)
     WHERE NOT EXISTS (SELECT 1 FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
       JOIN pg_namespace s ON s.oid = c.relnamespace
       WHERE c.relname = u.name AND s.nspname = current_schema() AND i.indisunique AND i.indisvalid)";

impl Core {
    /// Registers the node under a new id. Attempts of other nodes are taken over when their leases
    /// have run out.
    pub(crate) fn join(&mut self, name: &str, moment: Moment) -> Result<Joined, Failure> {
        let Core { tx, shared } = self;
        tx.transact(|tx| {
            let now = now(tx, shared, moment)?;
            if let Some(lost) = tx.one(LOST_INDEXES, vec![])?.first() {
                return Err(Failure::without_index(&lost.single::<String>()?));
            }
            let sql =
                "INSERT INTO nodes (name, started_at, seen_at, lease_until, capacity, attempts)
                       VALUES ($1, $2, $2, $3, 0, 0) RETURNING id";
            let lease = until(now, shared.lease);
            let found = tx.one(sql, vec![param(name.to_owned()), param(ms(now)), param(lease)])?;
            let Some(row) = found.first() else {
                return Err(Failure::Damaged("a node was given no id".to_owned()));
            };
            let node: NodeId = row.single()?;
            let starting = begin_start(tx, name)?;
            let gone = "SELECT count(*) FROM nodes WHERE lease_until < $1";
            let queries = vec![Query::new(gone, vec![param(ms(now))]), ask_everything(node)];
            let found = tx.commit(queries)?;
            let gone = found[0].first().map_or(Ok(0), |row| row.single())?;
            let next_wakeup = NextWakeups::of(found.last())?.earliest()?;
            shared.wakeup_cache.forget();
            let (early_deaths, culprit) = (starting.deaths, starting.culprit());
            Ok(Joined { node, next_wakeup, gone, early_deaths, culprit })
        })
    }

    pub(crate) fn renew(&mut self, request: &RenewRequest) -> Result<Renewed, Failure> {
        let Core { tx, shared } = self;
        tx.transact(|tx| {
            let now = now(tx, shared, request.moment)?;
            let renew =
                "UPDATE nodes SET seen_at = $2, lease_until = $3, capacity = $4, attempts = $5
                         WHERE id = $1 RETURNING id";
            // Attempts the node performs that are not among these were cancelled or taken over by
            // another node.
            let own = sql!(
                "SELECT ",
                owned_columns!(),
                " FROM open_runs r WHERE status = {running} AND $1 = ANY(owners)"
            );
            let waiting = sql!(
                "SELECT EXISTS (SELECT 1 FROM open_runs WHERE status = {pending})
                 OR EXISTS (SELECT 1 FROM open_runs WHERE waits_for_slot)"
            );
            let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
            shared.wakeup_cache.begin_look();
            let found = tx.commit(vec![
                Query::new(
                    renew,
                    vec![
                        param(request.node.0),
                        param(ms(now)),
                        param(until(now, shared.lease)),
                        param(number(request.capacity)),
                        param(number(request.performed.len())),
                    ],
                ),
                Query::new(own, vec![param(request.node.0)]),
                Query::new(waiting, vec![]),
                ask_everything(request.node),
            ])?;
            if found[0].is_empty() {
                return Err(Failure::Fenced);
            }
            let going_on = going_on(&found[1], request.node)?;
            let effects = request
                .performed
                .iter()
                .filter(|attempt| !going_on.contains(attempt))
                .map(|(run, token)| Effect::Cancel { run: *run, token: *token })
                .collect();
            let look = found[2].first().map_or(Ok(false), |row| row.single())?;
            let next = NextWakeups::of(found.last())?;
            let any = next.schedule.into_iter().chain(next.run).min();
            shared.wakeup_cache.end_look(any.or(Some(ms(now))), next.run);
            Ok(Renewed { effects, next_wakeup: next.earliest()?, look })
        })
    }

    /// Removes the node. If it still owns attempts, its lease ends now, and others take over.
    pub(crate) fn leave(&mut self, node: NodeId) -> Result<(), Failure> {
        self.tx.transact(|tx| {
            tx.begin(vec![])?;
            tx.commit(vec![
                Query::new(
                    sql!(
                        "DELETE FROM nodes WHERE id = $1 AND NOT EXISTS
                         (SELECT 1 FROM open_runs WHERE status = {running} AND $1 = ANY(owners))"
                    ),
                    vec![param(node.0)],
                ),
                Query::new("UPDATE nodes SET lease_until = 0 WHERE id = $1", vec![param(node.0)]),
            ])?;
            Ok(())
        })
    }
}
