//! Commits a row whenever something is due, and measures how late that is: nothing that keeps its
//! records on this disk can be on time any better.

use std::time::Duration;

use hdrhistogram::Histogram;
use jiff::Timestamp;
use rusqlite::Connection;
use server::SystemClock;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::fires::histogram;
use super::store_target::{StoreTarget, broken, connect};
use crate::failure::Failure;

/// The rows, as long as those that SQLite's limit is measured with.
const TABLE: &str = "CREATE TABLE paced (due bigint NOT NULL, b text NOT NULL)";

/// Begins to commit a row for each of these times once it is due. Everything that has become due
/// during one commit shares the next. The result holds the times from due to committed, in
/// microseconds.
pub(super) fn begin(
    target: &StoreTarget,
    due: Vec<Timestamp>,
) -> JoinHandle<Result<Histogram<u64>, Failure>> {
    let (target, runtime) = (target.clone(), Handle::current());
    // A thread of its own can sleep more precisely than a task.
    tokio::task::spawn_blocking(move || match target {
        StoreTarget::File(path) => {
            let folder = tempfile::tempdir_in(path.parent().unwrap_or(&path))?;
            let broken = |error: rusqlite::Error| Failure::Environment(error.to_string());
            let connection = Connection::open(folder.path().join("paced.db")).map_err(broken)?;
            let paced = in_sqlite(&connection, &due);
            connection.close().map_err(|(_, error)| broken(error))?;
            paced
        }
        StoreTarget::Postgres { url, schema } => {
            runtime.block_on(in_postgres(&url, &format!("{schema}_paced"), &due))
        }
    })
}

fn in_sqlite(connection: &Connection, due: &[Timestamp]) -> Result<Histogram<u64>, Failure> {
    let broken = |error: rusqlite::Error| Failure::Environment(error.to_string());
    connection.pragma_update(None, "journal_mode", "WAL").map_err(broken)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(broken)?;
    connection.execute_batch(TABLE).map_err(broken)?;
    let insert = "INSERT INTO paced VALUES (?1, printf('%200d', ?1))";
    let mut insert = connection.prepare(insert).map_err(broken)?;
    let mut pace = Pace::new(due)?;
    while let Some(now_due) = pace.next() {
        connection.execute_batch("BEGIN IMMEDIATE").map_err(broken)?;
        for at in now_due {
            insert.execute([at.as_millisecond()]).map_err(broken)?;
        }
        connection.execute_batch("COMMIT").map_err(broken)?;
        pace.committed(now_due);
    }
    Ok(pace.late)
}

async fn in_postgres(
    url: &str,
    schema: &str,
    due: &[Timestamp],
) -> Result<Histogram<u64>, Failure> {
    let client = connect(url).await?;
    let make = format!("CREATE SCHEMA {schema}; SET search_path = {schema}; {TABLE}");
    client.batch_execute(&make).await.map_err(broken)?;
    let insert =
        "INSERT INTO paced SELECT at, lpad(at::text, 200) FROM unnest($1::bigint[]) AS u (at)";
    let insert = client.prepare(insert).await.map_err(broken)?;
    let mut pace = Pace::new(due)?;
    while let Some(now_due) = pace.next() {
        let rows: Vec<i64> = now_due.iter().map(|at| at.as_millisecond()).collect();
        client.execute(&insert, &[&rows]).await.map_err(broken)?;
        pace.committed(now_due);
    }
    client.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await.map_err(broken)?;
    Ok(pace.late)
}

/// What is left to commit, and how late the rest was.
struct Pace<'a> {
    left: &'a [Timestamp],
    late: Histogram<u64>,
}

impl<'a> Pace<'a> {
    fn new(due: &'a [Timestamp]) -> Result<Pace<'a>, Failure> {
        Ok(Pace { left: due, late: histogram()? })
    }

    /// Sleeps until something is due, and returns everything that is.
    fn next(&mut self) -> Option<&'a [Timestamp]> {
        let wait = self.left.first()?.duration_since(SystemClock.precise_now());
        std::thread::sleep(Duration::try_from(wait).unwrap_or(Duration::ZERO));
        let now = SystemClock.precise_now();
        let count = self.left.partition_point(|at| *at <= now).max(1);
        let (due, left) = self.left.split_at(count);
        self.left = left;
        Some(due)
    }

    fn committed(&mut self, due: &[Timestamp]) {
        let now = SystemClock.precise_now();
        for at in due {
            let late = now.duration_since(*at).as_micros();
            self.late.saturating_record(u64::try_from(late).unwrap_or(0));
        }
    }
}
