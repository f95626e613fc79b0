//! Measures how fast PostgreSQL claims, inserts and commits when nothing has to be decided: with
//! minimal tables, and with the records that a scheduler keeps.

use std::time::Duration;

use futures_util::SinkExt as _;
use server::Stopwatch;
use tokio_postgres::Client;

use super::report::Figure;
use super::store_target::{StoreTarget, broken, connect};
use crate::failure::Failure;

/// Rows in one transaction.
const BATCH: i64 = 1_000;
/// Rows that wait to be claimed.
const WAITING: i64 = 100_000;

/// Raw limits per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct PostgresLimits {
    pub(super) commits: f64,
    pub(super) copied: f64,
    pub(super) claimed: f64,
    pub(super) claimed_and_inserted: f64,
    /// In the tables of the store itself: a schedule's row is claimed and advanced, and a run's row
    /// inserted.
    pub(super) recorded: f64,
}

impl PostgresLimits {
    pub(super) async fn measure(
        url: &str,
        schema: &str,
        during: Duration,
    ) -> Result<PostgresLimits, Failure> {
        // Measured for longer than the others, because fires are compared with it.
        let recorded = recorded(url, &format!("{schema}_records"), 3 * during).await?;
        let client = connect(url).await?;
        let schema = format!("{schema}_limits");
        let make = format!(
            "DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema};
             SET search_path = {schema}; SET enable_seqscan = off;
             CREATE TABLE commits (a bigint PRIMARY KEY);
             CREATE TABLE copied (a bigint PRIMARY KEY, b text);
             CREATE TABLE waiting (id bigint PRIMARY KEY, due bigint NOT NULL) WITH (fillfactor = 70);
             CREATE INDEX waiting_by_due ON waiting (due, id);
             CREATE TABLE inserted (id bigint PRIMARY KEY, b text);
             INSERT INTO waiting SELECT i, i FROM generate_series(1, {WAITING}) i;
             ANALYZE waiting"
        );
        client.batch_execute(&make).await.map_err(broken)?;
        let measured = PostgresLimits {
            commits: commits(&client, during).await?,
            copied: copied(&client, during).await?,
            claimed: claimed(&client, during, false).await?,
            claimed_and_inserted: claimed(&client, during, true).await?,
            recorded,
        };
        let drop = format!("DROP SCHEMA {schema} CASCADE");
        client.batch_execute(&drop).await.map_err(broken)?;
        Ok(measured)
    }

    pub(super) fn figures(&self) -> Vec<Figure> {
        let figure = |name: &str, value| Figure::new("limits", name, value, "per s");
        vec![
            figure("commits of one row", self.commits),
            figure("rows of 200 bytes copied, 1 000 in a commit", self.copied),
            figure("rows claimed and moved on, 1 000 in a commit", self.claimed),
            figure("the same, each with a row inserted", self.claimed_and_inserted),
            figure("schedules claimed, moved on and their runs inserted", self.recorded),
        ]
    }
}

async fn commits(client: &Client, during: Duration) -> Result<f64, Failure> {
    let insert = client.prepare("INSERT INTO commits VALUES ($1)").await.map_err(broken)?;
    let (watch, mut count) = (Stopwatch::start(), 0_i64);
    while watch.elapsed() < during {
        client.execute(&insert, &[&count]).await.map_err(broken)?;
        count += 1;
    }
    Ok(count as f64 / watch.elapsed().as_secs_f64())
}

async fn copied(client: &Client, during: Duration) -> Result<f64, Failure> {
    let (watch, mut count) = (Stopwatch::start(), 0_i64);
    while watch.elapsed() < during {
        let mut text = String::new();
        for row in count..count + BATCH {
            use std::fmt::Write as _;
            // Writing into a string cannot fail.
            let _ = writeln!(text, "{row}\t{row:0200}");
        }
        let sink = client.copy_in("COPY copied FROM STDIN").await.map_err(broken)?;
        let mut sink = Box::pin(sink);
        sink.send(tokio_util::bytes::Bytes::from(text)).await.map_err(broken)?;
        sink.as_mut().finish().await.map_err(broken)?;
        count += BATCH;
    }
    Ok(count as f64 / watch.elapsed().as_secs_f64())
}

