//! How a node finds a stored row that kills it. After several early deaths in a row the node
//! decides over one thing at a time, and stores which one before it does. If it dies again, its
//! next start knows what killed it. A decision that exhausts memory or stack cannot be caught in
//! the process that makes it.
//!
//! What killed the last node was in the store when that node died. So only what was due or waited
//! when this node started is decided alone, and what people and programs send meanwhile is not.

use std::collections::HashSet;

use engine::RunKey;
use engine::turn::Wakeup;
use jiff::{SignedDuration, Timestamp};
use store::{Failure, Trial};

use super::{Driver, Membership};
use crate::clock::StoreClock;

/// A node is careful after this many early deaths in a row. A single one may have any reason.
const DEATHS: u32 = 2;
/// A careful node decides over this many things alone before it goes on as usual. Each costs two
/// transactions, and other nodes and people wait meanwhile.
const TRIALS: usize = 256;
/// A death after this uptime does not count as early.
const SETTLED: SignedDuration = SignedDuration::from_mins(10);
/// The reason stored with a row that is set aside because it killed nodes.
pub(super) const WHY: &str = "nodes died three times in a row while they decided over this alone";

/// How a node starts: carefully after early deaths, as usual otherwise.
#[derive(Clone, Debug)]
pub(super) struct Start {
    /// How many things the node may still decide over alone.
    trials: usize,
    /// What the next turn, or the last one, decides over alone.
    trial: Option<Trial>,
    /// When the node joined, by the store's clock.
    joined_at: Timestamp,
    /// Whether something may be left that was due or waited when the node joined.
    has_more: bool,
    /// Runs with attempts that turns over one thing alone have begun. Their reports are decided
    /// alone as well.
    suspects: HashSet<RunKey>,
    /// The last run that was tried alone. The search continues with keys after it.
    after: RunKey,
    /// When a death stops counting as early, by this machine's clock. `None` once that is stored.
    settles_at: Option<Timestamp>,
}

impl Start {
    pub(super) fn new(early_deaths: u32, clock: &StoreClock) -> Start {
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
            trial: None,
            joined_at: clock.now(),
            has_more: true,
            suspects: HashSet::new(),
            after: RunKey(i64::MIN),
            settles_at: clock.machine_now().checked_add(SETTLED).ok(),
        }
    }

    /// Whether the node still decides over things one at a time, so that no turn may run beside
    /// another.
    pub(super) fn is_careful(&self) -> bool {
        self.trials > 0
    }

    /// The run whose report the next turn decides over alone, if its report comes first.
    pub(super) fn tries_report_of(&self, run: RunKey) -> bool {
        self.trial == Some(Trial::Due(Wakeup::Run(run)))
    }

    /// Notes that a turn has begun an attempt of this run.
    pub(super) fn has_begun(&mut self, run: RunKey) {
        if self.trial.is_some() {
            self.suspects.insert(run);
        }
    }

    /// The one run that the next turn begins or continues.
    pub(super) fn begins(&self) -> Option<RunKey> {
        match self.trial {
            Some(Trial::Begin(key)) => Some(key),
            Some(Trial::Due(_)) | None => None,
        }
    }
}

impl Driver {
    /// Whether the last turn decided over one thing alone because the node died early several
    /// times. Another such turn may follow it.
    pub fn is_alone(&self) -> bool {
        self.start.trial.is_some()
    }

    /// When the node's start counts as survived, by the store's clock.
    pub(super) fn settles_at(&self) -> Option<Timestamp> {
        let left = self.start.settles_at?.duration_since(self.clock.machine_now());
        self.clock.now().checked_add(left).ok()
    }

    /// Runs before each turn: a node that was declared dead joins again, and a careful node stores
    /// what it is about to decide over.
    pub(super) async fn prepare(&mut self) -> Result<(), Failure> {
        if self.membership == Membership::Fenced {
            self.join_again().await?;
        }
        if self.start.settles_at.is_some_and(|at| at <= self.clock.machine_now()) {
            self.store.has_settled(&self.name).await?;
            (self.start.settles_at, self.start.trials) = (None, 0);
        }
        if self.start.is_careful() || self.is_alone() {
            self.put_on_trial().await?;
        }
        Ok(())
    }

    /// Chooses what the next turn decides over alone, if anything is left to try, and stores the
    /// choice.
    async fn put_on_trial(&mut self) -> Result<(), Failure> {
        let next = self.next_trial().await?;
        let last = std::mem::replace(&mut self.start.trial, next);
        self.start.after = self.start.begins().unwrap_or(self.start.after);
        if next.is_some() {
            self.start.trials -= 1;
        }
        if last.is_some() || next.is_some() {
            self.store.put_on_trial(&self.name, next.map(Trial::what)).await?;
        }
        Ok(())
    }

    async fn next_trial(&mut self) -> Result<Option<Trial>, Failure> {
        if !self.start.is_careful() || self.stopping {
            return Ok(None);
        }
        let suspects = &self.start.suspects;
        let of_suspect = self.reports.iter().position(|report| suspects.contains(&report.run));
        if let Some(index) = of_suspect {
            self.reports.swap(0, index);
            return Ok(Some(Trial::Due(Wakeup::Run(self.reports[0].run))));
        }
        if !self.start.has_more {
            return Ok(None);
        }
        let next = self.store.next_to_decide(self.start.joined_at, self.start.after).await?;
        self.start.has_more = next.is_some();
        Ok(next)
    }
}
