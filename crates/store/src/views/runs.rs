//! Views of runs.
//!
//! Each list is a union of branches. Each branch is read in the order of one index and no further
//! than the page, so that the number of runs beyond the page does not matter. The indexes differ
//! between the databases, and so do the branches: see [`RunReader`].

use engine::notices::NAME;
use engine::run::{Run, RunStatus, StepRecord, TriggeredBy};
use engine::{RunId, RunKey, WorkflowId};

use crate::Answered;
use crate::codes::sql;
use crate::failure::Failure;
use crate::rows::{self, Read, Row as _, attempt_columns, columns, run_view_columns};
use crate::set_aside::if_readable;
use crate::stored::{APART_MS, code, ms};
use crate::view::{
    self, ATTEMPTS_SHOWN, AheadOfRun, Cursor, MOST_AHEAD, Page, RunDetail, RunQuery, RunView,
};
use crate::views::{Conditions, Reader, params, run_condition};

/// A connection that also lists runs. Each store does so by the indexes of its own tables.
pub(crate) trait RunReader: Reader {
    /// The runs of a page, latest first, and at least one more if there are more.
    fn listed<'a>(
        &'a self,
        query: &'a RunQuery,
        between: Between,
    ) -> Answered<'a, Vec<Read<RunView>>>;

    /// The last run created before an instant and the first one after it, as far as keys are in the
    /// order of creation.
    fn neighbours(&self, at: i64) -> Answered<'_, (Option<i64>, Option<i64>)>;

    /// The records of a run's steps, in order.
    fn steps(&self, run: RunKey) -> Answered<'_, Vec<StepRecord>>;
}

/// Runs with keys between these two.
#[derive(Clone, Copy)]
pub(crate) struct Between {
    pub(crate) after: i64,
    pub(crate) before: i64,
}

impl Between {
    async fn of(reader: &impl RunReader, query: &RunQuery) -> Result<Between, Failure> {
        let before = view::number(query.after.as_ref()).unwrap_or(i64::MAX);
        let mut between = Between { after: i64::MIN, before };
        if let Some(since) = query.since {
            let (older, _) = reader.neighbours(ms(since).saturating_sub(APART_MS)).await?;
            between.after = older.unwrap_or(i64::MIN);
        }
        if let Some(until) = query.until {
            let (_, younger) = reader.neighbours(ms(until).saturating_add(APART_MS)).await?;
            between.before = between.before.min(younger.unwrap_or(i64::MAX));
        }
        Ok(between)
    }
}

/// The condition for a workflow, which is the third parameter. It is no part of [`conditions`],
/// because some branches need another form of it.
pub(crate) const OF_WORKFLOW: &str = "AND workflow = $3";

/// The conditions that hold for every branch. The first parameter is the key that runs are before,
/// the second the one that they are after, and the third the workflow, if there is one.
pub(crate) fn conditions<R: Reader>(query: &RunQuery, between: Between) -> Conditions<'static> {
    let mut conditions = Conditions::default();
    conditions.add("key <", between.before);
    conditions.add("key >", between.after);
    if let Some(workflow) = query.workflow {
        conditions.bind(workflow);
    }
    conditions.add_some("schedule =", query.schedule);
    let triggered_by = query.triggered_by.map(|by| code(&TriggeredBy::ALL, by));
    conditions.add_some("triggered_by =", triggered_by);
    conditions.add_some("created_at >=", query.since.map(ms));
    conditions.add_some("created_at <", query.until.map(ms));
    conditions.add_some("parent =", query.parent);
    if let Some(overdue) = query.overdue {
        let (late, in_time) = R::either(("overdue = 1", "overdue = 0"), ("overdue", "NOT overdue"));
        conditions.add_text(if overdue { late } else { in_time });
    }
    // Leaves out the runs that Punctual starts itself to notify people: all are of one workflow.
    if query.hides_system {
        let system = format!("(SELECT id FROM workflows WHERE name = '{NAME}')");
        conditions.add_text(&format!("workflow NOT IN {system}"));
    }
    conditions
}

/// The condition for the query's statuses, where they have no index of their own.
pub(crate) fn of_statuses(query: &RunQuery) -> String {
    let codes: Vec<String> =
        query.status.iter().map(|status| code(&RunStatus::ALL, *status).to_string()).collect();
    if codes.is_empty() { String::new() } else { format!("AND status IN ({})", codes.join(", ")) }
}

/// Joins run `r` with its workflow and its parent.
pub(crate) fn joined<R: Reader>() -> &'static str {
    R::either(
        "JOIN workflows w ON w.id = r.workflow LEFT JOIN runs p ON p.key = r.parent",
        "JOIN workflows w ON w.id = r.workflow
         LEFT JOIN LATERAL (
           SELECT key, schedule, uuid, n, retry FROM open_runs WHERE key = r.parent
           UNION ALL
           SELECT key, schedule, uuid, n, retry FROM ended_runs WHERE key = r.parent) p ON true",
    )
}

pub(crate) async fn runs(
    reader: &impl RunReader,
    query: &RunQuery,
) -> Result<Page<RunView>, Failure> {
    let between = Between::of(reader, query).await?;
    let found = reader.listed(query, between).await?;
    let cursor = |view: &RunView| Cursor::from(view.run.key);
    view::readable_page(found, query.limit, query.after.is_none(), cursor)
}

