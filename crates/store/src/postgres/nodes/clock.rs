//! How far the database's clock is ahead of this machine's.
//!
//! Whoever asks the database for its time reads the machine's clocks before the query and after the
//! answer. The database read its clock somewhere between the two, so the true offset lies in an
//! interval as long as the round trip. Each round trip gives such an interval, on whichever
//! connection and in whatever order the answers come. The offset lies in all of them, so their
//! intersection is kept, and its middle is the estimate. The error is at most half of the shortest
//! round trip. An interval that does not intersect what is known shows that somebody set one of the
//! clocks: the newer interval counts from then on.
//!
//! The estimate only decides when a node wakes up. Which wakeups are due, how long a lease lasts
//! and what has expired is decided by the time the database returns in the transaction itself.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::failure::Failure;
use crate::machine_clock::{MachineClock, Reading};

/// The database's clock in whole milliseconds, as SQL.
macro_rules! database_now {
    () => {
        "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    };
}

/// The time a caller passes as this parameter, or else the database's own: see `Shared::given`.
macro_rules! given_or_now {
    ($parameter:literal) => {
        concat!(
            "coalesce(",
            $parameter,
            "::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)"
        )
    };
}

pub(crate) use {database_now, given_or_now};

/// Two clocks may drift apart by one part in this many: NTP changes a clock's rate by up to one
/// part in 2,000, and two clocks may do so in opposite directions.
const DRIFT: u128 = 1_000;
/// Both clocks are read in whole milliseconds, so each may be this much further than it shows.
const ROUNDED: i64 = 1;
/// A machine whose clock differs from the database's by more than this when it is first compared is
/// logged: what people read on that machine does not agree with what the node does.
const WORTH_TELLING: i64 = 1_000;
/// A node whose time differs from the database's by more than this may not remove history. A good
/// estimate is off by milliseconds; a request may wait some seconds for a connection.
const FAR_OFF: SignedDuration = SignedDuration::from_secs(60);

/// The interval in which the offset lies, in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Known {
    low: i64,
    high: i64,
    /// When it was measured, by the machine's monotonic clock.
    at: Duration,
}

impl Known {
    /// The interval of one round trip: the database's clock showed `theirs` between the two
    /// readings.
    fn of(sent: Reading, received: Reading, theirs: Timestamp) -> Known {
        let round_trip = received.monotonic.saturating_sub(sent.monotonic);
        let round_trip = i64::try_from(round_trip.as_micros().div_ceil(1_000)).unwrap_or(i64::MAX);
        // The wall clock is read after the answer: if it was set meanwhile, the new setting counts.
        let low = theirs.as_millisecond().saturating_sub(received.wall.as_millisecond());
        Known {
            low: low.saturating_sub(ROUNDED),
            high: low.saturating_add(round_trip).saturating_add(ROUNDED),
            at: received.monotonic,
        }
    }

    /// The interval at a later moment, widened by the drift since.
    fn later(self, at: Duration) -> Known {
        let passed = at.saturating_sub(self.at).as_micros() / 1_000;
        let drift = i64::try_from(passed.div_ceil(DRIFT)).unwrap_or(i64::MAX);
        Known {
            low: self.low.saturating_sub(drift),
            high: self.high.saturating_add(drift),
            at: at.max(self.at),
        }
    }

    /// The intersection of both intervals; `None` if they contradict each other.
    fn and(self, other: Known) -> Option<Known> {
        let (low, high) = (self.low.max(other.low), self.high.min(other.high));
        (low <= high).then_some(Known { low, high, at: self.at.max(other.at) })
    }

    fn middle(self) -> i64 {
        self.low + (self.high - self.low) / 2
    }

    /// Whether the clocks differ by more than [`WORTH_TELLING`], wherever in the interval the
    /// offset lies.
    fn is_worth_telling(self) -> bool {
        self.low > WORTH_TELLING || self.high < -WORTH_TELLING
    }
}

/// The offset between the database's clock and this machine's, as far as it is known.
pub(crate) struct Offset {
    machine: RwLock<Option<MachineClock>>,
    known: Mutex<Option<Known>>,
    /// The middle of the interval, readable without a lock.
    estimate: AtomicI64,
}

impl Offset {
    pub(crate) fn new() -> Offset {
        Offset { machine: RwLock::new(None), known: Mutex::new(None), estimate: AtomicI64::new(0) }
    }

    /// Compares with this machine's clocks from now on. Nothing is known about them yet.
    pub(crate) fn set_machine(&self, machine: MachineClock) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *self.machine.write().unwrap_or_else(PoisonError::into_inner) = Some(machine);
        *known = None;
    }

    /// The machine's clocks, if the store was given any.
    pub(crate) fn read(&self) -> Option<Reading> {
        let machine = self.machine.read().unwrap_or_else(PoisonError::into_inner);
        machine.as_ref().map(|read| read())
    }

    /// Learns from an answer: the database's clock showed `theirs` between the reading `sent` and
    /// now.
    pub(crate) fn answered(&self, sent: Option<Reading>, theirs: Timestamp) {
        if let (Some(sent), Some(received)) = (sent, self.read()) {
            self.learn(Known::of(sent, received, theirs));
        }
    }

    fn learn(&self, told: Known) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known.map_or(told.at, |before| before.at.max(told.at));
        let both = match *known {
            None => {
                if told.is_worth_telling() {
                    tell_difference(told.middle());
                }
                Some(told)
            }
            Some(before) => before.later(at).and(told.later(at)),
        };
        let next = match (both, *known) {
            (Some(both), _) => both,
            // A late answer from before the clock was set is ignored.
            (None, Some(before)) if told.at < before.at => return,
            (None, before) => {
                let by = told.middle() - before.map_or(0, Known::middle);
                tracing::info!(milliseconds = by, "this machine's clock or the database's was set");
                told
            }
        };
        *known = Some(next);
        self.estimate.store(next.middle(), Ordering::Release);
    }

    /// How far the database's clock is ahead.
    pub(crate) fn estimate(&self) -> SignedDuration {
        SignedDuration::from_millis(self.estimate.load(Ordering::Acquire))
    }
}

