//! Views of runs.
//!
//! Each list is a union of branches. Each branch is read in the order of one index and no further
//! than the page, so that the number of runs beyond the page does not matter.

use deadpool_postgres::Client;
use engine::run::{Run, RunStatus, TriggeredBy};
use engine::{RunId, RunKey, ScheduleId, WorkflowId};
use std::fmt::Write as _;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::failure::Failure;
use crate::postgres::connections::query::ask;
use crate::postgres::rows::columns::{of_run, of_step};
use crate::postgres::rows::decode;
use crate::postgres::rows::decode::{RUN_COLUMNS, get, narrow};
use crate::postgres::transaction::last_steps::{self, LAST_STEPS};
use crate::set_aside::if_readable;
use crate::stored::{APART_MS, ms};
use crate::view::{
    self, ATTEMPTS_SHOWN, Ahead, Cursor, MOST_AHEAD, Page, RunDetail, RunQuery, RunView,
};

/// The columns read beside a run: its workflow's name, and its parent's id.
macro_rules! beside {
    () => {
        ", w.name, p.key, p.schedule, p.uuid, p.n, p.retry"
    };
}

macro_rules! joined {
    () => {
        " JOIN workflows w ON w.id = r.workflow
          LEFT JOIN LATERAL (
            SELECT key, schedule, uuid, n, retry FROM open_runs WHERE key = r.parent
            UNION ALL
            SELECT key, schedule, uuid, n, retry FROM ended_runs WHERE key = r.parent) p ON true "
    };
}

/// How many columns `beside!` has.
const BESIDE: usize = 6;

fn read_view(row: &Row) -> Result<RunView, Failure> {
    let parent = match get::<Option<i64>>(row, RUN_COLUMNS + 1)? {
        None => None,
        Some(_) => {
            let schedule = get::<Option<i64>>(row, RUN_COLUMNS + 2)?.map(ScheduleId);
            let columns = [RUN_COLUMNS + 3, RUN_COLUMNS + 4, RUN_COLUMNS + 5];
            Some(decode::run_id(row, schedule, columns)?)
        }
    };
    Ok(RunView { run: decode::run(row)?, workflow_name: get(row, RUN_COLUMNS)?, parent })
}

/// A part of the runs that is read in order.
struct Branch {
    table: &'static str,
    /// The condition that selects its rows.
    of: String,
    order: &'static str,
    way: Way,
}

/// Conditions for a workflow, which is the third parameter. Where the planner may choose, it takes
/// the index by key alone and scans all runs in search of a workflow that has few. The row
/// comparison leaves it only an index that begins with the workflow.
const OF_WORKFLOW: &str = " AND workflow = $3";
const IN_ORDER_OF_WORKFLOW: &str = " AND (workflow, key) < ($3, $1) AND (workflow, key) > ($3, $2)";

/// How a branch is read.
#[derive(Clone, Copy)]
enum Way {
    /// In the order of an index.
    InOrder,
    /// All its rows, since they are few and no index has them in order.
    Small,
    /// The latest of each workflow, from one workflow to the next: the index has the workflow
    /// first.
    ByWorkflow,
}

impl Branch {
    fn new(table: &'static str, of: impl Into<String>) -> Branch {
        Branch { table, of: of.into(), order: "key DESC", way: Way::InOrder }
    }

    fn of_status(status: RunStatus, query: &RunQuery) -> Branch {
        let code = narrow(&RunStatus::ALL, status);
        let of = format!("AND status = {code}");
        match (status.has_ended(), query.workflow.is_some()) {
            (true, false) => return Branch::new("ended_runs", of),
            (true, true) if status == RunStatus::Succeeded => return Branch::of_workflow(&of),
            (true, true) => {
                let row = "(workflow, status, key)";
                let of = format!(
                    "AND status > 4 AND {row} < ($3, {code}::smallint, $1)
                     AND {row} > ($3, {code}::smallint, $2)"
                );
                let order = "workflow DESC, status DESC, key DESC";
                return Branch { order, ..Branch::new("ended_runs", of) };
            }
            (false, true) => {
                let of = format!("{of} AND key + 0 < $1 {OF_WORKFLOW}");
                return Branch { order: "key + 0 DESC", ..Branch::new("open_runs", of) };
            }
            (false, false) => {}
        }
        // Running and suspended runs are few. Pending and waiting runs may be nearly all there are.
        let is_small = matches!(status, RunStatus::Running | RunStatus::Suspended);
        let way = if is_small { Way::Small } else { Way::ByWorkflow };
        Branch { way, ..Branch::new("open_runs", of) }
    }

