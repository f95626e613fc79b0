//! Recurrence rules of RFC 5545.
//!
//! [`Rrule`] is a parsed and checked rule ([`parse`](self) reads it, `text` writes it back). A
//! [`Recurrence`] adds a start and a zone: `expand` finds its wall-clock times with the sets of
//! `days`, `times` and `periods`, and this file turns those into instants. `words` describes it in
//! English.

mod days;
mod expand;
mod parse;
mod periods;
mod text;
mod times;
mod words;

use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};

use crate::civil::{self, FIRST_YEAR, LAST_YEAR, Local, Unix};
use crate::zone::{Resolved, Zone};
use expand::{COUNT_LEAPS, Leaps, Plan, SEARCH_LEAPS};

/// An RRULE as written, without the start that provides the parts it leaves open.
///
/// ```
/// let rrule = calendar::Rrule::parse("RRULE:freq=monthly;byday=FR,1mo;interval=1").unwrap();
/// assert_eq!(rrule.to_string(), "FREQ=MONTHLY;BYDAY=FR,1MO");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rrule {
    frequency: Frequency,
    interval: u32,
    end: End,
    /// The weekday on which weeks begin; Sunday is 0.
    week_start: u8,
    months: Vec<i16>,
    week_numbers: Vec<i16>,
    year_days: Vec<i16>,
    month_days: Vec<i16>,
    weekdays: Vec<NthWeekday>,
    hours: Vec<i16>,
    minutes: Vec<i16>,
    seconds: Vec<i16>,
    positions: Vec<i16>,
}

/// Frequencies, from short to long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Frequency {
    Secondly,
    Minutely,
    Hourly,
    Daily,
    Weekly,
    Monthly,
    Yearly,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Never,
    Count(u32),
    /// Until the end of this day.
    UntilDate(Date),
    /// Until this wall time, inclusive.
    UntilWall(DateTime),
    /// Until this instant, given as its wall time in UTC.
    UntilUtc(DateTime),
}

/// A BYDAY item: `MO`, `2MO`, `-1MO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NthWeekday {
    /// 0 means every such weekday.
    nth: i8,
    /// The number of the weekday; Sunday is 0.
    weekday: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

impl Direction {
    fn step(self, day: civil::Day) -> civil::Day {
        match self {
            Direction::Forward => day + 1,
            Direction::Backward => day - 1,
        }
    }
}

/// An RRULE with a start in a zone, exceptions (EXDATE) and additions (RDATE).
///
/// The rule works in wall-clock time. A time that the clock skips is left out and does not count; a
/// time that it shows twice means the first. This also holds for hours, minutes and seconds: every
/// 15 minutes means wall times 15 minutes apart, so the second pass of a fold has none. (An
/// interval of elapsed time is a different rule.)
///
/// The start is an occurrence only if it matches the rule. BYSETPOS picks from whole weeks, months
/// and years, including the one that contains the start. COUNT counts occurrences before exceptions
/// are removed.
///
/// ```
/// use calendar::{Recurrence, Rrule, Zones};
///
/// let rrule = Rrule::parse("FREQ=MONTHLY;BYDAY=-1FR;COUNT=3").unwrap();
/// let zone = Zones::bundled().get("America/New_York").unwrap();
/// let start = "2026-01-30T17:00".parse().unwrap();
/// let fridays = Recurrence::new(rrule, start, zone);
/// let words = "every month on the last Friday at 17:00, 3 times, New York time";
/// assert_eq!(fridays.words(), words);
///
/// let mut at = "2026-01-01T00:00:00Z".parse().unwrap();
/// let mut times = Vec::new();
/// while let Some(next) = fridays.next_after(at) {
///     times.push(next.to_string());
///     at = next;
/// }
/// assert_eq!(times, ["2026-01-30T22:00:00Z", "2026-02-27T22:00:00Z", "2026-03-27T21:00:00Z"]);
/// assert_eq!(fridays.previous_before(at).unwrap().to_string(), "2026-02-27T22:00:00Z");
/// ```
#[derive(Clone, Debug)]
pub struct Recurrence {
    rrule: Rrule,
    zone: Zone,
    start: Local,
    plan: Arc<Plan>,
    /// The wall times of the first and the last possible occurrence, both included; `None` if there
    /// is none.
    span: Option<(Local, Local)>,
    exceptions: Vec<Local>,
    /// The dates of RDATE, sorted by instant.
    additions: Vec<Addition>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Addition {
    at: Unix,
    wall: Local,
}

impl Recurrence {
    /// Builds a recurrence. Fractions of a second in `dtstart` are dropped. Finding the end of
    /// COUNT takes time in proportion to it, less than a millisecond; without COUNT this takes some
    /// microseconds.
    pub fn new(rrule: Rrule, dtstart: DateTime, zone: Zone) -> Recurrence {
        let start = civil::local_from_datetime(dtstart);
        let plan = Arc::new(Plan::new(&rrule, start));
        let mut recurrence = Recurrence {
            rrule,
            zone,
            start,
            plan,
            span: None,
            exceptions: Vec::new(),
            additions: Vec::new(),
        };
        recurrence.span = recurrence.find_span();
        recurrence
    }

    /// Removes these wall times (EXDATE), including added ones.
    #[must_use]
    pub fn exclude(mut self, dates: impl IntoIterator<Item = DateTime>) -> Self {
        self.exceptions.extend(dates.into_iter().map(civil::local_from_datetime));
        self.exceptions.sort_unstable();
        self.exceptions.dedup();
        self
    }

