//! The driver: sleeps until the earliest wakeup, a report or a nudge; takes a turn; performs what
//! follows. Nothing it remembers is needed: after a crash, or when others have taken it for dead, the next
//! life begins with what is stored.

use std::sync::Arc;

use engine::turn::{Effect, Places, Recovered};
use engine::{Moment, NodeId};
use jiff::{SignedDuration, Timestamp};
use store::{Failure, Report, Store};

use crate::clock::{Clock, StoreClock};
use crate::dispatch::Dispatch;
use crate::hub::{Hub, Nudge};
use crate::lease::{Performed, Renewals};

mod careful;
mod drive;
mod isolate;
mod turning;

/// Wakeups that are claimed in one transaction: enough to share a commit, few enough not to make the
/// first of them late.
pub const CLAIMED: usize = 1_000;
/// Later than this after the alarm's time, the node was not awake: asleep, stopped, or the clock was
/// set.
const ASLEEP: SignedDuration = SignedDuration::from_secs(5);
/// The clock is said to have been set back from this difference on.
const SET_BACK: SignedDuration = SignedDuration::from_secs(1);
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
    /// Reports that no turn has taken yet.
    reports: Vec<Report>,
    next_wakeup: Option<Timestamp>,
    /// Turns that have begun and not ended, and places that they may fill.
    in_flight: usize,
    granted: usize,
    /// The last turn claimed all it could: there is more.
    is_behind: bool,
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
    /// Turns that still decide over one thing only: one of many could not be decided, and it is not known which.
    single: usize,
    /// What was found after downtime, until the log has said so.
    recovered: Recovered,
    start: careful::Start,
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
        let start = careful::Start::new(joined.early_deaths, clock.machine_now());
        let mut driver = Driver {
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
            in_flight: 0,
            granted: 0,
            is_behind: false,
            // What an earlier life has left is not known: the first turn is taken at once.
            in_doubt: true,
            is_fenced: false,
            is_cut_off: false,
            stopping: false,
            single: 0,
            recovered: Recovered::default(),
            start,
        };
        if let Some(culprit) = joined.culprit {
            driver.set_aside(culprit, careful::WHY).await?;
        }
        Ok(driver)
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
        // After a turn that failed nothing is known: neither what is due nor what is to be performed.
        let is_in_doubt = self.in_doubt || self.start.is_alone();
        is_in_doubt || self.places.more || !self.reports.is_empty() || self.is_due()
    }

    fn is_due(&self) -> bool {
        self.next_wakeup().is_some_and(|at| at <= self.clock.now())
    }

    /// Says what was found after downtime, in one line, once everything that was due is decided.
    pub(super) fn tell_recovered(&mut self) {
        if self.recovered.is_nothing() || self.is_due() || self.in_doubt {
            return;
        }
        let Recovered { missed, made_up, coalesced, taken_over } =
            std::mem::take(&mut self.recovered);
        tracing::info!(
            node = %self.node,
            missed,
            made_up,
            coalesced,
            taken_over,
            "recovered after downtime: occurrences missed, made up for and merged into others, and attempts of \
             nodes that are gone taken over"
        );
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
        self.prepare().await?;
        let (begun, request) = self.begin();
        let turned = self.store.turn(request).await;
        let ended = self.end(begun, turned);
        self.isolate(ended).await
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
        // The process lives: being taken for dead is no early death.
        self.store.has_settled(&self.name).await?;
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
