//! The node: the real driver, engine and store. It dies and comes back.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use calendar::Zones;
use engine::NodeId;
use engine::turn::Command;
use futures_util::FutureExt as _;
use jiff::SignedDuration;
use server::maintenance::{NextTimes, Retention};
use server::{Clock, Dispatch, Driver, DriverSignal, Hub, Taken};
use store::{Failure, Idempotency, Sqlite, SqliteOptions, Store};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::clock::Time;
use crate::faults::{Desk, FaultyStore, answer};
use crate::random::Random;
use crate::sabotage::Tampering;
use crate::watch::Watch;
use crate::work::Work;

const NAME: &str = "simulated";
/// How many attempts it performs at a time: few, so that capacity is scarce.
pub(crate) const CAPACITY: usize = 6;
/// How many next times are recomputed in one commit: few, so that there are other commits in
/// between.
const NEXT_TIMES: NextTimes = NextTimes { batch: 2 };
/// How often a command whose caller is gone is polled: it begins and commits at the first poll, and
/// is answered at the second.
const LOOKS: usize = 8;
/// A background duty that yields more often than this never ends.
const TURNS: usize = 1_000_000;

/// What outlives the node.
pub(crate) struct Machine {
    path: PathBuf,
    zones: Arc<Zones>,
    store: Option<Arc<dyn Store>>,
    pub(crate) time: Arc<Time>,
    pub(crate) desk: Arc<Desk>,
    pub(crate) work: Arc<Work>,
}

/// A node from when it joins until it dies or leaves.
pub(crate) struct Node {
    pub(crate) driver: Driver,
    pub(crate) hub: Arc<Hub>,
    signals: UnboundedReceiver<DriverSignal>,
    is_signalled: bool,
    /// Runs commands whose callers are gone. What is left of them dies with the node.
    tasks: Runtime,
    desk: Arc<Desk>,
    /// A hub without a driver, for the planted bug that the driver does not learn of such commands.
    deaf: Hub,
}

impl Machine {
    pub(crate) fn new(
        folder: &Path,
        time: Arc<Time>,
        chance: Random,
        tampering: Tampering,
        work: Arc<Work>,
    ) -> Result<Machine, Failure> {
        let path = folder.join("punctual.db");
        let zones = Arc::new(Zones::bundled());
        let store = open(&path, &zones)?;
        let watch = Watch::begin(&path).map_err(|error| Failure::Damaged(error.to_string()))?;
        let desk = Arc::new(Desk::new(time.clone(), chance, watch, tampering));
        Ok(Machine { path, zones, store: Some(store), time, desk, work })
    }

    /// The store, opened if it is not open.
    pub(crate) fn store(&mut self) -> Result<Arc<dyn Store>, Failure> {
        if let Some(store) = &self.store {
            return Ok(store.clone());
        }
        let store = open(&self.path, &self.zones)?;
        self.store = Some(store.clone());
        Ok(store)
    }

    pub(crate) fn close(&mut self) {
        self.store = None;
    }

    /// Starts and joins the node.
    pub(crate) fn join(&mut self) -> Result<Node, Failure> {
        let real = self.store()?;
        let store: Arc<dyn Store> = Arc::new(FaultyStore { real, desk: self.desk.clone() });
        let clock: Arc<dyn Clock> = self.time.clone();
        let dispatch: Arc<dyn Dispatch> = self.work.clone();
        let (sender, signals) = unbounded_channel();
        let hub = Arc::new(Hub::new(store.clone(), clock.clone(), sender));
        let deaf = Hub::new(store.clone(), clock.clone(), unbounded_channel().0);
        let joined = Driver::join(store, clock, dispatch, hub.clone(), NAME, CAPACITY);
        let driver = joined.now_or_never().unwrap_or_else(|| Err(not_at_once()))?;
        let tasks = Builder::new_current_thread().build().map_err(no_tasks)?;
        Ok(Node { driver, hub, signals, is_signalled: false, tasks, desk: self.desk.clone(), deaf })
    }

    /// The node leaves in good order.
    pub(crate) fn leave(&mut self, node: i64) -> Result<(), Failure> {
        answer(self.store()?.has_settled(NAME))?;
        answer(self.store()?.leave(NodeId(node)))
    }
}

fn open(path: &Path, zones: &Arc<Zones>) -> Result<Arc<dyn Store>, Failure> {
    let options = SqliteOptions { inline: true, sync: false, readers: 1, cache_kb: 8_192 };
    Ok(Arc::new(Sqlite::open(path, zones.clone(), options)?))
}

impl Node {
    pub(crate) fn put_calendar(&self, id: &str, spec: &str) -> Result<u64, Failure> {
        at_last(NEXT_TIMES.put_calendar(&self.hub, id, spec, None))
    }

    pub(crate) fn recompute_leftovers(&self) -> Result<u64, Failure> {
        at_last(NEXT_TIMES.run_once(&self.hub))
    }

    pub(crate) fn expire(&self, keep: SignedDuration) -> Result<u64, Failure> {
        at_last(Retention { keep }.run_once(&self.hub)).map(|removed| removed.rows)
    }

    pub(crate) fn turn(&mut self) -> Result<Taken, Failure> {
        self.driver.turn().now_or_never().unwrap_or_else(|| Err(not_at_once()))
    }

    pub(crate) fn command(&self, command: Command, key: &str) -> Result<(), Failure> {
        let idempotency = Idempotency { key: key.to_owned(), fingerprint: [0; 32] };
        let commanded = self.hub.carry_out(command, Some(idempotency), None).now_or_never();
        commanded.unwrap_or_else(|| Err(not_at_once())).map(drop)
    }

    /// Gives a command whose caller is gone before the answer comes. The command goes on.
    pub(crate) fn command_and_leave(&self, command: Command, key: &str) {
        let idempotency = Some(Idempotency { key: key.to_owned(), fingerprint: [0; 32] });
        if self.desk.tampering.loses_gone_callers() {
            // The command is committed, but the driver does not learn of its effects.
            drop(self.deaf.carry_out(command, idempotency, None).now_or_never());
            return;
        }
        self.desk.answer_late(true);
        self.tasks.block_on(async {
            drop(self.hub.command(command, idempotency).now_or_never());
            for _ in 0..LOOKS {
                tokio::task::yield_now().await;
            }
        });
        self.desk.answer_late(false);
    }

    /// Hands the driver the signals that the hub has sent meanwhile.
    pub(crate) fn take_signals(&mut self) {
        while let Ok(signal) = self.signals.try_recv() {
            self.driver.take_signal(signal);
            self.is_signalled = true;
        }
    }

    /// Whether any signal has come since the last call.
    pub(crate) fn was_signalled(&mut self) -> bool {
        self.take_signals();
        std::mem::take(&mut self.is_signalled)
    }
}

/// Polls a duty until it is done: the store answers at once, so a duty that yields can go on at
/// once.
fn at_last<T>(duty: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let mut duty = std::pin::pin!(duty);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..TURNS {
        if let Poll::Ready(result) = duty.as_mut().poll(&mut context) {
            return result;
        }
    }
    Err(not_at_once())
}

fn no_tasks(error: std::io::Error) -> Failure {
    Failure::Unavailable(format!("no tasks: {error}"))
}

fn not_at_once() -> Failure {
    Failure::Unavailable("the store does not answer at once".to_owned())
}
