//! Whether the node is driving: turns and commands that have not come back, recent failures of
//! commits, and what the driver itself reports. Nothing is checked until somebody asks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use store::{Failure, Stats};

use crate::clock::Stopwatch;

/// A turn or command that takes longer is stuck. With its commit it takes milliseconds, and seconds
/// on an overloaded machine. Shorter than two checks of an orchestrator that asks every ten
/// seconds.
pub(crate) const STUCK: Duration = Duration::from_secs(15);
/// How long a failed commit is reported, unless a later one succeeds. An idle node does not retry
/// by itself, and while it reports not ready it gets no requests that it could commit.
const REMEMBERED: Duration = Duration::from_secs(15);

/// An instant by the store's clock and by a monotonic clock. Its age is the larger of both: setting
/// the clock back hides nothing.
#[derive(Clone, Copy, Debug)]
struct Since {
    at: Timestamp,
    watch: Stopwatch,
}

impl Since {
    fn begin(at: Timestamp) -> Since {
        Since { at, watch: Stopwatch::start() }
    }

    fn age(&self, now: Timestamp) -> Duration {
        let by_clock = Duration::try_from(now.duration_since(self.at)).unwrap_or_default();
        by_clock.max(self.watch.elapsed())
    }
}

/// Requests to the store that have not been answered.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    begun: Mutex<BTreeMap<u64, Since>>,
    last: AtomicU64,
}

/// One request to the store. It is dropped when the answer has come, or when nobody waits for it
/// any more.
#[derive(Debug)]
pub(crate) struct InFlightTurn {
    all: Arc<InFlight>,
    number: u64,
}

impl InFlight {
    pub(crate) fn begin(self: &Arc<Self>, now: Timestamp) -> InFlightTurn {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, Since::begin(now));
        InFlightTurn { all: self.clone(), number }
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    fn oldest(&self) -> Option<Since> {
        self.lock().first_key_value().map(|(_, since)| *since)
    }

