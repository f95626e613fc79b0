//! Removes history that was kept long enough, a little at a time.
//!
//! It locks only rows of the past, so nothing that is due waits for it. A walk through rows that
//! are kept longer stops after a while, and the next pass continues there.

use jiff::{SignedDuration, Timestamp};
use tokio_postgres::Row;

use crate::failure::Failure;
use crate::invariants::{EXPIRED_AT, KEPT_FOR};
use crate::postgres::connections::query::row_count;
use crate::postgres::connections::tx_connection::{Query, TxConnection, param};
use crate::postgres::maintenance::topic_expiry::not_needed;
use crate::postgres::nodes::clock::{database_now, refuse_far_off};
use crate::postgres::transaction::access::ask_expired;
use crate::postgres::transaction::core::Core;
use crate::postgres::transaction::minute_counts;
use crate::postgres::{PostgresClock, Shared};
use crate::request::Expired;
use crate::rows::Row as _;
use crate::stored::{milliseconds, ms};

/// How long answers to idempotency keys are remembered.
const KEYS_KEPT_MS: i64 = 24 * 3_600_000;
/// The advisory lock held while history is removed: one node at a time is enough.
const LOCK_EXPIRY: i32 = 0x7075_6e65;
/// How many runs are looked at in one pass.
const LOOKED_AT: usize = 2_000;
/// How many schedules with a retention of their own are looked at in one pass.
const SCHEDULES_LOOKED_AT: usize = 500;

/// Also returns the database's time, which decides what has expired, rather than any node's clock.
const HOLD: &str =
    concat!("SELECT pg_try_advisory_xact_lock($1, hashtext(current_schema())), ", database_now!());
const SHORTEST: &str = "SELECT least(
       (SELECT min(retention) FROM schedules WHERE retention IS NOT NULL),
       (SELECT min(retention) FROM workflows))";
const PLACES: &str = "SELECT key, value FROM meta WHERE key LIKE 'expired\\_%'";
pub(crate) const KEEP_PLACE: &str = "INSERT INTO meta (key, value) VALUES ($1, $2)
     ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE meta.value <> excluded.value";
const KEEP_GREATEST: &str = "INSERT INTO meta (key, value) VALUES ($1, $2)
     ON CONFLICT (key) DO UPDATE SET value = excluded.value
     WHERE meta.value::bigint < excluded.value::bigint";
const KEEP_LEAST: &str = "INSERT INTO meta (key, value) VALUES ($1, $2)
     ON CONFLICT (key) DO UPDATE SET value = excluded.value
     WHERE meta.value::bigint > excluded.value::bigint";
const KEYS: &str = "DELETE FROM idempotency WHERE key IN
       (SELECT key FROM idempotency WHERE created_at < $1 ORDER BY created_at LIMIT $2
        FOR UPDATE SKIP LOCKED) RETURNING 1";

/// The oldest runs of schedules with a retention of their own. The first runs of occurrences are in
/// the order of their numbers, the others in the order of their keys.
const OF_SCHEDULES: &str = "SELECT s.id, r.key
     FROM (SELECT id, retention FROM schedules WHERE id = ANY($1)) s
     CROSS JOIN LATERAL (
       (SELECT key, ended_at FROM ended_runs WHERE schedule = s.id ORDER BY n, retry LIMIT $3)
       UNION
       (SELECT key, ended_at FROM ended_runs
        WHERE schedule = s.id AND (n IS NULL OR retry > 0) ORDER BY key LIMIT $3)) r
     WHERE r.ended_at < $2 - s.retention ORDER BY s.id, r.key";
const WITH_RETENTION: &str = "SELECT id FROM schedules WHERE retention IS NOT NULL AND id > $1
     ORDER BY id LIMIT $2";
/// Runs of workflows with a retention of their own, except those of schedules that have one too.
/// The row comparison makes the planner use the index by workflow, which alone has them in order.
const OF_WORKFLOW: &str = "SELECT r.key, r.created_at, r.ended_at, s.retention IS NULL
     FROM (SELECT key, schedule, created_at, ended_at FROM ended_runs
           WHERE (workflow, key) > ($3, $1) AND workflow <= $3
           ORDER BY workflow, key LIMIT $2) r
     LEFT JOIN schedules s ON s.id = r.schedule ORDER BY r.key";
