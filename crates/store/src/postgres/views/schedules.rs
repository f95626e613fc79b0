//! Views of schedules and their ledgers.

use deadpool_postgres::Client;
use engine::ledger::Outcome;
use engine::run::RunStatus;
use engine::schedule::Status;
use engine::{ScheduleId, WorkflowId};
use tokio_postgres::Row;

use crate::failure::Failure;
use crate::postgres::connections::query::{ask, many};
use crate::postgres::rows::columns::{of_ledger, of_schedule};
use crate::postgres::rows::decode;
use crate::postgres::rows::decode::{LEDGER_COLUMNS, get, narrow};
use crate::postgres::transaction::load::{OVERRIDES, read_override};
use crate::postgres::views::search;
use crate::set_aside::if_readable;
use crate::stored::{BLOCK, ms};
use crate::view::{self, Cursor, LedgerQuery, LedgerRow, Page, ScheduleQuery, ScheduleView, Total};
use crate::words::words;

const BY_ID: &str = concat!(
    "SELECT ",
    of_schedule!(),
    ", w.name, w.paused FROM unnest($1::bigint[]) WITH ORDINALITY AS u (id, place)
     JOIN progress p ON p.id = u.id JOIN schedules s ON s.id = u.id
     JOIN workflows w ON w.id = s.workflow ORDER BY u.place"
);

fn read_view(row: &Row) -> Result<ScheduleView, Failure> {
    let workflow_name = get(row, decode::SCHEDULE_COLUMNS)?;
    let workflow_is_paused = get(row, decode::SCHEDULE_COLUMNS + 1)?;
    let (schedule, overrides) = (decode::schedule(row)?, Vec::new());
    Ok(ScheduleView { schedule, workflow_name, workflow_is_paused, overrides })
}

/// Adds the overrides of the schedules that have some.
async fn with_overrides(client: &Client, views: &mut [ScheduleView]) -> Result<(), Failure> {
    let overridden = views.iter().filter(|view| view.schedule.progress.has_overrides);
    let ids: Vec<i64> = overridden.map(|view| view.schedule.id.0).collect();
    if ids.is_empty() {
        return Ok(());
    }
    for row in &ask(client, OVERRIDES, &[&ids]).await? {
        let id = ScheduleId(get(row, 0)?);
        let known = read_override(row)?;
        let of = views.iter_mut().filter(|view| view.schedule.id == id);
        of.for_each(|view| view.overrides.push(known.clone()));
    }
    Ok(())
}

pub(crate) async fn schedule(
    client: &Client,
    id: ScheduleId,
) -> Result<Option<ScheduleView>, Failure> {
    let found = ask(client, BY_ID, &[&vec![id.0]]).await?;
    let mut views = found.iter().map(read_view).collect::<Result<Vec<_>, _>>()?;
    with_overrides(client, &mut views).await?;
    Ok(views.pop())
}

pub(crate) async fn by_id(
    client: &Client,
    ids: Vec<ScheduleId>,
) -> Result<Vec<ScheduleView>, Failure> {
    let ids: Vec<i64> = ids.into_iter().map(|id| id.0).collect();
    let mut all = Vec::with_capacity(ids.len());
    for row in &ask(client, BY_ID, &[&ids]).await? {
        all.extend(if_readable(read_view(row))?);
    }
    with_overrides(client, &mut all).await?;
    Ok(all)
}

pub(crate) async fn triggered(
    client: &Client,
    workflow: WorkflowId,
) -> Result<Vec<ScheduleView>, Failure> {
    let sql = "SELECT id FROM schedules WHERE workflow = $1 AND trigger IS NOT NULL ORDER BY id";
    let found = ask(client, sql, &[&workflow.0]).await?;
    by_id(client, read_ids(&found)?).await
}

pub(crate) async fn coming(client: &Client, limit: usize) -> Result<Vec<ScheduleView>, Failure> {
    let sql = "SELECT p.id FROM progress p JOIN schedules s ON s.id = p.id
               JOIN workflows w ON w.id = s.workflow AND NOT w.paused
               WHERE p.wake_at IS NOT NULL ORDER BY p.wake_at, p.id LIMIT $1";
    let found = ask(client, sql, &[&many(limit)]).await?;
    by_id(client, read_ids(&found)?).await
}

