//! The clock: the only place that reads the time.

use jiff::Timestamp;

/// Where `now` comes from: the host, or a simulation.
pub trait Clock: Send + Sync + 'static {
    /// The wall clock, in whole milliseconds.
    fn now(&self) -> Timestamp;
}

/// The host's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is where the time is read")]
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    }
}
