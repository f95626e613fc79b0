//! Views of approvals, queues and alerts.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use engine::run::RunState;
use engine::{RunId, RunKey, ScheduleId, WorkflowId};
use language::definition::Definition;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::failure::Failure;
use crate::set_aside::if_readable;
use crate::sqlite::rows::decode;
use crate::sqlite::transaction::reader;
use crate::view::{self, AlertView, ApprovalQuery, ApprovalView, Cursor, Page, QueueView};

/// A row of an approval, with what is needed to complete its view.
struct ApprovalRow {
    run: RunKey,
    step: u32,
    workflow: WorkflowId,
    version: u32,
    /// `None` if it cannot be read.
    position: Option<RunState>,
    view: ApprovalView,
}

fn read_asked(row: &Row<'_>) -> rusqlite::Result<ApprovalRow> {
    let schedule = row.get::<_, Option<i64>>(2)?.map(ScheduleId);
    Ok(ApprovalRow {
        run: RunKey(row.get(0)?),
        step: row.get(1)?,
        workflow: WorkflowId(row.get(6)?),
        version: row.get(7)?,
        position: decode::json(row, 8).ok(),
        view: ApprovalView {
            run: decode::run_id(row, schedule, [3, 4, 5])?,
            workflow_name: row.get(9)?,
            step: String::new(),
            title: row.get(10)?,
            description: row.get(11)?,
            assignees: decode::json(row, 12)?,
            asked_at: decode::instant(row, 13)?,
            deadline: None,
            overdue: false,
        },
    })
}

pub(crate) fn approvals(
    connection: &Connection,
    query: &ApprovalQuery,
) -> Result<Page<ApprovalView>, Failure> {
    let sql =
        "SELECT a.run, a.step, r.schedule, r.uuid, r.n, r.retry, r.workflow, r.version, r.state,
                 w.name, a.title, a.description, a.assignees, a.asked_at
               FROM approvals a JOIN runs r ON r.key = a.run JOIN workflows w ON w.id = r.workflow
               WHERE (a.run, a.step) > (?1, ?2)
                 AND (?4 = '[]' OR a.assignees = '[]' OR EXISTS (SELECT 1 FROM json_each(a.assignees)
                   WHERE value IN (SELECT value FROM json_each(?4))))
               ORDER BY a.run, a.step LIMIT ?3";
    let (run, step) = view::part(query.after.as_ref());
    let mut statement = connection.prepare_cached(sql)?;
    let limit = query.limit.saturating_add(1);
    let assignees = serde_json::Value::from(query.assignees.as_slice()).to_string();
    let found = statement.query_map(params![run, step, limit, assignees], read_asked)?;
    let found = found.collect::<Result<Vec<ApprovalRow>, _>>()?;
    let cursor = |asked: &ApprovalRow| Cursor::Step(asked.run, asked.step);
    let page = view::page(found, query.limit, query.after.is_none(), cursor);
    let mut definitions = HashMap::new();
    let mut items = Vec::with_capacity(page.items.len());
    for asked in page.items {
        let definition = match definitions.entry((asked.workflow, asked.version)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let read = definition(connection, asked.workflow, asked.version);
                unknown.insert(if_readable(read)?)
            }
        };
        // An approval that cannot be read is left out: nobody could decide it.
        let (Some(definition), Some(position)) = (definition, &asked.position) else { continue };
        let (deadline, overdue) = view::deadline(position, asked.step);
        let step = view::step_id(definition, asked.step)?;
        items.push(ApprovalView { step, deadline, overdue, ..asked.view });
    }
    Ok(Page { items, total: page.total, next: page.next })
}

fn definition(
    connection: &Connection,
    workflow: WorkflowId,
    version: u32,
) -> Result<Definition, Failure> {
    let gone = || Failure::Damaged(format!("revision {version} of workflow {workflow} is gone"));
    reader::definition(connection, workflow, version)?.ok_or_else(gone)
}

pub(crate) fn alerts(connection: &Connection, id: &RunId) -> Result<Vec<AlertView>, Failure> {
    let Some(key) = reader::run_key(connection, id)? else { return Ok(Vec::new()) };
    let sql = "SELECT a.step, a.action, a.due, a.at, a.happened_at, a.ended, a.started, a.refused,
                 r.workflow, r.version
               FROM alerts a JOIN runs r ON r.key = a.run WHERE a.run = ?1
               ORDER BY a.happened_at, a.at, a.step, a.action";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &Row<'_>| {
        let view = AlertView {
            step: None,
            action: row.get(1)?,
            due: decode::instant(row, 2)?,
            at: decode::instant(row, 3)?,
            happened_at: decode::instant(row, 4)?,
            ended: decode::end(row, 5)?,
            started: Vec::new(),
            refused: row.get(7)?,
        };
        let of = (WorkflowId(row.get(8)?), row.get::<_, u32>(9)?);
        Ok((view, row.get::<_, i64>(0)?, decode::json::<Vec<RunKey>>(row, 6)?, of))
    };
    let found = statement.query_map([key.0], read)?.collect::<Result<Vec<_>, _>>()?;
    let Some((workflow, version)) = found.first().map(|(_, _, _, of)| *of) else {
        return Ok(Vec::new());
    };
    let definition = definition(connection, workflow, version)?;
    let mut views = Vec::with_capacity(found.len());
    for (view, step, started, _) in found {
        let step =
            u32::try_from(step).ok().map(|step| view::step_id(&definition, step)).transpose()?;
        let mut ids = Vec::with_capacity(started.len());
        for key in started {
            ids.extend(run_id(connection, key)?);
        }
        views.push(AlertView { step, started: ids, ..view });
    }
    Ok(views)
}

/// The id of a run, if the run still exists.
fn run_id(connection: &Connection, key: RunKey) -> Result<Option<RunId>, Failure> {
    let sql = "SELECT schedule, uuid, n, retry FROM runs WHERE key = ?1";
    let read = |row: &Row<'_>| {
        let schedule = row.get::<_, Option<i64>>(0)?.map(ScheduleId);
        decode::run_id(row, schedule, [1, 2, 3])
    };
    Ok(connection.prepare_cached(sql)?.query_row([key.0], read).optional()?)
}

pub(crate) fn queues(connection: &Connection) -> Result<Vec<QueueView>, Failure> {
    let sql = "SELECT queue, count(*) FROM queue INDEXED BY queue_by_name
               GROUP BY queue ORDER BY queue";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &Row<'_>| Ok(QueueView { name: row.get(0)?, waiting: row.get(1)? });
    Ok(statement.query_map([], read)?.collect::<Result<_, _>>()?)
}
