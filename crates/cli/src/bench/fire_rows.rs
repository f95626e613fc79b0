//! Measures how fast SQLite writes the rows of a fire when nothing has to be decided: in the tables
//! of the store itself, with its indexes, the lengths of its rows, and its commits.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, Result, Statement, params};
use server::Stopwatch;

use super::process;
use super::store_target::StoreTarget;
use crate::failure::Failure;

/// Fires in one transaction, as in a turn of the driver.
const BATCH: i64 = 1_000;
/// Schedules that take turns to fire.
const SCHEDULES: i64 = 100_000;
/// How long after a fire the same schedule is due again, and its run is over time, in milliseconds.
const DAY: i64 = 86_400_000;
const TIMEOUT: i64 = 600_000;

// Values as long as those that the store writes.
const LIVE: &str =
    r#"[[{"r":{"o":{"n":0,"a":1794822403167,"e":1794822403167},"t":0,"k":90112}}],[]]"#;
const RUNNING: &str =
    r#"{"s":"a","t":1,"a":[{"s":0,"n":1,"at":1,"d":{"p":{"t":1,"s":1794822403167,"o":1}}}]}"#;
const ENDED: &str = r#"{"s":"c","t":1}"#;
const INPUT: &str = r#"{"payload":{"customer":1000049999},"schedule_id":"60000","schedule_name":"backup acme 1000049999","n":0,"retry":0,"nominal_at":"2026-11-16T09:02:01.946Z","effective_at":"2026-11-16T09:02:01.946Z"}"#;

const CLAIM: &str =
    "SELECT due, id FROM wakeups WHERE kind = 1 AND due <= ?1 ORDER BY due, id LIMIT ?2";
const WAKE: &str = "INSERT INTO wakeups (due, kind, id) VALUES (?1, ?2, ?3)";
const UNWAKE: &str = "DELETE FROM wakeups WHERE due = ?1 AND kind = ?2 AND id = ?3";
const ADVANCE: &str = "UPDATE progress SET mark = ?2, next_nominal = ?3, next_effective = ?3,
    n = n + 1, last_run_at = ?2, live = ?4 WHERE id = ?1";
const SETTLE: &str = "UPDATE progress SET current_repeat = current_repeat + 1, current_retry = 0,
    run_count = run_count + 1, last_outcome = 0, live = NULL WHERE id = ?1";
const BEGIN_RUN: &str = "INSERT INTO runs (key, workflow, version, schedule, n, retry, triggered_by,
    nominal, effective, status, created_at, started_at, timeout, state, owners, waits_for_slot, overdue,
    input) VALUES (?1, ?2 % 20, 1, ?2, ?3, 0, 0, ?4, ?4, 1, ?4, ?4, ?5, ?6, ',1,', 0, 0, ?7)";
const PASS: &str = "UPDATE progress SET mark = ?2, next_nominal = ?3, next_effective = ?3,
    n = n + 1, last_run_at = ?2, current_repeat = current_repeat + 1, current_retry = 0,
    run_count = run_count + 1, last_outcome = 0 WHERE id = ?1";
const ENDED_RUN: &str = "INSERT INTO runs (key, workflow, version, schedule, n, retry, triggered_by,
    nominal, effective, status, created_at, started_at, ended_at, timeout, state, waits_for_slot,
    overdue, input, output) VALUES (?1, ?2 % 20, 1, ?2, ?3, 0, 0, ?4, ?4, 4, ?4, ?4, ?4, ?5, ?6, 0, 0,
    ?7, 'null')";
const END_RUN: &str = "UPDATE runs SET status = 4, ended_at = ?2, state = ?3, owners = NULL,
    output = 'null' WHERE key = ?1";
const RECORD: &str = "INSERT INTO ledger
    (schedule, n, count, nominal, last_nominal, effective, decided_at, outcome, reason, run)
    VALUES (?1, ?2, 1, ?3, ?3, ?3, ?3, 0, 'due', ?4)";
const STEP: &str = "INSERT INTO steps
    (run, step, item, status, attempts, started_at, ended_at, output, overdue)
    VALUES (?1, 0, 0, 0, 1, ?2, ?2, 'null', 0)";
const COUNT: &str = "INSERT INTO tallies (minute, kind, count) VALUES (?1, ?2, ?3)
    ON CONFLICT DO UPDATE SET count = count + excluded.count";

/// How many commits a fire needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Commits {
    /// Nothing is performed: the run begins and ends in one.
    One,
    /// One before the run's step is performed, and one afterwards.
    Two,
}

/// Fires per second, and the CPU time of each in microseconds.
pub(super) async fn rate(
    dir: &Path,
    commits: Commits,
    during: Duration,
) -> Result<(f64, f64), Failure> {
    let folder = tempfile::tempdir_in(dir)?;
    let path = folder.path().join("rows.db");
    // Opening the store creates the tables.
    drop(StoreTarget::File(path.clone()).open().await?);
    let broken = |error: rusqlite::Error| Failure::Environment(error.to_string());
    let connection = Connection::open(&path).map_err(broken)?;
    let cpu = process::cpu_time()?;
    let measured = write(&connection, commits, during).map_err(broken);
    let cpu = process::cpu_time()?.saturating_sub(cpu);
    connection.close().map_err(|(_, error)| broken(error))?;
    let (count, took) = measured?;
    let count = count as f64;
    Ok((count / took.as_secs_f64(), cpu.as_secs_f64() * 1e6 / count))
}

