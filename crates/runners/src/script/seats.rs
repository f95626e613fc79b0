//! Seats limit how many phases run at the same time, and how many of them may belong to one script.
//! A script with as many seats as it may have leaves the others free, however many of its phases
//! wait.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// A set of seats for one purpose: phases that have begun, or phases that compute.
pub(super) struct Seats {
    all: Semaphore,
    /// The most seats that one script may have.
    each: usize,
    /// One semaphore for each script that has a seat or waits for one, by the hash of its text.
    by_script: Mutex<HashMap<u64, Arc<Semaphore>>>,
    hasher: RandomState,
}

/// One seat. Dropping the value frees it.
pub(super) struct Seat<'s> {
    _of_all: Option<SemaphorePermit<'s>>,
    _of_script: Option<OwnedSemaphorePermit>,
}

impl Seats {
    /// Creates `each` seats that any one script may take, and `beside` more that only further
    /// scripts can.
    pub(super) fn new(each: usize, beside: usize) -> Seats {
        let each = each.max(1);
        Seats {
            all: Semaphore::new(each + beside),
            each,
            by_script: Mutex::default(),
            hasher: RandomState::new(),
        }
    }

    /// Waits for a seat for a phase of this script.
    pub(super) async fn take(&self, script: &str) -> Seat<'_> {
        // The semaphores are never closed, so every waiter gets a seat.
        let of_script = self.of_script(script).acquire_owned().await.ok();
        let of_all = self.all.acquire().await.ok();
        Seat { _of_all: of_all, _of_script: of_script }
    }

    fn of_script(&self, script: &str) -> Arc<Semaphore> {
        let mut known = self.by_script.lock().unwrap_or_else(PoisonError::into_inner);
        // Each phase that has a seat or waits for one holds a reference to its script's semaphore.
        // A semaphore without such references is removed.
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
