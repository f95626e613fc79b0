//! An alarm on the wall clock. It goes off at its time, and also when the clock is set: nothing has
//! to poll, and a clock that jumps is noticed at once.

use std::io;
use std::os::fd::OwnedFd;

use jiff::Timestamp;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// With nothing to wait for, the alarm is set this far ahead, so that it still notices when the
/// clock is set.
const FAR_AHEAD_SECONDS: i64 = 100 * 365 * 86_400;

/// A timer on the wall clock (`timerfd`).
pub(crate) struct Alarm {
    timer: AsyncFd<OwnedFd>,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Alarm> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Realtime, flags)?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe; an `OwnedFd` keeps what it asks for"
        )]
        let timer = AsyncFd::with_interest(timer, Interest::READABLE)?;
        Ok(Alarm { timer })
    }

    /// Returns at the instant `at`, or as soon as the clock is set.
    pub(crate) async fn wait_until(&self, at: Option<Timestamp>) -> io::Result<()> {
        let due = match at {
            Some(at) => Timespec {
                tv_sec: at.as_second().max(0),
                // A zero time would disarm the timer.
                tv_nsec: i64::from(at.subsec_nanosecond()).max(1),
            },
            None => Timespec { tv_sec: 4_000_000_000 + FAR_AHEAD_SECONDS, tv_nsec: 1 },
        };
        let spec = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: due };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        timerfd_settime(&self.timer, flags, &spec)?;
        loop {
            let mut ready = self.timer.readable().await?;
            let mut expirations = [0; 8];
            match rustix::io::read(&self.timer, &mut expirations) {
                // ECANCELED: the clock was set.
                Ok(_) | Err(rustix::io::Errno::CANCELED) => return Ok(()),
                Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