    /// Adds these wall times (RDATE), regardless of COUNT and UNTIL. As RFC 5545 demands for
    /// explicit times, a time in a gap uses the offset before the gap.
    #[must_use]
    pub fn include(mut self, dates: impl IntoIterator<Item = DateTime>) -> Self {
        for date in dates {
            let wall = civil::local_from_datetime(date);
            let at = match self.zone.resolve(wall) {
                Resolved::Once(at) | Resolved::Fold { first: at, .. } => at,
                Resolved::Gap { before, .. } => wall - i64::from(before),
            };
            self.additions.push(Addition { at, wall });
        }
        self.additions.sort_unstable();
        self.additions.dedup();
        self
    }

    /// The zone whose wall clock the recurrence follows.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// The first occurrence strictly after an instant.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let from = civil::second_after(after);
        let index = self.additions.partition_point(|addition| addition.at < from);
        let mut additions = self.additions[index..].iter();
        let added = additions.find(|addition| !self.is_excluded(addition.wall)).map(|a| a.at);
        let found = self.seek(from, Direction::Forward);
        civil::timestamp(found.into_iter().chain(added).min()?)
    }

    /// The last occurrence strictly before an instant.
    pub fn previous_before(&self, before: Timestamp) -> Option<Timestamp> {
        let from = civil::second_before(before);
        let index = self.additions.partition_point(|addition| addition.at <= from);
        let mut additions = self.additions[..index].iter().rev();
        let added = additions.find(|addition| !self.is_excluded(addition.wall)).map(|a| a.at);
        let found = self.seek(from, Direction::Backward);
        civil::timestamp(found.into_iter().chain(added).max()?)
    }

    /// The nearest occurrence of the rule, including `from`.
    fn seek(&self, from: Unix, direction: Direction) -> Option<Unix> {
        let (first, last) = self.span?;
        let mut leaps = Leaps::limit(SEARCH_LEAPS);
        let mut wall = match direction {
            Direction::Forward => self.first_wall(from).max(first),
            Direction::Backward => self.last_wall(from).min(last),
        };
        loop {
            wall = self.plan.seek(wall, direction, &mut leaps)?;
            if !(first..=last).contains(&wall) {
                return None;
            }
            wall = match self.zone.resolve(wall) {
                Resolved::Gap { end, before, after } => {
                    leaps.take(1)?;
                    match direction {
                        Direction::Forward => end + i64::from(after),
                        Direction::Backward => end + i64::from(before) - 1,
                    }
                }
                Resolved::Once(at) | Resolved::Fold { first: at, .. } => {
                    let wanted = match direction {
                        Direction::Forward => at >= from,
                        Direction::Backward => at <= from,
                    };
                    if wanted && !self.is_excluded(wall) {
                        return Some(at);
                    }
                    match direction {
                        Direction::Forward => wall + 1,
                        Direction::Backward => wall - 1,
                    }
                }
            };
        }
    }

    fn is_excluded(&self, wall: Local) -> bool {
        !self.exceptions.is_empty() && self.exceptions.binary_search(&wall).is_ok()
    }

    /// The earliest wall time that may correspond to an instant at or after `at`.
    fn first_wall(&self, at: Unix) -> Local {
        let segment = self.zone.segment(at);
        let wall = at + i64::from(segment.offset);
        // In the second pass of a fold, all wall times up to its end have already occurred.
        let shown = segment.start.saturating_add(i64::from(segment.before));
        wall.max(shown)
    }

    /// The latest wall time that may correspond to an instant at or before `at`.
    fn last_wall(&self, at: Unix) -> Local {
        let segment = self.zone.segment(at);
        let wall = at + i64::from(segment.offset);
        let shown = segment.start.saturating_add(i64::from(segment.before));
        wall.max(shown.saturating_sub(1))
    }

    fn find_span(&self) -> Option<(Local, Local)> {
        let horizon = civil::local(civil::day_number(LAST_YEAR, 12, 31), 86_399);
        let dawn = civil::local(civil::day_number(FIRST_YEAR, 1, 1), 0);
        let last = match self.rrule.end {
            End::Never | End::Count(_) => horizon,
            End::UntilDate(date) => civil::local(civil::day_from_date(date), 86_399),
            End::UntilWall(wall) => civil::local_from_datetime(wall),
            End::UntilUtc(utc) => self.last_wall(civil::local_from_datetime(utc)),
        };
        let from = self.start.max(dawn);
        let mut leaps = Leaps::limit(SEARCH_LEAPS);
        let first = self.plan.seek(from, Direction::Forward, &mut leaps)?;
        let last = match self.rrule.end {
            End::Count(count) => self.find_last(first, count),
            _ => last.min(horizon),
        };
        (first <= last).then_some((first, last))
    }

    /// The wall time of the occurrence that reaches COUNT, or of the last occurrence there is.
    fn find_last(&self, first: Local, count: u32) -> Local {
        let mut leaps = Leaps::limit(COUNT_LEAPS);
        let (mut next, mut last, mut counted) = (Some(first), first - 1, 0);
        while counted < count
            && let Some(wall) = next
        {
            let from = match self.zone.resolve(wall) {
                Resolved::Gap { end, after, .. } => end + i64::from(after),
                Resolved::Once(_) | Resolved::Fold { .. } => {
                    (last, counted) = (wall, counted + 1);
                    wall + 1
                }
            };
            next = self.plan.seek(from, Direction::Forward, &mut leaps);
        }
        last
    }
}

#[cfg(test)]
mod tests;