/// Claims due rows and moves them behind all others. With `inserts`, also inserts a record of each.
async fn claimed(client: &Client, during: Duration, inserts: bool) -> Result<f64, Failure> {
    let claim = "WITH due AS (SELECT id FROM waiting WHERE due <= 9000000000000000
                   ORDER BY due, id LIMIT $1 FOR UPDATE SKIP LOCKED)
                 UPDATE waiting w SET due = w.due + 100000000 FROM due WHERE w.id = due.id
                 RETURNING w.id + w.due";
    let claim = client.prepare(claim).await.map_err(broken)?;
    let insert =
        "INSERT INTO inserted SELECT id, repeat('x', 200) FROM unnest($1::bigint[]) AS u (id)
                  ON CONFLICT DO NOTHING";
    let insert = client.prepare(insert).await.map_err(broken)?;
    let (watch, mut count) = (Stopwatch::start(), 0);
    while watch.elapsed() < during {
        client.batch_execute("BEGIN").await.map_err(broken)?;
        let rows = client.query(&claim, &[&BATCH]).await.map_err(broken)?;
        if inserts {
            let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
            client.execute(&insert, &[&ids]).await.map_err(broken)?;
        }
        client.batch_execute("COMMIT").await.map_err(broken)?;
        count += rows.len();
    }
    Ok(count as f64 / watch.elapsed().as_secs_f64())
}

// The rows are as long as those that the store writes.
const WAITING_SCHEDULES: &str =
    "INSERT INTO progress (id, wake_at, anchor, mark, next_nominal, next_effective,
    n, current_repeat, current_retry, run_count, error_count, has_overrides, version)
  SELECT i, i, 0, 0, i, i, 0, 0, 0, 0, 0, false, 0 FROM generate_series(1, $1::bigint) i";
const CLAIM_SCHEDULES: &str =
    "WITH due AS (SELECT id FROM progress WHERE wake_at <= 9000000000000000
    ORDER BY wake_at, id LIMIT $1 FOR UPDATE SKIP LOCKED)
  UPDATE progress p SET wake_at = p.wake_at + 100000000, mark = p.wake_at, n = p.n + 1,
    next_nominal = p.wake_at + 100000000, next_effective = p.wake_at + 100000000,
    run_count = p.run_count + 1, last_run_at = p.wake_at, stamp = 1,
    live = '[[{\"r\":{\"o\":{\"n\":0,\"a\":1794822403167,\"e\":1794822403167},\"t\":0,\"k\":90112}}],[]]'
  FROM due WHERE p.id = due.id RETURNING p.id, p.n, p.mark";
const INSERT_RUNS: &str = "INSERT INTO open_runs (key, workflow, version, schedule, n, retry, triggered_by,
    nominal, effective, status, created_at, started_at, timeout, state, owners, waits_for_slot, overdue,
    input, wake_at)
  SELECT nextval('run_blocks'), u.id % 100, 1, u.id, u.n, 0, 0, u.due, u.due, 1, u.due, u.due, 3600000,
    '{\"s\":\"a\",\"t\":1,\"a\":[{\"s\":0,\"n\":1,\"at\":1,\"d\":{\"p\":{\"t\":1,\"s\":1,\"o\":1}}}]}',
    '{1}', false, false, '{\"payload\":{\"customer\":1000049999},\"schedule_id\":\"60000\",\"n\":0,\"retry\":0,
    \"nominal_at\":\"2026-11-16T09:02:01.946Z\",\"effective_at\":\"2026-11-16T09:02:01.946Z\"}', u.due + 3600000
  FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u (id, n, due)";

/// The rate at which a scheduler with these records and indexes could begin runs at best.
async fn recorded(url: &str, schema: &str, during: Duration) -> Result<f64, Failure> {
    let target = StoreTarget::Postgres { url: url.to_owned(), schema: schema.to_owned() };
    // Opening the store creates the tables.
    drop(target.open().await?);
    let client = connect(url).await?;
    let set = format!("SET search_path = {schema}; SET enable_seqscan = off");
    client.batch_execute(&set).await.map_err(broken)?;
    client.execute(WAITING_SCHEDULES, &[&WAITING]).await.map_err(broken)?;
    client.batch_execute("ANALYZE progress").await.map_err(broken)?;
    let claim = client.prepare(CLAIM_SCHEDULES).await.map_err(broken)?;
    let insert = client.prepare(INSERT_RUNS).await.map_err(broken)?;
    let (watch, mut count) = (Stopwatch::start(), 0);
    while watch.elapsed() < during {
        client.batch_execute("BEGIN").await.map_err(broken)?;
        let rows = client.query(&claim, &[&BATCH]).await.map_err(broken)?;
        let column = |at: usize| rows.iter().map(|row| row.get(at)).collect::<Vec<i64>>();
        let columns = (column(0), column(1), column(2));
        client.execute(&insert, &[&columns.0, &columns.1, &columns.2]).await.map_err(broken)?;
        client.batch_execute("COMMIT").await.map_err(broken)?;
        count += rows.len();
    }
    let rate = count as f64 / watch.elapsed().as_secs_f64();
    target.remove().await?;
    Ok(rate)
}
