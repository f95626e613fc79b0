//! A node that has died early several times in a row decides over one thing at a time, and stores which before it
//! does. If it dies again, its next life knows what killed it: a decision that exhausts the memory or the stack cannot
//! be caught in the process that makes it.

use engine::RunKey;
use engine::turn::Wakeup;
use jiff::{SignedDuration, Timestamp};
use store::{Failure, Trial};

use super::Driver;

/// Early deaths in a row after which a node is careful. One may have any reason.
const DEATHS: u32 = 2;
/// Things that a careful node decides over alone before it goes on as usual. Each costs two transactions, and other
/// nodes or people wait meanwhile.
const TRIALS: usize = 256;
/// A node that dies after it has lived for so long has not died early.
const SETTLED: SignedDuration = SignedDuration::from_mins(10);
/// Why a thing is set aside that killed nodes.
pub(super) const WHY: &str = "nodes died three times in a row while they decided over this alone";

/// How a node starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// Things that may still be decided over alone.
    trials: usize,
    /// Whether the next turn, or the last one, decides over one thing alone.
    is_alone: bool,
    /// The run that the next turn is to begin or go on with.
    begins: Option<RunKey>,
    /// The last run that was begun alone; those after it are next.
    after: RunKey,
    /// By this machine's clock; nothing once that is over.
    settles_at: Option<Timestamp>,
}

impl Start {
    pub(super) fn new(early_deaths: u32, now: Timestamp) -> Start {
        let is_careful = early_deaths >= DEATHS;
        if is_careful {
            tracing::warn!(
                early_deaths,
                "the node died soon after each of its last starts: it decides over one thing at a time, to find \
                 out what kills it"
            );
        }
        Start {
            trials: if is_careful { TRIALS } else { 0 },
            is_alone: false,
            begins: None,
            after: RunKey(i64::MIN),
            settles_at: now.checked_add(SETTLED).ok(),
        }
    }

    /// Whether things are decided over alone, so that no turn is taken beside another.
    pub(super) fn is_careful(&self) -> bool {
        self.trials > 0
    }

    /// Whether a turn decides over one thing alone; after it there may be another one.
    pub(super) fn is_alone(&self) -> bool {
        self.is_alone
    }

    pub(super) fn begins(&self) -> Option<RunKey> {
        self.begins
    }
}

impl Driver {
    /// Whether its last turn decided over one thing alone, because the node died early several times before.
    pub fn is_alone(&self) -> bool {
        self.start.is_alone
    }

    /// When the node will have lived long enough, by the store's clock.
    pub(super) fn settles_at(&self) -> Option<Timestamp> {
        let left = self.start.settles_at?.duration_since(self.clock.machine_now());
        self.clock.now().checked_add(left).ok()
    }

    /// What comes before a turn: a node that was taken for dead joins again, one that is careful stores what it is
    /// about to decide over.
    pub(super) async fn prepare(&mut self) -> Result<(), Failure> {
        if self.is_fenced {
            self.join_again().await?;
        }
        if self.start.settles_at.is_some_and(|at| at <= self.clock.machine_now()) {
            self.store.has_settled(&self.name).await?;
            (self.start.settles_at, self.start.trials) = (None, 0);
        }
        if self.start.is_careful() || self.start.is_alone {
            self.put_on_trial().await?;
        }
        Ok(())
    }

    /// Chooses what the next turn decides over alone, if there is anything.
    async fn put_on_trial(&mut self) -> Result<(), Failure> {
        let next = self.next_trial().await?;
        self.start.begins = match next {
            Some(Trial::Begin(key)) => Some(key),
            Some(Trial::Due(_)) | None => None,
        };
        self.start.after = self.start.begins.unwrap_or(self.start.after);
        let was_alone = std::mem::replace(&mut self.start.is_alone, next.is_some());
        if next.is_some() {
            self.start.trials -= 1;
        }
        if was_alone || next.is_some() {
            self.store.put_on_trial(&self.name, next.map(Trial::what)).await?;
        }
        Ok(())
    }

    async fn next_trial(&self) -> Result<Option<Trial>, Failure> {
        if !self.start.is_careful() || self.stopping {
            return Ok(None);
        }
        match self.reports.first() {
            Some(report) => Ok(Some(Trial::Due(Wakeup::Run(report.run)))),
            None => self.store.next_to_decide(self.clock.now(), self.start.after).await,
        }
    }
}
