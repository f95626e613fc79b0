//! Figures for people and metrics: counts, tallies of minutes, and nodes.

use std::collections::HashMap;

use engine::NodeId;
use engine::notices::NAME;
use engine::run::{Activity, RunState, RunStatus};
use engine::schedule::Status;
use engine::turn::Recovered;
use jiff::Timestamp;

use crate::codes::sql;
use crate::failure::Failure;
use crate::rows::{Row as _, columns};
use crate::stored::{code, ms};
use crate::tally::{Tally, minutes};
use crate::view::{NodeView, PAUSED_SHOWN, Stats};
use crate::views::{Reader, params};

/// Due wakeups are counted up to this many: beyond it, "many" is enough.
const DUE_COUNTED: i64 = 100_000;

/// How many wakeups are due, and the earliest. On PostgreSQL a node whose lease has run out is due
/// as well.
const WAKEUPS_SQLITE: &str = sql!(
    "SELECT (SELECT count(*) FROM (SELECT 1 FROM wakeups
       WHERE kind IN ({run_wakeup}, {schedule_wakeup}, {node_wakeup}, {handler_wakeup})
         AND due <= $1 LIMIT $2)),
     (SELECT min(due) FROM (
        SELECT min(due) AS due FROM wakeups WHERE kind = {run_wakeup}
        UNION ALL SELECT min(due) FROM wakeups WHERE kind = {schedule_wakeup}
        UNION ALL SELECT min(due) FROM wakeups WHERE kind = {node_wakeup}
        UNION ALL SELECT min(due) FROM wakeups WHERE kind = {handler_wakeup}))"
);
const WAKEUPS_POSTGRES: &str = "SELECT
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

pub(crate) async fn stats<R: Reader>(reader: &R, now: Timestamp) -> Result<Stats, Failure> {
    let sql = "SELECT status, CAST(sum(count) AS bigint) FROM schedule_counts
               WHERE workflow = 0 GROUP BY status";
    let counted = reader.all(sql, &[], |row| row.tuple()).await?;
    let schedules = Status::ALL.map(|status| (status, of_status(&counted, &Status::ALL, status)));
    // SQLite uses the index only where its own condition is repeated.
    let sql = R::either(
        sql!(
            "SELECT status, count(*) FROM runs INDEXED BY runs_open
              WHERE status {open} GROUP BY status"
        ),
        "SELECT status, count(*) FROM open_runs GROUP BY status",
    );
    let counted = reader.all(sql, &[], |row| row.tuple()).await?;
    let open = RunStatus::ALL.into_iter().filter(|status| !status.has_ended());
    let runs = open.map(|status| (status, of_status(&counted, &RunStatus::ALL, status))).collect();
    let sql = R::either(WAKEUPS_SQLITE, WAKEUPS_POSTGRES);
    let wakeups = reader.one(sql, &params![ms(now), DUE_COUNTED], |row| row.tuple()).await?;
    let (due, next_wakeup) = wakeups.unwrap_or_default();
    let bytes = R::either(
        "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
        "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
         WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'S')",
    );
    let incidents = format!(
        "SELECT count(*) FROM incidents {} WHERE ended_at IS NULL",
        R::indexed_by("incidents_open")
    );
    let paused = format!(
        "workflows {} WHERE paused_reason IS NOT NULL",
        R::indexed_by("workflows_paused_for")
    );
    let latest_paused = format!(
        "SELECT name, paused_reason, updated_at FROM {paused} ORDER BY updated_at DESC LIMIT $1"
    );
    Ok(Stats {
        schedules: schedules.into(),
        runs,
        approvals: reader.count("SELECT count(*) FROM approvals", &[]).await?,
        incidents: reader.count(&incidents, &[]).await?,
        workflows: reader
            .count("SELECT count(*) FROM workflows WHERE name <> $1", &params![NAME])
            .await?,
        paused_workflows: reader.count(&format!("SELECT count(*) FROM {paused}"), &[]).await?,
        latest_paused: reader
            .all(&latest_paused, &params![PAUSED_SHOWN], |row| row.tuple())
            .await?,
        due,
        next_wakeup,
        bytes: reader.count(bytes, &[]).await?,
    })
}

fn of_status<T: PartialEq + Copy>(counted: &[(i64, u64)], all: &[T], status: T) -> u64 {
    let code = code(all, status);
    counted.iter().find(|(known, _)| *known == code).map_or(0, |(_, count)| *count)
}

pub(crate) async fn tallies(
    reader: &impl Reader,
    from: Timestamp,
    to: Timestamp,
) -> Result<Vec<Tally>, Failure> {
    let (first, end) = minutes(from, to);
    let sql = "SELECT minute, kind, CAST(sum(count) AS bigint) FROM tallies
               WHERE minute >= $1 AND minute < $2 GROUP BY minute, kind ORDER BY minute, kind";
    let params = params![first, end];
    let tallies = reader.all(sql, &params, |row| {
        let (minute, kind, count) = row.tuple()?;
        Ok(Tally::read(minute, kind, count))
    });
    Ok(tallies.await?.into_iter().flatten().collect())
}

columns! {
    node_columns = n nodes: id, name, started_at, seen_at, lease_until, capacity, missed, made_up,
        coalesced, taken_over;
}

pub(crate) async fn nodes<R: Reader>(reader: &R) -> Result<Vec<NodeView>, Failure> {
    let sql = R::either(
        sql!(
            "SELECT state FROM runs INDEXED BY runs_open
              WHERE status {open} AND status = {running} AND owners IS NOT NULL"
        ),
        sql!("SELECT state FROM open_runs WHERE status = {running} AND owners IS NOT NULL"),
    );
    let mut attempts: HashMap<NodeId, u64> = HashMap::new();
    // A run that cannot be read is set aside, and performed by nobody.
    let positions = reader.all(sql, &[], |row| Ok(row.single_json::<RunState>().ok())).await?;
    for owner in
        positions.iter().flatten().flat_map(|position| &position.active).filter_map(Activity::owner)
    {
        *attempts.entry(owner).or_default() += 1;
    }
    let from = R::either(
        // The node that is alive: the one that joined last, which holds the file's lock.
        "(SELECT *, NULL AS seen_at, NULL AS lease_until, NULL AS capacity FROM nodes
          ORDER BY id DESC LIMIT 1)",
        "nodes",
    );
    let sql = format!("SELECT {} FROM {from} n ORDER BY id", node_columns!());
    let nodes = reader.all(&sql, &[], |row| {
        use node_columns as column;
        let id = row.read(column::id)?;
        Ok(NodeView {
            id,
            name: row.read(column::name)?,
            started_at: row.read(column::started_at)?,
            seen_at: row.read(column::seen_at)?,
            lease_until: row.read(column::lease_until)?,
            capacity: row.read(column::capacity)?,
            attempts: attempts.get(&id).copied().unwrap_or(0),
            recovered: Recovered {
                missed: row.read(column::missed)?,
                made_up: row.read(column::made_up)?,
                coalesced: row.read(column::coalesced)?,
                taken_over: row.read(column::taken_over)?,
            },
        })
    });
    nodes.await
}
