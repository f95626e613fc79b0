//! The current time, as the caller passes it to the engine.

use jiff::Timestamp;

/// The instant of a decision. The caller reads the clock once per transaction, so that everything
/// decided in it sees the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The current time, in whole milliseconds.
    pub now: Timestamp,
    /// Since when a node has been running to notice what is due. Occurrences due before were missed
    /// and follow the catch-up policy; those due since are at most late.
    pub awake_since: Timestamp,
}

impl Moment {
    /// The moment of a node that has been awake since the instant.
    pub fn new(now: Timestamp, awake_since: Timestamp) -> Moment {
        Moment { now: whole_millisecond(now), awake_since }
    }
}

/// The instant rounded up to a whole millisecond, so that nothing is due early.
pub(crate) fn whole_millisecond(at: Timestamp) -> Timestamp {
    let millisecond = at.as_millisecond();
    let rounded = millisecond + i64::from(at.subsec_nanosecond() % 1_000_000 != 0);
    // Before the epoch `as_millisecond` rounds towards it, which is already up.
    let rounded = if at.as_nanosecond() < 0 { millisecond } else { rounded };
    Timestamp::from_millisecond(rounded).unwrap_or(at)
}

/// Stores instants as milliseconds, which are shorter and quicker to read than text.
pub(crate) mod milliseconds {
    use jiff::Timestamp;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(
        at: &Timestamp,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(at.as_millisecond())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        Timestamp::from_millisecond(i64::deserialize(from)?).map_err(de::Error::custom)
    }
}
