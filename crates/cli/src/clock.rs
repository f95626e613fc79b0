//! The only place of this binary that reads the clock.

use jiff::Timestamp;

/// Now, in whole seconds: what `--from` is when it is not given.
#[expect(clippy::disallowed_methods, reason = "commands that ask about \"now\" get it from here")]
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
