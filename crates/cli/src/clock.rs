//! What time it is, as commands see it.

use jiff::Timestamp;
use server::{Clock, SystemClock};

/// Now, in whole seconds: what `--from` is when it is not given.
pub(crate) fn now() -> Timestamp {
    let now = instant();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// Now, to the millisecond: what distances are measured from.
pub(crate) fn instant() -> Timestamp {
    SystemClock.now()
}
