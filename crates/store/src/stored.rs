//! How values are stored, in every store alike.

use engine::schedule::{Active, Queued};
use jiff::{SignedDuration, Timestamp};
use language::definition::DeadlineEnd;
use serde::Serialize;

use crate::failure::Failure;

/// Schedules are counted in blocks of this many ids.
pub(crate) const BLOCK: i64 = 1_024;

/// Run keys increase with creation time, so lists by time search by key. Two nodes that create runs
/// concurrently may be out of order by at most this much, since no transaction lasts longer. So may
/// a clock that was set back; if it was set back further, lists by time leave out some of the runs
/// of that period.
pub(crate) const APART_MS: i64 = 60_000;

/// A schedule's active and queued occurrences, as they are stored.
pub(crate) type Live = (Vec<Active>, Vec<Queued>);

/// The number stored for a member of a fixed set: its index.
pub(crate) fn code<T: PartialEq + Copy>(all: &[T], value: T) -> i64 {
    all.iter().position(|known| *known == value).map_or(-1, |index| index as i64)
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

/// The stored names of how a deadline ended a run or step.
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

/// The step number that stands for a run's own deadline.
const OF_RUN: i64 = -1;

/// The stored step number of a deadline.
pub(crate) fn deadline_step(step: Option<u32>) -> i64 {
    step.map_or(OF_RUN, i64::from)
}

/// The block that an id is counted in.
pub(crate) fn block(id: i64) -> i64 {
    id / BLOCK
}
