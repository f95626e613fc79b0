//! Views of approvals, queues and alerts.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use engine::run::RunState;
use engine::{RunId, RunKey, WorkflowId};
use language::definition::Definition;

use crate::failure::Failure;
use crate::rows::{
    self, Read, Row, RunIdColumns, alert_columns, approval_columns, or_why, run_id_columns,
};
use crate::set_aside::if_readable;
use crate::view::{self, AlertView, ApprovalQuery, ApprovalView, Cursor, Page, QueueView, Total};
use crate::views::{Reader, params, run_condition};

/// A row of an approval, with what is needed to complete its view.
struct ApprovalRow {
    run: RunKey,
    step: u32,
    workflow: WorkflowId,
    version: u32,
    /// The view without the step's name and deadline, and where the run is.
    view: Read<(ApprovalView, RunState)>,
}

/// A damaged text or time does not hide an approval, which can still be decided: the title then
/// says what is wrong, and the time is that of the run. Without its assignees it would be anyone's.
fn approval_row(row: &impl Row) -> Read<ApprovalRow> {
    use approval_columns as column;
    let view = || {
        let title = or_why(row.read(column::title))?;
        let asked_at = match if_readable(row.read(column::asked_at))? {
            Some(asked_at) => asked_at,
            None => row.read(column::created_at)?,
        };
        let view = ApprovalView {
            run: RunIdColumns::from(run_id_columns::key).read(row)?,
            workflow_name: row.read(column::workflow_name)?,
            step: String::new(),
            title: title.unwrap_or_else(|why| format!("its title cannot be read ({why})")),
            description: if_readable(row.read(column::description))?.flatten(),
            assignees: row.json(column::assignees)?,
            asked_at,
            deadline: None,
            overdue: false,
        };
        Ok((view, row.json(column::state)?))
    };
    Ok(ApprovalRow {
        run: row.read(column::run)?,
        step: row.read(column::step)?,
        workflow: row.read(column::workflow)?,
        version: row.read(column::version)?,
        view: view(),
    })
}

pub(crate) async fn approvals<R: Reader>(
    reader: &R,
    query: &ApprovalQuery,
) -> Result<Page<ApprovalView>, Failure> {
    let (runs, is_assigned) = R::either(
        (
            "runs",
            "$4 = '[]' OR a.assignees = '[]' OR EXISTS (
               SELECT 1 FROM json_each(iif(json_valid(a.assignees), a.assignees, '[]'))
               WHERE value IN (SELECT value FROM json_each($4)))",
        ),
        (
            "open_runs",
            // A damaged list is nobody's, and must not fail the whole query.
            r#"cardinality($4::text[]) = 0 OR a.assignees = '[]'
               OR CASE WHEN a.assignees ~ '^\[("([^"\\]|\\.)*",?)+\]$'
                  THEN a.assignees::jsonb ?| $4 ELSE false END"#,
        ),
    );
    let sql = format!(
        "SELECT {} FROM approvals a JOIN {runs} r ON r.key = a.run
         JOIN workflows w ON w.id = r.workflow
         WHERE (a.run, a.step) > ($1, $2) AND ({is_assigned})
         ORDER BY a.run, a.step LIMIT $3",
        approval_columns!()
    );
    let (run, step) = view::part(query.after.as_ref());
    let step = i32::try_from(step).unwrap_or(i32::MAX);
    let params = params![run, step, query.limit.saturating_add(1), query.assignees.as_slice()];
    let found = reader.all(&sql, &params, |row| approval_row(row)).await?;
    let cursor = |row: &ApprovalRow| Cursor::Step(row.run, row.step);
    let page = view::page(found, query.limit, query.after.is_none(), cursor);
    let mut definitions = HashMap::new();
    let on_page = page.items.len();
    let mut items = Vec::with_capacity(on_page);
    for ApprovalRow { step, workflow, version, view, .. } in page.items {
        let definition = match definitions.entry((workflow, version)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                unknown.insert(if_readable(definition(reader, workflow, version).await)?)
            }
        };
        // An approval that cannot be read is left out: nobody could decide it.
        let (Some(definition), Some((view, position))) = (definition, if_readable(view)?) else {
            continue;
        };
        let (deadline, overdue) = view::deadline(&position, step);
        let step = view::step_id(definition, step)?;
        items.push(ApprovalView { step, deadline, overdue, ..view });
    }
    // The total does not count what is left out of this page.
    let left_out = (on_page - items.len()) as u64;
    let total = match page.total {
        Total::Exact(count) => Total::Exact(count.saturating_sub(left_out)),
        Total::AtLeast(count) => Total::AtLeast(count.saturating_sub(left_out)),
    };
    Ok(Page { items, total, next: page.next })
}

async fn definition(
    reader: &impl Reader,
    workflow: WorkflowId,
    version: u32,
) -> Result<Definition, Failure> {
    let sql = "SELECT definition FROM revisions WHERE workflow = $1 AND revision = $2";
    let found = reader.one(sql, &params![workflow, version], |row| row.single_json()).await?;
    let gone = || Failure::Damaged(format!("revision {version} of workflow {workflow} is gone"));
    found.ok_or_else(gone)
}

pub(crate) async fn alerts<R: Reader>(reader: &R, id: &RunId) -> Result<Vec<AlertView>, Failure> {
    let (condition, params) = run_condition(id);
    let sql = format!("SELECT key, workflow, version FROM runs r WHERE {condition}");
    let run: Option<(RunKey, WorkflowId, u32)> =
        reader.one(&sql, &params, |row| row.tuple()).await?;
    let Some((key, workflow, version)) = run else { return Ok(Vec::new()) };
    let sql = concat!(
        "SELECT ",
        alert_columns!(),
        " FROM alerts a WHERE run = $1 ORDER BY happened_at, at, step, action"
    );
    let params = params![key];
    let found = reader.all(sql, &params, |row| {
        let step: i64 = row.read(alert_columns::step)?;
        let started: Vec<i64> = row.json(alert_columns::started)?;
        Ok((rows::alert_view(row)?, step, started))
    });
    let found = found.await?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let definition = definition(reader, workflow, version).await?;
    let started: Vec<i64> = found.iter().flat_map(|(_, _, started)| started).copied().collect();
    let ids = run_ids(reader, &started).await?;
    let complete = |(view, step, started): (AlertView, i64, Vec<i64>)| {
        let step = u32::try_from(step).ok();
        let step = step.map(|step| view::step_id(&definition, step)).transpose()?;
        let started = started.iter().filter_map(|key| ids.get(key).cloned()).collect();
        Ok(AlertView { step, started, ..view })
    };
    found.into_iter().map(complete).collect()
}

/// The ids of these runs, without those that are gone.
async fn run_ids<R: Reader>(reader: &R, keys: &[i64]) -> Result<HashMap<i64, RunId>, Failure> {
    let sql = format!("SELECT {} FROM runs r WHERE r.key {}", run_id_columns!(), R::among("$1"));
    let params = params![keys];
    let found = reader.all(&sql, &params, |row| {
        let id = RunIdColumns::from(run_id_columns::key).read(row)?;
        Ok((row.read(run_id_columns::key)?, id))
    });
    Ok(found.await?.into_iter().collect())
}

pub(crate) async fn queues<R: Reader>(reader: &R) -> Result<Vec<QueueView>, Failure> {
    let index = R::indexed_by("queue_by_name");
    let sql = format!("SELECT queue, count(*) FROM queue {index} GROUP BY queue ORDER BY queue");
    let found = reader.all(&sql, &[], |row| {
        let (name, waiting) = row.tuple()?;
        Ok(QueueView { name, waiting })
    });
    found.await
}
