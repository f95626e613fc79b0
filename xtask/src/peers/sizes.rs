//! How much is measured.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Schedules that wait far in the future.
    pub(super) pending: u64,
    /// How long these may take to create.
    pub(super) filling: Duration,
    /// Jobs that are due at once.
    pub(super) due: u64,
    /// How long a steady rate is kept up, in seconds.
    pub(super) seconds: u64,
    /// Jobs that are due when the worker is killed.
    pub(super) killed: u64,
    /// After so long, a measurement ends with what there is.
    pub(super) limit: Duration,
    /// How long lost jobs are waited for after a kill.
    pub(super) window: Duration,
}

impl Sizes {
    pub(super) fn new(quick: bool, pending: Option<u64>) -> Sizes {
        let seconds = |full, small| Duration::from_secs(if quick { small } else { full });
        let pending = pending.unwrap_or(if quick { 1_000 } else { 100_000 });
        Sizes {
            pending,
            filling: seconds(if pending > 100_000 { 300 } else { 60 }, 20),
            due: if quick { 500 } else { 20_000 },
            seconds: if quick { 1 } else { 10 },
            killed: if quick { 500 } else { 2_000 },
            limit: seconds(60, 20),
            window: seconds(60, 20),
        }
    }
}
