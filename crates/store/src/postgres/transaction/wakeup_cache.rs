//! What a node knows about the wakeups ahead, so that it need not scan for them from the beginning
//! each time: an index keeps past entries until the database vacuums, and under load these are most
//! of it.
//!
//! Each renewal of the lease reads everything again. Wakeups that other nodes write meanwhile are
//! looked after by those nodes until then.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lower bounds of wakeups, as instants in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// No wakeup is earlier than this.
    low: i64,
    /// No run's wakeup is earlier than this, except those already due.
    next_run: i64,
    /// The earliest wakeups written since the last full look began: of any kind, and of runs.
    written: (i64, i64),
}

/// The cached lower bounds for the next wakeups.
#[derive(Debug)]
pub(crate) struct WakeupCache(Mutex<Known>);

impl WakeupCache {
    pub(crate) fn new() -> WakeupCache {
        let written = (i64::MAX, i64::MAX);
        WakeupCache(Mutex::new(Known { low: i64::MIN, next_run: i64::MIN, written }))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets everything: the next look begins at the start.
    pub(crate) fn forget(&self) {
        *self.known() = Known { low: i64::MIN, next_run: i64::MIN, written: (i64::MIN, i64::MIN) };
    }

    /// No wakeup is earlier than this.
    pub(crate) fn low(&self) -> i64 {
        self.known().low
    }

    /// The next wakeup of a run, or `Some(None)` if there is none; `None` if it is not known.
    pub(crate) fn next_run(&self, now: i64) -> Option<Option<i64>> {
        let next = self.known().next_run;
        (next > now).then(|| (next < i64::MAX).then_some(next))
    }

    /// The next run was looked up. A wakeup that another transaction wrote meanwhile may be
    /// earlier.
    pub(crate) fn found_run(&self, next: Option<i64>) {
        let mut known = self.known();
        known.next_run = next.unwrap_or(i64::MAX).min(known.written.1);
    }

    /// Notes the earliest wakeups that a transaction has written.
    pub(crate) fn written(&self, schedule: Option<i64>, run: Option<i64>) {
        let mut known = self.known();
        let run = run.unwrap_or(i64::MAX);
        let any = schedule.unwrap_or(i64::MAX).min(run);
        known.low = known.low.min(any);
        known.next_run = known.next_run.min(run);
        known.written = (known.written.0.min(any), known.written.1.min(run));
    }

    /// A full look begins.
    pub(crate) fn begin_look(&self) {
        self.known().written = (i64::MAX, i64::MAX);
    }

    /// A full look found these earliest wakeups, of any kind and of runs. Those written meanwhile
    /// may be earlier.
    pub(crate) fn end_look(&self, any: Option<i64>, run: Option<i64>) {
        let mut known = self.known();
        known.low = any.unwrap_or(i64::MAX).min(known.written.0);
        known.next_run = run.unwrap_or(i64::MAX).min(known.written.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_during_a_look_is_not_lost() {
        let cache = WakeupCache::new();
        assert_eq!((cache.low(), cache.next_run(0)), (i64::MIN, None));
        cache.begin_look();
        cache.written(Some(150), Some(170));
        cache.end_look(Some(200), None);
        assert_eq!((cache.low(), cache.next_run(0)), (150, Some(Some(170))));
        cache.begin_look();
        cache.end_look(Some(160), Some(170));
        assert_eq!((cache.low(), cache.next_run(169)), (160, Some(Some(170))));
        assert_eq!(cache.next_run(170), None, "it is due, and the next one is not known");
        cache.written(Some(100), None);
        assert_eq!(cache.low(), 100);
        cache.written(None, Some(180));
        cache.found_run(Some(190));
        assert_eq!(cache.next_run(0), Some(Some(180)), "written between question and answer");
        cache.forget();
        cache.end_look(Some(500), Some(500));
        assert_eq!(cache.low(), i64::MIN, "forgotten after the look began");
    }
}