/// All other runs. Keys are in the order of creation, so the oldest runs come first.
const OTHERS: &str = "SELECT r.key, r.created_at, r.ended_at,
       s.retention IS NULL AND w.retention IS NULL
     FROM (SELECT key, schedule, workflow, created_at, ended_at FROM ended_runs
           WHERE key > $1 AND key <= $3 ORDER BY key LIMIT $2) r
     LEFT JOIN schedules s ON s.id = r.schedule
     LEFT JOIN workflows w ON w.id = r.workflow ORDER BY r.key";
/// The condition that a ledger row is not of an active or queued occurrence: such a row will be
/// written again. The numbers are read as text, since one unreadable row must not stop expiry.
macro_rules! is_over {
    () => {
        r#"NOT EXISTS (SELECT 1 FROM regexp_matches(p.live, '"n":(\d+)', 'g') AS live
             WHERE live[1]::bigint = n)"#
    };
}

/// Schedules with ledger rows, from one to the next by the index, each with the age of its oldest
/// row that may expire. Rows are nearly in the order of their age: an occurrence that waited is
/// written again when it starts, so the first hundred rows are looked at.
const WITH_LEDGER: &str = concat!(
    "WITH RECURSIVE l AS (
       (SELECT schedule, decided_at FROM ledger WHERE schedule > $1
        ORDER BY schedule, n LIMIT 1)
       UNION ALL
       SELECT o.schedule, o.decided_at FROM l CROSS JOIN LATERAL (
         SELECT schedule, decided_at FROM ledger WHERE schedule > l.schedule
         ORDER BY schedule, n LIMIT 1) o)
     SELECT l.schedule, o.decided_at, coalesce(s.retention, w.retention)
     FROM (SELECT * FROM l LIMIT $2) l
     LEFT JOIN schedules s ON s.id = l.schedule LEFT JOIN workflows w ON w.id = s.workflow
     LEFT JOIN progress p ON p.id = l.schedule
     CROSS JOIN LATERAL (SELECT min(decided_at) AS decided_at FROM
       (SELECT decided_at FROM ledger WHERE schedule = l.schedule AND ",
    is_over!(),
    " ORDER BY n LIMIT 100) f) o
     ORDER BY l.schedule"
);
/// Ledger rows of these schedules that were decided before the given instants.
const OLD_ROWS: &str = concat!(
    "SELECT u.id, l.n FROM unnest($1::bigint[], $2::bigint[]) AS u (id, before)
     LEFT JOIN progress p ON p.id = u.id
     CROSS JOIN LATERAL (SELECT n FROM
       (SELECT n, decided_at FROM ledger WHERE schedule = u.id AND ",
    is_over!(),
    " ORDER BY n LIMIT greatest($3::bigint, 100)) f
       WHERE decided_at < u.before ORDER BY n LIMIT $3) l
     ORDER BY u.id, l.n"
);
const REMOVE_ROWS: &str = "DELETE FROM ledger WHERE (schedule, n) IN
     (SELECT * FROM unnest($1::bigint[], $2::bigint[]))";

/// Removes everything that belongs to expired runs.
const OF_RUNS: [&str; 8] = [
    "DELETE FROM steps WHERE run = ANY($1)",
    "DELETE FROM attempts WHERE run = ANY($1)",
    "DELETE FROM alerts WHERE run = ANY($1)",
    "DELETE FROM approvals WHERE run = ANY($1)",
    "DELETE FROM queue WHERE run = ANY($1)",
    "DELETE FROM waits WHERE run = ANY($1)",
    "DELETE FROM mutations WHERE run = ANY($1)",
    "DELETE FROM ended_runs WHERE key = ANY($1)",
];

/// Queries the lock for removing history, and the database's time.
pub(crate) fn ask_hold() -> Query {
    Query::new(HOLD, vec![param(LOCK_EXPIRY)])
}

/// The time by which history is removed, in milliseconds; `None` if another node is removing it.
/// `now` is the caller's time: if it is far off, nothing is removed.
pub(crate) fn hold(found: &[Row], shared: &Shared, now: Timestamp) -> Result<Option<i64>, Failure> {
    let Some(row) = found.first() else {
        return Err(Failure::Damaged("the database does not know its own time".to_owned()));
    };
    let (is_held, theirs): (bool, Timestamp) = row.tuple()?;
    if !is_held {
        return Ok(None);
    }
    match shared.clock {
        PostgresClock::Caller => Ok(Some(ms(now))),
        PostgresClock::Database => {
            refuse_far_off(now, theirs)?;
            Ok(Some(ms(theirs)))
        }
    }
}

/// The result of one step of a walk.
struct Walked {
    expired: Vec<i64>,
    /// Where the next pass continues.
    cursor: i64,
    /// Whether the walk reached the end, or rows that are too young.
    is_done: bool,
}

impl Walked {
    fn done(expired: Vec<i64>) -> Walked {
        Walked { expired, cursor: 0, is_done: true }
    }
}

impl Core {
    pub(crate) fn expire(
        &mut self,
        now: Timestamp,
        keep: SignedDuration,
        limit: usize,
    ) -> Result<Expired, Failure> {
        let (events, more) = self.expire_events(now, keep, limit)?;
        let (removed, more_others) = self.expire_others(now, keep, limit)?;
        let more = more || more_others;
        let shortest = if more { None } else { self.shortest_retention()? };
        // A node on a shared store is never idle, so it simply looks again after a while.
        Ok(Expired { removed: removed + events as u64, more, next: Some(now), shortest })
    }

    /// The shortest retention that a schedule or workflow declares itself.
    fn shortest_retention(&mut self) -> Result<Option<SignedDuration>, Failure> {
        let found = self.tx.transact(|tx| {
            let found = tx.begin(vec![Query::new(SHORTEST, vec![])])?;
            tx.commit(vec![])?;
            Ok(found)
        })?;
        let row = found.first().and_then(|rows| rows.first());
        let shortest: Option<i64> = row.map(|row| row.single()).transpose()?.flatten();
        Ok(shortest.map(SignedDuration::from_millis))
    }

    /// Removes everything but events. Returns how many rows were removed, and whether there may be
    /// more.
    fn expire_others(
        &mut self,
        now: Timestamp,
        keep: SignedDuration,
        limit: usize,
    ) -> Result<(u64, bool), Failure> {
        let Core { tx, shared } = self;
        tx.transact(|tx| {
            let found = tx.begin(vec![ask_hold(), Query::new(PLACES, vec![])])?;
            let Some(now) = hold(&found[0], shared, now)? else {
                tx.commit(vec![])?;
                return Ok((0, false));
            };
            let before = now.saturating_sub(milliseconds(keep));
            let mut pass = Pass { tx, now, before, limit, queries: Vec::new(), more: false };
            let mut removed = pass.expire_runs(&found[1])?;
            removed += pass.expire_ledger(stored_cursor(&found[1], "expired_schedule")?)?;
            let Pass { mut queries, mut more, .. } = pass;
            if removed > 0 {
                let kept = |sql, key: &'static str, value: i64| {
                    Query::new(sql, vec![param(key), param(value.to_string())])
                };
                queries.push(kept(KEEP_GREATEST, EXPIRED_AT, now));
                queries.push(kept(KEEP_LEAST, KEPT_FOR, milliseconds(keep)));
            }
            let old = now.saturating_sub(KEYS_KEPT_MS);
            queries.push(crate::postgres::transaction::incidents::ask_expire(before, limit));
            queries.push(Query::new(KEYS, vec![param(old), param(row_count(limit))]));
            queries.extend(ask_expired(now, limit));
            queries.push(minute_counts::ask_expire(now, limit));
            queries.push(minute_counts::ask_add_up(now, limit));
            let gone = tx.commit(queries)?;
            // The last six statements return a row for each row they removed: incidents, keys,
            // sign-ins, audit log; then two of tallies, which are not counted because they are
            // figures, not history.
            for (index, rows) in gone.iter().rev().take(6).enumerate() {
                removed += if index < 2 { 0 } else { rows.len() };
                more |= rows.len() >= limit;
            }
            Ok((removed as u64, more))
        })
    }
}

/// Where a walk stopped.
fn stored_cursor(found: &[Row], walk: &str) -> Result<i64, Failure> {
    for row in found {
        let (key, value): (String, String) = row.tuple()?;
        if key == walk {
            return Ok(value.parse().unwrap_or(0));
        }
    }
    Ok(0)
}

struct Pass<'a> {
    tx: &'a mut TxConnection,
    now: i64,
    before: i64,
    limit: usize,
    /// The statements that will be sent with the commit.
    queries: Vec<Query>,
    more: bool,
}

