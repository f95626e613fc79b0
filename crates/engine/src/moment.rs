//! Now, as the engine is told.

use jiff::Timestamp;

/// The instant of a decision. The edge reads the clock once per transaction; everything decided in
/// it sees the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Now, in whole milliseconds.
    pub now: Timestamp,
    /// Since when somebody has been awake to notice what is due. What was due before was missed and
    /// follows the catch-up policy; what is due since is at most late.
    pub awake_since: Timestamp,
}

impl Moment {
    /// A moment of a node that has been awake since the instant.
    pub fn new(now: Timestamp, awake_since: Timestamp) -> Moment {
        Moment { now: whole_millisecond(now), awake_since }
    }
}

/// The instant itself if it is a whole millisecond, else the next one: nothing is due early.
pub(crate) fn whole_millisecond(at: Timestamp) -> Timestamp {
    let millisecond = at.as_millisecond();
    let rounded = millisecond + i64::from(at.subsec_nanosecond() % 1_000_000 != 0);
    // Before the epoch `as_millisecond` rounds towards it, which is up already.
    let rounded = if at.as_nanosecond() < 0 { millisecond } else { rounded };
    Timestamp::from_millisecond(rounded).unwrap_or(at)
}

/// Instants as stored: shorter and quicker to read than a text.
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
