//! The virtual clock: time passes only when the simulation says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use server::Clock;

/// The node's wall clock, and the time that really passes. Both in milliseconds.
#[derive(Debug)]
pub(crate) struct Time {
    elapsed: Arc<AtomicI64>,
    /// By how much someone has set the wall clock forward or back.
    offset: AtomicI64,
}

impl Time {
    pub(crate) fn new(start: i64) -> Time {
        Time { elapsed: Arc::new(AtomicI64::new(start)), offset: AtomicI64::new(0) }
    }

    /// Another machine's clock, which is right: the same time passes for both.
    pub(crate) fn of_another(&self) -> Time {
        Time { elapsed: self.elapsed.clone(), offset: AtomicI64::new(0) }
    }

    /// The time that really passes: it never goes back.
    pub(crate) fn elapsed(&self) -> i64 {
        self.elapsed.load(Ordering::Relaxed)
    }

    /// The time that the node's clock shows.
    pub(crate) fn wall(&self) -> i64 {
        self.elapsed() + self.offset.load(Ordering::Relaxed)
    }

    pub(crate) fn pass(&self, milliseconds: i64) {
        self.elapsed.fetch_add(milliseconds.max(0), Ordering::Relaxed);
    }

    pub(crate) fn set_clock_by(&self, milliseconds: i64) {
        self.offset.fetch_add(milliseconds, Ordering::Relaxed);
    }

    /// How far the node's clock is off.
    pub(crate) fn offset(&self) -> i64 {
        self.offset.load(Ordering::Relaxed)
    }
}

impl Clock for Time {
    fn now(&self) -> Timestamp {
        instant(self.wall())
    }
}

pub(crate) fn instant(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::MAX)
}
