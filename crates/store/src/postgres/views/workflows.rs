//! Views of workflows, nodes and figures.

use std::collections::HashMap;
use std::sync::Arc;

use deadpool_postgres::Client;
use engine::notices::NAME;
use engine::run::{Activity, RunState, RunStatus};
use engine::schedule::Status;
use engine::turn::Recovered;
use engine::{NodeId, WorkflowId};
use jiff::Timestamp;
use tokio_postgres::Row;

use crate::failure::Failure;
use crate::postgres::connections::query::{ask, is_storable, many};
use crate::postgres::rows::columns::of_workflow;
use crate::postgres::rows::decode;
use crate::postgres::rows::decode::{WORKFLOW_COLUMNS, get, narrow};
use crate::set_aside::if_readable;
use crate::stored::ms;
use crate::view::{
    self, Cursor, NodeView, PAUSED_SHOWN, Page, Stats, Total, WorkflowQuery, WorkflowView,
};

/// Due wakeups are counted up to this many: beyond it, "many" is enough.
const DUE_COUNTED: i64 = 100_000;

/// Workflows with one revision each: the given one, or the live one, or the newest.
macro_rules! views {
    ($from:literal) => {
        concat!(
            "SELECT ",
            of_workflow!(),
            ", v.revision, v.source, v.definition, v.created_at,
               (SELECT coalesce(sum(c.count), 0)::bigint FROM schedule_counts c
                WHERE c.workflow = w.id), v.folder
             FROM ",
            $from,
            " w JOIN revisions v ON v.workflow = w.id
               AND v.revision = coalesce($1::integer, w.live, w.newest) "
        )
    };
}

const PAGE: &str = concat!(
    views!(
        "(SELECT * FROM workflows WHERE name > $2 AND strpos(name, $4) > 0
            AND name <> $5
          ORDER BY name LIMIT $3)"
    ),
    "ORDER BY w.name"
);
const BY_ID: &str = concat!(views!("workflows"), "WHERE w.id = $2");
const BY_NAME: &str = concat!(views!("workflows"), "WHERE w.name = $2");

/// The index of the column with the workflow's name.
const NAME_COLUMN: usize = 1;

fn read_view(row: &Row) -> Result<WorkflowView, Failure> {
    const REVISION: usize = WORKFLOW_COLUMNS;
    Ok(WorkflowView {
        workflow: decode::workflow(row)?,
        revision: decode::small(row, REVISION)?,
        source: get(row, REVISION + 1)?,
        definition: Arc::new(decode::json(row, REVISION + 2)?),
        saved_at: decode::instant(row, REVISION + 3)?,
        schedules: decode::natural(row, REVISION + 4)?,
        folder: get(row, REVISION + 5)?,
    })
}

pub(crate) async fn workflows(
    client: &Client,
    query: WorkflowQuery,
) -> Result<Page<WorkflowView>, Failure> {
    let after = view::name(query.after.as_ref()).filter(|name| is_storable(name)).unwrap_or("");
    let limit = many(query.limit.saturating_add(1));
    let search = view::searched(&query);
    if !is_storable(&search) {
        return Ok(Page { items: Vec::new(), total: Total::Exact(0), next: None });
    }
    // The empty name hides nothing: every workflow has a name.
    let hidden = if query.hides_system { NAME } else { "" };
    let found = ask(client, PAGE, &[&None::<i32>, &after, &limit, &search, &hidden]).await?;
    let has_more = found.len() > query.limit;
    let page = &found[..found.len().min(query.limit)];
    let mut items = Vec::with_capacity(page.len());
    // A workflow that cannot be read, or whose definition cannot, is left out.
    for row in page {
        items.extend(if_readable(read_view(row))?);
    }
    let last = page.last().filter(|_| has_more);
    let next = last.map(|row| get(row, NAME_COLUMN).map(Cursor::Name)).transpose()?;
    Ok(Page { items, total: Total::Exact(count(client, &search, hidden).await?), next })
}

async fn count(client: &Client, search: &str, hidden: &str) -> Result<u64, Failure> {
    // An empty search is found in every name.
    let sql = "SELECT count(*) FROM workflows WHERE strpos(name, $1) > 0 AND name <> $2";
    let found = ask(client, sql, &[&search, &hidden]).await?;
    found.first().map_or(Ok(0), |row| decode::natural(row, 0))
}

pub(crate) async fn workflow(
    client: &Client,
    id_or_name: String,
    revision: Option<u32>,
) -> Result<Option<WorkflowView>, Failure> {
    let Ok(revision) = revision.map(i32::try_from).transpose() else { return Ok(None) };
    let found = match id_or_name.parse::<WorkflowId>() {
        Ok(id) => ask(client, BY_ID, &[&revision, &id.0]).await?,
        Err(()) if is_storable(&id_or_name) => {
            ask(client, BY_NAME, &[&revision, &id_or_name]).await?
        }
        Err(()) => Vec::new(),
    };
    found.first().map(read_view).transpose()
}