    /// The age of the oldest request; zero if there is none.
    pub(crate) fn age(&self, now: Timestamp) -> Duration {
        self.oldest().map(|since| since.age(now)).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Since>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InFlightTurn {
    fn drop(&mut self) {
        self.all.lock().remove(&self.number);
    }
}

/// What is known about whether the node is driving.
#[derive(Debug)]
pub(crate) struct Readiness {
    pub(crate) turns: Arc<InFlight>,
    pub(crate) commands: Arc<InFlight>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Why the driver is not driving; `None` when it is.
    not_driving: Option<String>,
    /// If the last commit failed: since when commits have been failing, when the last one failed,
    /// and why.
    failing: Option<(Timestamp, Since, String)>,
    /// When a turn last succeeded.
    turned: Option<Since>,
}

impl Default for Readiness {
    fn default() -> Readiness {
        let not_driving = Some("The driver has not begun.".to_owned());
        Readiness {
            turns: Arc::default(),
            commands: Arc::default(),
            state: Mutex::new(State { not_driving, failing: None, turned: None }),
        }
    }
}

impl Readiness {
    pub(crate) fn set_driving(&self) {
        self.lock().not_driving = None;
    }

    pub(crate) fn set_not_driving(&self, why: String) {
        self.lock().not_driving = Some(why);
    }

    /// Records a turn that succeeded. A turn that had nothing to write proves nothing about
    /// commits.
    pub(crate) fn turned(&self, now: Timestamp, has_written: bool) {
        let mut state = self.lock();
        state.turned = Some(Since::begin(now));
        if has_written {
            state.failing = None;
        }
    }

    /// Records a successful commit.
    pub(crate) fn committed(&self) {
        self.lock().failing = None;
    }

    /// Records a failed commit. A refusal or one damaged row says nothing about the store.
    pub(crate) fn failed(&self, failure: &Failure, now: Timestamp) {
        let is_of_the_store = match failure {
            Failure::Unavailable(_)
            | Failure::NotWritten { .. }
            | Failure::Unknown(_)
            | Failure::Gone(_)
            | Failure::InUse(_)
            | Failure::Unusable { .. } => true,
            Failure::Refused(_)
            | Failure::KeyReused
            | Failure::Damaged(_)
            | Failure::Undecidable { .. }
            | Failure::Fenced => false,
        };
        if is_of_the_store {
            let mut state = self.lock();
            let first = state.failing.as_ref().map_or(now, |(first, ..)| *first);
            state.failing = Some((first, Since::begin(now), failure.to_string()));
        }
    }

    /// Why the node is not driving, as far as it knows without asking the store.
    pub(crate) fn why_not(&self, now: Timestamp) -> Option<String> {
        let state = self.lock();
        if let Some(why) = &state.not_driving {
            return Some(why.clone());
        }
        if let Some((first, last, why)) = &state.failing
            && last.age(now) < REMEMBERED
        {
            return Some(format!("Nothing has been committed since {first}: {why}."));
        }
        drop(state);
        let stuck = |what: &str, in_flight: &InFlight| {
            let since = in_flight.oldest().filter(|since| since.age(now) >= STUCK)?;
            let (seconds, at) = (since.age(now).as_secs(), since.at);
            let store = "The store takes requests and does not answer them.";
            Some(format!("{what} has not come back for {seconds} s, since {at}. {store}"))
        };
        stuck("A turn", &self.turns).or_else(|| stuck("A command", &self.commands))
    }

    /// Why the node is not driving, judged by what the store reports as due: wakeups are due for
    /// long, and no turn claims them.
    pub(crate) fn why_late(&self, stats: &Stats, now: Timestamp) -> Option<String> {
        let due = stats.next_wakeup.filter(|_| stats.due > 0)?;
        let late = Duration::try_from(now.duration_since(due)).unwrap_or_default();
        let turned = self.lock().turned;
        let is_idle = turned.is_none_or(|since| since.age(now) >= STUCK);
        if late < STUCK || !is_idle || self.turns.oldest().is_some() {
            return None;
        }
        let (seconds, count) = (late.as_secs(), stats.due);
        let last =
            turned.map_or_else(String::new, |since| format!(" The last was at {}.", since.at));
        Some(format!(
            "{count} wakeups are due, the oldest for {seconds} s, since {due}, and no turn is taken.{last}"
        ))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    fn driving() -> Readiness {
        let readiness = Readiness::default();
        assert_eq!(readiness.why_not(at(0)).unwrap(), "The driver has not begun.");
        readiness.set_driving();
        readiness
    }

    #[test]
    fn what_is_due_and_taken_by_no_turn_is_late() {
        let readiness = driving();
        let late = |due: u64, next: i64, now: i64| {
            let stats = Stats { due, next_wakeup: Some(at(next)), ..Stats::default() };
            readiness.why_late(&stats, at(now))
        };
        assert_eq!(late(0, 1_000, 0), None, "nothing is due");
        assert_eq!(late(3, 10, 20), None, "it is due for a moment");
        let why = late(3, 10, 100).unwrap();
        assert!(why.starts_with("3 wakeups are due, the oldest for 90 s, since 1970"), "{why}");
        readiness.turned(at(95), true);
        assert_eq!(late(3, 10, 100), None, "a node that is behind drives all the same");
        assert!(late(3, 10, 200).unwrap().contains("The last was at 1970-01-01T00:01:35Z."));
        let in_flight = readiness.turns.begin(at(199));
        assert_eq!(late(3, 10, 200), None, "a turn is taken");
        drop(in_flight);
        assert!(late(3, 10, 200).is_some());
    }

    #[test]
    fn the_oldest_that_has_not_come_back_counts() {
        let readiness = driving();
        let first = readiness.commands.begin(at(0));
        let _second = readiness.commands.begin(at(50));
        assert_eq!(readiness.commands.count(), 2);
        assert!(
            readiness.why_not(at(20)).unwrap().contains("A command has not come back for 20 s")
        );
        drop(first);
        assert_eq!(readiness.why_not(at(60)), None);
        assert_eq!(readiness.why_not(at(0)), None, "a clock that was set back");
        let _turn = readiness.turns.begin(at(60));
        assert!(readiness.why_not(at(100)).unwrap().contains("A turn has not come back for 40 s"));
    }

    #[test]
    fn failed_commits_are_told_until_one_succeeds_or_nobody_tries() {
        let readiness = driving();
        let full = Failure::Unavailable("disk full".to_owned());
        readiness.failed(&full, at(10));
        readiness.failed(&full, at(20));
        let why = readiness.why_not(at(21)).unwrap();
        assert!(why.starts_with("Nothing has been committed since 1970-01-01T00:00:10Z:"), "{why}");
        readiness.turned(at(22), false);
        assert!(readiness.why_not(at(22)).is_some(), "nothing was written");
        readiness.turned(at(22), true);
        assert_eq!(readiness.why_not(at(22)), None);
        readiness.failed(&full, at(30));
        assert_eq!(readiness.why_not(at(60)), None);
        readiness.failed(&Failure::Damaged("one row".to_owned()), at(60));
        assert_eq!(readiness.why_not(at(60)), None);
    }
}