/// Logs that this machine's clock differs from the database's, which is `ahead` by this many
/// milliseconds.
fn tell_difference(ahead: i64) {
    let seconds = ahead.unsigned_abs() / 1_000;
    let direction = if ahead > 0 { "behind" } else { "ahead of" };
    tracing::warn!(
        milliseconds = ahead,
        "this machine's clock is {seconds} s {direction} the database's: the database's clock counts"
    );
}

/// Refuses an operation that cannot be undone if the node's time is far from the database's.
pub(crate) fn refuse_far_off(ours: Timestamp, theirs: Timestamp) -> Result<(), Failure> {
    let off = ours.duration_since(theirs);
    if off.abs() <= FAR_OFF {
        return Ok(());
    }
    Err(Failure::Unavailable(format!(
        "this node takes it to be {ours}, and the database's clock shows {theirs}: nothing is removed \
         while they differ by more than {} s",
        FAR_OFF.as_secs()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    /// The machine's reading after `passed` milliseconds, with a wall clock `ahead` of the true
    /// time.
    fn reading(passed: u64, ahead: i64) -> Reading {
        let wall = ms(i64::try_from(passed).unwrap() + ahead);
        Reading { wall, monotonic: Duration::from_millis(passed) }
    }

    /// One round trip: the database has the true time and reads it between the two readings.
    fn ask(offset: &Offset, (sent, told, received): (u64, u64, u64), ahead: i64) {
        let theirs = ms(i64::try_from(told).unwrap());
        offset.learn(Known::of(reading(sent, ahead), reading(received, ahead), theirs));
    }

    fn check(offset: &Offset, expected: i64, error: i64) {
        let estimate = offset.estimate.load(Ordering::Relaxed);
        assert!((estimate - expected).abs() <= error, "{estimate} instead of {expected}");
    }

    #[test]
    fn the_error_is_half_a_round_trip() {
        for (told, error) in [(100, 52), (150, 2), (200, 52)] {
            let offset = Offset::new();
            ask(&offset, (100, told, 200), 7_000);
            check(&offset, -7_000, error);
        }
    }

    #[test]
    fn a_shorter_round_trip_makes_it_better_and_a_longer_one_does_not_make_it_worse() {
        let offset = Offset::new();
        ask(&offset, (0, 900, 1_000), -5_000);
        ask(&offset, (1_000, 1_000, 1_002), -5_000);
        check(&offset, 5_000, 2);
        ask(&offset, (1_010, 3_000, 3_010), -5_000);
        check(&offset, 5_000, 5);
    }

    /// Any number of requests in flight, answered in any order, give the same estimate.
    #[test]
    fn requests_in_flight_do_not_add_up() {
        let offset = Offset::new();
        for round in 0..1_000_u64 {
            for one in 0..100_u64 {
                let sent = round * 100 + (one * 37) % 100;
                ask(&offset, (sent, sent + one, sent + 100 + one), 123_456);
                check(&offset, -123_456, 60);
            }
        }
    }

    #[test]
    fn a_clock_that_was_set_is_believed_and_a_late_answer_from_before_is_not() {
        let offset = Offset::new();
        ask(&offset, (0, 1, 2), 0);
        check(&offset, 0, 2);
        ask(&offset, (5_000, 5_001, 5_002), 3_600_000);
        check(&offset, -3_600_000, 2);
        ask(&offset, (4_000, 4_001, 4_002), 0);
        check(&offset, -3_600_000, 6);
        ask(&offset, (5_010, 5_011, 5_012), -60_000);
        check(&offset, 60_000, 2);
    }

    #[test]
    fn a_clock_that_drifts_is_followed() {
        let offset = Offset::new();
        for minute in 0..1_000 {
            let (at, ahead) = (minute * 60_000, i64::try_from(minute).unwrap() * 30);
            ask(&offset, (at, at + 1, at + 2), ahead);
            check(&offset, -ahead, 40);
        }
    }

    #[test]
    fn a_difference_is_told_if_it_is_certain() {
        // Milliseconds that the machine is ahead, and those of the round trip.
        for (ahead, round_trip, is_told) in [
            (0, 2, false),
            (900, 2, false),
            (-900, 2, false),
            (1_100, 2, true),
            (-1_100, 2, true),
            (7_200_000, 2_000, true),
            (-7_200_000, 2_000, true),
            // The database's answer took long, and may have been given at its beginning.
            (-1_100, 3_000, false),
        ] {
            let (sent, received) = (reading(10_000, ahead), reading(10_000 + round_trip, ahead));
            let theirs = ms(i64::try_from(10_000 + round_trip / 2).unwrap());
            let told = Known::of(sent, received, theirs).is_worth_telling();
            assert_eq!(told, is_told, "{ahead} ms ahead, answered in {round_trip} ms");
        }
    }

    #[test]
    fn what_is_far_off_is_refused() {
        assert!(refuse_far_off(ms(0), ms(59_000)).is_ok());
        let said = refuse_far_off(ms(3_600_000), ms(0)).unwrap_err().to_string();
        assert!(said.contains("1970-01-01T01:00:00Z") && said.contains("clock shows"), "{said}");
    }
}
