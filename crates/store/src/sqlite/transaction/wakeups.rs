//! Claims due wakeups, and finds the earliest pending one.

use std::collections::HashSet;

use engine::turn::{TransactionReader as _, Wakeup};
use engine::{HandlerId, NodeId, RunKey, ScheduleId};
use jiff::Timestamp;
use rusqlite::{Connection, Row, params};

use crate::failure::Failure;
use crate::sqlite::rows::decode;
use crate::sqlite::rows::decode::ms;
use crate::sqlite::transaction::apply::{
    WAKE_HANDLER, WAKE_NODE, WAKE_RUN, WAKE_SCHEDULE, WAKEUP_KINDS,
};
use crate::sqlite::transaction::core::Core;
use crate::wakeups::fair;

impl Core {
    /// Claims due wakeups, in order of their time. If more wakeups of some kinds are due than a
    /// turn takes, a quarter of the turn is for those of them that fell due last: so a flood is
    /// worked off from its beginning, and wakeups that fall due meanwhile do not wait for its end.
    pub(crate) fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<(i64, Wakeup)>, Failure> {
        let oldest = "SELECT due, id FROM wakeups WHERE kind = ?1 AND due <= ?2
                      ORDER BY due, id LIMIT ?3";
        let latest = "SELECT due, id FROM wakeups WHERE kind = ?1 AND due <= ?2
                      ORDER BY due DESC, id DESC LIMIT ?3";
        let (mut due, mut crowded) = (Vec::new(), Vec::new());
        for kind in WAKEUP_KINDS {
            // One more than a turn takes shows whether there are more.
            let found = self.wakeups(oldest, kind, now, limit + 1)?;
            if found.len() > limit {
                crowded.push(kind);
            }
            due.extend(found);
        }
        let mut fresh = Vec::new();
        for kind in &crowded {
            fresh.extend(self.wakeups(latest, *kind, now, limit / 4 / crowded.len())?);
        }
        let mut claimed = fair(due, limit - fresh.len());
        claimed.extend(fresh);
        claimed.sort_unstable();
        claimed.dedup();
        Ok(claimed)
    }

    fn wakeups(
        &self,
        sql: &str,
        kind: i64,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<(i64, Wakeup)>, Failure> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let read = |row: &Row<'_>| Ok((row.get(0)?, wakeup(kind, row.get(1)?)));
        let rows = statement.query_map(params![kind, ms(now), limit], read)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn forget_wakeup(&self, due: i64, kind: i64, id: i64) -> Result<(), Failure> {
        let sql = "DELETE FROM wakeups WHERE due = ?1 AND kind = ?2 AND id = ?3";
        self.connection.prepare_cached(sql)?.execute([due, kind, id])?;
        Ok(())
    }

    pub(crate) fn next_wakeup(&self) -> Result<Option<Timestamp>, Failure> {
        next_wakeup(&self.connection)
    }

    /// Handles wakeups that were claimed but are still there, due as before: they would be claimed
    /// for ever. If its run, schedule or handler is gone or waits for another time, the wakeup is
    /// removed; otherwise it is moved a little later.
    pub(crate) fn settle_leftovers(
        &mut self,
        claimed: &[(i64, Wakeup)],
        node: NodeId,
        now: Timestamp,
    ) -> Result<(), Failure> {
        if self.next_wakeup()?.is_none_or(|next| next > now) {
            return Ok(());
        }
        let claimed: HashSet<&(i64, Wakeup)> = claimed.iter().collect();
        for (due, wakeup) in self.due(now, claimed.len())? {
            // A wakeup that is due again at another time has made progress.
            if !claimed.contains(&(due, wakeup)) {
                continue;
            }
            let wants = match wakeup {
                // The node that takes the turn is alive.
                Wakeup::Node(own) if own == node => None,
                // The attempts of a dead node are taken over in parts: its wakeup is claimed again
                // at once.
                Wakeup::Node(_) => continue,
                Wakeup::Run(key) => self.reader().run(key)?.and_then(|run| run.wake_at()),
                Wakeup::Schedule(id) => self.reader().schedule(id)?.and_then(|s| s.wake_at()),
                Wakeup::Handler(id) => self.reader().handler(id)?.and_then(|handler| handler.due()),
            };
            let (kind, id) = match wakeup {
                Wakeup::Run(key) => (WAKE_RUN, key.0),
                Wakeup::Schedule(id) => (WAKE_SCHEDULE, id.0),
                Wakeup::Handler(id) => (WAKE_HANDLER, id.0),
                Wakeup::Node(node) => (WAKE_NODE, node.0),
            };
            self.forget_wakeup(due, kind, id)?;
            if wants.is_some_and(|at| at <= now) {
                tracing::error!(?wakeup, "what was due is still due: looked at again in a second");
                let sql = "INSERT OR IGNORE INTO wakeups (due, kind, id) VALUES (?1, ?2, ?3)";
                self.connection.prepare_cached(sql)?.execute([ms(now) + 1_000, kind, id])?;
            }
        }
        Ok(())
    }
}

pub(crate) fn next_wakeup(connection: &Connection) -> Result<Option<Timestamp>, Failure> {
    let sql = "SELECT min(due) FROM wakeups WHERE kind = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let mut earliest = None;
    for kind in WAKEUP_KINDS {
        let due = statement.query_row([kind], |row| decode::maybe_instant(row, 0))?;
        earliest = earliest.into_iter().chain(due).min();
    }
    Ok(earliest)
}

fn wakeup(kind: i64, id: i64) -> Wakeup {
    match kind {
        WAKE_RUN => Wakeup::Run(RunKey(id)),
        WAKE_SCHEDULE => Wakeup::Schedule(ScheduleId(id)),
        WAKE_NODE => Wakeup::Node(NodeId(id)),
        _ => Wakeup::Handler(HandlerId(id)),
    }
}
