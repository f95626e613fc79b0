//! Views of approvals, queues and alerts.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use deadpool_postgres::Client;
use engine::run::RunState;
use engine::{RunId, RunKey, ScheduleId};
use language::definition::Definition;
use tokio_postgres::Row;

use crate::failure::Failure;
use crate::postgres::connections::query::{ask, is_storable, many};
use crate::postgres::rows::decode;
use crate::postgres::rows::decode::{get, small};
use crate::set_aside::if_readable;
use crate::view::{self, AlertView, ApprovalQuery, ApprovalView, Cursor, Page, QueueView};

const APPROVALS: &str = "SELECT a.run, a.step, r.schedule, r.uuid, r.n, r.retry, r.workflow,
       r.version, r.state, w.name, a.title, a.description, a.assignees, a.asked_at
     FROM approvals a JOIN open_runs r ON r.key = a.run JOIN workflows w ON w.id = r.workflow
     WHERE (a.run, a.step) > ($1, $2)
       AND (cardinality($4::text[]) = 0 OR a.assignees = '[]' OR a.assignees::jsonb ?| $4)
     ORDER BY a.run, a.step LIMIT $3";

pub(crate) async fn approvals(
    client: &Client,
    query: ApprovalQuery,
) -> Result<Page<ApprovalView>, Failure> {
    let (run, step) = view::part(query.after.as_ref());
    let step = i32::try_from(step).unwrap_or(i32::MAX);
    let limit = many(query.limit.saturating_add(1));
    // A name with NUL cannot be stored, so it matches nobody.
    let storable = |name: String| if is_storable(&name) { name } else { String::new() };
    let assignees: Vec<String> = query.assignees.into_iter().map(storable).collect();
    let found = ask(client, APPROVALS, &[&run, &step, &limit, &assignees]).await?;
    let mut definitions = HashMap::new();
    let mut items = Vec::with_capacity(found.len());
    for row in &found {
        let of: (i64, i32) = (get(row, 6)?, get(row, 7)?);
        let definition = match definitions.entry(of) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(if_readable(definition(client, of).await)?),
        };
        // An approval that cannot be read is left out below: nobody could decide it.
        let approval = definition.as_ref().map(|definition| approval(row, definition)).transpose();
        let approval = if_readable(approval)?.flatten();
        items.push(((RunKey(get(row, 0)?), small(row, 1)?), approval));
    }
    let cursor =
        |((run, step), _): &((RunKey, u32), Option<ApprovalView>)| Cursor::Step(*run, *step);
    let page = view::page(items, query.limit, query.after.is_none(), cursor);
    let items = page.items.into_iter().filter_map(|(_, view)| view).collect();
    Ok(Page { items, total: page.total, next: page.next })
}

fn approval(row: &Row, definition: &Definition) -> Result<ApprovalView, Failure> {
    let schedule = get::<Option<i64>>(row, 2)?.map(ScheduleId);
    let step = small(row, 1)?;
    let position: RunState = decode::json(row, 8)?;
    let (deadline, overdue) = view::deadline(&position, step);
    Ok(ApprovalView {
        run: decode::run_id(row, schedule, [3, 4, 5])?,
        workflow_name: get(row, 9)?,
        step: view::step_id(definition, step)?,
        title: get(row, 10)?,
        description: get(row, 11)?,
        assignees: decode::json(row, 12)?,
        asked_at: decode::instant(row, 13)?,
        deadline,
        overdue,
    })
}

async fn definition(client: &Client, of: (i64, i32)) -> Result<Definition, Failure> {
    let sql = "SELECT definition FROM revisions WHERE workflow = $1 AND revision = $2";
    let found = ask(client, sql, &[&of.0, &of.1]).await?;
    match found.first() {
        Some(row) => decode::json(row, 0),
        None => Err(Failure::Damaged(format!("revision {} of workflow {} is gone", of.1, of.0))),
    }
}

macro_rules! of_run {
    ($condition:literal) => {
        concat!("SELECT key, workflow, version FROM runs r WHERE ", $condition)
    };
}

const BY_OCCURRENCE: &str = of_run!("r.schedule = $1 AND r.n = $2 AND r.retry = $3");
const BY_UUID: &str = of_run!("r.uuid = $1");
const ALERTS: &str =
    "SELECT step, action, due, at, happened_at, ended, started, refused FROM alerts
     WHERE run = $1 ORDER BY happened_at, at, step, action";

pub(crate) async fn alerts(client: &Client, id: RunId) -> Result<Vec<AlertView>, Failure> {
    let run = match &id {
        RunId::Occurrence { schedule, n, retry } => {
            let (n, retry) = (i64::try_from(*n), i32::try_from(*retry));
            let (Ok(n), Ok(retry)) = (n, retry) else { return Ok(Vec::new()) };
            ask(client, BY_OCCURRENCE, &[&schedule.0, &n, &retry]).await?
        }
        RunId::Other(uuid) => ask(client, BY_UUID, &[&uuid::Uuid::from_u128(*uuid)]).await?,
    };
    let Some(run) = run.first() else { return Ok(Vec::new()) };
    let found = ask(client, ALERTS, &[&get::<i64>(run, 0)?]).await?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let definition = definition(client, (get(run, 1)?, get(run, 2)?)).await?;
    let mut started = Vec::new();
    for row in &found {
        started.extend(decode::json::<Vec<i64>>(row, 6)?);
    }
    let ids = run_ids(client, started).await?;
    found.iter().map(|row| alert(row, &definition, &ids)).collect()
}

fn alert(
    row: &Row,
    definition: &Definition,
    ids: &HashMap<i64, RunId>,
) -> Result<AlertView, Failure> {
    let step: i32 = get(row, 0)?;
    let started: Vec<i64> = decode::json(row, 6)?;
    Ok(AlertView {
        step: u32::try_from(step).ok().map(|step| view::step_id(definition, step)).transpose()?,
        action: small(row, 1)?,
        due: decode::instant(row, 2)?,
        at: decode::instant(row, 3)?,
        happened_at: decode::instant(row, 4)?,
        ended: decode::end(row, 5)?,
        started: started.iter().filter_map(|key| ids.get(key).cloned()).collect(),
        refused: get(row, 7)?,
    })
}

/// The ids of these runs, without those that are gone.
async fn run_ids(client: &Client, keys: Vec<i64>) -> Result<HashMap<i64, RunId>, Failure> {
    let sql = "SELECT key, schedule, uuid, n, retry FROM runs WHERE key = ANY($1)";
    let found = ask(client, sql, &[&keys]).await?;
    let read = |row: &Row| {
        let schedule = get::<Option<i64>>(row, 1)?.map(ScheduleId);
        Ok((get(row, 0)?, decode::run_id(row, schedule, [2, 3, 4])?))
    };
    found.iter().map(read).collect()
}

pub(crate) async fn queues(client: &Client) -> Result<Vec<QueueView>, Failure> {
    let sql = "SELECT queue, count(*) FROM queue GROUP BY queue ORDER BY queue";
    let read = |row: &Row| Ok(QueueView { name: get(row, 0)?, waiting: decode::natural(row, 1)? });
    ask(client, sql, &[]).await?.iter().map(read).collect()
}
