//! The driver: sleeps until the earliest wakeup, a report or a nudge; takes a turn; performs what
//! follows. Nothing it remembers is needed: after a crash the next life begins with what is stored.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use engine::turn::{Effect, Places};
use engine::{Moment, NodeId, RunKey};
use jiff::{SignedDuration, Timestamp};
use store::{Failure, Report, Store, TurnRequest, Turned};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use crate::alarm::Alarm;
use crate::clock::Clock;
use crate::dispatch::Dispatch;
use crate::hub::{Hub, Nudge};

/// Wakeups that are claimed in one transaction: enough to share a commit, few enough not to make the
/// first of them late.
pub const CLAIMED: usize = 1_000;
/// Later than this after the alarm's time, the node was not awake: asleep, stopped, or the clock was
/// set.
const ASLEEP: SignedDuration = SignedDuration::from_secs(5);
/// The clock is said to have been set back from this difference on.
const SET_BACK: SignedDuration = SignedDuration::from_secs(1);
/// A store that does not answer is asked again after this, doubled each time up to the limit.
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LAST_RETRY: Duration = Duration::from_secs(2);
/// What is going on at a stop may end by itself for so long.
const FINISH: Duration = Duration::from_secs(20);

/// Drives one node.
pub struct Driver {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    dispatch: Arc<dyn Dispatch>,
    hub: Arc<Hub>,
    node: NodeId,
    /// Attempts at a time.
    capacity: usize,
    places: Places,
    performed: HashSet<(RunKey, u32)>,
    /// Reports that are not committed yet.
    reports: Vec<Report>,
    next_wakeup: Option<Timestamp>,
    awake_since: Timestamp,
    last_seen: Timestamp,
    /// What is stored is not known: the last commit's outcome, or an earlier life's.
    in_doubt: bool,
    stopping: bool,
}

/// What a turn did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Wakeups that were claimed.
    pub claimed: usize,
    /// Reports that were refused.
    pub refused: usize,
    /// Attempts that were begun.
    pub begun: usize,
}

impl Driver {
    /// Joins the store as a new life of the node `name`.
    pub async fn join(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        dispatch: Arc<dyn Dispatch>,
        hub: Arc<Hub>,
        name: &str,
        capacity: usize,
    ) -> Result<Driver, Failure> {
        let now = clock.now();
        let joined = store.join(name, Moment::new(now, now)).await?;
        tracing::info!(node = %joined.node, earlier_lives = joined.gone, "joined");
        hub.set_node(joined.node);
        Ok(Driver {
            store,
            clock,
            dispatch,
            hub,
            node: joined.node,
            capacity,
            places: Places::new(capacity),
            performed: HashSet::new(),
            reports: Vec::new(),
            next_wakeup: joined.next_wakeup,
            awake_since: now,
            last_seen: now,
            // What an earlier life has left is not known: the first turn is taken at once.
            in_doubt: true,
            stopping: false,
        })
    }

