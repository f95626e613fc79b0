//! Checks that open runs agree with the rows stored beside them.

use std::collections::HashMap;

use engine::run::Part;
use engine::{RunId, RunKey};
use rusqlite::{Connection, params};

use crate::codes::{WAKE_RUN, sql};
use crate::failure::Failure;
use crate::invariants::{BesideRun, RunBreach, lost_steps};
use crate::rows::{self, Row as _, columns, run_columns};
use crate::sqlite::connections::query;
use crate::sqlite::transaction::apply_runs::owners;
use crate::stored::ms;

columns! {
    /// A run, and the nodes that perform some of it.
    owned_run_columns = run_columns, owners: "r.owners"
}

/// A breach of a run, with the wakeup and owners that it should have.
struct Broken {
    key: i64,
    breach: RunBreach,
    wake_at: Option<i64>,
    owners: Option<String>,
}

pub(crate) fn check(
    connection: &Connection,
    repair: bool,
) -> Result<Vec<(i64, RunBreach)>, Failure> {
    let found = all(connection)?;
    for broken in found.iter().filter(|_| repair) {
        mend(connection, broken)?;
    }
    Ok(found.into_iter().map(|broken| (broken.key, broken.breach)).collect())
}

/// The runs with steps that have ended by the run's position but have no record.
pub(crate) fn without_steps(connection: &Connection) -> Result<Vec<(RunId, Vec<u32>)>, Failure> {
    let sql = concat!("SELECT ", run_columns!(), " FROM runs r");
    let mut statement = connection.prepare(sql)?;
    let mut runs = statement.query([])?;
    let recorded = sql!("SELECT step FROM steps WHERE run = ?1 AND item = {whole_step}");
    let mut recorded = connection.prepare(recorded)?;
    let mut found = Vec::new();
    while let Some(row) = runs.next()? {
        // A run that cannot be read is reported by `RowKind::check`.
        let Ok(run) = rows::run(row) else { continue };
        let steps = recorded.query_and_then([run.key.0], |row| row.single())?;
        let lost = lost_steps(&run, &steps.collect::<Result<Vec<u32>, Failure>>()?);
        if !lost.is_empty() {
            found.push((run.id, lost));
        }
    }
    Ok(found)
}

fn all(connection: &Connection) -> Result<Vec<Broken>, Failure> {
    let wakeups = wakeups(connection)?;
    let sql = sql!(
        "SELECT ",
        owned_run_columns!(),
        " FROM runs r INDEXED BY runs_open WHERE r.status {open}"
    );
    let mut statement = connection.prepare(sql)?;
    let mut runs = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = runs.next()? {
        // A run that cannot be read is reported by `RowKind::check`.
        let Ok(run) = rows::run(row) else { continue };
        let owned_by: Option<String> = row.read(owned_run_columns::owners)?;
        let (key, wake_at, owners) = (run.key.0, run.wake_at().map(ms), owners(&run.state));
        // An early wakeup does no harm.
        let wakes = |at| wakeups.get(&key).is_some_and(|due| *due <= at);
        let beside = BesideRun {
            wakes: wake_at.is_none_or(wakes),
            owners_agree: owned_by == owners,
            queue: queued(connection, run.key)?,
            approvals: asked(connection, run.key)?,
            waits: waits(connection, run.key)?,
            children: children(connection, run.key)?,
        };
        let broken = |breach| Broken { key, breach, wake_at, owners: owners.clone() };
        found.extend(RunBreach::all(&run, &beside).into_iter().map(broken));
    }
    Ok(found)
}

/// The earliest wakeup of each run.
fn wakeups(connection: &Connection) -> Result<HashMap<i64, i64>, Failure> {
    let sql = "SELECT id, min(due) FROM wakeups WHERE kind = ?1 GROUP BY id";
    let mut statement = connection.prepare(sql)?;
    statement.query_and_then([WAKE_RUN], |row| row.tuple())?.collect()
}

fn queued(connection: &Connection, run: RunKey) -> Result<Vec<(Part, String)>, Failure> {
    let sql = sql!("SELECT step, item, queue FROM queue WHERE run = ?1 AND item {a_part}");
    query::all(connection, sql, [run.0], |row| {
        let (step, item, queue) = row.tuple()?;
        Ok((Part { step, item }, queue))
    })
}

fn asked(connection: &Connection, run: RunKey) -> Result<Vec<u32>, Failure> {
    query::all(connection, "SELECT step FROM approvals WHERE run = ?1", [run.0], |row| row.single())
}

fn waits(connection: &Connection, run: RunKey) -> Result<Vec<Part>, Failure> {
    let sql = sql!("SELECT step, item FROM waits WHERE run = ?1 AND item {a_part}");
    query::all(connection, sql, [run.0], |row| {
        let (step, item) = row.tuple()?;
        Ok(Part { step, item })
    })
}

fn children(connection: &Connection, run: RunKey) -> Result<Vec<(RunKey, Option<u32>)>, Failure> {
    let sql = sql!(
        "SELECT key, parent_token FROM runs INDEXED BY runs_by_parent
         WHERE parent IS NOT NULL AND parent = ?1 AND status {open}"
    );
    query::all(connection, sql, [run.0], |row| row.tuple())
}

fn mend(connection: &Connection, broken: &Broken) -> Result<(), Failure> {
    let Broken { key, breach, wake_at, owners } = broken;
    match breach {
        RunBreach::Wakeup => {
            let sql = "INSERT OR IGNORE INTO wakeups (due, kind, id) VALUES (?1, ?2, ?3)";
            connection.prepare_cached(sql)?.execute(params![wake_at, WAKE_RUN, key])?;
        }
        RunBreach::Owners => {
            let sql = "UPDATE runs SET owners = ?2 WHERE key = ?1";
            connection.prepare_cached(sql)?.execute(params![key, owners])?;
        }
        RunBreach::WithoutSlot => {
            let sql = "UPDATE runs SET waits_for_slot = 1 WHERE key = ?1";
            connection.prepare_cached(sql)?.execute([key])?;
        }
        RunBreach::QueueOfNothing(part) => {
            let sql = "DELETE FROM queue WHERE run = ?1 AND step = ?2 AND item = ?3";
            connection.prepare_cached(sql)?.execute(params![key, part.step, part.item.number()])?;
        }
        RunBreach::QueueMissing(part, queue) => {
            let sql = "INSERT OR REPLACE INTO queue (run, step, item, queue)
                       VALUES (?1, ?2, ?3, ?4)";
            connection.prepare_cached(sql)?.execute(params![
                key,
                part.step,
                part.item.number(),
                queue
            ])?;
        }
        RunBreach::ApprovalOfNothing(step) => {
            let sql = "DELETE FROM approvals WHERE run = ?1 AND step = ?2";
            connection.prepare_cached(sql)?.execute(params![key, step])?;
        }
        RunBreach::WaitOfNothing(part) => {
            let sql = "DELETE FROM waits WHERE run = ?1 AND step = ?2 AND item = ?3";
            connection.prepare_cached(sql)?.execute(params![key, part.step, part.item.number()])?;
        }
        RunBreach::ChildOfOther(_, child, token) => {
            let sql = "UPDATE runs SET parent_token = ?2 WHERE key = ?1";
            connection.prepare_cached(sql)?.execute(params![child.0, token])?;
        }
        RunBreach::AtRest
        | RunBreach::ApprovalMissing(_)
        | RunBreach::WaitMissing(_)
        | RunBreach::ChildGone(..) => {}
    }
    Ok(())
}
