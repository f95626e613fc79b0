//! Removes finished events after a while, and finds the runs that something still refers to.

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::failure::Failure;
use crate::sqlite::maintenance::expiry::NextExpiry;
use crate::sqlite::transaction::apply::remember_greatest;
use crate::sqlite::transaction::core::Core;

impl Core {
    /// Those of these runs that nothing open refers to.
    pub(crate) fn not_needed(&self, runs: Vec<i64>) -> Result<Vec<i64>, Failure> {
        let mut found = Vec::with_capacity(runs.len());
        for key in runs {
            if !is_needed(&self.connection, key)? {
                found.push(key);
            }
        }
        Ok(found)
    }

    /// Removes events that finished longer ago than `keep`, or than their workflow's retention.
    /// Each pass handles a few topics and goes on where the last one stopped, until all had their
    /// turn. Returns how many events were removed, and whether there may be more.
    pub(crate) fn expire_events(
        &self,
        now: i64,
        keep: i64,
        limit: usize,
        next: &mut NextExpiry,
    ) -> Result<(usize, bool), Failure> {
        let connection = &self.connection;
        let sql = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'expired_topic'";
        let known = connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
        let mut done: i64 = known.unwrap_or(0);
        let began_at = done;
        let mut removed = 0;
        let mut more = true;
        for _ in 0..limit {
            let Some((topic, own)) = next_topic(connection, done)? else {
                (done, more) = (0, false);
                break;
            };
            let keep = own.unwrap_or(keep);
            let before = now.saturating_sub(keep);
            removed += expire_in(connection, topic, before, limit - removed)?;
            if removed == limit {
                break;
            }
            let sql = "SELECT min(updated_at) FROM events INDEXED BY events_by_end
                       WHERE state > 1 AND topic = ?1";
            next.note(connection.prepare_cached(sql)?.query_row([topic], |row| row.get(0))?, keep);
            done = topic;
        }
        if done != began_at {
            let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES ('expired_topic', ?1)";
            connection.prepare_cached(sql)?.execute([done.to_string()])?;
        }
        Ok((removed, more))
    }
}

/// Whether something open refers to the run: a reserved event, a handler that runs or will resume
/// it, a workflow that waits for it.
pub(crate) fn is_needed(connection: &Connection, run: i64) -> Result<bool, Failure> {
    let sql = "SELECT EXISTS (SELECT 1 FROM events INDEXED BY events_reserved
                              WHERE state = 1 AND run = ?1)
                 OR EXISTS (SELECT 1 FROM handlers WHERE resumes = ?1)
                 OR EXISTS (SELECT 1 FROM handlers WHERE run = ?1)
                 OR EXISTS (SELECT 1 FROM workflows WHERE paused_by = ?1)
                 OR EXISTS (SELECT 1 FROM workflows WHERE handling = ?1)";
    Ok(connection.prepare_cached(sql)?.query_row([run], |row| row.get(0))?)
}

/// The topic after this one, with its workflow's retention if it has one.
fn next_topic(connection: &Connection, after: i64) -> Result<Option<(i64, Option<i64>)>, Failure> {
    let sql = "SELECT t.id, w.retention FROM topics t LEFT JOIN workflows w ON w.id = t.workflow
               WHERE t.id > ?1 ORDER BY t.id LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row([after], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
}

/// Removes up to `limit` events of a topic that finished before this instant. Returns how many.
pub(crate) fn expire_in(
    connection: &Connection,
    topic: i64,
    before: i64,
    limit: usize,
) -> Result<usize, Failure> {
    // The index has no pending or reserved events.
    let sql = "SELECT key, state FROM events INDEXED BY events_by_end
               WHERE state > 1 AND topic = ?1 AND updated_at < ?2 ORDER BY updated_at LIMIT ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let found = statement.query_map(params![topic, before, limit], read)?;
    let found = found.collect::<Result<Vec<(i64, i64)>, _>>()?;
    let Some(greatest) = found.iter().map(|(key, _)| *key).max() else { return Ok(0) };
    for sql in ["DELETE FROM events WHERE key = ?1", "DELETE FROM messages WHERE event = ?1"] {
        let mut statement = connection.prepare_cached(sql)?;
        for (key, _) in &found {
            statement.execute([key])?;
        }
    }
    // 2 is consumed, 3 skipped.
    let of = |state: i64| found.iter().filter(|(_, of)| *of == state).count();
    let sql = "UPDATE topics SET consumed = consumed - ?2, skipped = skipped - ?3 WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![topic, of(2), of(3)])?;
    remember_greatest(connection, "greatest_event", greatest)?;
    Ok(found.len())
}
