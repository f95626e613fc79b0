//! Views of schedules and their ledgers.

use std::collections::HashMap;

use engine::ledger::Outcome;
use engine::schedule::{Override, Status};
use engine::{ScheduleId, WorkflowId};
use jiff::Timestamp;

use crate::codes::sql;
use crate::failure::Failure;
use crate::rows::{
    self, Read, Row as _, ledger_row_columns, override_columns, schedule_view_columns,
};
use crate::set_aside::if_readable;
use crate::stored::{BLOCK, code, ms};
use crate::view::{self, Cursor, LedgerQuery, LedgerRow, Page, ScheduleQuery, ScheduleView, Total};
use crate::views::{Conditions, Reader, params, search};
use crate::words::words;

/// Several schedules, in the order of `ids`; unknown ids are left out.
async fn each<R: Reader>(
    reader: &R,
    ids: &[ScheduleId],
) -> Result<Vec<Read<ScheduleView>>, Failure> {
    let (from, order) = R::either(
        (
            "json_each($1) u CROSS JOIN progress p ON p.id = u.value
             CROSS JOIN schedules s ON s.id = u.value CROSS JOIN workflows w ON w.id = s.workflow",
            "u.key",
        ),
        (
            "unnest($1::bigint[]) WITH ORDINALITY AS u (id, position)
             JOIN progress p ON p.id = u.id JOIN schedules s ON s.id = u.id
             JOIN workflows w ON w.id = s.workflow",
            "u.position",
        ),
    );
    let sql = format!("SELECT {} FROM {from} ORDER BY {order}", schedule_view_columns!());
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let params = params![ids.as_slice()];
    let mut views = reader.all(&sql, &params, |row| Ok(rows::schedule_view(row))).await?;
    let readable = || views.iter().filter_map(|view| view.as_ref().ok());
    let overridden = readable().filter(|view| view.schedule.progress.has_overrides);
    let overridden: Vec<i64> = overridden.map(|view| view.schedule.id.0).collect();
    if overridden.is_empty() {
        return Ok(views);
    }
    let mut overrides = overrides(reader, &overridden).await?;
    for view in views.iter_mut().filter_map(|view| view.as_mut().ok()) {
        let changed = overrides.remove(&view.schedule.id).unwrap_or_default();
        (view.overrides, view.unreadable_overrides) = changed;
    }
    Ok(views)
}

/// The overrides of these schedules, and the nominal times of those that cannot be read.
async fn overrides<R: Reader>(
    reader: &R,
    schedules: &[i64],
) -> Result<HashMap<ScheduleId, (Vec<Override>, Vec<Timestamp>)>, Failure> {
    let sql = format!(
        "SELECT {} FROM overrides o WHERE schedule {} ORDER BY schedule, nominal",
        override_columns!(),
        R::among("$1")
    );
    let params = params![schedules];
    let found = reader.all(&sql, &params, |row| {
        Ok((if_readable(rows::overridden(row))?, if_readable(rows::occurrence_override(row))?))
    });
    let mut overrides: HashMap<ScheduleId, (Vec<Override>, Vec<Timestamp>)> = HashMap::new();
    for (of, read) in found.await? {
        // An override without a readable time is of no occurrence that anyone could name.
        let Some((schedule, nominal)) = of else { continue };
        let (known, unreadable) = overrides.entry(schedule).or_default();
        match read {
            Some(read) => known.push(read),
            None => unreadable.push(nominal),
        }
    }
    Ok(overrides)
}

pub(crate) async fn schedule(
    reader: &impl Reader,
    id: ScheduleId,
) -> Result<Option<ScheduleView>, Failure> {
    each(reader, &[id]).await?.pop().transpose()
}

pub(crate) async fn by_id(
    reader: &impl Reader,
    ids: &[ScheduleId],
) -> Result<Vec<ScheduleView>, Failure> {
    let mut readable = Vec::with_capacity(ids.len());
    for view in each(reader, ids).await? {
        readable.extend(if_readable(view)?);
    }
    Ok(readable)
}

