//! Duties in the background: what is old goes, and next times follow the zone database.

use std::sync::Arc;
use std::time::Duration;

use engine::ScheduleId;
use engine::turn::Command;
use jiff::SignedDuration;
use store::Failure;
use tokio_util::sync::CancellationToken;

use crate::hub::Hub;

/// History is kept so long when nothing is said.
pub const DEFAULT_RETENTION: SignedDuration = SignedDuration::from_hours(30 * 24);
/// What is old is looked for so often.
const EVERY: Duration = Duration::from_secs(3_600);
/// Removed in one transaction at most: a due occurrence waits for one of these, never for all.
const REMOVED: usize = 500;
/// Computed again in one transaction.
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

/// Next times that were computed with another release of the zone database are computed again.
#[derive(Clone, Copy, Debug, Default)]
pub struct ZoneRelease;

impl ZoneRelease {
    /// Computes them again, in batches; how many. All of them are done when it has returned.
    pub async fn run_once(&self, hub: &Hub) -> Result<u64, Failure> {
        let release = hub.store().rules().zones().version().to_owned();
        let mut after = ScheduleId(0);
        let mut recomputed = 0;
        loop {
            let ids = hub.store().outdated(&release, after, RECOMPUTED).await?;
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
        match ZoneRelease.run_once(&hub).await {
            Ok(0) => {}
            Ok(schedules) => tracing::info!(schedules, "next times follow a new zone database"),
            Err(error) => tracing::error!(%error, "next times may be of an old zone database"),
        }
        loop {
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
