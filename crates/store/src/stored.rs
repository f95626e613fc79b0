//! How values are stored, in every store alike.

use engine::schedule::{Active, Queued};
use jiff::{SignedDuration, Timestamp};
use language::definition::DeadlineEnd;
use serde::Serialize;

use crate::failure::Failure;

/// Schedules are counted by blocks of so many ids.
pub(crate) const BLOCK: i64 = 1_024;

/// Keys of runs are given in the order of creation, and found by it. But what two nodes create at the same time is
/// this far apart at most: no transaction lasts longer. The same goes for a clock that was set back; where it was set
/// further, some of the runs of then are left out of lists with a time.
pub(crate) const APART_MS: i64 = 60_000;

/// What is active and what waits, as it is stored.
pub(crate) type Live = (Vec<Active>, Vec<Queued>);

/// The number that is stored for one of a fixed set.
pub(crate) fn code<T: PartialEq + Copy>(all: &[T], value: T) -> i64 {
    all.iter().position(|known| *known == value).map_or(-1, |place| place as i64)
}

pub(crate) fn ms(at: Timestamp) -> i64 {
    at.as_millisecond()
}

pub(crate) fn milliseconds(duration: SignedDuration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

pub(crate) fn json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::Unavailable(error.to_string()))
}

/// What became of work that was late, as it is stored.
const ENDS: [(DeadlineEnd, &str); 4] = [
    (DeadlineEnd::Fail, "fail"),
    (DeadlineEnd::Cancel, "cancel"),
    (DeadlineEnd::Complete, "complete"),
    (DeadlineEnd::Skip, "skip"),
];

pub(crate) fn end_name(end: DeadlineEnd) -> &'static str {
    ENDS.iter().find(|(known, _)| *known == end).map_or("", |(_, name)| name)
}

pub(crate) fn end_named(name: &str) -> Option<DeadlineEnd> {
    ENDS.iter().find(|(_, known)| *known == name).map(|(end, _)| *end)
}

/// The step that stands for a run's own deadline.
const OF_RUN: i64 = -1;

/// The step of a deadline, as it is stored.
pub(crate) fn deadline_step(step: Option<u32>) -> i64 {
    step.map_or(OF_RUN, i64::from)
}

/// The block that an id is counted in.
pub(crate) fn block(id: i64) -> i64 {
    id / BLOCK
}
