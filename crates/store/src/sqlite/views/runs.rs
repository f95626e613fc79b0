//! Views of runs.
//!
//! Each list is a union of branches. Each branch is read in the order of one index and no further
//! than the page, so that the number of runs beyond the page does not matter.

use std::collections::BTreeSet;

use engine::run::{AttemptRecord, Run, RunStatus, TriggeredBy};
use engine::{RunId, RunKey, ScheduleId, WorkflowId};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params, params_from_iter};

use crate::failure::Failure;
use crate::set_aside::if_readable;
use crate::sqlite::rows::decode;
use crate::sqlite::rows::decode::{code, ms};
use crate::sqlite::transaction::reader;
use crate::stored::APART_MS;
use crate::view::{
    self, ATTEMPTS_SHOWN, Ahead, Cursor, MOST_AHEAD, Page, RunDetail, RunQuery, RunView,
};

/// The columns read beside a run: its workflow's name, and its parent's id.
const BESIDE: &str = "w.name, p.key, p.schedule, p.uuid, p.n, p.retry";
const JOINED: &str = "JOIN workflows w ON w.id = r.workflow LEFT JOIN runs p ON p.key = r.parent";

fn read_view(row: &Row<'_>) -> rusqlite::Result<RunView> {
    let beside = decode::RUN_COLUMNS;
    let parent = match row.get::<_, Option<i64>>(beside + 1)? {
        None => None,
        Some(_) => {
            let schedule = row.get::<_, Option<i64>>(beside + 2)?.map(ScheduleId);
            Some(decode::run_id(row, schedule, [beside + 3, beside + 4, beside + 5])?)
        }
    };
    Ok(RunView { run: decode::run(row)?, workflow_name: row.get(beside)?, parent })
}

/// A part of the runs that is read in order.
struct Branch {
    index: &'static str,
    /// The condition that selects its rows. It repeats the index's own condition word for word:
    /// SQLite does not see that it follows.
    of: String,
    order: &'static str,
}

impl Branch {
    fn new(index: &'static str, of: impl Into<String>) -> Branch {
        Branch { index, of: of.into(), order: "r.key DESC" }
    }

    fn of_status(status: RunStatus, query: &RunQuery) -> Branch {
        let number = code(&RunStatus::ALL, status);
        let of_workflow = query.workflow.is_some();
        match status {
            RunStatus::Succeeded => Branch::new(of_any(query), "AND r.status = 4"),
            _ if status.has_ended() => {
                let of = format!("AND r.status > 4 AND r.status = {number}");
                let all = "runs_not_well";
                Branch::new(if of_workflow { "runs_not_well_by_workflow" } else { all }, of)
            }
            _ => Branch::new("runs_open", format!("AND r.status < 4 AND r.status = {number}")),
        }
    }
}

const NO_INDEX: &str = "";

fn of_any(query: &RunQuery) -> &'static str {
    if query.workflow.is_some() { "runs_by_workflow" } else { NO_INDEX }
}

fn branches(query: &RunQuery) -> Vec<Branch> {
    let of = of_statuses(query);
    if query.schedule.is_some() {
        // The first runs of a schedule's occurrences are in the order of their numbers, which is
        // that of their keys. Its retries, and runs started by hand, are found by another index.
        let first = format!("AND r.n IS NOT NULL AND r.retry = 0 {of}");
        return vec![
            Branch { order: "r.n DESC", ..Branch::new("runs_by_occurrence", first) },
            Branch::new("runs_besides", format!("AND (r.n IS NULL OR r.retry > 0) {of}")),
        ];
    }
    if query.parent.is_some() {
        return vec![Branch::new("runs_by_parent", of)];
    }
    if query.overdue {
        return vec![Branch::new("runs_overdue", of)];
    }
    if query.status.is_empty() {
        return vec![Branch::new(of_any(query), of)];
    }
    query.status.iter().map(|status| Branch::of_status(*status, query)).collect()
}

fn of_statuses(query: &RunQuery) -> String {
    let codes: Vec<String> =
        query.status.iter().map(|s| code(&RunStatus::ALL, *s).to_string()).collect();
    match codes.is_empty() {
        true => String::new(),
        false => format!("AND r.status IN ({})", codes.join(", ")),
    }
}

/// Runs with keys between these two.
#[derive(Clone, Copy)]
struct Between {
    after: i64,
    before: i64,
}

