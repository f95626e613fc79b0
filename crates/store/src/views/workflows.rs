//! Answers queries about workflows and their revisions.

use std::sync::Arc;

use engine::WorkflowId;
use engine::notices::NAME;

use crate::failure::Failure;
use crate::rows::{self, Read, Row, columns, workflow_columns};
use crate::set_aside::if_readable;
use crate::view::{self, Cursor, Page, Total, WorkflowQuery, WorkflowView};
use crate::views::{Param, Reader, params};

columns! {
    /// A workflow, one of its revisions, and how many schedules start it.
    workflow_view_columns = workflow_columns,
        revision: "v.revision",
        source: "v.source",
        definition: "v.definition",
        saved_at: "v.created_at",
        folder: "v.folder",
        schedules: "(SELECT CAST(coalesce(sum(c.count), 0) AS bigint) FROM schedule_counts c
           WHERE c.workflow = w.id)",
}

fn workflow_view(row: &impl Row) -> Read<WorkflowView> {
    use workflow_view_columns as column;
    Ok(WorkflowView {
        workflow: rows::workflow(row)?,
        revision: row.read(column::revision)?,
        source: row.read(column::source)?,
        definition: Arc::new(row.json(column::definition)?),
        saved_at: row.read(column::saved_at)?,
        schedules: row.read(column::schedules)?,
        folder: row.read(column::folder)?,
    })
}

/// Workflows with one revision each: the given one, which is `$1`, or the live one, or the newest.
macro_rules! views {
    ($from:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            workflow_view_columns!(),
            " FROM ",
            $from,
            " w JOIN revisions v ON v.workflow = w.id
               AND v.revision = coalesce(CAST($1 AS integer), w.live, w.newest) ",
            $rest
        )
    };
}

pub(crate) async fn workflows<R: Reader>(
    reader: &R,
    query: &WorkflowQuery,
) -> Result<Page<WorkflowView>, Failure> {
    let sql = R::either(
        views!(
            "(SELECT * FROM workflows WHERE name > $2 AND instr(name, $4) > 0 AND name <> $5
              ORDER BY name LIMIT $3)",
            "ORDER BY w.name"
        ),
        views!(
            "(SELECT * FROM workflows WHERE name > $2 AND strpos(name, $4) > 0 AND name <> $5
              ORDER BY name LIMIT $3)",
            "ORDER BY w.name"
        ),
    );
    let after = view::name(query.after.as_ref()).unwrap_or("");
    let search = view::searched(query);
    // The empty name hides nothing: every workflow has a name.
    let hidden = if query.hides_system { NAME } else { "" };
    let params = params![Param::Null, after, query.limit.saturating_add(1), &search, hidden];
    let found = reader.all(sql, &params, |row| {
        Ok((row.read::<String>(workflow_columns::name)?, workflow_view(row)))
    });
    let mut found = found.await?;
    let next = view::cut_to(&mut found, query.limit).map(|(name, _)| Cursor::Name(name.clone()));
    let mut items = Vec::with_capacity(found.len());
    // A workflow that cannot be read, or whose definition cannot, is left out.
    for (_, view) in found {
        items.extend(if_readable(view)?);
    }
    // An empty search is found in every name.
    let sql = R::either(
        "SELECT count(*) FROM workflows WHERE instr(name, $1) > 0 AND name <> $2",
        "SELECT count(*) FROM workflows WHERE strpos(name, $1) > 0 AND name <> $2",
    );
    let total = Total::Exact(reader.count(sql, &params![&search, hidden]).await?);
    Ok(Page { items, total, next })
}

pub(crate) async fn workflow(
    reader: &impl Reader,
    id_or_name: &str,
    revision: Option<u32>,
) -> Result<Option<WorkflowView>, Failure> {
    // No revision has a number that a column cannot hold.
    let Ok(revision) = revision.map(i32::try_from).transpose() else { return Ok(None) };
    let (sql, which) = match id_or_name.parse::<WorkflowId>() {
        Ok(id) => (views!("workflows", "WHERE w.id = $2"), id.into()),
        Err(()) => (views!("workflows", "WHERE w.name = $2"), id_or_name.into()),
    };
    reader.one(sql, &[revision.into(), which], |row| workflow_view(row)).await
}

pub(crate) async fn workflow_id(
    reader: &impl Reader,
    id_or_name: &str,
) -> Result<Option<WorkflowId>, Failure> {
    let (sql, which) = match id_or_name.parse::<WorkflowId>() {
        Ok(id) => ("SELECT id FROM workflows WHERE id = $1", id.into()),
        Err(()) => ("SELECT id FROM workflows WHERE name = $1", id_or_name.into()),
    };
    reader.one(sql, &[which], |row| row.single()).await
}
