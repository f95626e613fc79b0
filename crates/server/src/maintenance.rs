//! Background duties: removing old history, and computing next times again after a change of
//! calendars or the zone database.

use std::sync::Arc;

use engine::turn::Command;
use engine::{Moment, ScheduleId};
use jiff::{SignedDuration, Timestamp};
use store::{AuditEntry, Failure};
use tokio_util::sync::CancellationToken;

use crate::hub::Hub;

/// How long history is kept by default.
pub const DEFAULT_RETENTION: SignedDuration = SignedDuration::from_hours(30 * 24);
/// The shortest and the longest pause between two searches for old history, while some may have
/// become old. A search costs a few reads per schedule, so it happens at most once a minute.
const PAUSES: (SignedDuration, SignedDuration) =
    (SignedDuration::from_mins(1), SignedDuration::from_hours(1));
/// How many rows one transaction removes at most: a due occurrence waits for one such batch, never
/// for all of them.
const REMOVED: usize = 500;
/// How many schedules one transaction recomputes: a due occurrence waits for one such batch, never
/// for all of them.
const RECOMPUTED: usize = 1_000;

/// Removes history that has been kept long enough.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// How long history is kept where neither workflow nor schedule says otherwise.
    pub keep: SignedDuration,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention { keep: DEFAULT_RETENTION }
    }
}

impl Retention {
    /// Removes all old history in small batches. Returns how much was removed, and when to look
    /// again.
    pub async fn run_once(&self, hub: &Hub) -> Result<Removed, Failure> {
        let mut rows = 0;
        let mut next: Option<Timestamp> = None;
        loop {
            let expired = hub.store().expire(hub.now(), self.keep, REMOVED).await?;
            rows += expired.removed;
            // Each batch covers other schedules.
            next = next.into_iter().chain(expired.next).min();
            if !expired.more {
                return Ok(Removed { rows, next, pause: self.pause(expired.shortest) });
            }
            // Let others that wait for the store go first.
            tokio::task::yield_now().await;
        }
    }
}

impl Retention {
    /// How long to wait between two searches: history is kept at most half as long again as asked,
    /// or a minute longer.
    fn pause(&self, shortest: Option<SignedDuration>) -> SignedDuration {
        let shortest = shortest.map_or(self.keep, |shortest| shortest.min(self.keep));
        (shortest / 2).clamp(PAUSES.0, PAUSES.1)
    }
}

/// The result of [`Retention::run_once`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// How many rows were removed.
    pub rows: u64,
    /// When the next of the rows stored now may become old; `None` if none ever does.
    pub next: Option<Timestamp>,
    /// The shortest wait before the next search. Rows created from now on do not become old before
    /// twice this time has passed, unless that is less than two minutes.
    pub pause: SignedDuration,
}

impl Removed {
    /// Returns when it is time to search again. Sleeps as long as nothing happens and nothing can
    /// become old.
    async fn wait(&self, hub: &Hub) {
        let until = self.next.map(|at| at.duration_since(hub.now()).max(self.pause));
        let mut notices = hub.listen();
        tokio::select! {
            () = sleep(until) => {}
            // A run that ended meanwhile may expire before the runs that were known.
            _ = notices.recv() => sleep(Some(until.unwrap_or(self.pause).min(self.pause))).await,
        }
    }
}

/// Sleeps for the time given, or for ever.
async fn sleep(time: Option<SignedDuration>) {
    match time {
        Some(time) => tokio::time::sleep(time.unsigned_abs()).await,
        None => std::future::pending().await,
    }
}

/// Computes next times again that were computed with another zone database or calendar.
#[derive(Clone, Copy, Debug)]
pub struct NextTimes {
    /// How many schedules one transaction recomputes.
    pub batch: usize,
}

impl Default for NextTimes {
    fn default() -> NextTimes {
        NextTimes { batch: RECOMPUTED }
    }
}

impl NextTimes {
    /// Stores a calendar and recomputes the schedules that use it. Returns how many.
    /// [`NextTimes::run_once`] finds any that a crash leaves over.
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

    /// Recomputes all outdated schedules in batches. Returns how many; none is left when it
    /// returns.
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

/// Performs the duties until `stop` is cancelled.
pub(crate) async fn run(hub: Arc<Hub>, retention: Retention, stop: CancellationToken) {
    let mut is_first = true;
    let until_stopped = async {
        loop {
            match NextTimes::default().run_once(&hub).await {
                Ok(0) => {}
                Ok(schedules) => tracing::info!(schedules, "next times were computed again"),
                Err(error) => {
                    tracing::error!(%error, "next times may be of an old zone database or calendar");
                    // Search again soon, whatever else there is to do.
                    is_first = true;
                }
            }
            match retention.run_once(&hub).await {
                Ok(removed) => {
                    if removed.rows > 0 {
                        tracing::info!(rows = removed.rows, "old history was removed");
                    }
                    // The first search may have continued where an earlier process stopped, and so
                    // have missed rows before that.
                    let waits = async {
                        if std::mem::take(&mut is_first) {
                            sleep(Some(removed.pause)).await
                        } else {
                            removed.wait(&hub).await
                        }
                    };
                    // A changed workflow or schedule may keep its history for a shorter time.
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