impl Between {
    fn of(connection: &Connection, query: &RunQuery) -> Result<Between, Failure> {
        let mut between = Between {
            after: i64::MIN,
            before: view::number(query.after.as_ref()).unwrap_or(i64::MAX),
        };
        if let Some(since) = query.since {
            let (older, _) = around(connection, ms(since).saturating_sub(APART_MS))?;
            between.after = older.unwrap_or(i64::MIN);
        }
        if let Some(until) = query.until {
            let (_, younger) = around(connection, ms(until).saturating_add(APART_MS))?;
            between.before = between.before.min(younger.unwrap_or(i64::MAX));
        }
        Ok(between)
    }
}

/// The last run created before an instant and the first one after it, as far as keys are in the
/// order of creation.
fn around(connection: &Connection, at: i64) -> Result<(Option<i64>, Option<i64>), Failure> {
    let sql = "SELECT (SELECT min(key) FROM runs), (SELECT max(key) FROM runs)";
    let ends = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let ends: (Option<i64>, Option<i64>) = connection.prepare_cached(sql)?.query_row([], ends)?;
    let (Some(first), Some(last)) = ends else {
        return Ok((None, None));
    };
    let sql = "SELECT key, created_at FROM runs NOT INDEXED
               WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    let (mut low, mut high) = (first.saturating_sub(1), last.saturating_add(1));
    let (mut older, mut younger) = (None, None);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let found: Option<(i64, i64)> = statement.query_row([middle, high], read).optional()?;
        match found {
            Some((key, created_at)) if created_at < at => (low, older) = (key, Some(key)),
            found => {
                high = middle;
                younger = found.map(|(key, _)| key).or(younger);
            }
        }
    }
    Ok((older, younger))
}

/// Leaves out the runs that Punctual starts itself to notify people: all of them are of one
/// workflow.
const NOT_OF_THE_SYSTEM: &str =
    " AND r.workflow NOT IN (SELECT id FROM workflows WHERE name = 'punctual-notice')";

/// The conditions that hold for every branch, with their parameters: first the keys, then the
/// workflow if there is one.
fn conditions(query: &RunQuery, between: Between) -> (String, Vec<Value>) {
    let mut sql = String::from("WHERE r.key > ? AND r.key < ?");
    let mut params: Vec<Value> = vec![between.after.into(), between.before.into()];
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
    if let Some(until) = query.until {
        also("r.created_at < ?", ms(until).into());
    }
    if let Some(parent) = query.parent {
        also("r.parent = ?", parent.0.into());
    }
    if query.overdue {
        sql.push_str(" AND r.overdue = 1");
    }
    if query.hides_system {
        sql.push_str(NOT_OF_THE_SYSTEM);
    }
    (sql, params)
}

pub(crate) fn runs(connection: &Connection, query: &RunQuery) -> Result<Page<RunView>, Failure> {
    let between = Between::of(connection, query)?;
    let mut keys = Vec::new();
    for branch in branches(query) {
        keys.extend(match branch.index {
            "runs_open" if query.workflow.is_none() => open(connection, query, between, &branch)?,
            _ => Listing::new(query, between, &branch).keys(connection)?,
        });
    }
    keys.sort_unstable_by(|a: &i64, b| b.cmp(a));
    keys.truncate(query.limit + 1);
    let found = keys.into_iter().filter_map(|key| by_key(connection, RunKey(key)).transpose());
    let cursor = |view: &RunView| Cursor::from(view.run.key);
    view::readable_page(found.collect(), query.limit, query.after.is_none(), cursor)
}

/// The query of one branch of a list.
struct Listing {
    sql: String,
    params: Vec<Value>,
}

impl Listing {
    fn new(query: &RunQuery, between: Between, branch: &Branch) -> Listing {
        let (conditions, params) = conditions(query, between);
        let Branch { index, of, order } = branch;
        let indexed = match *index {
            NO_INDEX => "NOT INDEXED".to_owned(),
            index => format!("INDEXED BY {index}"),
        };
        let limit = query.limit + 1;
        let sql = format!(
            "SELECT r.key FROM runs r {indexed} {conditions} {of} ORDER BY {order} LIMIT {limit}"
        );
        Listing { sql, params }
    }

    fn keys(&self, connection: &Connection) -> Result<Vec<i64>, Failure> {
        let mut statement = connection.prepare_cached(&self.sql)?;
        let keys = statement.query_map(params_from_iter(&self.params), |row| row.get(0))?;
        Ok(keys.collect::<Result<_, _>>()?)
    }
}

