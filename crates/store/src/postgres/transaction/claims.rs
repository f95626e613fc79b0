//! Claims of workers: each part is claimed once, however many workers ask at the same time.

use engine::RunKey;
use engine::run::Part;

use crate::failure::Failure;
use crate::postgres::connections::query::{is_storable, row_count};
use crate::postgres::connections::tx_connection::{TxConnection, param};
use crate::postgres::transaction::apply::column;
use crate::postgres::transaction::load;
use crate::postgres::transaction::loaded::Loaded;
use crate::rows;

/// How many more parts than asked for are looked at in one query: other transactions may hold the
/// first ones.
const LOOKED_AT: usize = 100;
/// How many such queries are made at most.
const LOOKS: usize = 10;

/// The oldest parts of each queue, of runs after this one.
const WAITING: &str = crate::codes::sql!(
    "SELECT c.run, c.step, c.item FROM unnest($1::text[]) AS n (name)
     CROSS JOIN LATERAL (SELECT run, step, item FROM queue WHERE queue = n.name AND item {a_part} AND run + 0 > $2
       ORDER BY run + 0, step + 0, item + 0 LIMIT $3) c
     ORDER BY c.run, c.step, c.item LIMIT $3"
);
/// The first of these parts that no other transaction holds. Each is locked on its own by a lateral
/// join, in this order and up to the limit: so the database can neither reverse the join nor lock
/// more.
const FREE: &str = "SELECT q.run, q.step, q.item
     FROM unnest($1::bigint[], $2::integer[], $3::integer[]) AS c (run, step, item)
     CROSS JOIN LATERAL (SELECT key FROM open_runs WHERE key = c.run FOR UPDATE SKIP LOCKED) r
     CROSS JOIN LATERAL (SELECT run, step, item FROM queue
       WHERE run = c.run AND step = c.step AND item = c.item FOR UPDATE SKIP LOCKED) q
     LIMIT $4";

/// Up to `limit` free parts that wait in these queues, with their runs and schedules locked.
pub(crate) fn queued(
    tx: &mut TxConnection,
    loaded: &mut Loaded,
    queues: &[String],
    limit: usize,
) -> Result<Vec<(RunKey, Part)>, Failure> {
    let mut names: Vec<String> = queues.iter().filter(|name| is_storable(name)).cloned().collect();
    names.sort_unstable();
    names.dedup();
    let looked_at = limit.saturating_add(LOOKED_AT);
    let (mut taken, mut after) = (Vec::new(), i64::MIN);
    for _ in 0..LOOKS {
        let params = vec![param(names.clone()), param(after), param(row_count(looked_at))];
        let waiting = tx.one(WAITING, params)?;
        let waiting = waiting.iter().map(rows::run_part).collect::<Result<Vec<_>, _>>()?;
        let Some((last, _)) = waiting.last() else { break };
        after = last.0;
        taken.extend(free(tx, loaded, &waiting, limit - taken.len())?);
        if taken.len() >= limit || waiting.len() < looked_at {
            break;
        }
    }
    Ok(taken)
}

fn free(
    tx: &mut TxConnection,
    loaded: &mut Loaded,
    waiting: &[(RunKey, Part)],
    limit: usize,
) -> Result<Vec<(RunKey, Part)>, Failure> {
    let params = vec![
        column(waiting, |(run, _)| run.0),
        column(waiting, |(_, part)| part.step.cast_signed()),
        column(waiting, |(_, part)| part.item.number()),
        param(row_count(limit)),
    ];
    let found = tx.one(FREE, params)?;
    let mut found = found.iter().map(rows::run_part).collect::<Result<Vec<_>, _>>()?;
    let mut keys: Vec<i64> = found.iter().map(|(run, _)| run.0).collect();
    keys.sort_unstable();
    keys.dedup();
    let free = load::free_runs(tx, loaded, keys)?;
    found.retain(|(run, _)| free.binary_search(run).is_ok());
    found.sort_unstable();
    Ok(found)
}
