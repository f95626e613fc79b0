//! Runs, as they are seen.

use std::sync::Arc;

use engine::RunId;
use engine::run::{RunStatus, TriggeredBy};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params_from_iter};

use super::book;
use super::rows::{self, code, ms};
use crate::failure::Failure;
use crate::view::{self, Cursor, Page, RunDetail, RunQuery, RunView, Total};

fn read_view(row: &Row<'_>) -> rusqlite::Result<RunView> {
    Ok(RunView { run: rows::run(row)?, workflow_name: row.get(rows::RUN_COLUMNS)? })
}

/// The conditions of a query, with their parameters.
fn conditions(query: &RunQuery) -> (String, Vec<Value>) {
    let mut sql = String::from("WHERE r.key < ?");
    let before = view::number(query.after.as_ref()).unwrap_or(i64::MAX);
    let mut params: Vec<Value> = vec![before.into()];
    let mut also = |condition: &str, value: Value| {
        sql.push_str(" AND ");
        sql.push_str(condition);
        params.push(value);
    };
    if let Some(workflow) = query.workflow {
        also("r.workflow = ?", workflow.0.into());
    }
    if let Some(schedule) = query.schedule {
        also("r.schedule = ?", schedule.0.into());
    }
    if let Some(triggered_by) = query.triggered_by {
        also("r.triggered_by = ?", code(&TriggeredBy::ALL, triggered_by).into());
    }
    if let Some(since) = query.since {
        also("r.created_at >= ?", ms(since).into());
    }
    if !query.status.is_empty() {
        let codes: Vec<String> =
            query.status.iter().map(|s| code(&RunStatus::ALL, *s).to_string()).collect();
        sql.push_str(&format!(" AND r.status IN ({})", codes.join(", ")));
        let open = query.status.iter().all(|status| !status.has_ended());
        let not_well = query.status.iter().all(|s| s.has_ended() && *s != RunStatus::Succeeded);
        // Said again in the index's own words, so that it is used.
        if open {
            sql.push_str(" AND r.status < 4");
        } else if not_well {
            sql.push_str(" AND r.status > 4");
        }
    }
    (sql, params)
}

/// How the rows are found: by whatever narrows most.
fn source(query: &RunQuery) -> &'static str {
    let open = !query.status.is_empty() && query.status.iter().all(|status| !status.has_ended());
    let one_bad = query.status.len() == 1
        && query.status[0].has_ended()
        && query.status[0] != RunStatus::Succeeded;
    match (query.schedule, query.workflow) {
        (Some(_), _) => "runs r",
        _ if open => "runs r INDEXED BY runs_open",
        _ if one_bad && query.workflow.is_none() => "runs r INDEXED BY runs_not_well",
        (None, Some(_)) => "runs r INDEXED BY runs_by_workflow",
        (None, None) => "runs r NOT INDEXED",
    }
}

pub(super) fn runs(connection: &Connection, query: &RunQuery) -> Result<Page<RunView>, Failure> {
    let mut items = match query.schedule {
        Some(_) => of_schedule(connection, query)?,
        None => read(connection, query, "", source(query))?,
    };
    let has_more = items.len() > query.limit;
    items.truncate(query.limit);
    let next = items.last().filter(|_| has_more).map(|view| Cursor::from(view.run.key));
    let total = match (&query.after, has_more) {
        (None, false) => Total::Exact(items.len() as u64),
        _ => Total::AtLeast(items.len() as u64),
    };
    Ok(Page { items, total, next })
}

/// A schedule's first runs of occurrences, and its retries and those by hand, are found by different
/// indexes.
fn of_schedule(connection: &Connection, query: &RunQuery) -> Result<Vec<RunView>, Failure> {
    let occurrences = "runs r INDEXED BY runs_by_occurrence";
    let mut items = read(connection, query, "AND r.n IS NOT NULL AND r.retry = 0", occurrences)?;
    let besides = "runs r INDEXED BY runs_besides";
    items.extend(read(connection, query, "AND (r.n IS NULL OR r.retry > 0)", besides)?);
    items.sort_by_key(|view| std::cmp::Reverse(view.run.key));
    Ok(items)
}

fn read(
    connection: &Connection,
    query: &RunQuery,
    also: &str,
    source: &str,
) -> Result<Vec<RunView>, Failure> {
    let (conditions, params) = conditions(query);
    // First runs of occurrences are in the order of their numbers, which is that of their keys.
    let order = if source.ends_with("runs_by_occurrence") { "r.n DESC" } else { "r.key DESC" };
    let sql = format!(
        "SELECT {}, w.name FROM {source} JOIN workflows w ON w.id = r.workflow
         {conditions} {also} ORDER BY {order} LIMIT {}",
        rows::RUN,
        query.limit + 1
    );
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_map(params_from_iter(params), read_view)?.collect::<Result<_, _>>()?)
}

pub(super) fn run(connection: &Connection, id: &RunId) -> Result<Option<RunDetail>, Failure> {
    let Some(key) = book::run_key(connection, id)? else { return Ok(None) };
    let sql = format!(
        "SELECT {}, w.name FROM runs r JOIN workflows w ON w.id = r.workflow WHERE r.key = ?1",
        rows::RUN
    );
    let found = connection.prepare_cached(&sql)?.query_row([key.0], read_view).optional()?;
    let Some(view) = found else { return Ok(None) };
    let Some(definition) = book::definition(connection, view.run.workflow, view.run.version)?
    else {
        return Err(Failure::Damaged(format!("the definition of run {id} is gone")));
    };
    let sql = "SELECT step, status, attempts, started_at, ended_at, output, error
               FROM steps WHERE run = ?1 ORDER BY step";
    let mut statement = connection.prepare_cached(sql)?;
    let steps = statement.query_map([key.0], rows::step)?.collect::<Result<_, _>>()?;
    Ok(Some(RunDetail { view, definition: Arc::new(definition), steps }))
}
