//! Removes history that was kept long enough, a little at a time.

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Params, params};

use crate::access::AUDIT_KEPT;
use crate::failure::Failure;
use crate::invariants::{EXPIRED_AT, KEPT_FOR};
use crate::request::Expired;
use crate::rows::Row as _;
use crate::sqlite::connections::query;
use crate::sqlite::transaction::apply::remember_greatest;
use crate::sqlite::transaction::core::Core;
use crate::sqlite::transaction::minute_counts;
use crate::stored::{milliseconds, ms};
use crate::tally::KEPT_MINUTES;

/// How long answers to idempotency keys are remembered.
const KEYS_KEPT_MS: i64 = 24 * 3_600_000;
/// The shortest retention that a schedule or workflow declares itself.
const SHORTEST: &str = "SELECT min(retention) FROM (
    SELECT min(retention) AS retention FROM schedules INDEXED BY schedules_by_retention
      WHERE retention IS NOT NULL
    UNION ALL SELECT min(retention) FROM workflows)";

/// Schedules with a retention of their own, one after the other.
const NEXT_SCHEDULE: &str = "SELECT id, retention FROM schedules INDEXED BY schedules_by_retention
    WHERE retention IS NOT NULL AND id > ?1 ORDER BY id LIMIT 1";
/// Runs of a schedule's occurrences: when each was created and ended, whether later rows are
/// younger, and whether the retention that is asked about is the run's. They are in the order of
/// their numbers, except for retries.
const OF_SCHEDULE: &str = "SELECT key, created_at, ended_at, retry = 0, 1
    FROM runs INDEXED BY runs_by_occurrence
    WHERE schedule = ?1 AND n IS NOT NULL ORDER BY n, retry";
/// A schedule's other runs. They are in the order of their keys.
const BESIDES: &str = "SELECT key, created_at, ended_at, 1, 1 FROM runs INDEXED BY runs_besides
    WHERE schedule = ?1 AND (n IS NULL OR retry > 0) ORDER BY key";
/// Workflows with a retention of their own, one after the other.
const NEXT_WORKFLOW: &str = "SELECT id, retention FROM workflows
    WHERE retention IS NOT NULL AND id >= ?1 ORDER BY id LIMIT 1";
/// Runs of these workflows, except those of schedules with a retention of their own. Keys are in
/// the order of creation.
const OF_WORKFLOW: &str = "SELECT r.key, r.created_at, r.ended_at, 1, s.retention IS NULL
    FROM runs r INDEXED BY runs_by_workflow LEFT JOIN schedules s ON s.id = r.schedule
    WHERE r.workflow = ?1 AND r.key > ?2 ORDER BY r.key";
/// All other runs, oldest first.
const OTHERS: &str = "SELECT r.key, r.created_at, r.ended_at, 1,
      s.retention IS NULL AND w.retention IS NULL
    FROM runs r NOT INDEXED
    LEFT JOIN schedules s ON s.id = r.schedule
    LEFT JOIN workflows w ON w.id = r.workflow
    WHERE r.key > ?1 AND r.key <= ?2 ORDER BY r.key";
const KEEP_SHORTEST: &str = "INSERT INTO meta (key, value) VALUES (?1, CAST(?2 AS TEXT))
    ON CONFLICT DO UPDATE SET value = excluded.value
    WHERE CAST(meta.value AS INTEGER) > CAST(excluded.value AS INTEGER)";
/// How many runs are looked at in one walk of one pass: some have not ended, or are kept longer.
const LOOKED_AT: usize = 10_000;

/// How many pages may stay free in the file for the next runs: 4 MiB.
const SPARE_PAGES: i64 = 1_024;
/// Free pages are given back if they are more than the file's pages divided by this.
const SPARE_PART: i64 = 8;
/// How many pages are given back in one transaction at most. For each, another page may have to
/// move. A due occurrence waits for one such transaction, never for all.
const GIVEN_BACK: i64 = 256;

/// The earliest time at which something may expire.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NextExpiry(Option<i64>);

impl NextExpiry {
    /// Notes that something from `since` is kept for `keep`.
    pub(crate) fn note(&mut self, since: Option<i64>, keep: i64) {
        let at = since.map(|since| since.saturating_add(keep).saturating_add(1));
        self.0 = self.0.into_iter().chain(at).min();
    }
}