    /// The ended runs of a workflow.
    fn of_workflow(of: &str) -> Branch {
        let of = format!("{of} {IN_ORDER_OF_WORKFLOW}");
        Branch { order: "workflow DESC, key DESC", ..Branch::new("ended_runs", of) }
    }

    fn sql(&self, conditions: &str, limit: usize) -> String {
        let Branch { table, of, order, way } = self;
        match way {
            Way::InOrder => format!(
                "(SELECT key FROM {table} WHERE {conditions} {of} ORDER BY {order} LIMIT {limit})"
            ),
            Way::Small => format!(
                "(SELECT key FROM (SELECT key FROM {table} WHERE {conditions} {of} OFFSET 0) f
                  ORDER BY {order} LIMIT {limit})"
            ),
            Way::ByWorkflow => format!(
                "(WITH RECURSIVE w AS (
                    (SELECT workflow FROM {table} WHERE true {of} ORDER BY workflow LIMIT 1)
                    UNION ALL
                    SELECT n.workflow FROM w CROSS JOIN LATERAL (
                      SELECT workflow FROM {table} o WHERE o.workflow > w.workflow {of}
                      ORDER BY o.workflow LIMIT 1) n)
                  SELECT l.key FROM w CROSS JOIN LATERAL (
                    SELECT key FROM {table} o
                    WHERE {conditions} {of} AND o.workflow = w.workflow AND key + 0 < $1
                    ORDER BY key + 0 DESC LIMIT {limit}) l
                  ORDER BY l.key DESC LIMIT {limit})"
            ),
        }
    }
}

fn branches(query: &RunQuery) -> Vec<Branch> {
    if query.schedule.is_some() {
        return of_schedule(query);
    }
    if query.parent.is_some() || query.overdue {
        let of = of_statuses(query);
        return vec![
            Branch { way: Way::Small, ..Branch::new("open_runs", of.clone()) },
            Branch::new("ended_runs", of),
        ];
    }
    let of_status = |status: &RunStatus| Branch::of_status(*status, query);
    match (query.status.is_empty(), query.workflow.is_some()) {
        (false, _) => query.status.iter().map(of_status).collect(),
        (true, false) => vec![Branch::new("open_runs", ""), Branch::new("ended_runs", "")],
        // Open runs are found by workflow and status together.
        (true, true) => {
            let open = RunStatus::ALL.iter().filter(|status| !status.has_ended());
            open.map(of_status).chain([Branch::of_workflow("")]).collect()
        }
    }
}

/// The condition for the query's statuses and workflow, where neither has an index of its own.
fn of_statuses(query: &RunQuery) -> String {
    let codes: Vec<String> =
        query.status.iter().map(|s| narrow(&RunStatus::ALL, *s).to_string()).collect();
    let of_workflow = if query.workflow.is_some() { OF_WORKFLOW } else { "" };
    match codes.is_empty() {
        true => of_workflow.to_owned(),
        false => format!("AND status IN ({}) {of_workflow}", codes.join(", ")),
    }
}

/// The first runs of a schedule's occurrences are in the order of their numbers, which is that of
/// their keys. Its retries, and runs started by hand, are found by another index.
fn of_schedule(query: &RunQuery) -> Vec<Branch> {
    let of = of_statuses(query);
    let occurrences = format!("AND n IS NOT NULL AND retry = 0 {of}");
    let besides = format!("AND (n IS NULL OR retry > 0) {of}");
    vec![
        Branch { way: Way::Small, ..Branch::new("open_runs", of) },
        Branch { order: "n DESC", ..Branch::new("ended_runs", occurrences) },
        Branch::new("ended_runs", besides),
    ]
}

/// The last run created before an instant and the first one after it, as far as keys are in the
/// order of creation: a binary search in one query.
const AROUND: &str = "WITH RECURSIVE s (low, high, older, younger) AS (
       SELECT (SELECT min(key) FROM ended_runs) - 1, (SELECT max(key) FROM ended_runs) + 1,
         NULL::bigint, NULL::bigint
       UNION ALL
       SELECT CASE WHEN r.created_at < $1 THEN r.key ELSE s.low END,
         CASE WHEN r.created_at < $1 THEN s.high ELSE s.low + (s.high - s.low) / 2 END,
         CASE WHEN r.created_at < $1 THEN r.key ELSE s.older END,
         CASE WHEN r.created_at >= $1 THEN r.key ELSE s.younger END
       FROM s LEFT JOIN LATERAL (
         SELECT key, created_at FROM ended_runs
         WHERE key >= s.low + (s.high - s.low) / 2 AND key < s.high ORDER BY key LIMIT 1) r ON true
       WHERE s.high - s.low > 1)
     SELECT older, younger FROM s ORDER BY high - low LIMIT 1";

