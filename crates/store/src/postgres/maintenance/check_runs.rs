//! Checks that open runs agree with the rows stored beside them.

use engine::run::{Item, Part, Run};
use engine::{RunId, RunKey};
use tokio_postgres::Row;

use crate::codes::sql;
use crate::failure::Failure;
use crate::invariants::{BesideRun, RunBreach, lost_steps};
use crate::postgres::connections::tx_connection::{Query, TxConnection, param};
use crate::postgres::maintenance::check::{AT_ONCE, page_through};
use crate::postgres::rows::get;
use crate::postgres::transaction::last_steps;
use crate::rows::{self, Column, Row as _, columns, run_columns};
use crate::stored::ms;

columns! {
    /// A run, and arrays of what the rows beside it say.
    beside_columns = run_columns,
        wake_at: "r.wake_at",
        owners: "r.owners",
        queued_steps: "q.steps",
        queued_items: "q.items",
        queues: "q.queues",
        approvals: "(SELECT array_agg(step) FROM approvals WHERE run = r.key)",
        waiting_steps: "v.steps",
        waiting_items: "v.items",
        children: "c.keys",
        children_tokens: "c.tokens",
}

/// Selects runs with the rows beside them, in one statement, which sees one instant.
macro_rules! with_beside {
    ($which:literal) => {
        sql!(
            "SELECT ",
            beside_columns!(),
            " FROM open_runs r
             LEFT JOIN LATERAL (SELECT array_agg(step) AS steps, array_agg(item) AS items,
                 array_agg(queue) AS queues FROM queue WHERE run = r.key AND item {a_part}) q ON true
             LEFT JOIN LATERAL (SELECT array_agg(step) AS steps, array_agg(item) AS items
                 FROM waits WHERE run = r.key AND item {a_part}) v ON true
             LEFT JOIN LATERAL (SELECT array_agg(key) AS keys, array_agg(parent_token) AS tokens
                 FROM open_runs WHERE parent = r.key) c ON true
             WHERE ",
            $which
        )
    };
}

const ALL: &str = with_beside!("r.key > $1 ORDER BY r.key LIMIT 500");
columns! {
    /// A run, and its steps that have a record.
    recorded_columns = run_columns,
        steps: "(SELECT array_agg(step) FROM steps WHERE run = r.key AND item = {whole_step})",
        last_steps: "r.last_steps",
}

const STEPS: &str =
    sql!("SELECT ", recorded_columns!(), " FROM runs r WHERE r.key > $1 ORDER BY r.key LIMIT 500");
const LOCK: &str = "SELECT key FROM open_runs WHERE key = ANY($1) ORDER BY key FOR UPDATE";
/// Run after [`LOCK`], so that it sees what others committed while the lock was waited for.
const AGAIN: &str = with_beside!("r.key = ANY($1) ORDER BY r.key");

pub(crate) fn check(tx: &mut TxConnection, repair: bool) -> Result<Vec<(i64, RunBreach)>, Failure> {
    let mut found = Vec::new();
    page_through(tx, ALL, |row| {
        // A run that cannot be read is reported by `RowKind::check`.
        if let Ok((run, breaches)) = broken(row) {
            found.extend(breaches.into_iter().map(|breach| (run.key.0, breach)));
        }
        row.read(run_columns::key)
    })?;
    if repair {
        let mut keys: Vec<i64> = found.iter().map(|(key, _)| *key).collect();
        keys.dedup();
        for some in keys.chunks(AT_ONCE) {
            mend(tx, some)?;
        }
    }
    Ok(found)
}

/// The runs with steps that have ended by the run's position but have no record.
pub(crate) fn without_steps(tx: &mut TxConnection) -> Result<Vec<(RunId, Vec<u32>)>, Failure> {
    let mut found = Vec::new();
    page_through(tx, STEPS, |row| {
        // A run that cannot be read is reported by `RowKind::check`.
        let Ok(run) = rows::run(row) else { return row.read(run_columns::key) };
        let recorded = numbers(row, recorded_columns::steps)?.into_iter().map(i32::cast_unsigned);
        let last = row.maybe_text(recorded_columns::last_steps)?;
        let last = last.map(last_steps::recorded).unwrap_or_default();
        let lost = lost_steps(&run, &recorded.chain(last).collect::<Vec<u32>>());
        if !lost.is_empty() {
            found.push((run.id, lost));
        }
        row.read(run_columns::key)
    })?;
    Ok(found)
}

/// Whether the stored time is the engine's. Fractions of milliseconds may add up to a whole one.
pub(crate) fn agree(due: Option<i64>, stored: Option<i64>) -> bool {
    match (due, stored) {
        (Some(due), Some(stored)) => due.abs_diff(stored) <= 1,
        (due, stored) => due == stored,
    }
}

