//! The host's clock, moved ahead by hand, so that tests need not wait.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};
use server::{Clock, SystemClock};

/// A clock that is this many seconds ahead.
#[derive(Default)]
pub(crate) struct Ahead(AtomicI64);

impl Ahead {
    pub(crate) fn pass(&self, time: SignedDuration) {
        self.0.fetch_add(time.as_secs(), Ordering::Relaxed);
    }

    fn by(&self) -> SignedDuration {
        SignedDuration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        SystemClock.now() + self.by()
    }

    fn on_host(&self, at: Timestamp) -> Timestamp {
        at - self.by()
    }
}