fn read_ids(found: &[Row]) -> Result<Vec<ScheduleId>, Failure> {
    found.iter().map(|row| get(row, 0).map(ScheduleId)).collect()
}

pub(crate) async fn schedules(
    client: &Client,
    query: ScheduleQuery,
) -> Result<Page<ScheduleView>, Failure> {
    match query.search.as_deref().map(|text| words(text).collect::<Vec<_>>()) {
        Some(words) if !words.is_empty() => search::search(client, &query, &words).await,
        Some(_) => Ok(Page { items: Vec::new(), total: Total::Exact(0), next: None }),
        None => list(client, &query).await,
    }
}

async fn list(client: &Client, query: &ScheduleQuery) -> Result<Page<ScheduleView>, Failure> {
    let mut ids = listed_ids(client, query).await?;
    let has_more = ids.len() > query.limit;
    ids.truncate(query.limit);
    let next = ids.last().filter(|_| has_more).map(|id| Cursor::Number(id.0));
    let items = by_id(client, ids).await?;
    Ok(Page { items, total: Total::Exact(count(client, query).await?), next })
}

macro_rules! of_workflow_and_status {
    ($status:literal) => {
        concat!(
            "(SELECT id FROM schedules WHERE workflow = $4 AND status = ",
            $status,
            " AND id > $1 ORDER BY id)"
        )
    };
}

/// Merges the statuses, because the index orders by status first.
const OF_WORKFLOW: &str = concat!(
    "SELECT id FROM (",
    of_workflow_and_status!("0"),
    " UNION ALL ",
    of_workflow_and_status!("1"),
    " UNION ALL ",
    of_workflow_and_status!("2"),
    " UNION ALL ",
    of_workflow_and_status!("3"),
    ") s ORDER BY id LIMIT $2 OFFSET $3"
);
const OF_WORKFLOW_AND_STATUS: &str = "SELECT id FROM schedules
     WHERE workflow = $4 AND status = $5 AND id > $1 ORDER BY id LIMIT $2 OFFSET $3";
const OF_STATUS: &str =
    "SELECT id FROM schedules WHERE status = $4 AND id > $1 ORDER BY id LIMIT $2 OFFSET $3";
const OF_ALL: &str = "SELECT id FROM schedules WHERE id > $1 ORDER BY id LIMIT $2 OFFSET $3";

/// The ids of a page, and one more.
async fn listed_ids(client: &Client, query: &ScheduleQuery) -> Result<Vec<ScheduleId>, Failure> {
    let Some((after, offset)) = start(client, query).await? else { return Ok(Vec::new()) };
    let limit = many(query.limit.saturating_add(1));
    let status = status_code(query);
    let found = match (query.workflow.map(|workflow| workflow.0), status) {
        (Some(workflow), Some(status)) => {
            let params: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
                [&after, &limit, &offset, &workflow, &status];
            ask(client, OF_WORKFLOW_AND_STATUS, &params).await?
        }
        (Some(workflow), None) => {
            ask(client, OF_WORKFLOW, &[&after, &limit, &offset, &workflow]).await?
        }
        (None, Some(status)) => ask(client, OF_STATUS, &[&after, &limit, &offset, &status]).await?,
        (None, None) => ask(client, OF_ALL, &[&after, &limit, &offset]).await?,
    };
    read_ids(&found)
}

fn status_code(query: &ScheduleQuery) -> Option<i16> {
    query.status.map(|status| narrow(&Status::ALL, status))
}

/// The block that holds the schedule at this offset, and how many schedules are before the block.
const DEEP: &str = "SELECT block, (up_to - count)::bigint FROM (
       SELECT block, sum(count) AS count, sum(sum(count)) OVER (ORDER BY block) AS up_to
       FROM schedule_blocks WHERE $1::smallint IS NULL OR status = $1 GROUP BY block) b
     WHERE up_to > $2::bigint ORDER BY block LIMIT 1";

