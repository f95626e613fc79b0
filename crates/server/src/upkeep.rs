//! Duties in the background: what is old goes, and next times follow calendars and the zone database.

use std::sync::Arc;
use std::time::Duration;

use engine::turn::Command;
use engine::{Moment, ScheduleId};
use jiff::SignedDuration;
use store::{AuditEntry, Failure};
use tokio_util::sync::CancellationToken;

use crate::hub::Hub;

/// History is kept so long when nothing is said.
pub const DEFAULT_RETENTION: SignedDuration = SignedDuration::from_hours(30 * 24);
/// What is old is looked for so often.
const EVERY: Duration = Duration::from_secs(3_600);
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
    /// Removes all that is old, in small batches; how much that was.
    pub async fn run_once(&self, hub: &Hub) -> Result<u64, Failure> {
        let mut removed = 0;
        loop {
            let expired = hub.store().expire(hub.now(), self.keep, REMOVED).await?;
            removed += expired.removed;
            if !expired.more {
                return Ok(removed);
            }
            // Whoever waits for the store meanwhile comes first.
            tokio::task::yield_now().await;
        }
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
            hub.command(Command::Recompute(batch.to_vec()), None).await?;
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
            hub.command(Command::Recompute(ids), None).await?;
        }
    }
}

/// Does the duties until it is told to stop.
pub(crate) async fn run(hub: Arc<Hub>, retention: Retention, stop: CancellationToken) {
    let until_stopped = async {
        loop {
            match NextTimes::default().run_once(&hub).await {
                Ok(0) => {}
                Ok(schedules) => tracing::info!(schedules, "next times were computed again"),
                Err(error) => tracing::error!(
                    %error,
                    "next times may be of an old zone database or calendar"
                ),
            }
            match retention.run_once(&hub).await {
                Ok(0) => {}
                Ok(rows) => tracing::info!(rows, "old history was removed"),
                Err(error) => tracing::warn!(%error, "old history stays for now"),
            }
            tokio::time::sleep(EVERY).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = until_stopped => {}
    }
}
