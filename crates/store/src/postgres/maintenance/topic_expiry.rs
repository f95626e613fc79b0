//! Removes finished events after a while, and finds the runs that something still refers to.

use jiff::{SignedDuration, Timestamp};

use crate::codes::sql;
use crate::failure::Failure;
use crate::postgres::connections::query::row_count;
use crate::postgres::connections::tx_connection::{Query, TxConnection, param};
use crate::postgres::maintenance::expiry::{KEEP_PLACE, ask_hold, hold};
use crate::postgres::transaction::core::Core;
use crate::rows::Row as _;
use crate::stored::milliseconds;

/// Those of these runs that something open refers to: a reserved event, a handler that will resume
/// them, a workflow that waits for them.
const NEEDED: &str = sql!(
    "SELECT u.key FROM unnest($1::bigint[]) AS u (key)
     WHERE EXISTS (SELECT 1 FROM events WHERE run = u.key AND state = {event_reserved})
        OR EXISTS (SELECT 1 FROM handlers WHERE resumes = u.key)
        OR EXISTS (SELECT 1 FROM handlers WHERE run = u.key)
        OR EXISTS (SELECT 1 FROM workflows WHERE paused_by = u.key)
        OR EXISTS (SELECT 1 FROM workflows WHERE handling = u.key)"
);
const PLACE: &str = "SELECT value FROM meta WHERE key = 'expired_topic'";
/// Topics, each with the instant before which finished events expire, and whether it has any.
const WITH_OLD: &str = sql!(
    "SELECT t.id, t.before, EXISTS (SELECT 1 FROM events
         WHERE topic + 0 = t.id AND state {event_finished} AND updated_at < t.before)
     FROM (SELECT t.id, coalesce($2 - w.retention, $3) AS before FROM topics t
           LEFT JOIN workflows w ON w.id = t.workflow
           WHERE t.id > $1 ORDER BY t.id LIMIT $4) t ORDER BY t.id"
);
/// Skips a topic that somebody is publishing to; it is processed another time.
const LOCK: &str = "SELECT id FROM topics WHERE id = ANY($1) ORDER BY id FOR UPDATE SKIP LOCKED";
/// The events that finished first.
const OLD: &str = sql!(
    "SELECT u.id, e.key, e.state FROM unnest($1::bigint[], $2::bigint[]) AS u (id, before)
     CROSS JOIN LATERAL (SELECT key, state FROM events
       WHERE topic + 0 = u.id AND state {event_finished} AND updated_at < u.before
       ORDER BY updated_at LIMIT $3) e"
);
const UNCOUNT: &str = "UPDATE topics t SET consumed = t.consumed - u.consumed,
       skipped = t.skipped - u.skipped
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u (id, consumed, skipped)
     WHERE t.id = u.id";

/// Those of these runs that nothing open refers to.
pub(crate) fn not_needed(tx: &mut TxConnection, mut runs: Vec<i64>) -> Result<Vec<i64>, Failure> {
    if runs.is_empty() {
        return Ok(runs);
    }
    let needed = tx.one(NEEDED, vec![param(runs.clone())])?;
    let needed: Vec<i64> = needed.iter().map(|row| row.single()).collect::<Result<_, _>>()?;
    runs.retain(|run| !needed.contains(run));
    Ok(runs)
}

impl Core {
    /// Removes events that finished longer ago than `keep`, or than their workflow's retention.
    /// Each pass handles some topics and goes on where the last one stopped, in a transaction of
    /// its own: whoever publishes to one of them waits no longer than that. Returns how many events
    /// were removed, and whether there may be more.
    pub(crate) fn expire_events(
        &mut self,
        now: Timestamp,
        keep: SignedDuration,
        limit: usize,
    ) -> Result<(usize, bool), Failure> {
        let Core { tx, shared } = self;
        tx.transact(|tx| {
            let found = tx.begin(vec![ask_hold(), Query::new(PLACE, vec![])])?;
            let Some(now) = hold(&found[0], shared, now)? else {
                tx.commit(vec![])?;
                return Ok((0, false));
            };
            let before = now.saturating_sub(milliseconds(keep));
            let cursor: Option<String> = found[1].first().map(|row| row.single()).transpose()?;
            let cursor: i64 = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
            let params = vec![param(cursor), param(now), param(before), param(row_count(limit))];
            let topics = tx.one(WITH_OLD, params)?;
            let topics = topics.iter().map(|row| row.tuple()).collect::<Result<Vec<_>, _>>()?;
            let (removed, done) = expire(tx, &topics, limit)?;
            let is_last = done.is_none() && topics.len() < limit;
            let cursor = match done {
                _ if is_last => 0,
                Some(id) => id,
                None => topics.last().map_or(0, |(id, _, _)| *id),
            };
            let params = vec![param("expired_topic"), param(cursor.to_string())];
            tx.commit(vec![Query::new(KEEP_PLACE, params)])?;
            Ok((removed, !is_last))
        })
    }
}

/// Removes at most `limit` events of these topics, the answer to [`WITH_OLD`]. Returns how many,
/// and the topic after which it stopped, if it did.
fn expire(
    tx: &mut TxConnection,
    topics: &[(i64, i64, bool)],
    limit: usize,
) -> Result<(usize, Option<i64>), Failure> {
    let with_old = topics.iter().filter(|(_, _, has_old)| *has_old);
    let (ids, befores): (Vec<i64>, Vec<i64>) =
        with_old.map(|(id, before, _)| (*id, *before)).unzip();
    if ids.is_empty() {
        return Ok((0, None));
    }
    let locked = tx.one(LOCK, vec![param(ids.clone())])?;
    let locked: Vec<i64> = locked.iter().map(|row| row.single()).collect::<Result<_, _>>()?;
    let ours: Vec<(i64, i64)> =
        ids.into_iter().zip(befores).filter(|(id, _)| locked.contains(id)).collect();
    let (ids, befores): (Vec<i64>, Vec<i64>) = ours.into_iter().unzip();
    let each = (limit / ids.len().max(1)).max(1);
    let old = tx.one(OLD, vec![param(ids), param(befores), param(row_count(each))])?;
    let mut old: Vec<(i64, i64, i16)> =
        old.iter().map(|row| row.tuple()).collect::<Result<_, _>>()?;
    old.truncate(limit);
    let keys: Vec<i64> = old.iter().map(|(_, key, _)| *key).collect();
    let of_one = |a: &(i64, i64, i16), b: &(i64, i64, i16)| a.0 == b.0;
    let (mut of, mut consumed, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    for some in old.chunk_by(of_one) {
        // 2 is consumed, 3 skipped.
        let count = |code| some.iter().filter(|(_, _, state)| *state == code).count();
        of.push(some[0].0);
        consumed.push(row_count(count(2)));
        skipped.push(row_count(count(3)));
    }
    tx.ask(vec![
        Query::new("DELETE FROM events WHERE key = ANY($1)", vec![param(keys.clone())]),
        Query::new("DELETE FROM messages WHERE event = ANY($1)", vec![param(keys)]),
        Query::new(UNCOUNT, vec![param(of), param(consumed), param(skipped)]),
    ])?;
    // The first topic that may have more.
    let full = old.chunk_by(of_one).find(|some| some.len() >= each).map(|some| some[0].0 - 1);
    Ok((old.len(), full))
}
