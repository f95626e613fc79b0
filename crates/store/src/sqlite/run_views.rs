//! Runs, as they are seen.

use engine::run::{RunStatus, TriggeredBy};
use engine::{RunId, ScheduleId};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params_from_iter};

use super::book;
use super::rows::{self, code, ms};
use crate::failure::Failure;
use crate::view::{self, Cursor, Page, RunDetail, RunQuery, RunView};

/// What is read beside a run: its workflow's name, and what its parent is called.
const BESIDE: &str = "w.name, p.key, p.schedule, p.uuid, p.n, p.retry";
const JOINED: &str = "JOIN workflows w ON w.id = r.workflow LEFT JOIN runs p ON p.key = r.parent";

fn read_view(row: &Row<'_>) -> rusqlite::Result<RunView> {
    let beside = rows::RUN_COLUMNS;
    let parent = match row.get::<_, Option<i64>>(beside + 1)? {
        None => None,
        Some(_) => {
            let schedule = row.get::<_, Option<i64>>(beside + 2)?.map(ScheduleId);
            Some(rows::run_id(row, schedule, [beside + 3, beside + 4, beside + 5])?)
        }
    };
    Ok(RunView { run: rows::run(row)?, workflow_name: row.get(beside)?, parent })
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
    if let Some(parent) = query.parent {
        also("r.parent = ?", parent.0.into());
    }
    if query.overdue {
        sql.push_str(" AND r.overdue = 1");
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
        _ if query.parent.is_some() => "runs r INDEXED BY runs_by_parent",
        _ if query.overdue => "runs r INDEXED BY runs_overdue",
        _ if open => "runs r INDEXED BY runs_open",
        _ if one_bad && query.workflow.is_none() => "runs r INDEXED BY runs_not_well",
        (None, Some(_)) => "runs r INDEXED BY runs_by_workflow",
        (None, None) => "runs r NOT INDEXED",
    }
}

pub(super) fn runs(connection: &Connection, query: &RunQuery) -> Result<Page<RunView>, Failure> {
    let items = match query.schedule {
        Some(_) => of_schedule(connection, query)?,
        None => read(connection, query, "", source(query))?,
    };
    let cursor = |view: &RunView| Cursor::from(view.run.key);
    Ok(view::page(items, query.limit, query.after.is_none(), cursor))
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
        "SELECT {}, {BESIDE} FROM {source} {JOINED}
         {conditions} {also} ORDER BY {order} LIMIT {}",
        rows::RUN,
        query.limit + 1
    );
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_map(params_from_iter(params), read_view)?.collect::<Result<_, _>>()?)
}

pub(super) fn run(connection: &Connection, id: &RunId) -> Result<Option<RunDetail>, Failure> {
    let Some(key) = book::run_key(connection, id)? else { return Ok(None) };
    let sql = format!("SELECT {}, {BESIDE} FROM runs r {JOINED} WHERE r.key = ?1", rows::RUN);
    let found = connection.prepare_cached(&sql)?.query_row([key.0], read_view).optional()?;
    let Some(view) = found else { return Ok(None) };
    let Some(definition) = book::definition(connection, view.run.workflow, view.run.version)?
    else {
        return Err(Failure::Damaged(format!("the definition of run {id} is gone")));
    };
    let steps = book::step_records(connection, key)?;
    let definition = view::process(definition, &view.run)?;
    Ok(Some(RunDetail { view, definition, steps }))
}