/// The result of a walk along runs.
struct Walked {
    expired: Vec<i64>,
    /// The earliest instant since which something is kept that was looked at, or that follows.
    since: Option<i64>,
    /// The last old run that was looked at.
    cursor: i64,
    /// Whether the walk reached the end, or runs that are too young.
    is_done: bool,
}

impl Walked {
    fn note(&mut self, since: Option<i64>) {
        self.since = self.since.into_iter().chain(since).min();
    }
}

impl Core {
    pub(crate) fn expire(
        &mut self,
        now: Timestamp,
        keep: SignedDuration,
        limit: usize,
    ) -> Result<Expired, Failure> {
        let keep = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
        let mut next = NextExpiry::default();
        let (runs, more_runs) = self.expire_runs(ms(now), keep, limit, &mut next)?;
        let sql = "DELETE FROM idempotency WHERE key IN
                   (SELECT key FROM idempotency WHERE created_at < ?1 LIMIT ?2)";
        let keys = self
            .connection
            .prepare_cached(sql)?
            .execute(params![ms(now).saturating_sub(KEYS_KEPT_MS), limit])?;
        let (rows, more_rows) = self.expire_ledger(ms(now), keep, limit, &mut next)?;
        let (events, more_events) = self.expire_events(ms(now), keep, limit, &mut next)?;
        let (access, more_access) = self.expire_access(ms(now), limit)?;
        let old = ms(now).saturating_sub(keep);
        let incidents =
            crate::sqlite::transaction::incidents::expire(&self.connection, old, limit)?;
        let tallies = minute_counts::expire(&self.connection, now, limit)?;
        let more = more_runs || more_rows || more_events || more_access;
        let more = more
            || keys == limit
            || incidents == limit
            || tallies == limit
            || self.give_back_space()?;
        let removed = (runs + keys + rows + events + access + incidents) as u64;
        if runs + rows > 0 {
            remember_greatest(&self.connection, EXPIRED_AT, ms(now))?;
            self.connection.prepare_cached(KEEP_SHORTEST)?.execute(params![KEPT_FOR, keep])?;
        }
        let instant = |next: NextExpiry| {
            // Old rows that could not be removed are looked at again, but not at once.
            let at = next.0.map(|at| Timestamp::from_millisecond(at).unwrap_or(Timestamp::MAX));
            at.map(|at| at.max(now))
        };
        if more {
            return Ok(Expired { removed, more, next: instant(next), shortest: None });
        }
        let first = |sql: &str| -> Result<Option<i64>, Failure> {
            query::only(&self.connection, sql, [], |row| row.single())
        };
        next.note(first("SELECT min(created_at) FROM idempotency")?, KEYS_KEPT_MS);
        next.note(first("SELECT min(ended_at) FROM incidents WHERE ended_at IS NOT NULL")?, keep);
        next.note(first("SELECT min(expires_at) FROM sign_ins")?, 0);
        next.note(first("SELECT min(at) FROM audit")?, milliseconds(AUDIT_KEPT));
        let minute = first("SELECT min(minute) FROM tallies")?;
        next.note(minute.map(|minute| minute * 60_000), (KEPT_MINUTES + 1) * 60_000);
        let shortest = first(SHORTEST)?.map(SignedDuration::from_millis);
        Ok(Expired { removed, more, next: instant(next), shortest })
    }

    /// Cuts some free pages off the file. Returns whether there are more. A store created before
    /// pages could be given back keeps them.
    fn give_back_space(&self) -> Result<bool, Failure> {
        let ask = |sql: &str| -> Result<i64, Failure> {
            query::only(&self.connection, sql, [], |row| row.single())
        };
        let is_much = || -> Result<bool, Failure> {
            let free = ask("PRAGMA freelist_count")?;
            Ok(free > SPARE_PAGES && free > ask("PRAGMA page_count")? / SPARE_PART)
        };
        const INCREMENTAL: i64 = 2;
        if ask("PRAGMA auto_vacuum")? != INCREMENTAL || !is_much()? {
            return Ok(false);
        }
        let sql = format!("PRAGMA incremental_vacuum({GIVEN_BACK})");
        let mut statement = self.connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        while rows.next()?.is_some() {}
        drop(rows);
        is_much()
    }

