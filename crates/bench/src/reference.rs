//! The plain way: day after day through jiff's own civil time, without any table of ours.

use jiff::civil::{Date, Time, Weekday, time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan};

/// What a case's expression means, in other words than cron's.
#[derive(Clone, Copy)]
pub(crate) enum Reference {
    /// At this time on the days for which the function holds.
    Days(Time, fn(Date) -> bool),
    /// At every quarter of an hour, whatever the clock is set to.
    QuarterHours,
    Never,
}

/// A search for a leap day looks at eight years and some.
const LONGEST_WAIT: usize = 9 * 366;

impl Reference {
    pub(crate) fn next_after(self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Reference::Never => None,
            // New York's offset is a whole number of quarters.
            Reference::QuarterHours => {
                Timestamp::from_second((after.as_second().div_euclid(900) + 1) * 900).ok()
            }
            Reference::Days(time, matches) => {
                let mut date = zone.to_datetime(after).date();
                for _ in 0..LONGEST_WAIT {
                    if matches(date) {
                        let at = instant(date, time, zone)?;
                        if at > after {
                            return Some(at);
                        }
                    }
                    date = date.tomorrow().ok()?;
                }
                None
            }
        }
    }
}

/// The first of two; for none, the first instant after the gap.
fn instant(date: Date, time: Time, zone: &TimeZone) -> Option<Timestamp> {
    let wall = date.to_datetime(time);
    match zone.to_ambiguous_timestamp(wall).offset() {
        AmbiguousOffset::Gap { before, .. } => {
            // Read with the offset before the gap, the time lies after the jump; the jump itself
            // is the last change before it.
            let inside = before.to_timestamp(wall).ok()?;
            Some(zone.preceding(inside.checked_add(1.second()).ok()?).next()?.timestamp())
        }
        AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
            offset.to_timestamp(wall).ok()
        }
    }
}

pub(crate) const NINE: Time = time(9, 0, 0, 0);
pub(crate) const MIDNIGHT: Time = time(0, 0, 0, 0);
pub(crate) const NOON: Time = time(12, 0, 0, 0);
pub(crate) const HALF_PAST_TWO: Time = time(2, 30, 0, 0);

pub(crate) fn every_day(_: Date) -> bool {
    true
}

pub(crate) fn leap_day(date: Date) -> bool {
    date.month() == 2 && date.day() == 29
}

pub(crate) fn weekday(date: Date) -> bool {
    !matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday)
}

/// The Monday-to-Friday day nearest to the 15th.
pub(crate) fn near_15th(date: Date) -> bool {
    match date.weekday() {
        Weekday::Saturday | Weekday::Sunday => false,
        Weekday::Friday => matches!(date.day(), 14 | 15),
        Weekday::Monday => matches!(date.day(), 15 | 16),
        _ => date.day() == 15,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::new_york;

    #[test]
    fn gaps_end_at_the_jump_and_folds_begin_early() {
        let check = |after: &str, expected: &str, time| {
            let reference = Reference::Days(time, every_day);
            let found = reference.next_after(after.parse().unwrap(), &new_york()).unwrap();
            assert_eq!(found.to_string(), expected);
        };
        check("2026-03-08T05:00:00Z", "2026-03-08T07:00:00Z", HALF_PAST_TWO);
        check("2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z", HALF_PAST_TWO);
        check("2026-11-01T04:00:00Z", "2026-11-01T05:30:00Z", time(1, 30, 0, 0));
        check("2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z", time(1, 30, 0, 0));
    }
}
