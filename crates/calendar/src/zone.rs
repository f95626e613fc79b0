//! One zone: its wall-clock time at an instant, and the instant of a wall time.

use std::fmt;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::civil::{self, CYCLE_SECONDS, Local, Unix};

/// From here on a zone follows only its yearly rule, so it repeats with the calendar's cycle.
const CYCLE_START: Unix = civil::day_number(2100, 1, 1) as i64 * civil::DAY_SECONDS;
const TABLE_END: Unix = CYCLE_START + CYCLE_SECONDS;
const INDEX_START: Unix = civil::day_number(1900, 1, 1) as i64 * civil::DAY_SECONDS;
/// Index cells have 2^24 s, about 194 days: with two changes a year, one comparison finds the
/// segment.
const INDEX_SHIFT: u32 = 24;

/// One zone of a database. Clones are cheap.
#[derive(Clone)]
pub struct Zone(Arc<Table>);

/// The instants of a wall time in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The wall time occurs once.
    Once(Timestamp),
    /// The clock skips the wall time.
    Gap {
        /// The instant of the change: the first one after the gap.
        end: Timestamp,
        /// Offset in seconds before the change.
        before: i32,
        /// Offset in seconds after the change.
        after: i32,
    },
    /// The clock shows the wall time twice.
    Fold { first: Timestamp, last: Timestamp },
}

/// A change of a zone's offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The instant of the change.
    pub at: Timestamp,
    /// Offset in seconds before the change.
    pub before: i32,
    /// Offset in seconds after the change.
    pub after: i32,
}

/// [`Meaning`] in plain seconds, for searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    Once(Unix),
    Gap { end: Unix, before: i32, after: i32 },
    Fold { first: Unix, last: Unix },
}

/// A range of time with one offset: `start <= t < end`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) start: Unix,
    pub(crate) end: Unix,
    pub(crate) offset: i32,
    /// Offset of the previous segment; the same as `offset` in the first one.
    pub(crate) before: i32,
    /// Offset of the next segment; the same as `offset` in the last one.
    pub(crate) after: i32,
}

impl Zone {
    /// Builds a zone from its compiled file (TZif), or says why that cannot be parsed.
    pub(crate) fn from_tzif(name: &str, bytes: &[u8]) -> Result<Zone, jiff::Error> {
        Ok(Zone(Arc::new(Table::build(name, &TimeZone::tzif(name, bytes)?))))
    }

    /// UTC, which needs no database.
    pub fn utc() -> Zone {
        static UTC: LazyLock<Zone> =
            LazyLock::new(|| Zone(Arc::new(Table::build("UTC", &TimeZone::UTC))));
        UTC.clone()
    }

    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Offset from UTC in seconds; positive is east.
    pub fn offset_at(&self, instant: Timestamp) -> i32 {
        self.segment(civil::floor_second(instant)).offset
    }

    /// The wall-clock time at an instant.
    pub fn wall(&self, instant: Timestamp) -> DateTime {
        let unix = civil::floor_second(instant);
        let local = unix + i64::from(self.segment(unix).offset);
        // Only the last hours of the years 9999 and -9999 are out of range.
        civil::datetime_from_local(local).unwrap_or(if unix > 0 {
            DateTime::MAX
        } else {
            DateTime::MIN
        })
    }

    /// The instants of a wall time: one, none or two. Fractions of a second are dropped.
    pub fn meaning(&self, wall: DateTime) -> Option<Meaning> {
        Some(match self.resolve(civil::local_from_datetime(wall)) {
            Resolved::Once(at) => Meaning::Once(civil::timestamp(at)?),
            Resolved::Gap { end, before, after } => {
                Meaning::Gap { end: civil::timestamp(end)?, before, after }
            }
            Resolved::Fold { first, last } => {
                Meaning::Fold { first: civil::timestamp(first)?, last: civil::timestamp(last)? }
            }
        })
    }

