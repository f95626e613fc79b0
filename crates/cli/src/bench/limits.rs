//! Measures the raw limits of the disk and of SQLite, with which all other figures are compared.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use server::Stopwatch;

use super::report::Figure;
use crate::failure::Failure;

/// The bytes that are appended before each sync.
const APPENDED: [u8; 4096] = [0x5a; 4096];
/// Rows inserted in one transaction.
const BATCH: i64 = 1_000;

/// Raw limits per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) syncs: f64,
    pub(super) wide_rows: f64,
}

impl Limits {
    pub(super) fn measure(dir: &Path, during: Duration) -> Result<Limits, Failure> {
        Ok(Limits {
            syncs: syncs(dir, during)?,
            wide_rows: rows(
                dir,
                during,
                "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)",
                "INSERT INTO t VALUES (?1, printf('%200d', ?1))",
            )?,
        })
    }

    pub(super) fn figures(&self) -> Vec<Figure> {
        let figure = |name: &str, value| Figure::new("limits", name, value, "per s");
        vec![
            figure("syncs of 4 KiB appended", self.syncs),
            figure("rows of 200 bytes into SQLite, 1 000 in a commit", self.wide_rows),
        ]
    }
}

fn syncs(dir: &Path, during: Duration) -> Result<f64, Failure> {
    let path = dir.join("syncs");
    let mut file = File::create(&path)?;
    let watch = Stopwatch::start();
    let mut count = 0;
    while watch.elapsed() < during {
        file.write_all(&APPENDED)?;
        file.sync_data()?;
        count += 1;
    }
    let rate = f64::from(count) / watch.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(rate)
}

fn rows(dir: &Path, during: Duration, table: &str, insert: &str) -> Result<f64, Failure> {
    let folder = tempfile::tempdir_in(dir)?;
    let broken = |error: rusqlite::Error| Failure::Environment(error.to_string());
    let connection = Connection::open(folder.path().join("limit.db")).map_err(broken)?;
    let measured = insert_rows(&connection, during, table, insert).map_err(broken);
    connection.close().map_err(|(_, error)| broken(error))?;
    measured
}

/// Measures inserts per second. SQLite is configured as the store configures it, so that the
/// figures are comparable.
fn insert_rows(
    connection: &Connection,
    during: Duration,
    table: &str,
    insert: &str,
) -> rusqlite::Result<f64> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.execute_batch(table)?;
    let mut statement = connection.prepare(insert)?;
    let watch = Stopwatch::start();
    let mut count = 0;
    while watch.elapsed() < during {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        for id in count..count + BATCH {
            statement.execute([id])?;
        }
        connection.execute_batch("COMMIT")?;
        count += BATCH;
    }
    Ok(count as f64 / watch.elapsed().as_secs_f64())
}
