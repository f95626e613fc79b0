//! The driver: sleeps until the earliest wakeup, a report or a signal, takes a turn, and performs
//! the effects it commits. It needs nothing that it keeps in memory: after a crash, or after other
//! nodes declared this node dead, it starts again from the stored rows.

use std::sync::Arc;
use std::time::Duration;

use engine::turn::{Capacity, Effect, Recovered};
use engine::{Moment, NodeId};
use jiff::{SignedDuration, Timestamp};
use store::{Failure, Report, Store};

use crate::clock::{Clock, StoreClock};
use crate::dispatch::Dispatch;
use crate::hub::{DriverSignal, Hub};
use crate::lease::{Performed, Renewals};

mod careful;
mod drive;
mod isolate;
mod turn;

/// How many wakeups one transaction claims at most: enough to share the cost of a commit.
pub const CLAIMED: usize = 1_000;
/// How many wakeups a turn claims when turns are slow.
const FEWEST_CLAIMED: usize = 50;
/// How long a turn may take. After a longer one, the next turns claim fewer wakeups, so that what
/// becomes due during a turn is not late.
const TURN: SignedDuration = SignedDuration::from_millis(100);
/// If the node wakes up later than this after its alarm, it was not running: the machine was
/// suspended, the process was stopped, or the clock was set forward.
const ASLEEP: SignedDuration = SignedDuration::from_secs(5);
/// A clock difference from which the driver logs that the clock was set back.
const SET_BACK: SignedDuration = SignedDuration::from_secs(1);
/// The driver of one node: claims due wakeups, commits reports, and starts attempts.
pub struct Driver {
    store: Arc<dyn Store>,
    clock: StoreClock,
    dispatch: Arc<dyn Dispatch>,
    hub: Arc<Hub>,
    name: String,
    node: NodeId,
    /// How many attempts the node performs at a time.
    capacity: usize,
    slots: Capacity,
    performed: Performed,
    /// Reports that no turn has committed yet.
    reports: Vec<Report>,
    next_wakeup: Option<Timestamp>,
    /// How many turns have begun and not ended, and how many slots they may fill together.
    in_flight: usize,
    granted: usize,
    /// How many wakeups the next turn claims, so that it takes no longer than `TURN`.
    limit: usize,
    /// The last turn claimed as many wakeups as it could, so more are due.
    is_behind: bool,
    /// Since when this node, or another one of the store, has been awake, by the store's clock.
    /// What was due before that follows the catch-up policy.
    awake_since: Timestamp,
    /// When the node was last known to be awake, by this machine's clock.
    last_seen: Timestamp,
    membership: Membership,
    /// The pause before the next try while the store does not answer, which was logged.
    outage: Option<Duration>,
    stopping: bool,
    /// How many of the next turns decide over one row only: a turn could not decide over one of
    /// many rows, and the store did not say which.
    single: usize,
    /// Occurrences and attempts recovered after downtime that have not been logged yet.
    recovered: Recovered,
    start: careful::Start,
}

/// How the stored rows of this node relate to what the driver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Membership {
    /// The driver performs exactly the attempts that the store has given to this node.
    Current,
    /// The last commit's outcome is unknown, or the node has just joined and earlier work of it may
    /// be left. The next turn reads what is stored and makes it `Current`.
    InDoubt,
    /// Other nodes declared this node dead. It joins again before its next turn, and is `InDoubt`.
    Fenced,
}

/// Counts of what one turn did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    pub claimed: usize,
    /// Reports that came too late and were refused.
    pub refused: usize,
    /// Effects the turn committed, most of them attempts to start.
    pub begun: usize,
}