/// The latest open run of a workflow: PostgreSQL finds open runs by workflow and status together.
macro_rules! latest_open {
    ($status:literal) => {
        concat!(
            "(SELECT key FROM open_runs WHERE status = ",
            $status,
            " AND workflow = u.id ORDER BY key + 0 DESC LIMIT 1) UNION ALL "
        )
    };
}

const LATEST_POSTGRES: &str = sql!(
    "unnest($1::bigint[]) WITH ORDINALITY AS u (id, position)
     CROSS JOIN LATERAL (SELECT key FROM (",
    latest_open!("{pending}"),
    latest_open!("{running}"),
    latest_open!("{waiting}"),
    latest_open!("{suspended}"),
    "(SELECT key FROM ended_runs WHERE workflow >= u.id AND workflow <= u.id
          ORDER BY workflow DESC, key DESC LIMIT 1)) k
       ORDER BY key DESC LIMIT 1) k
     JOIN runs r ON r.key = k.key"
);
const LATEST_SQLITE: &str = "json_each($1) u CROSS JOIN runs r ON r.key =
       (SELECT key FROM runs INDEXED BY runs_by_workflow WHERE workflow = u.value
        ORDER BY key DESC LIMIT 1)";

pub(crate) async fn last_runs<R: Reader>(
    reader: &R,
    workflows: &[WorkflowId],
) -> Result<Vec<(WorkflowId, RunView)>, Failure> {
    let (from, order) = R::either((LATEST_SQLITE, "u.key"), (LATEST_POSTGRES, "u.position"));
    let sql =
        format!("SELECT {} FROM {from} {} ORDER BY {order}", run_view_columns!(), joined::<R>());
    let ids: Vec<i64> = workflows.iter().map(|id| id.0).collect();
    let params = params![ids.as_slice()];
    let mut last = Vec::with_capacity(ids.len());
    for view in reader.all(&sql, &params, |row| Ok(rows::run_view(row))).await? {
        last.extend(if_readable(view)?.map(|view| (view.run.workflow, view)));
    }
    Ok(last)
}

columns! {
    /// A run's view, and the definition of its revision.
    run_detail_columns = run_view_columns, definition: "v.definition"
}

pub(crate) async fn run<R: RunReader>(
    reader: &R,
    id: &RunId,
) -> Result<Option<RunDetail>, Failure> {
    let (condition, params) = run_condition(id);
    let sql = format!(
        "SELECT {} FROM runs r {}
         LEFT JOIN revisions v ON v.workflow = r.workflow AND v.revision = r.version
         WHERE {condition}",
        run_detail_columns!(),
        joined::<R>()
    );
    let found = reader.one(&sql, &params, |row| {
        let definition = row.maybe_text(run_detail_columns::definition)?;
        let definition = definition.and_then(|text| serde_json::from_str(text).ok());
        Ok((rows::run_view(row)?, definition))
    });
    let Some((view, definition)) = found.await? else { return Ok(None) };
    let definition = view::process(definition, &view.run);
    let steps = reader.steps(view.run.key).await?;
    let sql = concat!(
        "SELECT ",
        attempt_columns!(),
        " FROM attempts a WHERE run = $1
         ORDER BY step, item, started_at, attempt, ended_at LIMIT $2"
    );
    let params = params![view.run.key, ATTEMPTS_SHOWN];
    let earlier = reader.all(sql, &params, |row| if_readable(rows::attempt(row))).await?;
    let earlier = earlier.into_iter().flatten().collect();
    let position = position(reader, &view.run).await?;
    Ok(Some(RunDetail { view, definition, steps, earlier, position }))
}

/// The run's position in the queue of runs that wait for the same concurrency limit, from 1.
pub(crate) async fn position<R: Reader>(reader: &R, run: &Run) -> Result<Option<u64>, Failure> {
    if run.status != RunStatus::Pending {
        return Ok(None);
    }
    let (runs, pending, key) = R::either(
        ("runs", sql!("runs r INDEXED BY runs_open WHERE r.status {open} AND"), "r.key"),
        ("open_runs", "open_runs r WHERE", "r.key + 0"),
    );
    let held = TriggeredBy::HELD_BY_PAUSE.map(|by| code(&TriggeredBy::ALL, by).to_string());
    let status = code(&RunStatus::ALL, RunStatus::Pending);
    // The run may have begun since it was read: then it waits for nothing.
    let sql = format!(
        "SELECT w.concurrency, w.active, w.handling,
           (SELECT count(*) FROM (SELECT 1 FROM {pending} r.status = {status}
                AND r.workflow = w.id AND {key} < $2 AND (r.handler IS NULL) = $3
                AND (r.handler IS NOT NULL OR NOT w.paused OR r.triggered_by NOT IN ({}))
              LIMIT $4) older)
         FROM workflows w WHERE w.id = $1
           AND EXISTS (SELECT 1 FROM {runs} r WHERE r.key = $2 AND r.status = {status})",
        held.join(", ")
    );
    let params = params![run.workflow, run.key, run.handler.is_none(), MOST_AHEAD];
    let ahead = reader.one(&sql, &params, |row| {
        let (concurrency, active, handling, older) = row.tuple()?;
        Ok(AheadOfRun { concurrency, active, handling, older })
    });
    Ok(ahead.await?.and_then(|ahead| ahead.position(run)))
}