async fn around(client: &Client, at: i64) -> Result<(Option<i64>, Option<i64>), Failure> {
    let found = ask(client, AROUND, &[&at]).await?;
    found.first().map_or(Ok((None, None)), |row| Ok((get(row, 0)?, get(row, 1)?)))
}

/// The keys between which the runs of a query are.
async fn between(client: &Client, query: &RunQuery) -> Result<(i64, i64), Failure> {
    let mut after = i64::MIN;
    let mut before = view::number(query.after.as_ref()).unwrap_or(i64::MAX);
    if let Some(since) = query.since {
        let (older, _) = around(client, ms(since).saturating_sub(APART_MS)).await?;
        after = older.unwrap_or(i64::MIN);
    }
    if let Some(until) = query.until {
        let (_, younger) = around(client, ms(until).saturating_add(APART_MS)).await?;
        before = before.min(younger.unwrap_or(i64::MAX));
    }
    Ok((after, before))
}

/// Leaves out the runs that Punctual starts itself to notify people: all of them are of one
/// workflow.
const NOT_OF_THE_SYSTEM: &str =
    " AND workflow NOT IN (SELECT id FROM workflows WHERE name = 'punctual-notice')";

/// The conditions of a query that hold for every branch, with their parameters.
fn conditions(
    query: &RunQuery,
    (after, before): (i64, i64),
) -> (String, Vec<Box<dyn ToSql + Sync + Send>>) {
    let mut sql = String::from("key < $1 AND key > $2");
    let mut params: Vec<Box<dyn ToSql + Sync + Send>> = vec![Box::new(before), Box::new(after)];
    // The workflow is the third parameter; each branch has its own condition for it.
    if let Some(workflow) = query.workflow {
        params.push(Box::new(workflow.0));
    }
    let mut also = |condition: &str, value: Box<dyn ToSql + Sync + Send>| {
        params.push(value);
        // Writing to a string does not fail.
        let _ = write!(sql, " AND {condition} ${}", params.len());
    };
    if let Some(schedule) = query.schedule {
        also("schedule =", Box::new(schedule.0));
    }
    if let Some(triggered_by) = query.triggered_by {
        also("triggered_by =", Box::new(narrow(&TriggeredBy::ALL, triggered_by)));
    }
    if let Some(since) = query.since {
        also("created_at >=", Box::new(ms(since)));
    }
    if let Some(until) = query.until {
        also("created_at <", Box::new(ms(until)));
    }
    if let Some(parent) = query.parent {
        also("parent =", Box::new(parent.0));
    }
    if query.overdue {
        sql.push_str(" AND overdue");
    }
    if query.hides_system {
        sql.push_str(NOT_OF_THE_SYSTEM);
    }
    (sql, params)
}

pub(crate) async fn runs(client: &Client, query: RunQuery) -> Result<Page<RunView>, Failure> {
    let between = between(client, &query).await?;
    let (conditions, params) = conditions(&query, between);
    // The limit is written into the SQL, so that the planner sees it, and rounded up, so that there
    // are few distinct statements.
    let limit = query.limit.saturating_add(1).checked_next_power_of_two().unwrap_or(query.limit);
    let branches: Vec<String> =
        branches(&query).iter().map(|branch| branch.sql(&conditions, limit)).collect();
    let sql = format!(
        concat!(
            "SELECT ",
            of_run!(),
            beside!(),
            " FROM (SELECT key FROM ({}) k ORDER BY key DESC LIMIT {}) k
             JOIN runs r ON r.key = k.key",
            joined!(),
            "ORDER BY r.key DESC"
        ),
        branches.join(" UNION ALL "),
        limit
    );
    let params: Vec<&(dyn ToSql + Sync)> =
        params.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect();
    let found = ask(client, &sql, &params).await?;
    let found = found.iter().map(read_view).collect();
    let cursor = |view: &RunView| Cursor::from(view.run.key);
    view::readable_page(found, query.limit, query.after.is_none(), cursor)
}

/// The latest open run of a workflow: open runs are found by workflow and status together.
macro_rules! latest_open {
    ($status:literal) => {
        concat!(
            "(SELECT key FROM open_runs WHERE status = ",
            $status,
            " AND workflow = u.id ORDER BY key + 0 DESC LIMIT 1) UNION ALL "
        )
    };
}

const LAST_RUNS: &str = concat!(
    "SELECT ",
    of_run!(),
    beside!(),
    " FROM unnest($1::bigint[]) WITH ORDINALITY AS u (id, place)
     CROSS JOIN LATERAL (SELECT key FROM (",
    latest_open!("0"),
    latest_open!("1"),
    latest_open!("2"),
    latest_open!("3"),
    "(SELECT key FROM ended_runs WHERE workflow >= u.id AND workflow <= u.id
          ORDER BY workflow DESC, key DESC LIMIT 1)) k
       ORDER BY key DESC LIMIT 1) k
     JOIN runs r ON r.key = k.key",
    joined!(),
    "ORDER BY u.place"
);

