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
/// Rows in one statement.
const TOGETHER: usize = 32;
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
const WAKE: Insert = Insert { into: "INSERT INTO wakeups (kind, due, id)", row: "?, ?, ?" };
const UNWAKE: &str = "DELETE FROM wakeups WHERE due = ?1 AND kind = ?2 AND id = ?3";
const ADVANCE: &str = "UPDATE progress SET mark = ?2, next_nominal = ?3, next_effective = ?3,
    n = n + 1, last_run_at = ?2, live = ?4 WHERE id = ?1";
const SETTLE: &str = "UPDATE progress SET current_repeat = current_repeat + 1, current_retry = 0,
    run_count = run_count + 1, last_outcome = 0, live = NULL WHERE id = ?1";
const PASS: &str = "UPDATE progress SET mark = ?2, next_nominal = ?3, next_effective = ?3,
    n = n + 1, last_run_at = ?2, current_repeat = current_repeat + 1, current_retry = 0,
    run_count = run_count + 1, last_outcome = 0 WHERE id = ?1";
const BEGIN_RUN: Insert = Insert {
    into: "INSERT OR FAIL INTO runs (key, workflow, schedule, n, nominal, effective, created_at,
    started_at, timeout, state, input, version, retry, triggered_by, status, owners,
    waits_for_slot, overdue)",
    row: "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, 0, 0, 1, ',1,', 0, 0",
};
const ENDED_RUN: Insert = Insert {
    into: "INSERT OR FAIL INTO runs (key, workflow, schedule, n, nominal, effective, created_at,
    started_at, timeout, ended_at, state, input, version, retry, triggered_by, status,
    waits_for_slot, overdue, output)",
    row: "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, 0, 0, 4, 0, 0, 'null'",
};
const END_RUN: &str = "UPDATE runs SET status = 4, ended_at = ?2, state = ?3, owners = NULL,
    output = 'null' WHERE key = ?1";
const RECORD: Insert = Insert {
    into: "INSERT INTO ledger (schedule, n, nominal, last_nominal, effective, decided_at, run,
    count, outcome, reason)",
    row: "?, ?, ?, ?, ?, ?, ?, 1, 0, 'due'",
};
const STEP: Insert = Insert {
    into: "INSERT INTO steps (run, started_at, ended_at, step, item, status, attempts, output,
    overdue)",
    row: "?, ?, ?, 0, 0, 0, 1, 'null', 0",
};
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
        rows.end(&std::mem::take(&mut begun))?;
        let claimed = (count + 1..).zip(rows.claim()?);
        let fires: Vec<Fire> =
            claimed.map(|(key, (due, schedule))| Fire { key, schedule, due }).collect();
        count += fires.len() as i64;
        rows.count(fires.len())?;
        match commits {
            Commits::One => rows.begin_and_end(&fires)?,
            Commits::Two => {
                rows.begin(&fires)?;
                begun = fires;
            }
        }
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
    let mut wake = connection.prepare(&WAKE.sql(1))?;
    for id in 1..=SCHEDULES {
        progress.execute([id])?;
        wake.execute([1, id, id])?;
    }
    connection.execute_batch("COMMIT")
}

/// The run, the schedule and the due time of a fire.
struct Fire {
    key: i64,
    schedule: i64,
    due: i64,
}

impl Fire {
    fn n(&self) -> i64 {
        self.key / SCHEDULES
    }
}

/// Inserts rows, many with one statement, as the store does.
struct Insert {
    into: &'static str,
    row: &'static str,
}

impl Insert {
    fn sql(&self, rows: usize) -> String {
        format!("{} VALUES {}", self.into, vec![format!("({})", self.row); rows].join(", "))
    }

    fn prepare<'c>(&self, connection: &'c Connection) -> Result<Inserts<'c>> {
        Ok(Inserts {
            many: connection.prepare(&self.sql(TOGETHER))?,
            one: connection.prepare(&self.sql(1))?,
        })
    }
}

struct Inserts<'c> {
    many: Statement<'c>,
    one: Statement<'c>,
}

