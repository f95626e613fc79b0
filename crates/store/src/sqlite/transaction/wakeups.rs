//! Claims due wakeups, and finds the earliest pending one.

use std::collections::HashSet;

use engine::NodeId;
use engine::turn::{RunWrite, ScheduleWrite, SetOfIds, TransactionReader as _, Wakeup, Writes};
use jiff::Timestamp;
use rusqlite::{Connection, params};

use crate::codes::WAKEUP_KINDS;
use crate::failure::Failure;
use crate::rows::Row as _;
use crate::sqlite::connections::query;
use crate::sqlite::transaction::core::Core;
use crate::stored::ms;
use crate::wakeups::{fair, read_wakeup, stored_wakeup};

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
        kind: i16,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<(i64, Wakeup)>, Failure> {
        query::all(&self.connection, sql, params![kind, ms(now), limit], |row| {
            let (due, id) = row.tuple()?;
            Ok((due, read_wakeup(kind, id)?))
        })
    }

    fn forget_wakeup(&self, due: i64, kind: i16, id: i64) -> Result<(), Failure> {
        let sql = "DELETE FROM wakeups WHERE due = ?1 AND kind = ?2 AND id = ?3";
        self.connection.prepare_cached(sql)?.execute(params![due, kind, id])?;
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
        writes: &Writes,
        node: NodeId,
        now: Timestamp,
    ) -> Result<(), Failure> {
        if are_all_moved(claimed, writes) {
            return Ok(());
        }
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
            let (kind, id) = stored_wakeup(wakeup);
            self.forget_wakeup(due, kind, id)?;
            if wants.is_some_and(|at| at <= now) {
                tracing::error!(?wakeup, "what was due is still due: looked at again in a second");
                let sql = "INSERT OR IGNORE INTO wakeups (due, kind, id) VALUES (?1, ?2, ?3)";
                self.connection.prepare_cached(sql)?.execute(params![ms(now) + 1_000, kind, id])?;
            }
        }
        Ok(())
    }
}

/// Whether the writes have moved or removed every one of these wakeups.
fn are_all_moved(claimed: &[(i64, Wakeup)], writes: &Writes) -> bool {
    let mut left: SetOfIds<&(i64, Wakeup)> = claimed.iter().collect();
    let mut moved = |old: Option<Timestamp>, new: Option<Timestamp>, wakeup| {
        if let Some(old) = old.filter(|_| old != new) {
            left.remove(&(ms(old), wakeup));
        }
    };
    for write in &writes.schedules {
        if let ScheduleWrite::Update { after, old_wake, .. } = write {
            moved(*old_wake, after.wake_at(), Wakeup::Schedule(after.id));
        }
    }
    for write in &writes.runs {
        if let RunWrite::Update { after, old_wake, .. } = write {
            moved(*old_wake, after.wake_at(), Wakeup::Run(after.key));
        }
    }
    left.is_empty()
}

pub(crate) fn next_wakeup(connection: &Connection) -> Result<Option<Timestamp>, Failure> {
    let sql = "SELECT min(due) FROM wakeups WHERE kind = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let mut earliest = None;
    for kind in WAKEUP_KINDS {
        let due = query::first(&mut statement, [kind], |row| row.single::<Option<Timestamp>>())?;
        earliest = earliest.into_iter().chain(due.flatten()).min();
    }
    Ok(earliest)
}