    /// Removes expired runs. Returns how many, and whether there may be more.
    fn expire_runs(
        &self,
        now: i64,
        keep: i64,
        limit: usize,
        next: &mut NextExpiry,
    ) -> Result<(usize, bool), Failure> {
        let mut expired = Vec::new();
        let mut more = self.of_schedules(now, limit, &mut expired, next)?;
        more |= self.of_workflows(now, limit, &mut expired, next)?;
        more |= self.others(now, keep, limit, &mut expired, next)?;
        let expired = self.not_needed(expired)?;
        for key in &expired {
            for sql in [
                "DELETE FROM steps WHERE run = ?1",
                "DELETE FROM attempts WHERE run = ?1",
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
        Ok((expired.len(), more))
    }

    /// Adds expired runs of schedules with a retention of their own, beginning after the schedule
    /// where the last pass stopped.
    fn of_schedules(
        &self,
        now: i64,
        limit: usize,
        expired: &mut Vec<i64>,
        next: &mut NextExpiry,
    ) -> Result<bool, Failure> {
        let mut done = self.stored_cursor("expired_own")?;
        let mut more = true;
        'schedules: for _ in 0..limit {
            let Some((schedule, keep)) = self.next(NEXT_SCHEDULE, done)? else {
                (done, more) = (0, false);
                break;
            };
            let before = now.saturating_sub(keep);
            let mut removed = Vec::new();
            for sql in [OF_SCHEDULE, BESIDES] {
                let left = limit - expired.len();
                let walked = self.walk(sql, params![schedule], 0, before, left)?;
                next.note(walked.since, keep);
                // A retry is found by both queries.
                removed.extend(walked.expired);
                removed.sort_unstable();
                removed.dedup();
                if expired.len() + removed.len() >= limit {
                    removed.truncate(limit - expired.len());
                    expired.append(&mut removed);
                    break 'schedules;
                }
            }
            expired.append(&mut removed);
            done = schedule;
        }
        self.store_cursor("expired_own", done)?;
        Ok(more)
    }

    /// Adds expired runs of workflows with a retention of their own, one workflow after the other.
    fn of_workflows(
        &self,
        now: i64,
        limit: usize,
        expired: &mut Vec<i64>,
        next: &mut NextExpiry,
    ) -> Result<bool, Failure> {
        let mut workflow = self.stored_cursor("expired_workflow")?;
        let mut after = self.stored_cursor("expired_workflow_run")?;
        let mut more = true;
        for _ in 0..limit {
            let Some((id, keep)) = self.next(NEXT_WORKFLOW, workflow)? else {
                (workflow, after, more) = (0, 0, false);
                break;
            };
            let from = if id == workflow { after } else { 0 };
            let left = limit - expired.len();
            let before = now.saturating_sub(keep);
            let walked = self.walk(OF_WORKFLOW, params![id, from], from, before, left)?;
            next.note(walked.since, keep);
            expired.extend(walked.expired);
            if !walked.is_done {
                (workflow, after) = (id, walked.cursor);
                break;
            }
            (workflow, after) = (id + 1, 0);
        }
        self.store_cursor("expired_workflow", workflow)?;
        self.store_cursor("expired_workflow_run", after)?;
        Ok(more)
    }

    /// First looks at runs that became old since the last pass. Then looks again at some that were
    /// passed by: they may have ended since, or their retention may be shorter now. However much is
    /// kept, this costs no more than what is removed plus one walk.
    fn others(
        &self,
        now: i64,
        keep: i64,
        limit: usize,
        expired: &mut Vec<i64>,
        next: &mut NextExpiry,
    ) -> Result<bool, Failure> {
        let before = now.saturating_sub(keep);
        let old = self.stored_cursor("expired_run")?;
        let left = limit - expired.len();
        let walked = self.walk(OTHERS, params![old, i64::MAX], old, before, left)?;
        next.note(walked.since, keep);
        expired.extend(walked.expired);
        self.store_cursor("expired_run", walked.cursor)?;
        let again = self.stored_cursor("expired_again")?;
        let left = limit - expired.len();
        let passed = self.walk(OTHERS, params![again, old], again, before, left)?;
        next.note(passed.since, keep);
        let cursor = if passed.is_done { 0 } else { passed.cursor };
        self.store_cursor("expired_again", cursor)?;
        let more =
            !walked.is_done || (!passed.is_done && (left == 0 || !passed.expired.is_empty()));
        expired.extend(passed.expired);
        Ok(more)
    }

    /// Walks along runs, from the oldest to the first that is too young.
    fn walk(
        &self,
        sql: &str,
        params: impl Params,
        from: i64,
        before: i64,
        limit: usize,
    ) -> Result<Walked, Failure> {
        let mut walked = Walked { expired: Vec::new(), since: None, cursor: from, is_done: false };
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        for _ in 0..LOOKED_AT {
            if walked.expired.len() >= limit {
                return Ok(walked);
            }
            let Some(row) = rows.next()? else { break };
            let (key, created, ended, is_in_order, has_this_retention) =
                row.tuple::<(i64, i64, Option<i64>, bool, bool)>()?;
            if created >= before && is_in_order {
                walked.is_done = true;
                walked.note(Some(created));
                return Ok(walked);
            }
            walked.cursor = key;
            // An open run is looked at again after it has ended.
            if !has_this_retention {
                continue;
            }
            if ended.is_some_and(|ended| ended < before) {
                walked.expired.push(walked.cursor);
            } else {
                walked.note(ended);
            }
        }
        walked.is_done = rows.next()?.is_none();
        // Anything that was not looked at may be old.
        walked.note((!walked.is_done).then_some(before));
        Ok(walked)
    }

    /// The next schedule or workflow, with its retention.
    fn next(&self, sql: &str, from: i64) -> Result<Option<(i64, i64)>, Failure> {
        query::one(&self.connection, sql, [from], |row| row.tuple())
    }

    /// Where a walk stopped.
    pub(crate) fn stored_cursor(&self, walk: &str) -> Result<i64, Failure> {
        let sql = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?1";
        Ok(query::one(&self.connection, sql, [walk], |row| row.single())?.unwrap_or(0))
    }

    pub(crate) fn store_cursor(&self, walk: &str, cursor: i64) -> Result<(), Failure> {
        let sql = "INSERT INTO meta (key, value) VALUES (?1, ?2)
                   ON CONFLICT DO UPDATE SET value = excluded.value WHERE value <> excluded.value";
        self.connection.prepare_cached(sql)?.execute(params![walk, cursor.to_string()])?;
        Ok(())
    }

    /// The ledger is clustered by schedule: each pass handles a few schedules and goes on where the
    /// last one stopped, until all had their turn.
    fn expire_ledger(
        &self,
        now: i64,
        keep: i64,
        limit: usize,
        expiry: &mut NextExpiry,
    ) -> Result<(usize, bool), Failure> {
        let connection = &self.connection;
        let mut done = self.stored_cursor("expired_schedule")?;
        let next = "SELECT l.schedule, coalesce(s.retention, w.retention) FROM ledger l
                    LEFT JOIN schedules s ON s.id = l.schedule
                    LEFT JOIN workflows w ON w.id = s.workflow
                    WHERE l.schedule > ?1 ORDER BY l.schedule LIMIT 1";
        // Rows of active and queued occurrences stay: they will be written again. A schedule whose
        // progress cannot be read must not stop the expiry of the others.
        let delete = "DELETE FROM ledger WHERE schedule = ?1 AND n IN
                      (SELECT n FROM ledger WHERE schedule = ?1 AND decided_at < ?2
                       AND n NOT IN (SELECT live.atom FROM progress p,
                         json_tree(iif(json_valid(p.live), p.live, '[]')) live
                         WHERE p.id = ?1 AND live.key = 'n')
                       ORDER BY n LIMIT ?3)";
        let first = "SELECT decided_at FROM ledger WHERE schedule = ?1
                     AND n NOT IN (SELECT live.atom FROM progress p,
                       json_tree(iif(json_valid(p.live), p.live, '[]')) live
                       WHERE p.id = ?1 AND live.key = 'n')
                     ORDER BY n LIMIT 1";
        let mut removed = 0;
        let mut more = true;
        for _ in 0..limit {
            let found: Option<(i64, Option<i64>)> =
                query::one(connection, next, [done], |row| row.tuple())?;
            let Some((schedule, own)) = found else {
                (done, more) = (0, false);
                break;
            };
            let keep = own.unwrap_or(keep);
            let params = params![schedule, now.saturating_sub(keep), limit - removed];
            removed += connection.prepare_cached(delete)?.execute(params)?;
            if removed == limit {
                break;
            }
            expiry.note(query::one(connection, first, [schedule], |row| row.single())?, keep);
            done = schedule;
        }
        self.store_cursor("expired_schedule", done)?;
        Ok((removed, more))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, RwLock};

    use calendar::Zones;
    use jiff::{SignedDuration, Timestamp};
    use rusqlite::{Connection, StatementStatus};

    use super::{BESIDES, OF_SCHEDULE, OF_WORKFLOW, OTHERS};
    use crate::sqlite::transaction::core::Core;

    const KEPT: &str = "
        INSERT INTO workflows (id, name, status, paused, newest, live, active, retention, created_at,
                               updated_at) VALUES
          (1, 'plain', 1, 0, 1, 1, 0, NULL, 0, 0),
          (2, 'own', 1, 0, 1, 1, 0, 5000, 0, 0);
        INSERT INTO schedules VALUES (7, 1, NULL, 0, NULL, 5000, '', 0, 0);
        WITH RECURSIVE k (key) AS (SELECT 1 UNION ALL SELECT key + 1 FROM k WHERE key < 60000)
        INSERT INTO runs (key, workflow, version, schedule, n, retry, triggered_by, status, created_at,
                          ended_at, state, waits_for_slot, overdue, input)
        SELECT key, iif(key % 3 = 1, 2, 1), 1, iif(key % 3 = 2, 7, NULL), iif(key % 3 = 2, key, NULL),
               0, 0, 4, 10000, 10000, '', 0, 0, '' FROM k;";

    /// A store with many runs of each kind, all of the same age.
    fn store() -> Core {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(include_str!("../schema/0001.sql")).unwrap();
        connection.execute_batch(KEPT).unwrap();
        let rules = language::Rules::new(Zones::bundled());
        {
            let rules = Arc::new(RwLock::new(Arc::new(rules)));
            Core::new(connection, rules, Default::default()).unwrap()
        }
    }

    fn expire(core: &mut Core, now: i64, keep: i64) -> (u64, bool) {
        let now = Timestamp::from_millisecond(now).unwrap();
        let expired = core.expire(now, SignedDuration::from_millis(keep), 500).unwrap();
        (expired.removed, expired.more)
    }

    /// Steps of SQLite's virtual machine in the walks since the last call: several for each row.
    fn steps(core: &Core) -> i32 {
        let steps = |sql: &str| {
            let statement = core.connection.prepare_cached(sql).unwrap();
            statement.reset_status(StatementStatus::VmStep)
        };
        [OF_SCHEDULE, BESIDES, OF_WORKFLOW, OTHERS].into_iter().map(steps).sum()
    }

    #[test]
    fn what_is_young_is_not_walked_over() {
        let mut core = store();
        assert_eq!(expire(&mut core, 11_000, 5_000), (0, false));
        let steps = steps(&core);
        assert!(steps < 500, "{steps} steps");
    }

    #[test]
    fn what_is_kept_longer_is_walked_over_once() {
        let mut core = store();
        core.connection.execute_batch("UPDATE workflows SET retention = 1e12").unwrap();
        while expire(&mut core, 20_000, 5_000).1 {}
        steps(&core);
        let mut most = 0;
        for _ in 0..5 {
            assert_eq!(expire(&mut core, 20_000, 5_000), (0, false));
            most = most.max(steps(&core));
        }
        // Ten thousand rows, some thirty steps each.
        assert!(most < 500_000, "{most} steps");
        core.connection.execute_batch("UPDATE workflows SET retention = NULL").unwrap();
        // Runs that were passed by are reached from two sides: from where the walk is, and from the
        // beginning.
        for _ in 0..2 {
            while expire(&mut core, 20_000, 5_000).1 {}
        }
        let sql = "SELECT count(*) FROM runs";
        let left: i64 = core.connection.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0);
    }

    #[test]
    fn walks_follow_an_index() {
        let core = store();
        for sql in [OF_SCHEDULE, BESIDES, OF_WORKFLOW, OTHERS] {
            let sql = format!("EXPLAIN QUERY PLAN {sql}");
            let mut statement = core.connection.prepare(&sql).unwrap();
            let count = statement.parameter_count();
            let plan =
                statement.query_map(rusqlite::params_from_iter(vec![1; count]), |row| row.get(3));
            let plan: Vec<String> = plan.unwrap().map(Result::unwrap).collect();
            assert!(plan.iter().all(|line| line.starts_with("SEARCH ")), "{plan:?}");
        }
    }
}
