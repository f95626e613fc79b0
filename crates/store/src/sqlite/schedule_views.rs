//! Schedules and their ledger, as they are seen.

use engine::ledger::Outcome;
use engine::run::RunStatus;
use engine::schedule::Status;
use engine::{RunId, ScheduleId, WorkflowId};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params_from_iter};

use super::rows::{self, code, ms};
use super::words::words;
use crate::failure::Failure;
use crate::view::{self, Cursor, LedgerQuery, LedgerRow, Page, ScheduleQuery, ScheduleView, Total};

/// Found by search, so many are looked at for one page; a page of rare ones among many is short, and
/// says where to go on.
const LOOKED_AT: usize = 5_000;
/// Search counts up to so many.
const COUNTED: u64 = 10_000;

fn select(rest: &str) -> String {
    format!(
        "SELECT {}, w.name FROM schedules s JOIN progress p ON p.id = s.id
         JOIN workflows w ON w.id = s.workflow {rest}",
        rows::SCHEDULE
    )
}

fn read_view(row: &Row<'_>) -> rusqlite::Result<ScheduleView> {
    Ok(ScheduleView { schedule: rows::schedule(row)?, workflow_name: row.get(22)? })
}

pub(super) fn schedule(
    connection: &Connection,
    id: ScheduleId,
) -> Result<Option<ScheduleView>, Failure> {
    let sql = select("WHERE s.id = ?1");
    Ok(connection.prepare_cached(&sql)?.query_row([id.0], read_view).optional()?)
}

pub(super) fn by_id(
    connection: &Connection,
    ids: &[ScheduleId],
) -> Result<Vec<ScheduleView>, Failure> {
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(schedule(connection, *id)?);
    }
    Ok(found)
}

pub(super) fn coming(connection: &Connection, limit: usize) -> Result<Vec<ScheduleView>, Failure> {
    let sql = "SELECT id FROM wakeups WHERE kind = 1 ORDER BY due, kind, id LIMIT ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let ids = statement.query_map([limit], |row| row.get(0).map(ScheduleId))?;
    by_id(connection, &ids.collect::<Result<Vec<_>, _>>()?)
}