    /// The changes of offset in `from <= t < to`, in order.
    pub fn transitions(
        &self,
        from: Timestamp,
        to: Timestamp,
    ) -> impl Iterator<Item = Transition> + '_ {
        let (mut cursor, to) = (civil::second_before(from), civil::second_before(to));
        std::iter::from_fn(move || {
            let segment = self.segment(cursor);
            if segment.end > to || segment.after == segment.offset {
                return None;
            }
            cursor = segment.end;
            let at = civil::timestamp(segment.end)?;
            Some(Transition { at, before: segment.offset, after: segment.after })
        })
    }

    /// Formats an instant as RFC 3339 with the offset: `2026-03-08T09:00:00-04:00`.
    pub fn rfc3339(&self, instant: Timestamp) -> String {
        let offset = self.offset_at(instant);
        let (hours, minutes) = (offset.abs() / 3600, offset.abs() / 60 % 60);
        let sign = if offset < 0 { '-' } else { '+' };
        let wall = self.wall(instant);
        if offset == 0 {
            return format!("{wall}Z");
        }
        format!("{wall}{sign}{hours:02}:{minutes:02}")
    }

    pub(crate) fn segment(&self, at: Unix) -> Segment {
        self.0.segment(at)
    }

    pub(crate) fn resolve(&self, local: Local) -> Resolved {
        // Offsets are within 26 hours of UTC, so only the segments around these instants can show
        // this wall time.
        const REACH: i64 = 26 * 3600;
        let mut segment = self.segment(local - REACH);
        if local + REACH < segment.end {
            return Resolved::Once(local - i64::from(segment.offset));
        }
        let mut found: Option<(Unix, Unix)> = None;
        let mut gap = None;
        loop {
            let at = local - i64::from(segment.offset);
            if at >= segment.start && at < segment.end {
                found = Some((found.map_or(at, |(first, _)| first), at));
            }
            let end_before = segment.end.saturating_add(i64::from(segment.offset));
            let end_after = segment.end.saturating_add(i64::from(segment.after));
            if local >= end_before && local < end_after {
                gap = Some(Resolved::Gap {
                    end: segment.end,
                    before: segment.offset,
                    after: segment.after,
                });
            }
            if segment.end > local + REACH {
                break;
            }
            segment = self.segment(segment.end);
        }
        match (found, gap) {
            (Some((first, last)), _) if first == last => Resolved::Once(first),
            (Some((first, last)), _) => Resolved::Fold { first, last },
            (None, Some(gap)) => gap,
            // Every wall time lies in a segment or in a gap between two.
            (None, None) => Resolved::Once(local - i64::from(segment.offset)),
        }
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name())
    }
}

impl PartialEq for Zone {
    /// Two zones are equal if their names and rules are; two databases may have different rules for
    /// one name.
    fn eq(&self, other: &Zone) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || *self.0 == *other.0
    }
}

impl Eq for Zone {}

/// All changes of a zone's offset until the calendar's cycle repeats, with an index by time.
#[derive(PartialEq, Eq)]
struct Table {
    name: Box<str>,
    /// `starts[0]` is the beginning of time. Segment `i` ends where `i + 1` starts.
    starts: Box<[Unix]>,
    offsets: Box<[i32]>,
    /// The segment at the beginning of each index cell.
    index: Box<[u16]>,
}

impl Table {
    fn build(name: &str, tz: &TimeZone) -> Table {
        let mut starts = vec![i64::MIN];
        let mut offsets = vec![tz.to_offset(Timestamp::MIN).seconds()];
        for transition in tz.following(Timestamp::MIN) {
            let at = transition.timestamp().as_second();
            // One segment past the end is included, so that the last one inside has a known end.
            if at >= TABLE_END + civil::DAY_SECONDS * 400 || starts.len() > 60_000 {
                break;
            }
            let offset = transition.offset().seconds();
            // A change of only the abbreviation or the daylight flag is ignored, because only
            // offsets matter.
            if offsets.last() != Some(&offset) {
                starts.push(at);
                offsets.push(offset);
            }
        }
        let cells = ((TABLE_END - INDEX_START) >> INDEX_SHIFT) + 1;
        let mut position = 0;
        let index = (0..cells).map(|cell| {
            let at = INDEX_START + (cell << INDEX_SHIFT);
            while starts.get(position + 1).is_some_and(|&next| next <= at) {
                position += 1;
            }
            position as u16
        });
        let index = index.collect();
        Table { name: name.into(), starts: starts.into(), offsets: offsets.into(), index }
    }

    fn segment(&self, at: Unix) -> Segment {
        if at < TABLE_END {
            return self.stretch(at);
        }
        let cycles = (at - CYCLE_START) / CYCLE_SECONDS;
        let mut segment = self.stretch(at - cycles * CYCLE_SECONDS);
        segment.start = segment.start.saturating_add(cycles * CYCLE_SECONDS);
        segment.end = segment.end.saturating_add(cycles * CYCLE_SECONDS);
        segment
    }

    fn stretch(&self, at: Unix) -> Segment {
        let mut i = if at >= INDEX_START {
            self.index[((at - INDEX_START) >> INDEX_SHIFT) as usize] as usize
        } else {
            self.starts.partition_point(|&start| start <= at) - 1
        };
        while i + 1 < self.starts.len() && self.starts[i + 1] <= at {
            i += 1;
        }
        Segment {
            start: self.starts[i],
            end: self.starts.get(i + 1).copied().unwrap_or(i64::MAX),
            offset: self.offsets[i],
            before: self.offsets[i.saturating_sub(1)],
            after: *self.offsets.get(i + 1).unwrap_or(&self.offsets[i]),
        }
    }
}