/// Open runs of one status are in the order of their workflows: reads the latest of each, from one
/// workflow to the next, and no further than the page.
fn open(
    connection: &Connection,
    query: &RunQuery,
    between: Between,
    branch: &Branch,
) -> Result<Vec<i64>, Failure> {
    let next = format!(
        "SELECT r.workflow FROM runs r INDEXED BY runs_open WHERE r.workflow > ?1 {}
         ORDER BY r.workflow LIMIT 1",
        branch.of
    );
    let mut next = connection.prepare_cached(&next)?;
    let of_one = RunQuery { workflow: Some(WorkflowId(0)), ..query.clone() };
    let mut listing = Listing::new(&of_one, between, branch);
    let (mut latest, mut workflow) = (BTreeSet::new(), i64::MIN);
    while let Some(found) = next.query_row([workflow], |row| row.get(0)).optional()? {
        workflow = found;
        listing.params[2] = workflow.into();
        latest.extend(listing.keys(connection)?);
        while latest.len() > query.limit + 1 {
            latest.pop_first();
        }
        if let Some(earliest) = latest.first().filter(|_| latest.len() > query.limit) {
            listing.params[0] = (*earliest).into();
        }
    }
    Ok(latest.into_iter().collect())
}

fn by_key(connection: &Connection, key: RunKey) -> Result<Option<RunView>, Failure> {
    let sql = format!("SELECT {}, {BESIDE} FROM runs r {JOINED} WHERE r.key = ?1", decode::RUN);
    Ok(connection.prepare_cached(&sql)?.query_row([key.0], read_view).optional()?)
}

pub(crate) fn last_runs(
    connection: &Connection,
    workflows: &[WorkflowId],
) -> Result<Vec<(WorkflowId, RunView)>, Failure> {
    let sql = "SELECT key FROM runs INDEXED BY runs_by_workflow WHERE workflow = ?1
               ORDER BY key DESC LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    let mut found = Vec::with_capacity(workflows.len());
    for workflow in workflows {
        let key = statement.query_row([workflow.0], |row| row.get(0).map(RunKey)).optional()?;
        let Some(key) = key else { continue };
        let view = if_readable(by_key(connection, key))?.flatten();
        found.extend(view.map(|view| (*workflow, view)));
    }
    Ok(found)
}

pub(crate) fn run(connection: &Connection, id: &RunId) -> Result<Option<RunDetail>, Failure> {
    let Some(key) = reader::run_key(connection, id)? else { return Ok(None) };
    let Some(view) = by_key(connection, key)? else { return Ok(None) };
    let definition = reader::definition(connection, view.run.workflow, view.run.version);
    let definition = view::process(if_readable(definition)?.flatten(), &view.run);
    let steps = reader::step_records(connection, key)?;
    let earlier = earlier_attempts(connection, key)?;
    let position = position(connection, &view.run)?;
    Ok(Some(RunDetail { view, definition, steps, earlier, position }))
}

fn position(connection: &Connection, run: &Run) -> Result<Option<u64>, Failure> {
    if run.status != RunStatus::Pending {
        return Ok(None);
    }
    let sql = "SELECT w.concurrency, w.active, w.handling,
                 (SELECT count(*) FROM (SELECT 1 FROM runs r INDEXED BY runs_open
                    WHERE r.status < 4 AND r.status = 0 AND r.workflow = w.id AND r.key < ?2
                      AND (r.handler IS NULL) = ?3
                      AND (r.handler IS NOT NULL OR NOT w.paused OR r.triggered_by NOT IN (?5, ?6, ?7))
                    LIMIT ?4))
               FROM workflows w WHERE w.id = ?1
                 AND EXISTS (SELECT 1 FROM runs r WHERE r.key = ?2 AND r.status = 0)";
    // The run may have begun since it was read: then it waits for nothing.
    let read = |row: &Row<'_>| {
        Ok(Ahead {
            concurrency: row.get(0)?,
            active: row.get(1)?,
            handling: row.get::<_, Option<i64>>(2)?.map(RunKey),
            older: row.get(3)?,
        })
    };
    let [a, b, c] = TriggeredBy::HELD_BY_PAUSE.map(|held| code(&TriggeredBy::ALL, held));
    let is_process = run.handler.is_none();
    let params = params![run.workflow.0, run.key.0, is_process, MOST_AHEAD, a, b, c];
    let ahead = connection.prepare_cached(sql)?.query_row(params, read).optional()?;
    Ok(ahead.and_then(|ahead| ahead.position(run)))
}

fn earlier_attempts(connection: &Connection, run: RunKey) -> Result<Vec<AttemptRecord>, Failure> {
    let sql = format!(
        "SELECT {} FROM attempts WHERE run = ?1
         ORDER BY step, item, started_at, attempt, ended_at LIMIT {ATTEMPTS_SHOWN}",
        decode::ATTEMPT
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_map([run.0], decode::attempt)?;
    Ok(found.collect::<Result<_, _>>()?)
}
