//! History that has been kept long enough goes, a little at a time.

use jiff::{SignedDuration, Timestamp};
use rusqlite::{OptionalExtension as _, params};

use super::apply::remember_greatest;
use super::core::Core;
use super::rows::ms;
use crate::failure::Failure;
use crate::request::Expired;

/// Answers to idempotency keys are remembered so long.
const KEYS_KEPT_MS: i64 = 24 * 3_600_000;

/// Runs of schedules that say themselves how long they are kept.
const OF_SCHEDULES: &str = "SELECT r.key FROM schedules s INDEXED BY schedules_by_retention
    JOIN runs r ON r.schedule = s.id
    WHERE s.retention IS NOT NULL AND r.status > 3 AND r.ended_at < ?1 - s.retention AND ?3 > 0 LIMIT ?2";
/// Runs of workflows that do, but for those of such schedules.
const OF_WORKFLOWS: &str = "SELECT r.key FROM workflows w JOIN runs r INDEXED BY runs_by_workflow
    ON r.workflow = w.id
    LEFT JOIN schedules s ON s.id = r.schedule
    WHERE w.retention IS NOT NULL AND s.retention IS NULL
      AND r.status > 3 AND r.ended_at < ?1 - w.retention AND ?3 > 0 LIMIT ?2";
/// All others. Keys are in the order of creation: the oldest are at the beginning.
const OTHERS: &str = "SELECT r.key FROM runs r NOT INDEXED
    LEFT JOIN schedules s ON s.id = r.schedule
    JOIN workflows w ON w.id = r.workflow
    WHERE r.created_at < ?1 AND r.status > 3 AND r.ended_at < ?1
      AND s.retention IS NULL AND w.retention IS NULL
      AND r.key <= (SELECT coalesce(max(key), 0) FROM
        (SELECT key FROM runs WHERE created_at < ?1 ORDER BY key LIMIT ?3))
    ORDER BY r.key LIMIT ?2";
/// So many of the oldest runs are looked at in one go: the others have not ended, or are kept longer.
const LOOKED_AT: usize = 10_000;

impl Core {
    pub(super) fn expire(
        &mut self,
        now: Timestamp,
        keep: SignedDuration,
        limit: usize,
    ) -> Result<Expired, Failure> {
        let before = ms(now).saturating_sub(i64::try_from(keep.as_millis()).unwrap_or(i64::MAX));
        let (runs, more_runs) = self.expire_runs(ms(now), before, limit)?;
        let sql = "DELETE FROM idempotency WHERE key IN
                   (SELECT key FROM idempotency WHERE created_at < ?1 LIMIT ?2)";
        let keys = self
            .connection
            .prepare_cached(sql)?
            .execute(params![ms(now).saturating_sub(KEYS_KEPT_MS), limit])?;
        let (rows, more_rows) = self.expire_ledger(ms(now), before, limit)?;
        let (events, more_events) = self.expire_events(ms(now), before, limit)?;
        let more = more_runs || more_rows || more_events || keys == limit;
        Ok(Expired { removed: (runs + keys + rows + events) as u64, more })
    }

    /// How many went, and whether there may be more.
    fn expire_runs(&self, now: i64, before: i64, limit: usize) -> Result<(usize, bool), Failure> {
        let mut expired: Vec<i64> = Vec::new();
        for (sql, at) in [(OF_SCHEDULES, now), (OF_WORKFLOWS, now), (OTHERS, before)] {
            let mut statement = self.connection.prepare_cached(sql)?;
            let left = limit - expired.len();
            let found = statement.query_map(params![at, left, LOOKED_AT], |row| row.get(0))?;
            expired.extend(found.collect::<Result<Vec<i64>, _>>()?);
        }
        let is_full = expired.len() == limit;
        let expired = self.not_needed(expired)?;
        for key in &expired {
            for sql in [
                "DELETE FROM steps WHERE run = ?1",
                "DELETE FROM alerts WHERE run = ?1",
                "DELETE FROM approvals WHERE run = ?1",
                "DELETE FROM queue WHERE run = ?1",
                "DELETE FROM waits WHERE run = ?1",
                "DELETE FROM mutations WHERE run = ?1",
                "DELETE FROM runs WHERE key = ?1",
            ] {
                self.connection.prepare_cached(sql)?.execute([key])?;
            }
        }
        if let Some(greatest) = expired.iter().max() {
            remember_greatest(&self.connection, "greatest_run", *greatest)?;
        }
        // If all that were found are still needed, the next time finds the same.
        Ok((expired.len(), is_full && !expired.is_empty()))
    }

    /// The ledger is clustered by schedule: a few schedules in each go, going on where it stopped,
    /// until all of them have had their turn.
    fn expire_ledger(&self, now: i64, before: i64, limit: usize) -> Result<(usize, bool), Failure> {
        let connection = &self.connection;
        let sql = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'expired_schedule'";
        let known = connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
        let mut done: i64 = known.unwrap_or(0);
        let next = "SELECT l.schedule, coalesce(s.retention, w.retention) FROM ledger l
                    LEFT JOIN schedules s ON s.id = l.schedule
                    LEFT JOIN workflows w ON w.id = s.workflow
                    WHERE l.schedule > ?1 ORDER BY l.schedule LIMIT 1";
        // What is going on, or waits, stays: more will be said about it.
        let delete = "DELETE FROM ledger WHERE schedule = ?1 AND n IN
                      (SELECT n FROM ledger WHERE schedule = ?1 AND decided_at < ?2
                       AND n NOT IN (SELECT live.atom FROM progress p, json_tree(p.live) live
                                     WHERE p.id = ?1 AND live.key = 'n')
                       ORDER BY n LIMIT ?3)";
        let mut removed = 0;
        let mut more = true;
        for _ in 0..limit {
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?));
            let found = connection.prepare_cached(next)?.query_row([done], read);
            let Some((schedule, own)) = found.optional()? else {
                (done, more) = (0, false);
                break;
            };
            let before = own.map_or(before, |keep| now.saturating_sub(keep));
            let params = params![schedule, before, limit - removed];
            removed += connection.prepare_cached(delete)?.execute(params)?;
            if removed == limit {
                break;
            }
            done = schedule;
        }
        let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES ('expired_schedule', ?1)";
        connection.prepare_cached(sql)?.execute([done.to_string()])?;
        Ok((removed, more))
    }
}
