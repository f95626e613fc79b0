//! Workers that wait for attempts to be queued. As many are woken as there are attempts, in the
//! order in which they came: one attempt does not wake a thousand idle workers.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// The waiting workers, by the queues they wait for.
#[derive(Debug, Default)]
pub(crate) struct WaitingWorkers {
    by_queue: Mutex<HashMap<String, VecDeque<Arc<Waiter>>>>,
}

#[derive(Debug)]
struct Waiter {
    queues: Vec<String>,
    /// Whether the worker was woken and has not looked into its queues since.
    is_woken: AtomicBool,
    wake: Notify,
}

/// A worker's position among those who wait. If it is dropped after being woken, the next worker is
/// woken instead.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    all: &'a WaitingWorkers,
    waiter: Arc<Waiter>,
    /// Whether the worker was woken for the look it is taking now.
    owes_a_look: bool,
}

impl WaitingWorkers {
    /// Adds a worker at the end.
    pub(crate) fn join(&self, queues: &[String]) -> Waiting<'_> {
        let mut queues = queues.to_vec();
        queues.sort_unstable();
        queues.dedup();
        let waiter =
            Arc::new(Waiter { queues, is_woken: AtomicBool::new(false), wake: Notify::new() });
        let mut by_queue = self.lock();
        for queue in &waiter.queues {
            by_queue.entry(queue.clone()).or_default().push_back(waiter.clone());
        }
        Waiting { all: self, waiter, owes_a_look: false }
    }

    /// Something was queued: wakes as many workers as there are attempts.
    pub(crate) fn wake(&self, queue: &str, count: usize) {
        let by_queue = self.lock();
        let waiters = by_queue.get(queue).into_iter().flatten();
        let asleep = waiters.filter(|waiter| !waiter.is_woken.swap(true, Ordering::AcqRel));
        asleep.take(count).for_each(|waiter| waiter.wake.notify_one());
    }

    fn is_first(&self, waiter: &Arc<Waiter>) -> bool {
        let by_queue = self.lock();
        let first = |queue: &String| by_queue.get(queue).and_then(VecDeque::front);
        waiter.queues.iter().filter_map(first).any(|first| Arc::ptr_eq(first, waiter))
    }

    fn leave(&self, waiter: &Arc<Waiter>) {
        let mut by_queue = self.lock();
        for queue in &waiter.queues {
            let Some(waiters) = by_queue.get_mut(queue) else { continue };
            waiters.retain(|other| !Arc::ptr_eq(other, waiter));
            if waiters.is_empty() {
                by_queue.remove(queue);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, VecDeque<Arc<Waiter>>>> {
        self.by_queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting<'_> {
    /// The worker looks into its queues now: anything queued from here on wakes it again.
    pub(crate) fn looks(&mut self) {
        self.owes_a_look = self.waiter.is_woken.swap(false, Ordering::AcqRel);
    }

    /// The worker has looked, and found nothing.
    pub(crate) fn found_nothing(&mut self) {
        self.owes_a_look = false;
    }

    /// Returns when there may be an attempt in the queues. Where other nodes can queue attempts
    /// without notifying this one, the first worker of each queue also returns every `by_itself`.
    pub(crate) async fn woken(&self, by_itself: Option<Duration>) {
        let Some(time) = by_itself else { return self.waiter.wake.notified().await };
        loop {
            tokio::select! {
                () = self.waiter.wake.notified() => return,
                () = tokio::time::sleep(time) => if self.all.is_first(&self.waiter) { return },
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.all.leave(&self.waiter);
        // More may be queued than this worker has taken, or it left before it could look.
        if self.owes_a_look || self.waiter.is_woken.load(Ordering::Acquire) {
            for queue in &self.waiter.queues {
                self.all.wake(queue, 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    fn is_woken(waiting: &Waiting<'_>) -> bool {
        waiting.woken(None).now_or_never().is_some()
    }

    #[test]
    fn as_many_are_woken_as_there_is_to_do_in_their_order() {
        let all = WaitingWorkers::default();
        let queues = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let first = all.join(&queues(&["a", "b", "a"]));
        let second = all.join(&queues(&["a"]));
        let third = all.join(&queues(&["a"]));
        all.wake("other", 9);
        assert!(![&first, &second, &third].into_iter().any(is_woken));
        all.wake("b", 1);
        all.wake("a", 1);
        assert!(is_woken(&first), "it waits for either");
        assert!(is_woken(&second), "the first was awake already");
        assert!(!is_woken(&third));
    }

    #[test]
    fn who_goes_without_looking_wakes_the_next() {
        let all = WaitingWorkers::default();
        let queue = ["a".to_owned()];
        let (mut first, mut second) = (all.join(&queue), all.join(&queue));
        let third = all.join(&queue);
        all.wake("a", 1);
        assert!(is_woken(&first));
        first.looks();
        assert!(!is_woken(&second));
        drop(first);
        assert!(is_woken(&second), "it may have left something");
        second.looks();
        second.found_nothing();
        drop(second);
        assert!(!is_woken(&third), "there was nothing left");
        drop(third);
        assert!(all.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_first_looks_by_itself() {
        let all = WaitingWorkers::default();
        let queue = ["a".to_owned()];
        let (first, other) = (all.join(&queue), all.join(&queue));
        let second = Duration::from_secs(1);
        first.woken(Some(second)).await;
        let looked = tokio::time::timeout(second * 5, other.woken(Some(second))).await;
        assert!(looked.is_err());
        drop(first);
        other.woken(Some(second)).await;
    }
}
