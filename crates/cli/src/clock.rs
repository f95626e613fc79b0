//! Now, in whole seconds: what `--from` is when it is not given.

use jiff::Timestamp;
use server::{Clock, SystemClock};

/// Now. The host's clock is read by [`SystemClock`] alone.
pub(crate) fn now() -> Timestamp {
    let now = SystemClock.now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
