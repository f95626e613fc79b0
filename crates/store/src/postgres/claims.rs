//! What workers take: each part once, whoever asks at the same time.

use engine::RunKey;
use engine::run::Part;

use super::book::Loaded;
use super::link::{Link, param};
use super::load;
use super::reader::many;
use super::rows::{get, small};
use crate::failure::Failure;

/// So many more than are asked for are looked at in each queue: others may be working on the first.
const LOOKED_AT: usize = 100;

/// The oldest of each queue, and of these the first that nobody else is working on. Each is locked on its own,
/// in this order and no further than asked: the database can neither join the other way round nor lock more.
const FREE: &str = "SELECT q.run, q.step, q.item FROM (
       SELECT c.run, c.step, c.item FROM unnest($1::text[]) AS n (name)
       CROSS JOIN LATERAL (SELECT run, step, item FROM queue WHERE queue = n.name
         ORDER BY run + 0, step + 0, item + 0 LIMIT $3) c
       ORDER BY c.run, c.step, c.item) c
     CROSS JOIN LATERAL (SELECT key FROM open_runs WHERE key = c.run FOR UPDATE SKIP LOCKED) r
     CROSS JOIN LATERAL (SELECT run, step, item FROM queue
       WHERE run = c.run AND step = c.step AND item = c.item FOR UPDATE SKIP LOCKED) q
     LIMIT $2";

/// What waits in these queues and is free, with its runs and their schedules, all of it locked.
pub(super) fn queued(
    link: &mut Link,
    loaded: &mut Loaded,
    queues: &[String],
    limit: usize,
) -> Result<Vec<(RunKey, Part)>, Failure> {
    let mut names: Vec<String> =
        queues.iter().filter(|name| super::reader::is_storable(name)).cloned().collect();
    names.sort_unstable();
    names.dedup();
    let looked_at = limit.saturating_add(LOOKED_AT);
    let found = link.one(FREE, vec![param(names), param(many(limit)), param(many(looked_at))])?;
    let mut parts = Vec::with_capacity(found.len());
    for row in &found {
        parts.push((RunKey(get(row, 0)?), Part { step: small(row, 1)?, item: get(row, 2)? }));
    }
    let mut keys: Vec<i64> = parts.iter().map(|(run, _)| run.0).collect();
    keys.sort_unstable();
    keys.dedup();
    let free = load::free_runs(link, loaded, keys)?;
    parts.retain(|(run, _)| free.binary_search(run).is_ok());
    parts.sort_unstable();
    Ok(parts)
}