pub(crate) async fn nodes(client: &Client) -> Result<Vec<NodeView>, Failure> {
    let sql = "SELECT state FROM open_runs WHERE status = 1 AND owners IS NOT NULL";
    let mut attempts: HashMap<NodeId, u64> = HashMap::new();
    for row in &ask(client, sql, &[]).await? {
        let position: RunState = decode::json(row, 0)?;
        for owner in position.active.iter().filter_map(Activity::owner) {
            *attempts.entry(owner).or_default() += 1;
        }
    }
    let sql =
        "SELECT id, name, started_at, seen_at, lease_until, capacity, missed, made_up, coalesced,
                 taken_over FROM nodes ORDER BY id";
    let read = |row: &Row| {
        let id = NodeId(get(row, 0)?);
        Ok(NodeView {
            id,
            name: get(row, 1)?,
            started_at: decode::instant(row, 2)?,
            seen_at: Some(decode::instant(row, 3)?),
            lease_until: Some(decode::instant(row, 4)?),
            capacity: Some(decode::small::<u32>(row, 5)?.into()),
            attempts: attempts.get(&id).copied().unwrap_or(0),
            recovered: Recovered {
                missed: decode::natural(row, 6)?,
                made_up: decode::natural(row, 7)?,
                coalesced: decode::natural(row, 8)?,
                taken_over: decode::natural(row, 9)?,
            },
        })
    };
    ask(client, sql, &[]).await?.iter().map(read).collect()
}

/// How many wakeups are due, and the earliest. A node whose lease has run out is due as well.
const WAKEUPS: &str = "SELECT
    (SELECT count(*) FROM (
       (SELECT 1 FROM progress WHERE wake_at <= $1 ORDER BY wake_at LIMIT $2)
       UNION ALL (SELECT 1 FROM open_runs WHERE wake_at <= $1 ORDER BY wake_at LIMIT $2)
       UNION ALL (SELECT 1 FROM handlers WHERE due <= $1 ORDER BY due LIMIT $2)
       UNION ALL (SELECT 1 FROM nodes WHERE lease_until < $1) LIMIT $2) due),
    least(
      (SELECT wake_at FROM progress WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1),
      (SELECT wake_at FROM open_runs WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1),
      (SELECT due FROM handlers WHERE due IS NOT NULL ORDER BY due LIMIT 1),
      (SELECT min(lease_until) + 1 FROM nodes WHERE lease_until < $1))";

const BYTES: &str = "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
     WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'S')";

pub(crate) async fn stats(client: &Client, now: Timestamp) -> Result<Stats, Failure> {
    let sql = "SELECT status, sum(count)::bigint FROM schedule_counts WHERE workflow = 0
               GROUP BY status";
    let counted = by_status(&ask(client, sql, &[]).await?)?;
    let schedules = Status::ALL.map(|status| (status, count_of(&counted, &Status::ALL, status)));
    let sql = "SELECT status, count(*) FROM open_runs GROUP BY status";
    let counted = by_status(&ask(client, sql, &[]).await?)?;
    let open = RunStatus::ALL.into_iter().filter(|status| !status.has_ended());
    let runs = open.map(|status| (status, count_of(&counted, &RunStatus::ALL, status))).collect();
    let wakeups = ask(client, WAKEUPS, &[&ms(now), &DUE_COUNTED]).await?;
    let due = wakeups.first().map_or(Ok(0), |row| decode::natural(row, 0))?;
    let next = wakeups.first().map(|row| decode::maybe_instant(row, 1)).transpose()?;
    let bytes = ask(client, BYTES, &[]).await?;
    let approvals = ask(client, "SELECT count(*) FROM approvals", &[]).await?;
    let incidents = "SELECT count(*) FROM incidents WHERE ended_at IS NULL";
    let incidents = ask(client, incidents, &[]).await?;
    let paused = "SELECT count(*) FROM workflows WHERE paused_reason IS NOT NULL";
    let paused = ask(client, paused, &[]).await?;
    let latest = "SELECT name, paused_reason, updated_at FROM workflows
                  WHERE paused_reason IS NOT NULL ORDER BY updated_at DESC LIMIT $1";
    let latest = ask(client, latest, &[&(PAUSED_SHOWN as i64)]).await?;
    Ok(Stats {
        schedules: schedules.into(),
        runs,
        approvals: approvals.first().map_or(Ok(0), |row| decode::natural(row, 0))?,
        incidents: incidents.first().map_or(Ok(0), |row| decode::natural(row, 0))?,
        workflows: count(client, "", "").await?,
        paused_workflows: paused.first().map_or(Ok(0), |row| decode::natural(row, 0))?,
        latest_paused: latest
            .iter()
            .map(|row| Ok((get(row, 0)?, get(row, 1)?, decode::instant(row, 2)?)))
            .collect::<Result<_, Failure>>()?,
        due,
        next_wakeup: next.flatten(),
        bytes: bytes.first().map_or(Ok(0), |row| decode::natural(row, 0))?,
    })
}

fn by_status(found: &[Row]) -> Result<Vec<(i16, u64)>, Failure> {
    found.iter().map(|row| Ok((get(row, 0)?, decode::natural(row, 1)?))).collect()
}

fn count_of<T: PartialEq + Copy>(counted: &[(i16, u64)], all: &[T], status: T) -> u64 {
    let code = narrow(all, status);
    counted.iter().find(|(known, _)| *known == code).map_or(0, |(_, count)| *count)
}
