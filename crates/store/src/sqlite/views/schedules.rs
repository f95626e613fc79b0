//! Views of schedules and their ledgers.

use engine::ledger::Outcome;
use engine::run::RunStatus;
use engine::schedule::Status;
use engine::{RunId, ScheduleId, WorkflowId};
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::failure::Failure;
use crate::set_aside::if_readable;
use crate::sqlite::rows::decode;
use crate::sqlite::rows::decode::{code, ms};
use crate::sqlite::transaction::reader::overrides;
use crate::sqlite::views::search;
use crate::stored::BLOCK;
use crate::view::{self, Cursor, LedgerQuery, LedgerRow, Page, ScheduleQuery, ScheduleView, Total};
use crate::words::words;

fn select(rest: &str) -> String {
    format!(
        "SELECT {}, w.name, w.paused FROM schedules s JOIN progress p ON p.id = s.id
         JOIN workflows w ON w.id = s.workflow {rest}",
        decode::SCHEDULE
    )
}

fn read_view(row: &Row<'_>) -> rusqlite::Result<ScheduleView> {
    let (workflow_name, workflow_is_paused) =
        (row.get(decode::SCHEDULE_COLUMNS)?, row.get(decode::SCHEDULE_COLUMNS + 1)?);
    let (schedule, overrides) = (decode::schedule(row)?, Vec::new());
    Ok(ScheduleView { schedule, workflow_name, workflow_is_paused, overrides })
}

pub(crate) fn schedule(
    connection: &Connection,
    id: ScheduleId,
) -> Result<Option<ScheduleView>, Failure> {
    let sql = select("WHERE s.id = ?1");
    let found = connection.prepare_cached(&sql)?.query_row([id.0], read_view).optional()?;
    let Some(view) = found else { return Ok(None) };
    let overrides = match view.schedule.progress.has_overrides {
        true => overrides(connection, id)?,
        false => Vec::new(),
    };
    Ok(Some(ScheduleView { overrides, ..view }))
}

pub(crate) fn by_id(
    connection: &Connection,
    ids: &[ScheduleId],
) -> Result<Vec<ScheduleView>, Failure> {
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(if_readable(schedule(connection, *id))?.flatten());
    }
    Ok(found)
}

pub(crate) fn triggered(
    connection: &Connection,
    workflow: WorkflowId,
) -> Result<Vec<ScheduleView>, Failure> {
    let sql = "SELECT id FROM schedules INDEXED BY schedules_by_trigger
               WHERE workflow = ?1 AND trigger IS NOT NULL ORDER BY id";
    let mut statement = connection.prepare_cached(sql)?;
    let ids = statement.query_map([workflow.0], |row| row.get(0).map(ScheduleId))?;
    by_id(connection, &ids.collect::<Result<Vec<_>, _>>()?)
}

pub(crate) fn coming(connection: &Connection, limit: usize) -> Result<Vec<ScheduleView>, Failure> {
    // `CROSS JOIN` makes the planner go by time, instead of beginning with the workflows.
    let sql = "SELECT u.id FROM wakeups u CROSS JOIN schedules s ON s.id = u.id
               CROSS JOIN workflows w ON w.id = s.workflow
               WHERE u.kind = 1 AND NOT w.paused ORDER BY u.due, u.id LIMIT ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let ids = statement.query_map([limit], |row| row.get(0).map(ScheduleId))?;
    by_id(connection, &ids.collect::<Result<Vec<_>, _>>()?)
}

pub(crate) fn schedules(
    connection: &Connection,
    query: &ScheduleQuery,
) -> Result<Page<ScheduleView>, Failure> {
    match query.search.as_deref().map(|text| words(text).collect::<Vec<_>>()) {
        Some(words) if !words.is_empty() => search::search(connection, query, &words),
        Some(_) => Ok(Page { items: Vec::new(), total: Total::Exact(0), next: None }),
        None => list(connection, query),
    }
}

fn list(connection: &Connection, query: &ScheduleQuery) -> Result<Page<ScheduleView>, Failure> {
    let ids = listed_ids(connection, query)?;
    let has_more = ids.len() > query.limit;
    let ids = &ids[..ids.len().min(query.limit)];
    let next = ids.last().filter(|_| has_more).map(|id| Cursor::Number(id.0));
    let items = by_id(connection, ids)?;
    Ok(Page { items, total: Total::Exact(count(connection, query)?), next })
}

/// The ids of a page, and one more.
fn listed_ids(connection: &Connection, query: &ScheduleQuery) -> Result<Vec<ScheduleId>, Failure> {
    let status = query.status.map(|status| code(&Status::ALL, status));
    let workflow = query.workflow.map(|workflow| workflow.0);
    let start = Start::of(connection, query)?;
    let from = match (workflow, status) {
        (Some(_), Some(_)) => {
            "schedules INDEXED BY schedules_by_workflow
             WHERE id > ?1 AND workflow = ?2 AND status = ?3"
        }
        // Reads some of each status and merges them, because the index orders by status first.
        (Some(workflow), None) => return merged(connection, query, workflow, start.after),
        (None, Some(_)) => {
            "schedules INDEXED BY schedules_by_status
             WHERE id > ?1 AND ?2 IS NULL AND status = ?3"
        }
        (None, None) => "progress WHERE id > ?1 AND ?2 IS NULL AND ?3 IS NULL",
    };
    let sql = format!("SELECT id FROM {from} ORDER BY id LIMIT ?4 OFFSET ?5");
    let mut statement = connection.prepare_cached(&sql)?;
    let params = (start.after, workflow, status, query.limit + 1, start.offset);
    let ids = statement.query_map(params, |row| row.get(0).map(ScheduleId))?;
    Ok(ids.collect::<Result<Vec<_>, _>>()?)
}

