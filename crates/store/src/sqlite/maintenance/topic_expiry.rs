//! Removes finished events after a while, and finds the runs that something still refers to.

use rusqlite::{Connection, params};

use crate::codes::sql;
use crate::failure::Failure;
use crate::rows::Row as _;
use crate::sqlite::connections::query;
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
        let mut done = self.stored_cursor("expired_topic")?;
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
            let sql = sql!(
                "SELECT min(updated_at) FROM events INDEXED BY events_by_end
                 WHERE state {event_finished} AND topic = ?1"
            );
            next.note(query::only(connection, sql, [topic], |row| row.single())?, keep);
            done = topic;
        }
        self.store_cursor("expired_topic", done)?;
        Ok((removed, more))
    }
}

/// Whether something open refers to the run: a reserved event, a handler that runs or will resume
/// it, a workflow that waits for it.
pub(crate) fn is_needed(connection: &Connection, run: i64) -> Result<bool, Failure> {
    let sql = sql!(
        "SELECT EXISTS (SELECT 1 FROM events INDEXED BY events_reserved
                      WHERE state = {event_reserved} AND run = ?1)
         OR EXISTS (SELECT 1 FROM handlers WHERE resumes = ?1)
         OR EXISTS (SELECT 1 FROM handlers WHERE run = ?1)
         OR EXISTS (SELECT 1 FROM workflows WHERE paused_by = ?1)
         OR EXISTS (SELECT 1 FROM workflows WHERE handling = ?1)"
    );
    query::only(connection, sql, [run], |row| row.single())
}

/// The topic after this one, with its workflow's retention if it has one.
fn next_topic(connection: &Connection, after: i64) -> Result<Option<(i64, Option<i64>)>, Failure> {
    let sql = "SELECT t.id, w.retention FROM topics t LEFT JOIN workflows w ON w.id = t.workflow
               WHERE t.id > ?1 ORDER BY t.id LIMIT 1";
    query::one(connection, sql, [after], |row| row.tuple())
}

/// Removes up to `limit` events of a topic that finished before this instant. Returns how many.
pub(crate) fn expire_in(
    connection: &Connection,
    topic: i64,
    before: i64,
    limit: usize,
) -> Result<usize, Failure> {
    // The index has no pending or reserved events.
    let sql = sql!(
        "SELECT key, state FROM events INDEXED BY events_by_end
         WHERE state {event_finished} AND topic = ?1 AND updated_at < ?2
         ORDER BY updated_at LIMIT ?3"
    );
    let found: Vec<(i64, i64)> =
        query::all(connection, sql, params![topic, before, limit], |row| row.tuple())?;
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
