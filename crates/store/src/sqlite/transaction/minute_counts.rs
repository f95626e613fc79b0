//! Tallies: each transaction adds to them; they are read by minute and removed after some days.

use engine::turn::Writes;
use jiff::Timestamp;
use rusqlite::Connection;

use crate::failure::Failure;
use crate::tally::{KEPT_MINUTES, minute, tallied};

/// Adds a transaction's counts: a row or two, however much it has decided.
pub(crate) fn write(connection: &Connection, writes: &Writes) -> Result<(), Failure> {
    let tallies = tallied(writes);
    if tallies.is_empty() {
        return Ok(());
    }
    let sql = "INSERT INTO tallies (minute, kind, count) VALUES (?1, ?2, ?3)
               ON CONFLICT DO UPDATE SET count = count + excluded.count";
    let mut statement = connection.prepare_cached(sql)?;
    for ((minute, kind), count) in tallies {
        statement.execute([minute, kind, count])?;
    }
    Ok(())
}

/// Removes old tallies. Returns how many rows.
pub(crate) fn expire(
    connection: &Connection,
    now: Timestamp,
    limit: usize,
) -> Result<usize, Failure> {
    let sql = "DELETE FROM tallies WHERE (minute, kind) IN
               (SELECT minute, kind FROM tallies WHERE minute < ?1 ORDER BY minute LIMIT ?2)";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.execute((minute(now) - KEPT_MINUTES, limit))?)
}