impl Driver {
    /// Joins the store as a new start of the node `name`, with a new node id.
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
        let start = careful::Start::new(joined.early_deaths, &clock);
        let driver = Driver {
            awake_since: awake_since(&*store, joined.node, clock.now()).await?,
            last_seen: clock.machine_now(),
            store,
            clock,
            dispatch,
            hub,
            name: name.to_owned(),
            node: joined.node,
            capacity,
            slots: Capacity::new(capacity),
            performed: Performed::default(),
            reports: Vec::new(),
            next_wakeup: joined.next_wakeup,
            in_flight: 0,
            granted: 0,
            limit: CLAIMED,
            is_behind: false,
            membership: Membership::InDoubt,
            outage: None,
            stopping: false,
            single: 0,
            recovered: Recovered::default(),
            start,
        };
        if let Some(culprit) = joined.culprit {
            driver.hub.set_aside(culprit, careful::WHY).await?;
        }
        Ok(driver)
    }

    /// The task that renews this node's lease while the driver runs.
    pub fn renewals(&self) -> Renewals {
        Renewals {
            store: self.store.clone(),
            clock: self.clock.clone(),
            hub: self.hub.clone(),
            capacity: self.capacity,
            performed: self.performed.clone(),
        }
    }

    /// When to take the next turn if no report and no signal comes before. `None` while stopping.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        if self.stopping { None } else { self.next_wakeup }
    }

    /// Whether a turn must be taken at once.
    pub fn has_more(&self) -> bool {
        // After a failed turn the driver knows neither what is due nor which attempts it has to
        // perform.
        let is_in_doubt = self.membership != Membership::Current;
        is_in_doubt
            || self.is_alone()
            || self.slots.has_more
            || !self.reports.is_empty()
            || self.is_due()
    }

    fn is_due(&self) -> bool {
        self.next_wakeup().is_some_and(|at| at <= self.clock.now())
    }

    /// Logs in one line what was recovered after downtime, once everything that was due is decided.
    pub(super) fn tell_recovered(&mut self) {
        if self.recovered.is_nothing() || self.is_due() || self.membership != Membership::Current {
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

    /// How many attempts this node is performing.
    pub fn going_on(&self) -> usize {
        self.performed.held().len()
    }

    /// Keeps a report, to be committed with the next turn.
    pub fn take_report(&mut self, report: Report) {
        self.reports.push(report);
    }

    /// Compares the clock with `alarm`, the time the driver wanted to be woken at, and with what it
    /// showed last. Logs if the node was not running meanwhile, or if the clock was set.
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
            // A shared store has its own clock, so a change of this machine's clock does not matter
            // to it.
            if self.store.lease().is_none() {
                let seconds = set_back.as_secs();
                tracing::warn!(seconds, "the clock was set back: nothing that has run runs again");
            }
            self.awake_since = self.awake_since.min(self.clock.now());
        }
        self.last_seen = now;
    }

    /// How far this machine's clock is behind the last time the driver read it.
    fn set_back(&self) -> SignedDuration {
        self.last_seen.duration_since(self.clock.machine_now())
    }

    /// How long after its alarm the node wakes up, by this machine's clock.
    fn overslept(&self, alarm: Option<Timestamp>) -> SignedDuration {
        let now = self.clock.machine_now();
        // A node that has more work than it can do is late, not suspended: `last_seen` was a moment
        // ago.
        let awake = alarm.map(|alarm| self.clock.on_machine(alarm).max(self.last_seen));
        awake.map_or(SignedDuration::ZERO, |awake| now.duration_since(awake))
    }

    /// Takes one turn: the store decides over the reports and everything due, and commits; then the
    /// driver performs the effects. A node that was declared dead joins again first.
    pub async fn turn(&mut self) -> Result<Taken, Failure> {
        self.prepare().await?;
        let (begun, request) = self.begin();
        let turned = self.store.turn(request).await;
        let ended = self.end(begun, turned);
        self.isolate(ended).await
    }

    /// Other nodes declared this node dead: they take over its attempts, so the driver aborts those
    /// and drops their reports.
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
        self.membership = Membership::Fenced;
        self.slots.rescan = true;
        self.hub.set_not_ready("This node was taken for dead, and is joining again.");
        self.hub.metrics.fenced();
    }

    async fn join_again(&mut self) -> Result<(), Failure> {
        let now = self.clock.now();
        // This process is alive, so being declared dead does not count as an early death.
        self.store.has_settled(&self.name).await?;
        let joined = self.store.join(&self.name, Moment::new(now, now)).await?;
        tracing::info!(node = %joined.node, "joined again");
        self.node = joined.node;
        self.next_wakeup = joined.next_wakeup;
        self.slots = Capacity::new(self.capacity);
        self.membership = Membership::InDoubt;
        self.hub.set_node(joined.node, self.capacity);
        Ok(())
    }

    /// Performs effects, after the transaction that returned them was committed.
    pub fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Perform(perform) => {
                    self.start.has_begun(perform.run);
                    let attempt = (perform.run, perform.token);
                    if self.performed.held().insert(attempt, perform.workflow).is_some() {
                        continue;
                    }
                    self.hub.metrics.begun(perform.due, self.clock.now());
                    self.reports.extend(self.dispatch.perform(*perform));
                }
                Effect::Cancel { run, token } => self.dispatch.cancel(run, token),
                // A worker performs this attempt: the answer to its claim carried it.
                Effect::Claimed { .. } => {}
            }
        }
    }

    /// Checks the clock before a turn. If the node seems to have been suspended, or the clock set
    /// back, and the store has a clock of its own, the lease is renewed first, which measures the
    /// skew again: perhaps only this machine's clock was set. If the node was suspended, other
    /// nodes may have been running meanwhile.
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

    /// Checks the clock while a turn is in flight, which the driver does every second. A gap shows
    /// that the process or its machine was suspended; the length of the turn does not tell that.
    async fn notice_suspension(&mut self) {
        self.notice_time(Some(Timestamp::MIN)).await;
    }

    /// Notes that the driver is awake now. Isolating a culprit and pauses may have taken longer
    /// than a sleep, and count as work.
    fn is_awake(&mut self) {
        self.last_seen = self.last_seen.max(self.clock.machine_now());
    }

    /// Applies a signal from the hub before the next turn.
    pub fn take_signal(&mut self, signal: DriverSignal) {
        match signal {
            DriverSignal::Effects(effects) => self.perform(effects),
            DriverSignal::Look => self.slots.rescan = true,
            DriverSignal::Sooner => {}
            DriverSignal::Doubt => self.doubt(),
            // A signal for an earlier node id is late: this node has joined again since.
            DriverSignal::Fenced(node) => {
                if node == self.node && self.membership != Membership::Fenced {
                    self.fence();
                }
            }
        }
    }

    /// A commit's outcome is unknown: the next turn reads what it would have returned.
    fn doubt(&mut self) {
        if self.membership == Membership::Current {
            self.membership = Membership::InDoubt;
        }
        self.slots.rescan = true;
    }
}

/// Since when at least one node has been running: this node since `since`, or another node whose
/// lease covers that time and which started earlier.
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
