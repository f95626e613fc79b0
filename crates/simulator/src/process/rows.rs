//! The rows stored of a process besides its run.

use std::collections::HashMap;
use std::sync::Arc;

use engine::run::{Item, RunError, StepStatus, UnknownItem};
use language::definition::Definition;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde_json::Value;

use super::generate::PREFIX;
use crate::watch::json;

type Read<T> = rusqlite::Result<T>;

/// Everything stored of one run.
#[derive(Clone, Debug)]
pub(crate) struct Detail {
    pub(crate) definition: Arc<Definition>,
    pub(crate) payload: Value,
    pub(crate) output: Option<Value>,
    pub(crate) overdue: bool,
    /// Step records, by step index.
    pub(crate) steps: Vec<StepRow>,
    /// Attempts that others followed, in the order of their parts and of time.
    pub(crate) earlier: Vec<AttemptRow>,
    /// The parts that wait for a worker.
    pub(crate) queue: Vec<(u32, i32)>,
    /// The steps with an open approval.
    pub(crate) approvals: Vec<u32>,
    pub(crate) alerts: Vec<AlertRow>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StepRow {
    pub(crate) step: u32,
    pub(crate) item: Item,
    pub(crate) status: StepStatus,
    pub(crate) attempts: u32,
    pub(crate) started_at: i64,
    pub(crate) ended_at: i64,
    pub(crate) output: Option<Value>,
    pub(crate) error: Option<RunError>,
    pub(crate) reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AttemptRow {
    pub(crate) step: u32,
    pub(crate) item: Item,
    pub(crate) started_at: i64,
    pub(crate) attempt: u32,
    pub(crate) ended_at: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AlertRow {
    /// The step; `None` for the run's own deadline.
    pub(crate) step: Option<u32>,
    pub(crate) action: u32,
    pub(crate) at: i64,
    pub(crate) happened_at: i64,
}

impl Detail {
    pub(crate) fn row(&self, step: u32, item: Item) -> Option<&StepRow> {
        self.steps.iter().find(|row| row.step == step && row.item == item)
    }
}

/// Definitions of processes, each read once; `None` for other workflows.
#[derive(Default)]
pub(crate) struct Definitions(HashMap<(i64, u32), Option<Arc<Definition>>>);

impl Definitions {
    fn get(&mut self, db: &Connection, of: (i64, u32)) -> Read<Option<Arc<Definition>>> {
        if let Some(known) = self.0.get(&of) {
            return Ok(known.clone());
        }
        let sql = "SELECT definition FROM revisions WHERE workflow = ?1 AND revision = ?2";
        let mut statement = db.prepare_cached(sql)?;
        let found = statement.query_row(params![of.0, of.1], |row| json::<Definition>(row, 0));
        let found = found.optional()?.filter(|found| found.name.starts_with(PREFIX)).map(Arc::new);
        self.0.insert(of, found.clone());
        Ok(found)
    }

    /// The rows of a run, if it is a process.
    pub(crate) fn detail(
        &mut self,
        db: &Connection,
        key: i64,
        of: (i64, u32),
    ) -> Read<Option<Box<Detail>>> {
        let Some(definition) = self.get(db, of)? else { return Ok(None) };
        let sql = "SELECT input, output, overdue FROM runs WHERE key = ?1";
        let run = |row: &Row<'_>| {
            Ok((json::<Value>(row, 0)?, optional::<Value>(row, 1)?, row.get::<_, bool>(2)?))
        };
        let (input, output, overdue) = db.prepare_cached(sql)?.query_row([key], run)?;
        let payload = input.get("payload").cloned().unwrap_or_default();
        Ok(Some(Box::new(Detail {
            definition,
            payload,
            output,
            overdue,
            steps: all(
                db,
                "SELECT step, item, status, attempts, started_at, ended_at, output, error, reason
                 FROM steps WHERE run = ?1 ORDER BY step, item",
                key,
                step_row,
            )?,
            earlier: all(
                db,
                "SELECT step, item, started_at, attempt, ended_at FROM attempts WHERE run = ?1
                 ORDER BY step, item, started_at, attempt, ended_at",
                key,
                |row| {
                    let (step, started_at) = (row.get(0)?, row.get(2)?);
                    let item = item(row)?;
                    let (attempt, ended_at) = (row.get(3)?, row.get(4)?);
                    Ok(AttemptRow { step, item, started_at, attempt, ended_at })
                },
            )?,
            queue: all(
                db,
                "SELECT step, item FROM queue WHERE run = ?1 ORDER BY step, item",
                key,
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?,
            approvals: all(
                db,
                "SELECT step FROM approvals WHERE run = ?1 ORDER BY step",
                key,
                |row| row.get(0),
            )?,
            alerts: all(
                db,
                "SELECT step, action, at, happened_at FROM alerts WHERE run = ?1
                 ORDER BY at, action",
                key,
                |row| {
                    let step: i64 = row.get(0)?;
                    let (action, at, happened_at) = (row.get(1)?, row.get(2)?, row.get(3)?);
                    Ok(AlertRow { step: u32::try_from(step).ok(), action, at, happened_at })
                },
            )?,
        })))
    }
}

/// The part of the step, whose number is in the second column.
fn item(row: &Row<'_>) -> Read<Item> {
    let unknown = |unknown: UnknownItem| {
        rusqlite::Error::FromSqlConversionFailure(1, Type::Integer, Box::new(unknown))
    };
    Item::try_from(row.get::<_, i32>(1)?).map_err(unknown)
}

fn step_row(row: &Row<'_>) -> Read<StepRow> {
    Ok(StepRow {
        step: row.get(0)?,
        item: item(row)?,
        status: StepStatus::ALL[row.get::<_, usize>(2)?],
        attempts: row.get(3)?,
        started_at: row.get(4)?,
        ended_at: row.get(5)?,
        output: optional(row, 6)?,
        error: optional(row, 7)?,
        reason: row.get(8)?,
    })
}

fn optional<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> Read<Option<T>> {
    match row.get_ref(column)? {
        rusqlite::types::ValueRef::Null => Ok(None),
        _ => json(row, column).map(Some),
    }
}

fn all<T>(
    db: &Connection,
    sql: &str,
    key: i64,
    read: impl FnMut(&Row<'_>) -> Read<T>,
) -> Read<Vec<T>> {
    db.prepare_cached(sql)?.query_map([key], read)?.collect()
}
