//! Duties in the background: what is old goes, and next times follow calendars and the zone database.

use std::sync::Arc;

use engine::turn::Command;
use engine::{Moment, ScheduleId};
use jiff::{SignedDuration, Timestamp};
use store::{AuditEntry, Failure};
use tokio_util::sync::CancellationToken;

use crate::hub::Hub;

/// History is kept so long when nothing is said.
pub const DEFAULT_RETENTION: SignedDuration = SignedDuration::from_hours(30 * 24);
/// What is old is looked for so often, at the most and at the least, where something may be old by then. A look costs
/// a few reads for each schedule: not more often than once a minute.
const PAUSES: (SignedDuration, SignedDuration) =
    (SignedDuration::from_mins(1), SignedDuration::from_hours(1));
/// Removed in one transaction at most: a due occurrence waits for one of these, never for all.
const REMOVED: usize = 500;
/// Computed again in one transaction: a due occurrence waits for one of these, never for all.
const RECOMPUTED: usize = 1_000;

/// History that has been kept long enough is removed.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// How long it is kept where nothing is said.
    pub keep: SignedDuration,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention { keep: DEFAULT_RETENTION }
    }
}

impl Retention {
    /// Removes all that is old, in small batches; how much that was, and when to look again.
    pub async fn run_once(&self, hub: &Hub) -> Result<Removed, Failure> {
        let mut rows = 0;
        let mut next: Option<Timestamp> = None;
        loop {
            let expired = hub.store().expire(hub.now(), self.keep, REMOVED).await?;
            rows += expired.removed;
            // Each batch looks at other schedules.
            next = next.into_iter().chain(expired.next).min();
            if !expired.more {
                return Ok(Removed { rows, next, pause: self.pause(expired.shortest) });
            }
            // Whoever waits for the store meanwhile comes first.
            tokio::task::yield_now().await;
        }
    }
}

impl Retention {
    /// How long to wait between two looks: history is kept no more than half as long again as it should be, or a
    /// minute longer.
    fn pause(&self, shortest: Option<SignedDuration>) -> SignedDuration {
        let shortest = shortest.map_or(self.keep, |shortest| shortest.min(self.keep));
        (shortest / 2).clamp(PAUSES.0, PAUSES.1)
    }
}

/// What [`Retention::run_once`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// How much was removed.
    pub rows: u64,
    /// When something may be old next, of what there is now; nothing if nothing ever is.
    pub next: Option<Timestamp>,
    /// How long to wait at least. What comes to be from now on is not old before twice this time has passed, unless
    /// that is less than two minutes.
    pub pause: SignedDuration,
}

impl Removed {
    /// Returns when it is time to look again. While nothing happens and nothing can be old, it sleeps.
    async fn wait(&self, hub: &Hub) {
        let until = self.next.map(|at| at.duration_since(hub.now()).max(self.pause));
        let mut notices = hub.listen();
        tokio::select! {
            () = sleep(until) => {}
            // A run that has ended meanwhile may expire before the runs that were known.
            _ = notices.recv() => sleep(Some(until.unwrap_or(self.pause).min(self.pause))).await,
        }
    }
}

/// Sleeps for so long, or for ever.
async fn sleep(time: Option<SignedDuration>) {
    match time {
        Some(time) => tokio::time::sleep(time.unsigned_abs()).await,
        None => std::future::pending().await,
    }
}

/// Next times that were computed with another zone database or calendar are computed again.
#[derive(Clone, Copy, Debug)]
pub struct NextTimes {
    /// So many in one transaction.
    pub batch: usize,
}

impl Default for NextTimes {
    fn default() -> NextTimes {
        NextTimes { batch: RECOMPUTED }
    }
}

impl NextTimes {
    /// Makes a calendar known and computes the next times of those that use it again; how many. What
    /// is left over, for a crash say, is found by [`NextTimes::run_once`].
    pub async fn put_calendar(
        &self,
        hub: &Hub,
        id: &str,
        spec: &str,
        audit: Option<AuditEntry>,
    ) -> Result<u64, Failure> {
        let moment = Moment::new(hub.now(), hub.now());
        let outdated = hub.store().put_calendar(id, spec, moment, audit).await?;
        for batch in outdated.chunks(self.batch) {
            hub.carry_out(Command::Recompute(batch.to_vec()), None, None).await?;
        }
        Ok(outdated.len() as u64)
    }

    /// Computes again all that are left, in batches; how many. All of them are done when it has
    /// returned.
    pub async fn run_once(&self, hub: &Hub) -> Result<u64, Failure> {
        let release = hub.store().rules().zones().version().to_owned();
        let mut after = ScheduleId(0);
        let mut recomputed = 0;
        loop {
            let ids = hub.store().outdated(&release, after, self.batch).await?;
            let Some(last) = ids.last() else { return Ok(recomputed) };
            after = *last;
            recomputed += ids.len() as u64;
            hub.carry_out(Command::Recompute(ids), None, None).await?;
        }
    }
}

/// Does the duties until it is told to stop.
pub(crate) async fn run(hub: Arc<Hub>, retention: Retention, stop: CancellationToken) {
    let mut is_first = true;
    let until_stopped = async {
        loop {
            match NextTimes::default().run_once(&hub).await {
                Ok(0) => {}
                Ok(schedules) => tracing::info!(schedules, "next times were computed again"),
                Err(error) => {
                    tracing::error!(%error, "next times may be of an old zone database or calendar");
                    // Looked at again before long, whatever else there is to do.
                    is_first = true;
                }
            }
            match retention.run_once(&hub).await {
                Ok(removed) => {
                    if removed.rows > 0 {
                        tracing::info!(rows = removed.rows, "old history was removed");
                    }
                    // The first look may have begun where an earlier life has stopped, and missed what was before.
                    let waits = async {
                        match std::mem::take(&mut is_first) {
                            true => sleep(Some(removed.pause)).await,
                            false => removed.wait(&hub).await,
                        }
                    };
                    // A workflow or schedule may say from now on that its history is kept for a shorter time.
                    let declared = async {
                        hub.declared.notified().await;
                        sleep(Some(PAUSES.0)).await;
                    };
                    tokio::select! {
                        () = waits => {}
                        () = declared => {}
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "old history stays for now");
                    sleep(Some(PAUSES.0)).await;
                }
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = until_stopped => {}
    }
}
