//! Seats: how many phases go on at the same time, and how many of them may be of one script. A script that has all the
//! seats it may have leaves some to others, however many of its phases wait.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Seats of one kind.
pub(super) struct Seats {
    all: Semaphore,
    /// How many one script may have.
    each: usize,
    /// Those of each script that has one or waits for one, by the hash of its text.
    by_script: Mutex<HashMap<u64, Arc<Semaphore>>>,
    hasher: RandomState,
}

/// A seat, until it is dropped.
pub(super) struct Seat<'s> {
    _of_all: Option<SemaphorePermit<'s>>,
    _of_script: Option<OwnedSemaphorePermit>,
}

impl Seats {
    /// `each` seats for every script, and `beside` that no single script can take.
    pub(super) fn new(each: usize, beside: usize) -> Seats {
        let each = each.max(1);
        Seats {
            all: Semaphore::new(each + beside),
            each,
            by_script: Mutex::default(),
            hasher: RandomState::new(),
        }
    }

    /// A seat for a phase of this script, as soon as there is one.
    pub(super) async fn take(&self, script: &str) -> Seat<'_> {
        // Neither is ever closed: whoever waits gets a seat.
        let of_script = self.of_script(script).acquire_owned().await.ok();
        let of_all = self.all.acquire().await.ok();
        Seat { _of_all: of_all, _of_script: of_script }
    }

    fn of_script(&self, script: &str) -> Arc<Semaphore> {
        let mut known = self.by_script.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever has a seat or waits for one holds on to its script's.
        known.retain(|_, seats| Arc::strong_count(seats) > 1);
        let seats = known.entry(self.hasher.hash_one(script));
        seats.or_insert_with(|| Arc::new(Semaphore::new(self.each))).clone()
    }
}

impl<'s> From<SemaphorePermit<'s>> for Seat<'s> {
    fn from(permit: SemaphorePermit<'s>) -> Seat<'s> {
        Seat { _of_all: Some(permit), _of_script: None }
    }
}