pub(crate) async fn triggered<R: Reader>(
    reader: &R,
    workflow: WorkflowId,
) -> Result<Vec<ScheduleView>, Failure> {
    let sql = format!(
        "SELECT id FROM schedules {} WHERE workflow = $1 AND trigger IS NOT NULL ORDER BY id",
        R::indexed_by("schedules_by_trigger")
    );
    let ids = reader.all(&sql, &params![workflow], |row| row.single()).await?;
    by_id(reader, &ids).await
}

pub(crate) async fn coming<R: Reader>(
    reader: &R,
    limit: usize,
) -> Result<Vec<ScheduleView>, Failure> {
    let sql = R::either(
        // `CROSS JOIN` makes the planner go by time, instead of beginning with the workflows.
        sql!(
            "SELECT u.id FROM wakeups u CROSS JOIN schedules s ON s.id = u.id
             CROSS JOIN workflows w ON w.id = s.workflow
             WHERE u.kind = {schedule_wakeup} AND NOT w.paused ORDER BY u.due, u.id LIMIT $1"
        ),
        "SELECT p.id FROM progress p JOIN schedules s ON s.id = p.id
         JOIN workflows w ON w.id = s.workflow AND NOT w.paused
         WHERE p.wake_at IS NOT NULL ORDER BY p.wake_at, p.id LIMIT $1",
    );
    let ids = reader.all(sql, &params![limit], |row| row.single()).await?;
    by_id(reader, &ids).await
}

pub(crate) async fn schedules(
    reader: &impl Reader,
    query: &ScheduleQuery,
) -> Result<Page<ScheduleView>, Failure> {
    match query.search.as_deref().map(|text| words(text).collect::<Vec<_>>()) {
        Some(words) if !words.is_empty() => search::search(reader, query, &words).await,
        Some(_) => Ok(Page::empty()),
        None => list(reader, query).await,
    }
}

async fn list(reader: &impl Reader, query: &ScheduleQuery) -> Result<Page<ScheduleView>, Failure> {
    let mut ids = listed_ids(reader, query).await?;
    let next = view::cut_to(&mut ids, query.limit).map(|id| Cursor::Number(id.0));
    let items = by_id(reader, &ids).await?;
    Ok(Page { items, total: Total::Exact(count(reader, query).await?), next })
}

/// The ids of a page, and one more.
async fn listed_ids<R: Reader>(
    reader: &R,
    query: &ScheduleQuery,
) -> Result<Vec<ScheduleId>, Failure> {
    let Some((after, offset)) = start(reader, query).await? else { return Ok(Vec::new()) };
    let mut conditions = Conditions::default();
    conditions.add("id >", after);
    let limit = conditions.bind(query.limit.saturating_add(1));
    let offset = conditions.bind(offset);
    conditions.add_some("workflow =", query.workflow);
    conditions.add_some("status =", status_code(query));
    let Conditions { sql: of, params } = conditions;
    let from = match (query.workflow, query.status) {
        (Some(_), Some(_)) => {
            format!(
                "SELECT id FROM schedules {} WHERE {of}",
                R::indexed_by("schedules_by_workflow")
            )
        }
        (Some(_), None) => of_each_status::<R>(&of),
        (None, Some(_)) => {
            format!("SELECT id FROM schedules {} WHERE {of}", R::indexed_by("schedules_by_status"))
        }
        (None, None) => {
            format!("SELECT id FROM {} WHERE {of}", R::either("progress", "schedules"))
        }
    };
    let sql = format!("{from} ORDER BY id LIMIT {limit} OFFSET {offset}");
    reader.all(&sql, &params, |row| row.single()).await
}

/// The schedules of one workflow: merges the statuses, because the index orders by status first.
fn of_each_status<R: Reader>(of: &str) -> String {
    let index = R::indexed_by("schedules_by_workflow");
    let of_status = |status| {
        let code = code(&Status::ALL, status);
        let select = format!("SELECT id FROM schedules {index} WHERE {of} AND status = {code}");
        R::either(select.clone(), format!("({select} ORDER BY id)"))
    };
    let merged = Status::ALL.map(of_status).join(" UNION ALL ");
    R::either(merged.clone(), format!("SELECT id FROM ({merged}) s"))
}