fn broken(row: &Row) -> Result<(Run, Vec<RunBreach>), Failure> {
    let run = rows::run(row)?;
    let owners: Option<Vec<i64>> = get(row, beside_columns::owners)?;
    let named: Vec<i64> = run.state.owners().iter().map(|node| node.0).collect();
    let steps = numbers(row, beside_columns::waiting_steps)?.into_iter();
    let waits = steps.zip(numbers(row, beside_columns::waiting_items)?);
    let approvals = numbers(row, beside_columns::approvals)?.into_iter();
    let beside = BesideRun {
        wakes: agree(run.wake_at().map(ms), row.read(beside_columns::wake_at)?),
        owners_agree: owners.unwrap_or_default() == named,
        queue: queued(row)?,
        approvals: approvals.map(i32::cast_unsigned).collect(),
        waits: waits.map(part).collect::<Result<_, _>>()?,
        children: children(row)?,
    };
    let breaches = RunBreach::all(&run, &beside);
    Ok((run, breaches))
}

fn children(row: &Row) -> Result<Vec<(RunKey, Option<u32>)>, Failure> {
    let keys: Option<Vec<i64>> = get(row, beside_columns::children)?;
    let tokens: Option<Vec<Option<i32>>> = get(row, beside_columns::children_tokens)?;
    let tokens = tokens.unwrap_or_default().into_iter();
    let tokens = tokens.map(|token| token.map(i32::cast_unsigned));
    Ok(keys.unwrap_or_default().into_iter().map(RunKey).zip(tokens).collect())
}

fn numbers(row: &Row, column: Column) -> Result<Vec<i32>, Failure> {
    Ok(get::<Option<Vec<i32>>>(row, column)?.unwrap_or_default())
}

fn part((step, item): (i32, i32)) -> Result<Part, Failure> {
    let item = Item::try_from(item).map_err(|unknown| Failure::Damaged(unknown.to_string()))?;
    Ok(Part { step: step.cast_unsigned(), item })
}

fn queued(row: &Row) -> Result<Vec<(Part, String)>, Failure> {
    let steps = numbers(row, beside_columns::queued_steps)?.into_iter();
    let parts = steps.zip(numbers(row, beside_columns::queued_items)?).map(part);
    let queues: Option<Vec<String>> = get(row, beside_columns::queues)?;
    let named = |(part, queue): (Result<Part, Failure>, String)| Ok((part?, queue));
    parts.zip(queues.unwrap_or_default()).map(named).collect()
}

fn mend(tx: &mut TxConnection, keys: &[i64]) -> Result<(), Failure> {
    tx.transact(|tx| {
        tx.begin(vec![Query::new(LOCK, vec![param(keys.to_vec())])])?;
        let found = tx.one(AGAIN, vec![param(keys.to_vec())])?;
        let mut queries = Vec::new();
        for row in &found {
            let Ok((run, breaches)) = broken(row) else { continue };
            queries.extend(breaches.iter().filter_map(|breach| mending(&run, breach)));
        }
        tx.commit(queries)?;
        Ok(())
    })
}

fn mending(run: &Run, breach: &RunBreach) -> Option<Query> {
    let key = run.key.0;
    Some(match breach {
        RunBreach::Wakeup => Query::new(
            "UPDATE open_runs SET wake_at = $2, stamp = 0 WHERE key = $1",
            vec![param(key), param(run.wake_at().map(ms))],
        ),
        RunBreach::Owners => {
            let owners: Vec<i64> = run.state.owners().iter().map(|node| node.0).collect();
            let owners = (!owners.is_empty()).then_some(owners);
            let sql = "UPDATE open_runs SET owners = $2, stamp = 0 WHERE key = $1";
            Query::new(sql, vec![param(key), param(owners)])
        }
        RunBreach::WithoutSlot => Query::new(
            "UPDATE open_runs SET waits_for_slot = true, stamp = 0 WHERE key = $1",
            vec![param(key)],
        ),
        RunBreach::QueueOfNothing(part) => Query::new(
            "DELETE FROM queue WHERE run = $1 AND step = $2 AND item = $3",
            vec![param(key), param(part.step.cast_signed()), param(part.item.number())],
        ),
        RunBreach::QueueMissing(part, queue) => {
            let sql = "INSERT INTO queue (run, step, item, queue) VALUES ($1, $2, $3, $4)
                       ON CONFLICT (run, step, item) DO UPDATE SET queue = excluded.queue";
            let (step, queue) = (part.step.cast_signed(), queue.clone());
            Query::new(sql, vec![param(key), param(step), param(part.item.number()), param(queue)])
        }
        RunBreach::ApprovalOfNothing(step) => Query::new(
            "DELETE FROM approvals WHERE run = $1 AND step = $2",
            vec![param(key), param(step.cast_signed())],
        ),
        RunBreach::WaitOfNothing(part) => Query::new(
            "DELETE FROM waits WHERE run = $1 AND step = $2 AND item = $3",
            vec![param(key), param(part.step.cast_signed()), param(part.item.number())],
        ),
        RunBreach::ChildOfOther(_, child, token) => Query::new(
            "UPDATE open_runs SET parent_token = $2, stamp = 0 WHERE key = $1",
            vec![param(child.0), param(token.cast_signed())],
        ),
        RunBreach::AtRest
        | RunBreach::ApprovalMissing(_)
        | RunBreach::WaitMissing(_)
        | RunBreach::ChildGone(..) => return None,
    })
}
