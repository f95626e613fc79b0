//! The driver: sleeps until the earliest wakeup, a report or a nudge; takes a turn; performs what
//! follows. Nothing it remembers is needed: after a crash, or when others have taken it for dead, the next
//! life begins with what is stored.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use engine::turn::{Effect, Places};
use engine::{Moment, NodeId};
use jiff::{SignedDuration, Timestamp};
use store::{Failure, Report, Store, TurnRequest, Turned};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use crate::alarm::Alarm;
use crate::clock::{Clock, Stopwatch, StoreClock};
use crate::dispatch::Dispatch;
use crate::hub::{Hub, Nudge};
use crate::lease::{Performed, Renewals};

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
    clock: StoreClock,
    dispatch: Arc<dyn Dispatch>,
    hub: Arc<Hub>,
    name: String,
    node: NodeId,
    /// Attempts at a time.
    capacity: usize,
    places: Places,
    performed: Performed,
    /// Reports that are not committed yet.
    reports: Vec<Report>,
    next_wakeup: Option<Timestamp>,
    /// By the store's clock.
    awake_since: Timestamp,
    /// By this machine's clock.
    last_seen: Timestamp,
    /// What is stored is not known: the last commit's outcome, or an earlier life's.
    in_doubt: bool,
    /// This life is over: others have taken the node for dead.
    is_fenced: bool,
    /// The store has not answered, and somebody was told.
    is_cut_off: bool,
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
        let clock = StoreClock::new(clock, store.clone());
        let now = clock.now();
        let joined = store.join(name, Moment::new(now, now)).await?;
        tracing::info!(node = %joined.node, earlier_lives = joined.gone, "joined");
        hub.set_node(joined.node, capacity);
        Ok(Driver {
            awake_since: awake_since(&*store, joined.node, clock.now()).await?,
            last_seen: clock.machine_now(),
            store,
            clock,
            dispatch,
            hub,
            name: name.to_owned(),
            node: joined.node,
            capacity,
            places: Places::new(capacity),
            performed: Performed::default(),
            reports: Vec::new(),
            next_wakeup: joined.next_wakeup,
            // What an earlier life has left is not known: the first turn is taken at once.
            in_doubt: true,
            is_fenced: false,
            is_cut_off: false,
            stopping: false,
        })
    }

    /// What renews this node's lease, beside the driver.
    pub fn renewals(&self) -> Renewals {
        Renewals {
            store: self.store.clone(),
            clock: self.clock.clone(),
            hub: self.hub.clone(),
            capacity: self.capacity,
            performed: self.performed.clone(),
        }
    }

    /// When to take the next turn, if nothing else happens.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        if self.stopping { None } else { self.next_wakeup }
    }

    /// Whether something is to be done at once.
    pub fn has_more(&self) -> bool {
        let now = self.clock.now();
        // After a turn that failed nothing is known: neither what is due nor what is to be performed.
        let is_due = self.next_wakeup().is_some_and(|at| at <= now);
        self.in_doubt || self.places.more || !self.reports.is_empty() || is_due
    }

    /// How many attempts are going on.
    pub fn going_on(&self) -> usize {
        self.performed.held().len()
    }

    /// Takes a report, to be committed with the next turn.
    pub fn take_report(&mut self, report: Report) {
        self.reports.push(report);
    }

    /// Notices how much time has passed. `alarm` is when it wanted to be woken.
    pub fn wake_up(&mut self, alarm: Option<Timestamp>) {
        let now = self.clock.machine_now();
        let overslept = self.overslept(alarm);
        if overslept > ASLEEP {
            tracing::warn!(
                seconds = overslept.as_secs(),
                "was not awake, or the clock was set forward: what was due meanwhile follows catch_up"
            );
            self.awake_since = self.clock.now();
        }
        let set_back = self.set_back();
        if set_back > SET_BACK {
            // A shared store has a clock of its own: what happens to this machine's is nothing to it.
            if self.store.lease().is_none() {
                let seconds = set_back.as_secs();
                tracing::warn!(seconds, "the clock was set back: nothing that has run runs again");
            }
            self.awake_since = self.awake_since.min(self.clock.now());
        }
        self.last_seen = now;
    }

    /// How far this machine's clock is behind what it showed last.
    fn set_back(&self) -> SignedDuration {
        self.last_seen.duration_since(self.clock.machine_now())
    }

    /// How long after its alarm the node wakes up, by this machine's clock.
    fn overslept(&self, alarm: Option<Timestamp>) -> SignedDuration {
        let now = self.clock.machine_now();
        // A node with more to do than it can is late, not asleep: it was seen a moment ago.
        let awake = alarm.map(|alarm| self.clock.on_machine(alarm).max(self.last_seen));
        awake.map_or(SignedDuration::ZERO, |awake| now.duration_since(awake))
    }

    /// One turn: reports and everything due are decided and committed, then performed.
    /// A node that was taken for dead joins again first.
    pub async fn turn(&mut self) -> Result<Taken, Failure> {
        if self.is_fenced {
            self.join_again().await?;
        }
        let now = self.clock.now();
        let reports = self.reports.clone();
        // A report may come twice, or for an attempt that is nobody's any more.
        let ended: HashSet<_> = reports.iter().map(|report| (report.run, report.token)).collect();
        let still = self.performed.held().difference(&ended).count();
        let free = if self.stopping { 0 } else { self.capacity.saturating_sub(still) };
        let request = TurnRequest {
            moment: Moment::new(now, self.awake_since),
            node: self.node,
            limit: if self.stopping { 0 } else { CLAIMED },
            places: Places { free, ..self.places },
            performed: self.in_doubt.then(|| self.performed.all()),
            reports,
            traced: self.hub.is_traced(),
        };
        let committed = self.reports.len();
        self.hub.turning();
        let stopwatch = Stopwatch::start();
        let turned = self.store.turn(request).await;
        self.hub.metrics.turn_took(stopwatch.elapsed());
        match turned {
            Ok(turned) => Ok(self.committed(turned, committed)),
            Err(Failure::Fenced) => {
                self.fence();
                Err(Failure::Fenced)
            }
            Err(failure) => {
                // Reports are kept: if they were committed after all, they will be refused.
                self.doubt();
                Err(failure)
            }
        }
    }

    fn committed(&mut self, mut turned: Turned, reports: usize) -> Taken {
        let mut performed = self.performed.held();
        for report in self.reports.drain(..reports) {
            performed.remove(&(report.run, report.token));
            self.hub.live.ended(report.run, report.token);
            self.hub.metrics.reported(&report.end);
        }
        drop(performed);
        self.in_doubt = false;
        self.places = Places { free: self.capacity, ..turned.places };
        self.next_wakeup = turned.next_wakeup;
        if turned.taken_over > 0 {
            let attempts = turned.taken_over;
            tracing::info!(attempts, "took over what a node that is gone was doing");
        }
        self.hub.trace(std::mem::take(&mut turned.spans));
        self.hub.committed(&turned, self.next_wakeup());
        let taken =
            Taken { claimed: turned.claimed, refused: turned.refused, begun: turned.effects.len() };
        self.perform(turned.effects);
        self.hub.metrics.going_on(self.going_on());
        taken
    }

    /// This life is over. What it was performing is others' by now, and what it has to report as well.
    fn fence(&mut self) {
        let attempts = self.going_on();
        tracing::warn!(
            node = %self.node,
            attempts,
            "taken for dead: others do what this node was doing, and it joins again"
        );
        self.dispatch.abandon();
        self.hub.live.clear();
        self.performed.held().clear();
        self.reports.clear();
        self.hub.metrics.going_on(0);
        self.is_fenced = true;
        self.doubt();
        self.hub.set_not_ready("This node was taken for dead, and is joining again.");
        self.hub.metrics.fenced();
    }

    async fn join_again(&mut self) -> Result<(), Failure> {
        let now = self.clock.now();
        let joined = self.store.join(&self.name, Moment::new(now, now)).await?;
        tracing::info!(node = %joined.node, "joined again");
        self.node = joined.node;
        self.next_wakeup = joined.next_wakeup;
        self.places = Places::new(self.capacity);
        self.is_fenced = false;
        self.hub.set_node(joined.node, self.capacity);
        Ok(())
    }

    /// Performs effects, after their commit.
    pub fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Perform(perform) => {
                    let attempt = (perform.run, perform.token);
                    if !self.performed.held().insert(attempt) {
                        continue;
                    }
                    self.hub.performing(&perform, self.clock.now());
                    self.reports.extend(self.dispatch.perform(*perform));
                }
                Effect::Cancel { run, token } => self.dispatch.cancel(run, token),
                // A worker has it, who was told with the answer to its claim.
                Effect::Claimed { .. } => {}
            }
        }
    }

    /// Drives until it is told to stop, and then until everything has ended or is handed back.
    pub async fn run(
        self,
        nudges: UnboundedReceiver<Nudge>,
        reports: UnboundedReceiver<Report>,
        stop: CancellationToken,
    ) -> Result<(), Failure> {
        let renewals = self.renewals();
        tokio::select! {
            ended = self.drive(nudges, reports, stop) => ended,
            never = renewals.run() => match never {},
        }
    }

    async fn drive(
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
                let rings = at.map(|at| self.clock.alarm(at));
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break,
                    report = reports.recv() => self.reports.extend(report),
                    Some(nudge) = nudges.recv() => self.take_nudge(nudge),
                    _ = alarm.wait_until(rings) => {}
                }
            }
            self.notice_time(at).await;
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

    /// If it seems to have slept, a store with a clock of its own is asked first: perhaps this machine's
    /// was set. And others may have been awake.
    async fn notice_time(&mut self, alarm: Option<Timestamp>) {
        let is_strange = self.overslept(alarm) > ASLEEP || self.set_back() > SET_BACK;
        let is_asked = is_strange && self.store.lease().is_some();
        if is_asked && self.renewals().run_once().await.is_err() {
            return;
        }
        let before = self.awake_since;
        self.wake_up(alarm);
        if self.awake_since > before {
            let since = awake_since(&*self.store, self.node, self.awake_since).await;
            self.awake_since = since.unwrap_or_else(|failure| {
                tracing::warn!(%failure, "whether other nodes were awake is not known: as if they were");
                before
            });
        }
    }

    /// Takes to heart what the hub has told, before the next turn.
    pub fn take_nudge(&mut self, nudge: Nudge) {
        match nudge {
            Nudge::Effects(effects) => self.perform(effects),
            Nudge::Look => self.places.look = true,
            Nudge::Sooner => {}
            Nudge::Doubt => self.doubt(),
            Nudge::Fenced(node) if node == self.node && !self.is_fenced => self.fence(),
            // An earlier life: it has joined again since.
            Nudge::Fenced(_) => {}
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
                if std::mem::take(&mut self.is_cut_off) {
                    tracing::info!("the store answers again");
                }
                self.hub.set_ready();
                FIRST_RETRY
            }
            Err(Failure::Fenced) => FIRST_RETRY,
            Err(failure) => {
                self.hub.set_not_ready(format!("Nothing can be decided: {failure}."));
                if std::mem::replace(&mut self.is_cut_off, true) {
                    tracing::debug!(%failure, "trying again in {retry:?}");
                } else {
                    tracing::error!(%failure, "nothing can be decided until the store answers again");
                }
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
        self.hub.set_not_ready("The node is stopping.");
        let deadline = tokio::time::sleep(FINISH);
        tokio::pin!(deadline);
        tracing::info!(attempts = self.going_on(), "stopping");
        while self.going_on() > 0 {
            if self.reports.is_empty() {
                tokio::select! {
                    report = reports.recv() => self.reports.extend(report),
                    () = &mut deadline => break,
                }
            }
            while let Ok(report) = reports.try_recv() {
                self.reports.push(report);
            }
            match self.turn().await {
                Ok(_) => {}
                // Nothing is left that would be its own.
                Err(Failure::Fenced) => break,
                Err(failure) => {
                    tracing::error!(%failure, "what has ended cannot be stored: it will be repeated");
                    break;
                }
            }
        }
        if self.going_on() > 0 {
            tracing::warn!(attempts = self.going_on(), "handed back");
        }
        self.dispatch.abandon();
        self.store.leave(self.node).await
    }
}

/// Since when somebody has been awake: this node since then, or others that live for longer.
async fn awake_since(
    store: &dyn Store,
    node: NodeId,
    since: Timestamp,
) -> Result<Timestamp, Failure> {
    if store.lease().is_none() {
        return Ok(since);
    }
    let nodes = store.nodes().await?;
    let others = nodes.iter().filter(|other| other.id != node && other.lease_until >= Some(since));
    Ok(others.map(|other| other.started_at).fold(since, Timestamp::min))
}