impl Pass<'_> {
    fn store_cursor(&mut self, walk: &'static str, walked: &Walked) {
        self.more |= !walked.is_done;
        let params = vec![param(walk), param(walked.cursor.to_string())];
        self.queries.push(Query::new(KEEP_PLACE, params));
    }

    fn expire_runs(&mut self, capacity: &[Row]) -> Result<usize, Failure> {
        let of_schedules = self.of_schedules(stored_cursor(capacity, "expired_own")?)?;
        self.store_cursor("expired_own", &of_schedules);
        let mut expired = of_schedules.expired;
        let mut walked = self.of_workflows(
            stored_cursor(capacity, "expired_workflow")?,
            stored_cursor(capacity, "expired_workflow_run")?,
            self.limit - expired.len(),
        )?;
        expired.append(&mut walked.expired);
        self.others(
            stored_cursor(capacity, "expired_run")?,
            stored_cursor(capacity, "expired_again")?,
            &mut expired,
        )?;
        expired.sort_unstable();
        let expired = not_needed(self.tx, expired)?;
        let count = expired.len();
        if count > 0 {
            for sql in OF_RUNS {
                self.queries.push(Query::new(sql, vec![param(expired.clone())]));
            }
        }
        Ok(count)
    }

    /// Expired runs of some schedules after this one, a few of each.
    fn of_schedules(&mut self, after: i64) -> Result<Walked, Failure> {
        let some = (self.limit / 2).clamp(1, SCHEDULES_LOOKED_AT);
        let found = self.tx.one(WITH_RETENTION, vec![param(after), param(row_count(some))])?;
        let ids: Vec<i64> = found.iter().map(|row| row.single()).collect::<Result<_, _>>()?;
        let Some(last) = ids.last().copied() else { return Ok(Walked::done(Vec::new())) };
        let is_last = ids.len() < some;
        let each = (self.limit / 2 / ids.len()).max(1);
        let params = vec![param(ids), param(self.now), param(row_count(each))];
        let mut found = pairs(&self.tx.one(OF_SCHEDULES, params)?)?;
        let unfinished = first_with(&found, each).or(found.get(self.limit).map(|pair| pair.0));
        found.truncate(self.limit);
        let expired = found.into_iter().map(|(_, key)| key).collect();
        Ok(match unfinished {
            Some(id) => Walked { expired, cursor: id - 1, is_done: false },
            None if is_last => Walked::done(expired),
            None => Walked { expired, cursor: last, is_done: false },
        })
    }

    /// Expired runs of workflows, one workflow after the other.
    fn of_workflows(&mut self, from: i64, after: i64, limit: usize) -> Result<Walked, Failure> {
        let sql = "SELECT id, retention FROM workflows WHERE retention IS NOT NULL AND id >= $1
                   ORDER BY id LIMIT 1";
        let (mut workflow, mut after, mut expired) = (from, after, Vec::new());
        let mut is_done = false;
        for _ in 0..self.limit {
            let found = self.tx.one(sql, vec![param(workflow)])?;
            let Some(row) = found.first() else {
                (workflow, after, is_done) = (0, 0, true);
                break;
            };
            let (id, retention): (i64, i64) = row.tuple()?;
            let from = if id == workflow { after } else { 0 };
            let params = vec![param(row_count(LOOKED_AT)), param(id)];
            let before = self.now.saturating_sub(retention);
            let left = limit - expired.len();
            let mut walked = self.walk(OF_WORKFLOW, from, params, before, left)?;
            expired.append(&mut walked.expired);
            if !walked.is_done {
                (workflow, after) = (id, walked.cursor);
                break;
            }
            (workflow, after) = (id + 1, 0);
        }
        let at = |cursor| Walked { expired: Vec::new(), cursor, is_done };
        self.store_cursor("expired_workflow", &at(workflow));
        self.store_cursor("expired_workflow_run", &at(after));
        Ok(Walked { expired, cursor: workflow, is_done })
    }

    /// First looks at runs that became old since the last pass. Then looks again at some that were
    /// passed by: they may have ended since, or their retention may be shorter now. However much is
    /// kept, this costs no more than what is removed plus one walk.
    fn others(&mut self, old: i64, again: i64, expired: &mut Vec<i64>) -> Result<(), Failure> {
        let until = |key: i64| vec![param(row_count(LOOKED_AT)), param(key)];
        let left = self.limit - expired.len();
        let mut walked = self.walk(OTHERS, old, until(i64::MAX), self.before, left)?;
        expired.append(&mut walked.expired);
        self.store_cursor("expired_run", &walked);
        let left = self.limit - expired.len();
        let mut passed = self.walk(OTHERS, again, until(old), self.before, left)?;
        self.more |= !passed.is_done && (left == 0 || !passed.expired.is_empty());
        let cursor = if passed.is_done { 0 } else { passed.cursor };
        expired.append(&mut passed.expired);
        // The second walk asks for another pass only while it finds something to remove.
        self.store_cursor("expired_again", &Walked { expired: Vec::new(), cursor, is_done: true });
        Ok(())
    }

    /// Walks along the keys, from the oldest run to the first that is too young.
    fn walk(
        &mut self,
        sql: &'static str,
        from: i64,
        params: Vec<crate::postgres::connections::tx_connection::Param>,
        before: i64,
        limit: usize,
    ) -> Result<Walked, Failure> {
        let mut all = vec![param(from)];
        all.extend(params);
        let found = self.tx.one(sql, all)?;
        let mut walked = Walked { expired: Vec::new(), cursor: from, is_done: false };
        for row in &found {
            if walked.expired.len() >= limit {
                return Ok(walked);
            }
            let (key, created_at, ended_at, has_this_retention) =
                row.tuple::<(i64, i64, Option<i64>, bool)>()?;
            if created_at >= before {
                walked.is_done = true;
                return Ok(walked);
            }
            if has_this_retention && ended_at.is_some_and(|ended| ended < before) {
                walked.expired.push(key);
            }
            walked.cursor = key;
        }
        walked.is_done = found.len() < LOOKED_AT;
        Ok(walked)
    }

    /// The ledger is ordered by schedule: each pass looks at some schedules, and a few rows of
    /// each.
    fn expire_ledger(&mut self, after: i64) -> Result<usize, Failure> {
        let found = self.tx.one(WITH_LEDGER, vec![param(after), param(row_count(self.limit))])?;
        let (mut ids, mut befores, mut last) = (Vec::new(), Vec::new(), 0);
        for row in &found {
            let (schedule, oldest, own): (i64, Option<i64>, Option<i64>) = row.tuple()?;
            let before = own.map_or(self.before, |keep| self.now.saturating_sub(keep));
            last = schedule;
            if oldest.is_some_and(|oldest| oldest < before) {
                ids.push(last);
                befores.push(before);
            }
        }
        let each = (self.limit / ids.len().max(1)).max(1);
        let params = vec![param(ids), param(befores), param(row_count(each))];
        let old = pairs(&self.tx.one(OLD_ROWS, params)?)?;
        let walked = match first_with(&old, each) {
            Some(id) => Walked { expired: Vec::new(), cursor: id - 1, is_done: false },
            None if found.len() < self.limit => Walked::done(Vec::new()),
            None => Walked { expired: Vec::new(), cursor: last, is_done: false },
        };
        self.store_cursor("expired_schedule", &walked);
        let count = old.len();
        if count > 0 {
            let (schedules, numbers): (Vec<i64>, Vec<i64>) = old.into_iter().unzip();
            self.queries.push(Query::new(REMOVE_ROWS, vec![param(schedules), param(numbers)]));
        }
        Ok(count)
    }
}

fn pairs(found: &[Row]) -> Result<Vec<(i64, i64)>, Failure> {
    found.iter().map(|row| row.tuple()).collect()
}

/// The first schedule with at least `each` rows, which may have more.
fn first_with(found: &[(i64, i64)], each: usize) -> Option<i64> {
    found.chunk_by(|a, b| a.0 == b.0).find(|of_one| of_one.len() >= each).map(|of_one| of_one[0].0)
}