pub(crate) async fn last_runs(
    client: &Client,
    workflows: Vec<WorkflowId>,
) -> Result<Vec<(WorkflowId, RunView)>, Failure> {
    let ids: Vec<i64> = workflows.into_iter().map(|id| id.0).collect();
    let found = ask(client, LAST_RUNS, &[&ids]).await?;
    let mut last = Vec::with_capacity(found.len());
    for row in &found {
        last.extend(if_readable(read_view(row))?.map(|view| (view.run.workflow, view)));
    }
    Ok(last)
}

macro_rules! one {
    ($condition:literal) => {
        concat!(
            "SELECT ",
            of_run!(),
            beside!(),
            ", v.definition FROM runs r",
            joined!(),
            "LEFT JOIN revisions v ON v.workflow = r.workflow AND v.revision = r.version
             WHERE ",
            $condition
        )
    };
}

const BY_OCCURRENCE: &str = one!("r.schedule = $1 AND r.n = $2 AND r.retry = $3");
const STEPS: &str =
    concat!("SELECT ", of_step!(), " FROM steps WHERE run = $1 ORDER BY step, item");
const EARLIER: &str = "SELECT step, item, attempt, status, started_at, ended_at, error
     FROM attempts WHERE run = $1 ORDER BY step, item, started_at, attempt, ended_at LIMIT $2";
const BY_UUID: &str = one!("r.uuid = $1");

pub(crate) async fn run(client: &Client, id: RunId) -> Result<Option<RunDetail>, Failure> {
    let found = match &id {
        RunId::Occurrence { schedule, n, retry } => {
            let (n, retry) = (i64::try_from(*n), i32::try_from(*retry));
            let (Ok(n), Ok(retry)) = (n, retry) else { return Ok(None) };
            ask(client, BY_OCCURRENCE, &[&schedule.0, &n, &retry]).await?
        }
        RunId::Other(uuid) => ask(client, BY_UUID, &[&uuid::Uuid::from_u128(*uuid)]).await?,
    };
    let Some(row) = found.first() else { return Ok(None) };
    let view = read_view(row)?;
    let definition: Option<&str> = get(row, RUN_COLUMNS + BESIDE)?;
    let definition = definition.and_then(|text| serde_json::from_str(text).ok());
    let definition = view::process(definition, &view.run);
    let steps = ask(client, STEPS, &[&view.run.key.0]).await?;
    let steps = last_steps::all(&steps, &ask(client, LAST_STEPS, &[&view.run.key.0]).await?)?;
    let shown = i64::try_from(ATTEMPTS_SHOWN).unwrap_or(i64::MAX);
    let earlier = ask(client, EARLIER, &[&view.run.key.0, &shown]).await?;
    let earlier = earlier.iter().map(decode::attempt).collect::<Result<_, _>>()?;
    let position = position(client, &view.run).await?;
    Ok(Some(RunDetail { view, definition, steps, earlier, position }))
}

const AHEAD: &str = "SELECT w.concurrency, w.active, w.handling,
       (SELECT count(*) FROM (SELECT 1 FROM open_runs r
          WHERE r.status = 0 AND r.workflow = w.id AND r.key + 0 < $2
            AND (r.handler IS NULL) = $3
            AND (r.handler IS NOT NULL OR NOT w.paused OR r.triggered_by <> ALL($5))
          LIMIT $4) older)
     FROM workflows w WHERE w.id = $1
       AND EXISTS (SELECT 1 FROM open_runs r WHERE r.key = $2 AND r.status = 0)";

async fn position(client: &Client, run: &Run) -> Result<Option<u64>, Failure> {
    if run.status != RunStatus::Pending {
        return Ok(None);
    }
    let (is_process, most) = (run.handler.is_none(), i64::from(MOST_AHEAD));
    let held = TriggeredBy::HELD_BY_PAUSE.map(|held| narrow(&TriggeredBy::ALL, held)).to_vec();
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
        [&run.workflow.0, &run.key.0, &is_process, &most, &held];
    let found = ask(client, AHEAD, &params).await?;
    let Some(row) = found.first() else { return Ok(None) };
    let ahead = Ahead {
        concurrency: get::<Option<i32>>(row, 0)?.map(i32::cast_unsigned),
        active: get::<i32>(row, 1)?.cast_unsigned(),
        handling: get::<Option<i64>>(row, 2)?.map(RunKey),
        older: get::<i64>(row, 3)?.cast_unsigned(),
    };
    Ok(ahead.position(run))
}
