//! The current time, for commands.

use jiff::Timestamp;
use server::{Clock, SystemClock};

/// The current time in whole seconds: the default of `--from`.
pub(crate) fn now() -> Timestamp {
    let now = instant();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// The current time in milliseconds, for measuring durations.
pub(crate) fn instant() -> Timestamp {
    SystemClock.now()
}