/// Where a page begins: this many schedules after the schedule with this id. A large offset is
/// reached block by block, and then one by one inside its block; `None` if it is beyond the last
/// block.
async fn start(client: &Client, query: &ScheduleQuery) -> Result<Option<(i64, i64)>, Failure> {
    let offset = i64::try_from(query.offset).unwrap_or(i64::MAX);
    let after = view::number(query.after.as_ref());
    if offset < BLOCK || after.is_some() || query.workflow.is_some() {
        return Ok(Some((after.unwrap_or(i64::MIN), offset)));
    }
    let found = ask(client, DEEP, &[&status_code(query), &offset]).await?;
    let Some(row) = found.first() else { return Ok(None) };
    let (block, before): (i64, i64) = (get(row, 0)?, get(row, 1)?);
    Ok(Some((block * BLOCK - 1, offset - before)))
}

async fn count(client: &Client, query: &ScheduleQuery) -> Result<u64, Failure> {
    let workflow = query.workflow.map_or(0, |workflow| workflow.0);
    let sql = "SELECT coalesce(sum(count), 0)::bigint FROM schedule_counts
               WHERE workflow = $1 AND ($2::smallint IS NULL OR status = $2)";
    let found = ask(client, sql, &[&workflow, &status_code(query)]).await?;
    found.first().map_or(Ok(0), |row| decode::natural(row, 0))
}

/// Selects the page first, and then the run of each of its rows.
const LEDGER_PAGE: &str = concat!(
    "SELECT ",
    of_ledger!(),
    ", r.uuid, r.n, r.retry, r.status, r.schedule FROM (
       SELECT * FROM ledger WHERE schedule = $1 AND n < $2
         AND ($3::smallint IS NULL OR outcome = $3)
         AND ($4::bigint IS NULL OR greatest(last_nominal, effective) >= $4)
         AND ($5::bigint IS NULL OR least(nominal, effective) <= $5)
       ORDER BY n DESC LIMIT $6) l
     LEFT JOIN LATERAL (
       SELECT uuid, n, retry, status, schedule FROM open_runs WHERE key = l.run
       UNION ALL SELECT uuid, n, retry, status, schedule FROM ended_runs WHERE key = l.run) r
       ON true
     ORDER BY l.n DESC"
);

pub(crate) async fn ledger(
    client: &Client,
    query: LedgerQuery,
) -> Result<Page<LedgerRow>, Failure> {
    let before = view::number(query.after.as_ref()).unwrap_or(i64::MAX);
    let outcome = query.outcome.map(|outcome| narrow(&Outcome::ALL, outcome));
    let (from, to) = (query.from.map(ms), query.to.map(ms));
    let limit = many(query.limit.saturating_add(1));
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
        [&query.schedule.0, &before, &outcome, &from, &to, &limit];
    let found = ask(client, LEDGER_PAGE, &params).await?;
    let mut items = found.iter().map(ledger_row).collect::<Result<Vec<_>, _>>()?;
    let has_more = items.len() > query.limit;
    items.truncate(query.limit);
    let last = items.last().filter(|_| has_more);
    let next = last.and_then(|row| i64::try_from(row.entry.n).ok()).map(Cursor::Number);
    let found = ask(client, "SELECT n FROM progress WHERE id = $1", &[&query.schedule.0]).await?;
    let total: Option<u64> = found.first().map(|row| decode::natural(row, 0)).transpose()?;
    let plain = query.outcome.is_none() && query.from.is_none() && query.to.is_none();
    let total = match total {
        Some(total) if plain => Total::AtLeast(total),
        _ => Total::AtLeast(items.len() as u64),
    };
    Ok(Page { items, total, next })
}

fn ledger_row(row: &Row) -> Result<LedgerRow, Failure> {
    const UUID: usize = LEDGER_COLUMNS;
    const STATUS: usize = UUID + 3;
    let run = match get::<Option<i16>>(row, STATUS)? {
        None => None,
        Some(_) => {
            let schedule = get::<Option<i64>>(row, STATUS + 1)?.map(ScheduleId);
            let id = decode::run_id(row, schedule, [UUID, UUID + 1, UUID + 2])?;
            Some((id, decode::coded(row, STATUS, &RunStatus::ALL)?))
        }
    };
    Ok(LedgerRow { entry: decode::entry(row)?, run })
}
