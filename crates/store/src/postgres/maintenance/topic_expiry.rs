//! Removes finished events after a while, and finds the runs that something still refers to.

use jiff::{SignedDuration, Timestamp};
use tokio_postgres::Row;

use crate::failure::Failure;
use crate::postgres::connections::query::many;
use crate::postgres::connections::tx_connection::{Query, TxConnection, param};
use crate::postgres::maintenance::expiry::{KEEP_PLACE, ask_hold, hold};
use crate::postgres::rows::decode::get;
use crate::postgres::transaction::core::Core;
use crate::stored::milliseconds;

/// Those of these runs that something open refers to: a reserved event, a handler that will resume
/// them, a workflow that waits for them.
const NEEDED: &str = "SELECT u.key FROM unnest($1::bigint[]) AS u (key)
     WHERE EXISTS (SELECT 1 FROM events WHERE run = u.key AND state = 1)
        OR EXISTS (SELECT 1 FROM handlers WHERE resumes = u.key)
        OR EXISTS (SELECT 1 FROM handlers WHERE run = u.key)
        OR EXISTS (SELECT 1 FROM workflows WHERE paused_by = u.key)
        OR EXISTS (SELECT 1 FROM workflows WHERE handling = u.key)";
const PLACE: &str = "SELECT value FROM meta WHERE key = 'expired_topic'";
/// Topics, each with the instant before which finished events expire, and whether it has any.
const WITH_OLD: &str = "SELECT t.id, t.before, EXISTS (SELECT 1 FROM events
         WHERE topic + 0 = t.id AND state > 1 AND updated_at < t.before)
     FROM (SELECT t.id, coalesce($2 - w.retention, $3) AS before FROM topics t
           LEFT JOIN workflows w ON w.id = t.workflow
           WHERE t.id > $1 ORDER BY t.id LIMIT $4) t ORDER BY t.id";
/// Skips a topic that somebody is publishing to; it is processed another time.
const LOCK: &str = "SELECT id FROM topics WHERE id = ANY($1) ORDER BY id FOR UPDATE SKIP LOCKED";
/// The events that finished first.
const OLD: &str =
    "SELECT u.id, e.key, e.state FROM unnest($1::bigint[], $2::bigint[]) AS u (id, before)
     CROSS JOIN LATERAL (SELECT key, state FROM events
       WHERE topic + 0 = u.id AND state > 1 AND updated_at < u.before
       ORDER BY updated_at LIMIT $3) e";
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
    let needed: Vec<i64> = needed.iter().map(|row| get(row, 0)).collect::<Result<_, _>>()?;
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
            let place = found[1].first().map(|row| get::<&str>(row, 0)).transpose()?;
            let place: i64 = place.and_then(|place| place.parse().ok()).unwrap_or(0);
            let params = vec![param(place), param(now), param(before), param(many(limit))];
            let topics = tx.one(WITH_OLD, params)?;
            let (removed, done) = expire(tx, &topics, limit)?;
            let is_last = done.is_none() && topics.len() < limit;
            let place = match done {
                _ if is_last => 0,
                Some(id) => id,
                None => topics.last().map(|row| get(row, 0)).transpose()?.unwrap_or(0),
            };
            let params = vec![param("expired_topic"), param(place.to_string())];
            tx.commit(vec![Query::new(KEEP_PLACE, params)])?;
            Ok((removed, !is_last))
        })
    }
}

/// Removes at most `limit` events. Returns how many, and the topic after which it stopped, if it
/// did.
fn expire(
    tx: &mut TxConnection,
    topics: &[Row],
    limit: usize,
) -> Result<(usize, Option<i64>), Failure> {
    let (mut ids, mut befores) = (Vec::new(), Vec::new());
    for row in topics {
        if get(row, 2)? {
            ids.push(get::<i64>(row, 0)?);
            befores.push(get::<i64>(row, 1)?);
        }
    }
    if ids.is_empty() {
        return Ok((0, None));
    }
    let locked = tx.one(LOCK, vec![param(ids.clone())])?;
    let locked: Vec<i64> = locked.iter().map(|row| get(row, 0)).collect::<Result<_, _>>()?;
    let ours: Vec<(i64, i64)> =
        ids.into_iter().zip(befores).filter(|(id, _)| locked.contains(id)).collect();
    let (ids, befores): (Vec<i64>, Vec<i64>) = ours.into_iter().unzip();
    let each = (limit / ids.len().max(1)).max(1);
    let found = tx.one(OLD, vec![param(ids), param(befores), param(many(each))])?;
    let mut old = Vec::with_capacity(found.len());
    for row in &found {
        old.push((get::<i64>(row, 0)?, get::<i64>(row, 1)?, get::<i16>(row, 2)?));
    }
    old.truncate(limit);
    let keys: Vec<i64> = old.iter().map(|(_, key, _)| *key).collect();
    let of_one = |a: &(i64, i64, i16), b: &(i64, i64, i16)| a.0 == b.0;
    let (mut of, mut consumed, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    for some in old.chunk_by(of_one) {
        // 2 is consumed, 3 skipped.
        let count = |code| some.iter().filter(|(_, _, state)| *state == code).count();
        of.push(some[0].0);
        consumed.push(many(count(2)));
        skipped.push(many(count(3)));
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