    /// When to take the next turn, if nothing else happens.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        if self.stopping { None } else { self.next_wakeup }
    }

    /// Whether something is to be done at once.
    pub fn has_more(&self) -> bool {
        let now = self.clock.now();
        // After a turn that failed nothing is known: neither what is due nor what is to be performed.
        self.in_doubt || !self.reports.is_empty() || self.next_wakeup().is_some_and(|at| at <= now)
    }

    /// How many attempts are going on.
    pub fn going_on(&self) -> usize {
        self.performed.len()
    }

    /// Takes a report, to be committed with the next turn.
    pub fn take_report(&mut self, report: Report) {
        self.reports.push(report);
    }

    /// Notices how much time has passed. `alarm` is when it wanted to be woken.
    pub fn wake_up(&mut self, alarm: Option<Timestamp>) {
        let now = self.clock.now();
        // A node with more to do than it can is late, not asleep: it was seen a moment ago.
        let awake = alarm.map(|alarm| alarm.max(self.last_seen));
        if let Some(awake) = awake
            && now.duration_since(awake) > ASLEEP
        {
            let seconds = now.duration_since(awake).as_secs();
            tracing::warn!(
                seconds,
                "was not awake, or the clock was set forward: what was due meanwhile follows catch_up"
            );
            self.awake_since = now;
        }
        if self.last_seen.duration_since(now) > SET_BACK {
            let seconds = self.last_seen.duration_since(now).as_secs();
            tracing::warn!(seconds, "the clock was set back: nothing that has run runs again");
            self.awake_since = self.awake_since.min(now);
        }
        self.last_seen = now;
    }

    /// One turn: reports and everything due are decided and committed, then performed.
    pub async fn turn(&mut self) -> Result<Taken, Failure> {
        let now = self.clock.now();
        let reports = self.reports.clone();
        // A report may come twice, or for an attempt that is nobody's any more.
        let ended: HashSet<_> = reports.iter().map(|report| (report.run, report.token)).collect();
        let still = self.performed.difference(&ended).count();
        let free = if self.stopping { 0 } else { self.capacity.saturating_sub(still) };
        let request = TurnRequest {
            moment: Moment::new(now, self.awake_since),
            node: self.node,
            limit: if self.stopping { 0 } else { CLAIMED },
            places: Places { free, ..self.places },
            performed: self.in_doubt.then(|| self.performed.iter().copied().collect()),
            reports,
        };
        let committed = self.reports.len();
        self.hub.turning();
        match self.store.turn(request).await {
            Ok(turned) => Ok(self.committed(turned, committed)),
            Err(failure) => {
                // Reports are kept: if they were committed after all, they will be refused.
                self.doubt();
                Err(failure)
            }
        }
    }

    fn committed(&mut self, turned: Turned, reports: usize) -> Taken {
        for report in self.reports.drain(..reports) {
            self.performed.remove(&(report.run, report.token));
        }
        self.in_doubt = false;
        self.places = Places { free: self.capacity, ..turned.places };
        self.next_wakeup = turned.next_wakeup;
        if turned.taken_over > 0 {
            let attempts = turned.taken_over;
            tracing::info!(attempts, "took over what a life before this one was doing");
        }
        self.hub.committed(&turned, self.next_wakeup());
        let taken =
            Taken { claimed: turned.claimed, refused: turned.refused, begun: turned.effects.len() };
        self.perform(turned.effects);
        taken
    }

    /// Performs effects, after their commit.
    pub fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Perform(perform) => {
                    let attempt = (perform.run, perform.token);
                    if !self.performed.insert(attempt) {
                        continue;
                    }
                    self.hub.performing(&perform, self.clock.now());
                    self.reports.extend(self.dispatch.perform(*perform));
                }
                Effect::Cancel { run, token } => self.dispatch.cancel(run, token),
            }
        }
    }

    /// Drives until it is told to stop, and then until everything has ended or is handed back.
    pub async fn run(
        mut self,
        mut nudges: UnboundedReceiver<Nudge>,
        mut reports: UnboundedReceiver<Report>,
        stop: CancellationToken,
    ) -> Result<(), Failure> {
        let alarm = Alarm::new().map_err(|error| Failure::Unavailable(error.to_string()))?;
        let mut retry = FIRST_RETRY;
        while !stop.is_cancelled() {
            let at = self.next_wakeup();
            if !self.has_more() {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break,
                    report = reports.recv() => self.reports.extend(report),
                    Some(nudge) = nudges.recv() => self.take_nudge(nudge),
                    _ = alarm.wait_until(at) => {}
                }
            }
            self.wake_up(at);
            while let Ok(report) = reports.try_recv() {
                self.reports.push(report);
            }
            while let Ok(nudge) = nudges.try_recv() {
                self.take_nudge(nudge);
            }
            retry = self.turn_or_wait(retry, &stop).await;
        }
        self.finish(&mut reports).await
    }

    /// Takes to heart what the hub has told, before the next turn.
    pub fn take_nudge(&mut self, nudge: Nudge) {
        match nudge {
            Nudge::Effects(effects) => self.perform(effects),
            Nudge::Look => self.places.look = true,
            Nudge::Sooner => {}
            Nudge::Doubt => self.doubt(),
        }
    }

    /// A commit's outcome is not known: what follows from it is asked for again.
    fn doubt(&mut self) {
        self.in_doubt = true;
        self.places.look = true;
    }

    /// A store that does not answer is asked again, later and later; nothing is decided meanwhile.
    async fn turn_or_wait(&mut self, retry: Duration, stop: &CancellationToken) -> Duration {
        match self.turn().await {
            Ok(_) => {
                self.hub.set_ready(true);
                FIRST_RETRY
            }
            Err(failure) => {
                self.hub.set_ready(false);
                tracing::error!(%failure, "nothing can be decided; trying again in {retry:?}");
                tokio::select! {
                    () = tokio::time::sleep(retry) => {}
                    () = stop.cancelled() => {}
                }
                (retry * 2).min(LAST_RETRY)
            }
        }
    }

    /// Lets what is going on end; what does not is handed back, to be taken over by the next life.
    async fn finish(&mut self, reports: &mut UnboundedReceiver<Report>) -> Result<(), Failure> {
        self.stopping = true;
        self.hub.set_ready(false);
        let deadline = tokio::time::sleep(FINISH);
        tokio::pin!(deadline);
        tracing::info!(attempts = self.performed.len(), "stopping");
        while !self.performed.is_empty() {
            if self.reports.is_empty() {
                tokio::select! {
                    report = reports.recv() => self.reports.extend(report),
                    () = &mut deadline => break,
                }
            }
            while let Ok(report) = reports.try_recv() {
                self.reports.push(report);
            }
            if let Err(failure) = self.turn().await {
                tracing::error!(%failure, "what has ended cannot be stored: it will be repeated");
                break;
            }
        }
        if !self.performed.is_empty() {
            tracing::warn!(attempts = self.performed.len(), "handed back");
        }
        self.dispatch.abandon();
        self.store.leave(self.node).await
    }
}
