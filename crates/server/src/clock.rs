//! The clock: the only module that reads the time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use store::{Reading, Store};

/// Where `now` comes from: the host, or a simulation.
pub trait Clock: Send + Sync + 'static {
    /// The wall clock, in whole milliseconds.
    fn now(&self) -> Timestamp;

    /// What the host's clock shows when this clock shows `at`. Alarms are set by the host's clock.
    fn on_host(&self, at: Timestamp) -> Timestamp {
        at
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is where the time is read")]
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    }
}

/// The host's clock, wrong by a fixed amount. For tests of shared stores, where the database's
/// clock decides however wrong a node's clock is.
#[derive(Clone, Copy, Debug)]
pub struct OffsetClock(pub SignedDuration);

impl Clock for OffsetClock {
    fn now(&self) -> Timestamp {
        let now = SystemClock.now();
        now.checked_add(self.0).unwrap_or(now)
    }

    fn on_host(&self, at: Timestamp) -> Timestamp {
        at.checked_sub(self.0).unwrap_or(at)
    }
}

/// The time by the store's clock: a shared store's own clock decides, whatever this machine's clock
/// shows.
#[derive(Clone)]
pub(crate) struct StoreClock {
    machine: Arc<dyn Clock>,
    store: Arc<dyn Store>,
}

impl StoreClock {
    pub(crate) fn new(machine: Arc<dyn Clock>, store: Arc<dyn Store>) -> StoreClock {
        let (read, since) = (machine.clone(), Stopwatch::start());
        store.set_machine_clock(Arc::new(move || Reading {
            wall: read.now(),
            monotonic: since.elapsed(),
        }));
        StoreClock { machine, store }
    }

    /// Now, by the store's clock.
    pub(crate) fn now(&self) -> Timestamp {
        let now = self.machine.now();
        now.checked_add(self.store.skew()).unwrap_or(now)
    }

    /// Now, by this machine's clock.
    pub(crate) fn machine_now(&self) -> Timestamp {
        self.machine.now()
    }

    /// What this machine's clock shows when the store's clock shows `at`.
    pub(crate) fn on_machine(&self, at: Timestamp) -> Timestamp {
        at.checked_sub(self.store.skew()).unwrap_or(at)
    }

    /// What the host's timer is set to, to go off when the store's clock shows `at`.
    pub(crate) fn alarm(&self, at: Timestamp) -> Timestamp {
        self.machine.on_host(self.on_machine(at))
    }
}

impl SystemClock {
    /// The wall clock at the host's full precision: for measurements, not for decisions.
    #[expect(clippy::disallowed_methods, reason = "this is where the time is read")]
    pub fn precise_now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Measures elapsed time, independent of the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "this is where the time is read")]
    pub fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// The time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