impl Inserts<'_> {
    /// Inserts a row for each fire, with the numbers and then the texts that `values` says.
    fn all<const N: usize, const T: usize>(
        &mut self,
        fires: &[Fire],
        values: impl Fn(&Fire) -> ([i64; N], [&'static str; T]),
    ) -> Result<()> {
        for fires in fires.chunks(TOGETHER) {
            let is_whole = fires.len() == TOGETHER;
            for fires in fires.chunks(if is_whole { TOGETHER } else { 1 }) {
                let statement = if is_whole { &mut self.many } else { &mut self.one };
                let mut index = 0;
                for fire in fires {
                    let (numbers, texts) = values(fire);
                    for number in numbers {
                        index += 1;
                        statement.raw_bind_parameter(index, number)?;
                    }
                    for text in texts {
                        index += 1;
                        statement.raw_bind_parameter(index, text)?;
                    }
                }
                statement.raw_execute()?;
            }
        }
        Ok(())
    }
}

/// The statements of a fire, prepared.
struct FireRows<'c> {
    claim: Statement<'c>,
    wake: Inserts<'c>,
    unwake: Statement<'c>,
    advance: Statement<'c>,
    pass: Statement<'c>,
    settle: Statement<'c>,
    begin_run: Inserts<'c>,
    end_run: Statement<'c>,
    ended_run: Inserts<'c>,
    record: Inserts<'c>,
    step: Inserts<'c>,
    count: Statement<'c>,
}

impl<'c> FireRows<'c> {
    fn prepare(connection: &'c Connection) -> Result<FireRows<'c>> {
        Ok(FireRows {
            claim: connection.prepare(CLAIM)?,
            wake: WAKE.prepare(connection)?,
            unwake: connection.prepare(UNWAKE)?,
            advance: connection.prepare(ADVANCE)?,
            pass: connection.prepare(PASS)?,
            settle: connection.prepare(SETTLE)?,
            begin_run: BEGIN_RUN.prepare(connection)?,
            end_run: connection.prepare(END_RUN)?,
            ended_run: ENDED_RUN.prepare(connection)?,
            record: RECORD.prepare(connection)?,
            step: STEP.prepare(connection)?,
            count: connection.prepare(COUNT)?,
        })
    }

    fn claim(&mut self) -> Result<Vec<(i64, i64)>> {
        let due = self.claim.query_map([i64::MAX, BATCH], |row| Ok((row.get(0)?, row.get(1)?)))?;
        due.collect()
    }

    fn begin(&mut self, fires: &[Fire]) -> Result<()> {
        for fire in fires {
            self.unwake.execute([fire.due, 1, fire.schedule])?;
            self.advance.execute(params![fire.schedule, fire.due, fire.due + DAY, LIVE])?;
        }
        self.begin_run.all(fires, |fire| (run(fire), [RUNNING, INPUT]))?;
        self.wake.all(fires, |fire| ([0, fire.due + TIMEOUT, fire.key], []))?;
        self.wake_again_and_record(fires)
    }

    fn end(&mut self, fires: &[Fire]) -> Result<()> {
        for fire in fires {
            self.end_run.execute(params![fire.key, fire.due, ENDED])?;
            self.unwake.execute([fire.due + TIMEOUT, 0, fire.key])?;
            self.settle.execute([fire.schedule])?;
        }
        self.step.all(fires, step)
    }

    fn begin_and_end(&mut self, fires: &[Fire]) -> Result<()> {
        for fire in fires {
            self.unwake.execute([fire.due, 1, fire.schedule])?;
            self.pass.execute([fire.schedule, fire.due, fire.due + DAY])?;
        }
        self.ended_run.all(fires, |fire| {
            let [key, workflow, schedule, n, at, .., timeout] = run(fire);
            ([key, workflow, schedule, n, at, at, at, at, timeout, at], [ENDED, INPUT])
        })?;
        self.step.all(fires, step)?;
        self.wake_again_and_record(fires)
    }

    fn wake_again_and_record(&mut self, fires: &[Fire]) -> Result<()> {
        self.wake.all(fires, |fire| ([1, fire.due + DAY, fire.schedule], []))?;
        self.record.all(fires, |fire| {
            let Fire { key, schedule, due } = *fire;
            ([schedule, fire.n(), due, due, due, due, key], [])
        })
    }

    /// Counts what was decided and what has ended in a minute.
    fn count(&mut self, fires: usize) -> Result<()> {
        for kind in [0, 20] {
            self.count.execute(params![1, kind, fires])?;
        }
        Ok(())
    }
}

/// The numbers of a run's row.
fn run(fire: &Fire) -> [i64; 9] {
    let Fire { key, schedule, due } = *fire;
    [key, schedule % 20, schedule, fire.n(), due, due, due, due, TIMEOUT]
}

/// The numbers of a step's row.
fn step(fire: &Fire) -> ([i64; 3], [&'static str; 0]) {
    ([fire.key, fire.due, fire.due], [])
}