pub(super) fn schedules(
    connection: &Connection,
    query: &ScheduleQuery,
) -> Result<Page<ScheduleView>, Failure> {
    match query.search.as_deref().map(|text| words(text).collect::<Vec<_>>()) {
        Some(words) if !words.is_empty() => search(connection, query, &words),
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

/// One more than the page, from an index: deep pages by offset walk over small entries.
fn listed_ids(connection: &Connection, query: &ScheduleQuery) -> Result<Vec<ScheduleId>, Failure> {
    let after = view::number(query.after.as_ref()).unwrap_or(i64::MIN);
    let status = query.status.map(|status| code(&Status::ALL, status));
    let workflow = query.workflow.map(|workflow| workflow.0);
    let mut params: Vec<Value> = vec![after.into()];
    let from = match (workflow, status) {
        (Some(workflow), Some(status)) => {
            params.extend([workflow.into(), status.into()]);
            "schedules INDEXED BY schedules_by_workflow
             WHERE id > ?1 AND workflow = ?2 AND status = ?3"
        }
        (Some(workflow), None) => {
            params.push(workflow.into());
            // Of each status some: merged below, as the index orders by status first.
            return merged(connection, query, workflow, after);
        }
        (None, Some(status)) => {
            params.push(status.into());
            "schedules INDEXED BY schedules_by_status WHERE id > ?1 AND status = ?2"
        }
        (None, None) => "progress WHERE id > ?1",
    };
    let sql = format!(
        "SELECT id FROM {from} ORDER BY id LIMIT {} OFFSET {}",
        query.limit + 1,
        query.offset
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let ids = statement.query_map(params_from_iter(params), |row| row.get(0).map(ScheduleId))?;
    Ok(ids.collect::<Result<_, _>>()?)
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

/// By the beginnings of words: the longest one leads, the others are looked for in each name.
fn search(
    connection: &Connection,
    query: &ScheduleQuery,
    wanted: &[String],
) -> Result<Page<ScheduleView>, Failure> {
    let Some(lead) = wanted.iter().max_by_key(|word| word.len()) else {
        return list(connection, query);
    };
    let place = view::name(query.after.as_ref()).and_then(read_place);
    let (word, after) = place.unwrap_or((lead.clone(), i64::MIN));
    let sql = "SELECT word, schedule FROM words
               WHERE (word, schedule) > (?1, ?2) AND word < ?3 ORDER BY word, schedule LIMIT ?4";
    let mut statement = connection.prepare_cached(sql)?;
    let end = format!("{lead}\u{10ffff}");
    let mut looked_at = statement.query((word, after, &end, LOOKED_AT))?;
    let mut page = Page { items: Vec::new(), total: Total::Exact(0), next: None };
    let (mut last, mut looked, mut to_skip) = (None, 0, query.offset);
    while let Some(row) = looked_at.next()? {
        if page.items.len() == query.limit {
            page.next = last.map(write_place);
            break;
        }
        looked += 1;
        let (word, id): (String, i64) = (row.get(0)?, row.get(1)?);
        last = Some((word.clone(), id));
        let found = schedule(connection, ScheduleId(id))?;
        let found = found.filter(|view| matches(view, query, wanted, lead, &word));
        match found {
            Some(_) if to_skip > 0 => to_skip -= 1,
            found => page.items.extend(found),
        }
        if looked == LOOKED_AT {
            page.next = last.clone().map(write_place);
        }
    }
    page.total = count_found(connection, query, wanted, lead)?;
    Ok(page)
}

/// Whether the schedule is wanted, and this is the first of its words by which it is found.
fn matches(
    view: &ScheduleView,
    query: &ScheduleQuery,
    wanted: &[String],
    lead: &str,
    by: &str,
) -> bool {
    let schedule = &view.schedule;
    let names: Vec<String> = words(&schedule.declared.name).collect();
    let first = names.iter().filter(|word| word.starts_with(lead)).min();
    query.status.is_none_or(|status| schedule.status == status)
        && query.workflow.is_none_or(|workflow| schedule.workflow == workflow)
        && first.is_some_and(|word| word == by)
        && wanted.iter().all(|word| names.iter().any(|name| name.starts_with(word.as_str())))
}

/// Exact for one word without filters up to a limit; else what can be said cheaply.
fn count_found(
    connection: &Connection,
    query: &ScheduleQuery,
    wanted: &[String],
    lead: &str,
) -> Result<Total, Failure> {
    let sql = "SELECT count(DISTINCT schedule) FROM
               (SELECT schedule FROM words WHERE word >= ?1 AND word < ?2 LIMIT ?3)";
    let end = format!("{lead}\u{10ffff}");
    let found: u64 =
        connection.prepare_cached(sql)?.query_row((lead, end, COUNTED + 1), |row| row.get(0))?;
    let plain = wanted.len() == 1 && query.status.is_none() && query.workflow.is_none();
    if plain && found <= COUNTED {
        return Ok(Total::Exact(found));
    }
    Ok(Total::AtLeast(if plain { COUNTED } else { 0 }))
}

fn read_place(text: &str) -> Option<(String, i64)> {
    let (word, id) = text.rsplit_once('/')?;
    Some((word.to_owned(), id.parse().ok()?))
}

fn write_place((word, id): (String, i64)) -> Cursor {
    Cursor::Name(format!("{word}/{id}"))
}

pub(super) fn ledger(
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
        rows::LEDGER
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
    let entry = rows::entry(row)?;
    let status: Option<usize> = row.get(13)?;
    let run = match status {
        None => None,
        Some(_) => {
            let status = rows::coded(row, 13, &RunStatus::ALL)?;
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

pub(super) fn count_of(connection: &Connection, workflow: WorkflowId) -> Result<u64, Failure> {
    let query = ScheduleQuery { workflow: Some(workflow), ..ScheduleQuery::default() };
    count(connection, &query)
}