/// Where a page begins: this many schedules after the schedule with this id.
struct Start {
    after: i64,
    offset: u64,
}

impl Start {
    /// A large offset is reached block by block, and then one by one inside its block.
    fn of(connection: &Connection, query: &ScheduleQuery) -> Result<Start, Failure> {
        let after = view::number(query.after.as_ref()).unwrap_or(i64::MIN);
        let mut start = Start { after, offset: query.offset };
        let deep = query.offset >= BLOCK as u64 && query.after.is_none();
        if !deep || query.workflow.is_some() {
            return Ok(start);
        }
        let status = query.status.map(|status| code(&Status::ALL, status));
        let sql = "SELECT block, sum(count) FROM schedule_blocks
                   WHERE ?1 IS NULL OR status = ?1 GROUP BY block ORDER BY block";
        let mut statement = connection.prepare_cached(sql)?;
        let mut blocks = statement.query([status])?;
        while let Some(row) = blocks.next()? {
            let count: u64 = row.get(1)?;
            if count > start.offset {
                break;
            }
            start.offset -= count;
            start.after = (row.get::<_, i64>(0)? + 1) * BLOCK - 1;
        }
        Ok(start)
    }
}

/// The schedules of one workflow in the order of their ids, over all statuses.
fn merged(
    connection: &Connection,
    query: &ScheduleQuery,
    workflow: i64,
    after: i64,
) -> Result<Vec<ScheduleId>, Failure> {
    let offset = usize::try_from(query.offset).unwrap_or(usize::MAX);
    let wanted = (query.limit + 1).saturating_add(offset);
    let sql = "SELECT id FROM schedules INDEXED BY schedules_by_workflow
               WHERE workflow = ?1 AND status = ?2 AND id > ?3 ORDER BY id LIMIT ?4";
    let mut statement = connection.prepare_cached(sql)?;
    let mut ids: Vec<i64> = Vec::new();
    for status in 0..Status::ALL.len() as i64 {
        let limit = i64::try_from(wanted).unwrap_or(i64::MAX);
        let found = statement.query_map([workflow, status, after, limit], |row| row.get(0))?;
        ids.extend(found.collect::<Result<Vec<i64>, _>>()?);
    }
    ids.sort_unstable();
    Ok(ids.into_iter().skip(offset).take(query.limit + 1).map(ScheduleId).collect())
}

fn count(connection: &Connection, query: &ScheduleQuery) -> Result<u64, Failure> {
    let workflow = query.workflow.map_or(0, |workflow| workflow.0);
    let status = query.status.map(|status| code(&Status::ALL, status));
    let sql = "SELECT coalesce(sum(count), 0) FROM schedule_counts
               WHERE workflow = ?1 AND (?2 IS NULL OR status = ?2)";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row((workflow, status), |row| row.get(0))?)
}

pub(crate) fn ledger(
    connection: &Connection,
    query: &LedgerQuery,
) -> Result<Page<LedgerRow>, Failure> {
    let before = view::number(query.after.as_ref()).unwrap_or(i64::MAX);
    let sql = format!(
        "SELECT {}, r.uuid, r.n, r.retry, r.status, r.schedule
         FROM ledger l LEFT JOIN runs r ON r.key = l.run
         WHERE l.schedule = ?1 AND l.n < ?2 AND (?3 IS NULL OR l.outcome = ?3)
           AND (?4 IS NULL OR max(l.last_nominal, l.effective) >= ?4)
           AND (?5 IS NULL OR min(l.nominal, l.effective) <= ?5)
         ORDER BY l.n DESC LIMIT ?6",
        decode::LEDGER
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let params = (
        query.schedule.0,
        before,
        query.outcome.map(|outcome| code(&Outcome::ALL, outcome)),
        query.from.map(ms),
        query.to.map(ms),
        query.limit + 1,
    );
    let read = statement.query_map(params, ledger_row)?;
    let mut items = read.collect::<Result<Vec<_>, _>>()?;
    let has_more = items.len() > query.limit;
    items.truncate(query.limit);
    let last = items.last().filter(|_| has_more);
    let next = last.and_then(|row| i64::try_from(row.entry.n).ok()).map(Cursor::Number);
    let sql = "SELECT n FROM progress WHERE id = ?1";
    let total: Option<u64> = connection
        .prepare_cached(sql)?
        .query_row([query.schedule.0], |row| row.get(0))
        .optional()?;
    let plain = query.outcome.is_none() && query.from.is_none() && query.to.is_none();
    let total = match total {
        Some(total) if plain => Total::AtLeast(total),
        _ => Total::AtLeast(items.len() as u64),
    };
    Ok(Page { items, total, next })
}

fn ledger_row(row: &Row<'_>) -> rusqlite::Result<LedgerRow> {
    let entry = decode::entry(row)?;
    let status: Option<usize> = row.get(13)?;
    let run = match status {
        None => None,
        Some(_) => {
            let status = decode::coded(row, 13, &RunStatus::ALL)?;
            let uuid: Option<[u8; 16]> = row.get(10)?;
            let id = match uuid {
                Some(uuid) => RunId::Other(u128::from_be_bytes(uuid)),
                None => RunId::Occurrence {
                    schedule: ScheduleId(row.get(14)?),
                    n: row.get(11)?,
                    retry: row.get(12)?,
                },
            };
            Some((id, status))
        }
    };
    Ok(LedgerRow { entry, run })
}

pub(crate) fn count_of(connection: &Connection, workflow: WorkflowId) -> Result<u64, Failure> {
    let query = ScheduleQuery { workflow: Some(workflow), ..ScheduleQuery::default() };
    count(connection, &query)
}
