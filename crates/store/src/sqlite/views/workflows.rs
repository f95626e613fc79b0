//! Views of workflows, nodes and figures.

use std::sync::Arc;

use engine::notices::NAME;
use engine::run::RunStatus;
use engine::schedule::Status;
use engine::turn::{Recovered, Workflow};
use engine::{NodeId, WorkflowId};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _};

use crate::failure::Failure;
use crate::set_aside::if_readable;
use crate::sqlite::rows::decode;
use crate::sqlite::rows::decode::{code, ms};
use crate::sqlite::transaction::wakeups::next_wakeup;
use crate::sqlite::views::schedules::count_of;
use crate::view::{
    self, Cursor, NodeView, PAUSED_SHOWN, Page, Stats, Total, WorkflowQuery, WorkflowView,
};

/// Due wakeups are counted up to this many: beyond it, "many" is enough.
const DUE_COUNTED: u64 = 100_000;

pub(crate) fn workflows(
    connection: &Connection,
    query: &WorkflowQuery,
) -> Result<Page<WorkflowView>, Failure> {
    let sql = format!(
        "SELECT {} FROM workflows w WHERE w.name > ?1 AND (?3 = '' OR instr(w.name, ?3))
           AND NOT (?4 AND w.name = '{NAME}')
         ORDER BY w.name LIMIT ?2",
        decode::WORKFLOW
    );
    let after = view::name(query.after.as_ref()).unwrap_or("");
    let search = view::searched(query);
    let mut statement = connection.prepare_cached(&sql)?;
    let params = (after, query.limit + 1, &search, query.hides_system);
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(1)?, decode::workflow(row)));
    let found = statement.query_map(params, read)?;
    let mut found = found.collect::<Result<Vec<(String, _)>, _>>()?;
    let has_more = found.len() > query.limit;
    found.truncate(query.limit);
    let next = found.last().filter(|_| has_more).map(|(name, _)| Cursor::Name(name.clone()));
    let mut items = Vec::new();
    // A workflow that cannot be read, or whose definition cannot, is left out.
    for (_, workflow) in found {
        let Some(workflow) = if_readable(workflow.map_err(Failure::from))? else { continue };
        items.extend(if_readable(with_revision(connection, workflow, None))?.flatten());
    }
    let sql = format!(
        "SELECT count(*) FROM workflows WHERE (?1 = '' OR instr(name, ?1))
         AND NOT (?2 AND name = '{NAME}')"
    );
    let params = (search, query.hides_system);
    let total = connection.prepare_cached(&sql)?.query_row(params, |row| row.get(0))?;
    Ok(Page { items, total: Total::Exact(total), next })
}

pub(crate) fn workflow(
    connection: &Connection,
    id_or_name: &str,
    revision: Option<u32>,
) -> Result<Option<WorkflowView>, Failure> {
    match by_id_or_name(connection, id_or_name)? {
        Some(workflow) => with_revision(connection, workflow, revision),
        None => Ok(None),
    }
}

pub(crate) fn by_id_or_name(
    connection: &Connection,
    id_or_name: &str,
) -> Result<Option<Workflow>, Failure> {
    Ok(match id_or_name.parse::<WorkflowId>() {
        Ok(id) => {
            let sql = format!("SELECT {} FROM workflows w WHERE w.id = ?1", decode::WORKFLOW);
            connection.prepare_cached(&sql)?.query_row([id.0], decode::workflow).optional()?
        }
        Err(()) => {
            let sql = format!("SELECT {} FROM workflows w WHERE w.name = ?1", decode::WORKFLOW);
            connection.prepare_cached(&sql)?.query_row([id_or_name], decode::workflow).optional()?
        }
    })
}

fn with_revision(
    connection: &Connection,
    workflow: Workflow,
    revision: Option<u32>,
) -> Result<Option<WorkflowView>, Failure> {
    let revision = revision.or(workflow.live).unwrap_or(workflow.newest);
    let sql = "SELECT source, definition, created_at, folder FROM revisions
               WHERE workflow = ?1 AND revision = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row((workflow.id.0, revision), |row| {
        Ok((row.get(0)?, decode::json(row, 1)?, decode::instant(row, 2)?, row.get(3)?))
    });
    let Some((source, definition, saved_at, folder)) = found.optional()? else {
        return Ok(None);
    };
    let schedules = count_of(connection, workflow.id)?;
    let definition = Arc::new(definition);
    Ok(Some(WorkflowView { workflow, revision, source, definition, folder, saved_at, schedules }))
}