/// Writes rows for a while. Returns for how many fires, and how long it took.
fn write(connection: &Connection, commits: Commits, during: Duration) -> Result<(i64, Duration)> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    declare(connection)?;
    let mut rows = FireRows::prepare(connection)?;
    let (watch, mut count) = (Stopwatch::start(), 0);
    let mut begun = Vec::new();
    while watch.elapsed() < during {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        for (key, schedule, due) in begun.drain(..) {
            rows.end(key, schedule, due)?;
        }
        let mut fires = 0;
        for (due, schedule) in rows.claim()? {
            count += 1;
            fires += 1;
            match commits {
                Commits::One => rows.begin_and_end(count, schedule, due)?,
                Commits::Two => {
                    rows.begin(count, schedule, due)?;
                    begun.push((count, schedule, due));
                }
            }
        }
        rows.count(fires)?;
        connection.execute_batch("COMMIT")?;
    }
    Ok((count, watch.elapsed()))
}

/// Writes the rows of schedules that are all due.
fn declare(connection: &Connection) -> Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let mut progress = connection.prepare(
        "INSERT INTO progress (id, anchor, mark, next_nominal, next_effective, n, current_repeat,
         current_retry, run_count, error_count, has_overrides) VALUES (?1, ?1, ?1, ?1, ?1, 0, 0, 0, 0, 0, 0)",
    )?;
    let mut wake = connection.prepare(WAKE)?;
    for id in 1..=SCHEDULES {
        progress.execute([id])?;
        wake.execute([id, 1, id])?;
    }
    connection.execute_batch("COMMIT")
}

/// The statements of a fire, prepared.
struct FireRows<'c> {
    claim: Statement<'c>,
    wake: Statement<'c>,
    unwake: Statement<'c>,
    advance: Statement<'c>,
    pass: Statement<'c>,
    settle: Statement<'c>,
    begin_run: Statement<'c>,
    end_run: Statement<'c>,
    ended_run: Statement<'c>,
    record: Statement<'c>,
    step: Statement<'c>,
    count: Statement<'c>,
}

impl<'c> FireRows<'c> {
    fn prepare(connection: &'c Connection) -> Result<FireRows<'c>> {
        Ok(FireRows {
            claim: connection.prepare(CLAIM)?,
            wake: connection.prepare(WAKE)?,
            unwake: connection.prepare(UNWAKE)?,
            advance: connection.prepare(ADVANCE)?,
            pass: connection.prepare(PASS)?,
            settle: connection.prepare(SETTLE)?,
            begin_run: connection.prepare(BEGIN_RUN)?,
            end_run: connection.prepare(END_RUN)?,
            ended_run: connection.prepare(ENDED_RUN)?,
            record: connection.prepare(RECORD)?,
            step: connection.prepare(STEP)?,
            count: connection.prepare(COUNT)?,
        })
    }

    fn claim(&mut self) -> Result<Vec<(i64, i64)>> {
        let due = self.claim.query_map([i64::MAX, BATCH], |row| Ok((row.get(0)?, row.get(1)?)))?;
        due.collect()
    }

    fn begin(&mut self, key: i64, schedule: i64, due: i64) -> Result<()> {
        let n = key / SCHEDULES;
        self.unwake.execute([due, 1, schedule])?;
        self.wake.execute([due + DAY, 1, schedule])?;
        self.advance.execute(params![schedule, due, due + DAY, LIVE])?;
        self.begin_run.execute(params![key, schedule, n, due, TIMEOUT, RUNNING, INPUT])?;
        self.wake.execute([due + TIMEOUT, 0, key])?;
        self.record.execute([schedule, n, due, key])?;
        Ok(())
    }

    fn end(&mut self, key: i64, schedule: i64, due: i64) -> Result<()> {
        self.end_run.execute(params![key, due, ENDED])?;
        self.unwake.execute([due + TIMEOUT, 0, key])?;
        self.step.execute([key, due])?;
        self.settle.execute([schedule])?;
        Ok(())
    }

    fn begin_and_end(&mut self, key: i64, schedule: i64, due: i64) -> Result<()> {
        let n = key / SCHEDULES;
        self.unwake.execute([due, 1, schedule])?;
        self.wake.execute([due + DAY, 1, schedule])?;
        self.pass.execute([schedule, due, due + DAY])?;
        self.ended_run.execute(params![key, schedule, n, due, TIMEOUT, ENDED, INPUT])?;
        self.record.execute([schedule, n, due, key])?;
        self.step.execute([key, due])?;
        Ok(())
    }

    /// Counts what was decided and what has ended in a minute.
    fn count(&mut self, fires: usize) -> Result<()> {
        for kind in [0, 20] {
            self.count.execute(params![1, kind, fires])?;
        }
        Ok(())
    }
}
