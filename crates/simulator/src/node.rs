//! The node: the real driver, engine and store. It dies and comes back.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

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
use crate::faulty_store::{Desk, FaultyStore, answer};
use crate::postgres::schema::Schema;
use crate::random::Random;
use crate::sabotage::Tampering;
use crate::wait::wait_for;
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
/// On PostgreSQL no lease runs out by itself: it does when the node has died and comes back.
const LEASE: SignedDuration = SignedDuration::from_hours(10_000);

/// The store that a world is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// The embedded one, in a file.
    Embedded,
    /// A real PostgreSQL, started for the purpose.
    Postgres,
}

/// Where everything is stored.
#[derive(Clone)]
pub(crate) enum Home {
    /// In a file, by the embedded store.
    File(PathBuf),
    /// In PostgreSQL. The number tells this machine's connections from those of others.
    Schema(Arc<Schema>, usize),
}

/// The parts of a machine that outlive the node.
pub(crate) struct Machine {
    name: String,
    home: Home,
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
        kind: StoreKind,
        folder: &Path,
        time: Arc<Time>,
        chance: Random,
        tampering: Tampering,
        work: Arc<Work>,
    ) -> Result<Machine, Failure> {
        let path = folder.join("punctual.db");
        let zones = Arc::new(Zones::bundled());
        // The embedded store makes the tables, in a world on PostgreSQL for the copy.
        let store = open(&path, &zones)?;
        let (home, store, source) = match kind {
            StoreKind::Embedded => (Home::File(path.clone()), Some(store), None),
            StoreKind::Postgres => {
                drop(store);
                let schema = Arc::new(Schema::create(LEASE, &zones)?);
                (Home::Schema(schema.clone(), 0), None, Some(schema))
            }
        };
        let watch = Watch::begin(&path, source);
        let watch = watch.map_err(|error| Failure::Damaged(error.to_string()))?;
        let watch = Arc::new(Mutex::new(watch));
        let desk = Arc::new(Desk::new(time.clone(), chance, watch, false, tampering));
        Ok(Machine { name: NAME.to_owned(), home, zones, store, time, desk, work })
    }

    /// One of several machines whose nodes share a store.
    pub(crate) fn sharing(
        schema: Arc<Schema>,
        number: usize,
        zones: Arc<Zones>,
        desk: Desk,
        work: Work,
    ) -> Machine {
        let name = format!("{NAME} {number}");
        let time = desk.time.clone();
        let (home, desk, work) = (Home::Schema(schema, number), Arc::new(desk), Arc::new(work));
        Machine { name, home, zones, store: None, time, desk, work }
    }

    /// The store, opened if it is not open.
    pub(crate) fn store(&mut self) -> Result<Arc<dyn Store>, Failure> {
        if let Some(store) = &self.store {
            return Ok(store.clone());
        }
        let store = match &self.home {
            Home::File(path) => open(path, &self.zones)?,
            Home::Schema(schema, number) => schema.open(*number, &self.zones)?,
        };
        self.store = Some(store.clone());
        Ok(store)
    }

    pub(crate) fn close(&mut self) {
        self.store = None;
    }

    /// Starts and joins the node.
    pub(crate) fn join(&mut self) -> Result<Node, Failure> {
        let real = self.store()?;
        if let Home::Schema(schema, _) = &self.home
            && !self.desk.overlaps
        {
            // The embedded store knows that earlier nodes are gone. Here their leases have run out.
            schema.end_leases(self.time.wall())?;
        }
        let store: Arc<dyn Store> = Arc::new(FaultyStore { real, desk: self.desk.clone() });
        let clock: Arc<dyn Clock> = self.time.clone();
        let dispatch: Arc<dyn Dispatch> = self.work.clone();
        let (sender, signals) = unbounded_channel();
        let hub = Arc::new(Hub::new(store.clone(), clock.clone(), sender));
        let deaf = Hub::new(store.clone(), clock.clone(), unbounded_channel().0);
        let joined = Driver::join(store, clock, dispatch, hub.clone(), &self.name, CAPACITY);
        let driver = wait_for(joined)?;
        let tasks = Builder::new_current_thread().build().map_err(no_tasks)?;
        Ok(Node { driver, hub, signals, is_signalled: false, tasks, desk: self.desk.clone(), deaf })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The node leaves in good order.
    pub(crate) fn leave(&mut self, node: i64) -> Result<(), Failure> {
        answer(self.store()?.has_settled(&self.name))?;
        answer(self.store()?.leave(NodeId(node)))
    }
}

fn open(path: &Path, zones: &Arc<Zones>) -> Result<Arc<dyn Store>, Failure> {
    let options = SqliteOptions { inline: true, sync: false, readers: 1, cache_kb: 8_192 };
    Ok(Arc::new(Sqlite::open(path, zones.clone(), options)?))
}

impl Node {
    pub(crate) fn put_calendar(&self, id: &str, spec: &str) -> Result<u64, Failure> {
        wait_for(NEXT_TIMES.put_calendar(&self.hub, id, spec, None))
    }

    pub(crate) fn recompute_leftovers(&self) -> Result<u64, Failure> {
        wait_for(NEXT_TIMES.run_once(&self.hub))
    }

    pub(crate) fn expire(&self, keep: SignedDuration) -> Result<u64, Failure> {
        wait_for(Retention { keep }.run_once(&self.hub)).map(|removed| removed.rows)
    }

    pub(crate) fn turn(&mut self) -> Result<Taken, Failure> {
        wait_for(self.driver.turn())
    }

    pub(crate) fn command(&self, command: Command, key: &str) -> Result<(), Failure> {
        let idempotency = Idempotency { key: key.to_owned(), fingerprint: [0; 32] };
        wait_for(self.hub.carry_out(command, Some(idempotency), None)).map(drop)
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

    /// Whether the hub has sent signals that the driver has not received yet.
    pub(crate) fn has_signals(&self) -> bool {
        !self.signals.is_empty()
    }

    /// Whether any signal has come since the last call.
    pub(crate) fn was_signalled(&mut self) -> bool {
        self.take_signals();
        std::mem::take(&mut self.is_signalled)
    }
}

fn no_tasks(error: std::io::Error) -> Failure {
    Failure::Unavailable(format!("no tasks: {error}"))
}