pub(crate) fn stats(connection: &Connection, now: Timestamp) -> Result<Stats, Failure> {
    let count = |sql: &str, value: i64| -> Result<u64, Failure> {
        Ok(connection.prepare_cached(sql)?.query_row([value], |row| row.get(0))?)
    };
    let by_status = "SELECT coalesce(sum(count), 0) FROM schedule_counts
                     WHERE workflow = 0 AND status = ?1";
    let mut schedules = Vec::new();
    for status in Status::ALL {
        schedules.push((status, count(by_status, code(&Status::ALL, status))?));
    }
    // Repeats the index's own condition: SQLite does not see that it follows.
    let open = "SELECT count(*) FROM runs INDEXED BY runs_open WHERE status < 4 AND status = ?1";
    let mut runs = Vec::new();
    for status in RunStatus::ALL.into_iter().filter(|status| !status.has_ended()) {
        runs.push((status, count(open, code(&RunStatus::ALL, status))?));
    }
    let due = format!(
        "SELECT count(*) FROM (SELECT 1 FROM wakeups
                               WHERE kind IN (0, 1, 2, 3) AND due <= ?1 LIMIT {DUE_COUNTED})"
    );
    let incidents =
        "SELECT count(*) FROM incidents INDEXED BY incidents_open WHERE ended_at IS NULL";
    let paused = "SELECT count(*) FROM workflows INDEXED BY workflows_paused_for
                  WHERE paused_reason IS NOT NULL";
    let pages: u64 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
    let page: u64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    Ok(Stats {
        schedules,
        runs,
        approvals: connection.query_row("SELECT count(*) FROM approvals", [], |row| row.get(0))?,
        incidents: connection.query_row(incidents, [], |row| row.get(0))?,
        workflows: connection.query_row("SELECT count(*) FROM workflows", [], |row| row.get(0))?,
        paused_workflows: connection.query_row(paused, [], |row| row.get(0))?,
        latest_paused: latest_paused(connection)?,
        due: count(&due, ms(now))?,
        next_wakeup: next_wakeup(connection)?,
        bytes: pages * page,
    })
}

fn latest_paused(connection: &Connection) -> Result<Vec<(String, String, Timestamp)>, Failure> {
    let sql = format!(
        "SELECT name, paused_reason, updated_at FROM workflows INDEXED BY workflows_paused_for
         WHERE paused_reason IS NOT NULL ORDER BY updated_at DESC LIMIT {PAUSED_SHOWN}"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let found =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, decode::instant(row, 2)?)))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// The node that is alive: the one that joined last, which holds the file's lock.
pub(crate) fn nodes(connection: &Connection) -> Result<Vec<NodeView>, Failure> {
    let sql = "SELECT id, name, started_at,
                 (SELECT count(*) FROM runs INDEXED BY runs_open, json_each(state, '$.a') active
                  WHERE status < 4 AND status = 1 AND owners IS NOT NULL
                    AND active.value ->> '$.d.p.o' = nodes.id),
                 missed, made_up, coalesced, taken_over
               FROM nodes ORDER BY id DESC LIMIT 1";
    let read = |row: &rusqlite::Row<'_>| {
        Ok(NodeView {
            id: NodeId(row.get(0)?),
            name: row.get(1)?,
            started_at: decode::instant(row, 2)?,
            seen_at: None,
            lease_until: None,
            capacity: None,
            attempts: row.get(3)?,
            recovered: Recovered {
                missed: row.get(4)?,
                made_up: row.get(5)?,
                coalesced: row.get(6)?,
                taken_over: row.get(7)?,
            },
        })
    };
    Ok(connection.prepare_cached(sql)?.query_map([], read)?.collect::<Result<_, _>>()?)
}