fn status_code(query: &ScheduleQuery) -> Option<i64> {
    query.status.map(|status| code(&Status::ALL, status))
}

/// The block that holds the schedule at this offset, and how many schedules are before the block.
const DEEP: &str = "SELECT block, CAST(up_to - count AS bigint) FROM (
       SELECT block, sum(count) AS count, sum(sum(count)) OVER (ORDER BY block) AS up_to
       FROM schedule_blocks WHERE CAST($1 AS smallint) IS NULL OR status = $1 GROUP BY block) b
     WHERE up_to > CAST($2 AS bigint) ORDER BY block LIMIT 1";

/// Where a page begins: this many schedules after the schedule with this id. A large offset is
/// reached block by block, and then one by one inside its block; `None` if it is beyond the last
/// block.
async fn start(reader: &impl Reader, query: &ScheduleQuery) -> Result<Option<(i64, i64)>, Failure> {
    let offset = i64::try_from(query.offset).unwrap_or(i64::MAX);
    let after = view::number(query.after.as_ref());
    if offset < BLOCK || after.is_some() || query.workflow.is_some() {
        return Ok(Some((after.unwrap_or(i64::MIN), offset)));
    }
    let params = params![status_code(query), offset];
    let found: Option<(i64, i64)> = reader.one(DEEP, &params, |row| row.tuple()).await?;
    Ok(found.map(|(block, before)| (block * BLOCK - 1, offset - before)))
}

async fn count(reader: &impl Reader, query: &ScheduleQuery) -> Result<u64, Failure> {
    let workflow = query.workflow.map_or(0, |workflow| workflow.0);
    let sql = "SELECT CAST(coalesce(sum(count), 0) AS bigint) FROM schedule_counts
               WHERE workflow = $1 AND (CAST($2 AS smallint) IS NULL OR status = $2)";
    reader.count(sql, &params![workflow, status_code(query)]).await
}

pub(crate) async fn ledger<R: Reader>(
    reader: &R,
    query: &LedgerQuery,
) -> Result<Page<LedgerRow>, Failure> {
    let (latest, earliest, runs) = R::either(
        ("max", "min", "LEFT JOIN runs r ON r.key = l.run"),
        (
            "greatest",
            "least",
            "LEFT JOIN LATERAL (
               SELECT key, uuid, n, retry, status, schedule FROM open_runs WHERE key = l.run
               UNION ALL
               SELECT key, uuid, n, retry, status, schedule FROM ended_runs WHERE key = l.run) r
             ON true",
        ),
    );
    // Selects the page first, and then the run of each of its rows.
    let sql = format!(
        "SELECT {} FROM (
           SELECT * FROM ledger WHERE schedule = $1 AND n < $2
             AND (CAST($3 AS smallint) IS NULL OR outcome = $3)
             AND (CAST($4 AS bigint) IS NULL OR {latest}(last_nominal, effective) >= $4)
             AND (CAST($5 AS bigint) IS NULL OR {earliest}(nominal, effective) <= $5)
           ORDER BY n DESC LIMIT $6) l
         {runs} ORDER BY l.n DESC",
        ledger_row_columns!()
    );
    let before = view::number(query.after.as_ref()).unwrap_or(i64::MAX);
    let outcome = query.outcome.map(|outcome| code(&Outcome::ALL, outcome));
    let (from, to) = (query.from.map(ms), query.to.map(ms));
    let limit = query.limit.saturating_add(1);
    let params = params![query.schedule, before, outcome, from, to, limit];
    let items = reader.all(&sql, &params, |row| rows::ledger_row(row)).await?;
    let sql = "SELECT n FROM progress WHERE id = $1";
    let decided = reader.one(sql, &params![query.schedule], |row| row.single()).await?;
    Ok(view::ledger_page(items, query, decided))
}
