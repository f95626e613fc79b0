//! Checks that open runs agree with the rows stored beside them.

use std::collections::HashMap;

use engine::RunKey;
use engine::run::Part;
use rusqlite::{Connection, Row, params};

use crate::check_run::{Beside, Breach, breaches, findings, lost_steps, steps_gone};
use crate::failure::Failure;
use crate::sqlite::rows::decode;
use crate::sqlite::rows::decode::ms;
use crate::sqlite::transaction::apply::WAKE_RUN;
use crate::sqlite::transaction::apply_runs::owners;
use crate::sqlite::transaction::core::Core;
use crate::view::Finding;

/// A breach of a run, with the wakeup and owners that it should have.
struct Broken {
    key: i64,
    breach: Breach,
    wake_at: Option<i64>,
    owners: Option<String>,
}

impl Core {
    pub(crate) fn check_runs(&mut self, repair: bool) -> Result<Vec<Finding>, Failure> {
        let found = all(&self.connection)?;
        if repair && !found.is_empty() {
            self.memory.forget();
            for broken in &found {
                mend(&self.connection, broken)?;
            }
        }
        Ok(findings(found.iter().map(|broken| (broken.key, &broken.breach)), repair))
    }

    /// Finds steps that have ended by their run's position but have no record.
    pub(crate) fn check_steps(&self) -> Result<Vec<Finding>, Failure> {
        let sql = format!("SELECT {} FROM runs r", decode::RUN);
        let mut statement = self.connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        let mut recorded =
            self.connection.prepare("SELECT step FROM steps WHERE run = ?1 AND item = 0")?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            // A run that cannot be read is reported by `check_rows`.
            let Ok(run) = decode::run(row) else { continue };
            let steps = recorded.query_map([run.key.0], |row| row.get(0))?;
            let lost = lost_steps(&run, &steps.collect::<Result<Vec<u32>, _>>()?);
            if !lost.is_empty() {
                found.push((run.id, lost));
            }
        }
        Ok(steps_gone(&found))
    }
}

fn all(connection: &Connection) -> Result<Vec<Broken>, Failure> {
    let wakeups = wakeups(connection)?;
    let sql = format!(
        "SELECT {}, r.owners FROM runs r INDEXED BY runs_open WHERE r.status < 4",
        decode::RUN
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        // A run that cannot be read is reported by `check_rows`.
        let Ok(run) = decode::run(row) else { continue };
        let owned_by: Option<String> = row.get(decode::RUN_COLUMNS)?;
        let (key, wake_at, owners) = (run.key.0, run.wake_at().map(ms), owners(&run.position));
        // An early wakeup does no harm.
        let wakes = |at| wakeups.get(&key).is_some_and(|due| *due <= at);
        let beside = Beside {
            wakes: wake_at.is_none_or(wakes),
            owners_agree: owned_by == owners,
            queue: queued(connection, run.key)?,
            approvals: asked(connection, run.key)?,
            waits: waits(connection, run.key)?,
            children: children(connection, run.key)?,
        };
        let broken = |breach| Broken { key, breach, wake_at, owners: owners.clone() };
        found.extend(breaches(&run, &beside).into_iter().map(broken));
    }
    Ok(found)
}

/// The earliest wakeup of each run.
fn wakeups(connection: &Connection) -> Result<HashMap<i64, i64>, Failure> {
    let sql = "SELECT id, min(due) FROM wakeups WHERE kind = ?1 GROUP BY id";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([WAKE_RUN], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn queued(connection: &Connection, run: RunKey) -> Result<Vec<(Part, String)>, Failure> {
    let sql = "SELECT step, item, queue FROM queue WHERE run = ?1 AND item >= -2";
    let read = |row: &Row<'_>| {
        Ok((Part { step: row.get(0)?, item: decode::item(row, 1)? }, row.get::<_, String>(2)?))
    };
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_map([run.0], read)?.collect::<Result<_, _>>()?)
}

fn asked(connection: &Connection, run: RunKey) -> Result<Vec<u32>, Failure> {
    let mut statement = connection.prepare_cached("SELECT step FROM approvals WHERE run = ?1")?;
    Ok(statement.query_map([run.0], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

fn waits(connection: &Connection, run: RunKey) -> Result<Vec<Part>, Failure> {
    let sql = "SELECT step, item FROM waits WHERE run = ?1 AND item >= -2";
    let read = |row: &Row<'_>| Ok(Part { step: row.get(0)?, item: decode::item(row, 1)? });
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_map([run.0], read)?.collect::<Result<_, _>>()?)
}

fn children(connection: &Connection, run: RunKey) -> Result<Vec<(RunKey, Option<u32>)>, Failure> {
    let sql = "SELECT key, parent_token FROM runs INDEXED BY runs_by_parent
               WHERE parent IS NOT NULL AND parent = ?1 AND status < 4";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_map([run.0], |row| Ok((RunKey(row.get(0)?), row.get(1)?)))?;
    Ok(found.collect::<Result<_, _>>()?)
}

fn mend(connection: &Connection, broken: &Broken) -> Result<(), Failure> {
    let Broken { key, breach, wake_at, owners } = broken;
    match breach {
        Breach::Wakeup => {
            let sql = "INSERT OR IGNORE INTO wakeups (due, kind, id) VALUES (?1, ?2, ?3)";
            connection.prepare_cached(sql)?.execute(params![wake_at, WAKE_RUN, key])?;
        }
        Breach::Owners => {
            let sql = "UPDATE runs SET owners = ?2 WHERE key = ?1";
            connection.prepare_cached(sql)?.execute(params![key, owners])?;
        }
        Breach::WithoutPlace => {
            let sql = "UPDATE runs SET lacks_place = 1 WHERE key = ?1";
            connection.prepare_cached(sql)?.execute([key])?;
        }
        Breach::QueueOfNothing(part) => {
            let sql = "DELETE FROM queue WHERE run = ?1 AND step = ?2 AND item = ?3";
            connection.prepare_cached(sql)?.execute(params![key, part.step, part.item.number()])?;
        }
        Breach::QueueMissing(part, queue) => {
            let sql = "INSERT OR REPLACE INTO queue (run, step, item, queue)
                       VALUES (?1, ?2, ?3, ?4)";
            connection.prepare_cached(sql)?.execute(params![
                key,
                part.step,
                part.item.number(),
                queue
            ])?;
        }
        Breach::ApprovalOfNothing(step) => {
            let sql = "DELETE FROM approvals WHERE run = ?1 AND step = ?2";
            connection.prepare_cached(sql)?.execute(params![key, step])?;
        }
        Breach::WaitOfNothing(part) => {
            let sql = "DELETE FROM waits WHERE run = ?1 AND step = ?2 AND item = ?3";
            connection.prepare_cached(sql)?.execute(params![key, part.step, part.item.number()])?;
        }
        Breach::ChildOfOther(_, child, token) => {
            let sql = "UPDATE runs SET parent_token = ?2 WHERE key = ?1";
            connection.prepare_cached(sql)?.execute(params![child.0, token])?;
        }
        Breach::AtRest
        | Breach::ApprovalMissing(_)
        | Breach::WaitMissing(_)
        | Breach::ChildGone(..) => {}
    }
    Ok(())
}
