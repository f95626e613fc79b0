//! Working time: adds, subtracts and measures only the time that the calendar counts as work.
//!
//! A shift is a range of wall-clock time. Work across a change of the clock takes an hour more or
//! less, so durations are always measured between instants.

use std::ops::Range;

use jiff::{SignedDuration, Timestamp};

use crate::calendars::{Calendar, DayPlan, Reason, SEARCH_DAYS, planned};
use crate::civil::{self, DAY_SECONDS, Day, Unix};
use crate::zone::Resolved;

/// The longest range of an addition, in days: a century.
const REACH_DAYS: Day = 36_525;
const NANOS: i128 = 1_000_000_000;

/// A range of working time, as instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    start: Unix,
    end: Unix,
}

/// The working time and the dates between two instants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Between {
    pub working: SignedDuration,
    /// Dates with working time, including the first and the last.
    pub working_days: i32,
    /// Dates off because of their weekday.
    pub weekend_days: i32,
    /// Dates off because of a holiday.
    pub holidays: i32,
    /// Dates off because of an exception.
    pub exceptions: i32,
}

impl Calendar {
    /// Whether the instant lies in working hours. The opening time does; the closing time does not.
    pub fn is_open(&self, instant: Timestamp) -> bool {
        self.fit(instant) == Some(instant)
    }

    /// The instant itself if it lies in working hours, else the next opening within ten years.
    pub fn fit(&self, instant: Timestamp) -> Option<Timestamp> {
        self.add_time(instant, SignedDuration::ZERO)
    }

    /// If `instant` is outside of working hours, the instant at which the last working hours before
    /// it ended.
    pub(crate) fn closed_since(&self, instant: Timestamp) -> Option<Unix> {
        let at = civil::floor_second(instant);
        let day = self.day_of(at);
        let back = BusyDays { calendar: self, days: day - SEARCH_DAYS..day + 2 }.rev();
        let opened = back
            .flat_map(|day| self.stretches(day).into_iter().rev())
            .find(|open| open.start <= at);
        // If the calendar was not open within the search range, it counts as closed since the
        // beginning of that range.
        let closed = opened.map_or(at - i64::from(SEARCH_DAYS) * DAY_SECONDS, |open| open.end);
        (closed <= at).then_some(closed)
    }

    /// `start` plus working time, or minus if the duration is negative. A result at closing time
    /// stays there. A duration of zero from outside of working hours gives the next opening.
    ///
    /// `None` if the calendar does not have that much working time within a century.
    ///
    /// ```
    /// use calendar::{Calendar, Zones, holidays::Region};
    /// use jiff::{SignedDuration, Timestamp};
    /// let utc = calendar::Zone::utc();
    /// let us = Calendar::for_region(&Region::parse("US").unwrap(), utc);
    /// let at = |text: &str| text.parse::<Timestamp>().unwrap();
    /// let two_days = SignedDuration::from_secs(2 * us.seconds_per_day());
    /// // Friday afternoon; the weekend does not count.
    /// assert_eq!(us.add_time(at("2026-02-27T14:00:00Z"), two_days), Some(at("2026-03-03T14:00:00Z")));
    /// assert_eq!(us.add_time(at("2026-02-28T14:00:00Z"), two_days), Some(at("2026-03-03T17:00:00Z")));
    /// ```
    pub fn add_time(&self, start: Timestamp, duration: SignedDuration) -> Option<Timestamp> {
        let at = start.as_nanosecond();
        let wanted = duration.as_nanos();
        let found = if wanted >= 0 { self.forward(at, wanted) } else { self.backward(at, -wanted) };
        Timestamp::from_nanosecond(found?).ok()
    }

    /// `start` plus this many working days, each as long as [`Calendar::seconds_per_day`].
    pub fn add_days(&self, start: Timestamp, days: f64) -> Option<Timestamp> {
        let seconds = days * self.seconds_per_day() as f64;
        let wanted = SignedDuration::try_from_secs_f64(seconds).ok()?;
        self.add_time(start, wanted)
    }

    /// What lies between two instants, negative if they are in reverse order. `None` if they are
    /// more than a century apart, or outside of the years 1900 to 2299.
    pub fn between(&self, from: Timestamp, to: Timestamp) -> Option<Between> {
        if to < from {
            return self.between(to, from).map(Between::negated);
        }
        let (start, end) = (from.as_nanosecond(), to.as_nanosecond());
        let first = self.day_of(civil::floor_second(from));
        let last = self.day_of(civil::second_before(to).max(civil::floor_second(from)));
        // If the clock goes back over midnight, the previous date is shown once more.
        let days = planned(first.saturating_sub(1)..last.saturating_add(2));
        if days.len() != (last - first + 3) as usize || last - first > REACH_DAYS {
            return None;
        }
        let mut between = Between::default();
        let mut nanos = 0;
        let mut done = start;
        for day in days {
            for open in self.stretches(day) {
                let from = (i128::from(open.start) * NANOS).max(done);
                let to = (i128::from(open.end) * NANOS).min(end);
                nanos += (to - from).max(0);
                done = done.max(to);
            }
            if (first..=last).contains(&day) {
                self.with_plan(day, |plan| match &plan.reason {
                    _ if plan.is_working() => between.working_days += 1,
                    Reason::Holiday(_) => between.holidays += 1,
                    Reason::Exception(_) => between.exceptions += 1,
                    Reason::Weekend(_) | Reason::Working => between.weekend_days += 1,
                });
            }
        }
        let seconds = i64::try_from(nanos / NANOS).unwrap_or(i64::MAX);
        between.working = SignedDuration::new(seconds, (nanos % NANOS) as i32);
        Some(between)
    }

    fn day_of(&self, at: Unix) -> Day {
        civil::day_of(at.saturating_add(i64::from(self.zone().segment(at).offset)))
    }

    fn forward(&self, start: i128, mut wanted: i128) -> Option<i128> {
        let at = i64::try_from(start.div_euclid(NANOS)).ok()?;
        let day = self.day_of(at);
        let mut done = start;
        let days = BusyDays { calendar: self, days: day - 1..day.saturating_add(REACH_DAYS) };
        for day in days {
            for open in self.stretches(day) {
                let (from, to) =
                    ((i128::from(open.start) * NANOS).max(done), i128::from(open.end) * NANOS);
                if to <= from {
                    continue;
                }
                if wanted <= to - from {
                    return Some(from + wanted);
                }
                wanted -= to - from;
                done = to;
            }
        }
        None
    }

    fn backward(&self, start: i128, mut wanted: i128) -> Option<i128> {
        let at = i64::try_from(start.div_euclid(NANOS)).ok()?;
        let day = self.day_of(at);
        let mut done = start;
        let days = BusyDays { calendar: self, days: day.saturating_sub(REACH_DAYS)..day + 2 };
        for day in days.rev() {
            for open in self.stretches(day).into_iter().rev() {
                let (from, to) =
                    (i128::from(open.start) * NANOS, (i128::from(open.end) * NANOS).min(done));
                if to <= from {
                    continue;
                }
                if wanted <= to - from {
                    return Some(to - wanted);
                }
                wanted -= to - from;
                done = from;
            }
        }
        None
    }

    /// The working time of a date as instants, in order and without overlaps.
    fn stretches(&self, day: Day) -> Openings {
        let midnight = civil::local(day, 0);
        let segment = self.zone().segment(midnight);
        let near_change = segment.start.saturating_add(2 * DAY_SECONDS) > midnight
            || segment.end.saturating_sub(2 * DAY_SECONDS) < midnight;
        let overnight = |plan: &DayPlan| plan.shifts.iter().any(|s| i64::from(s.end) > DAY_SECONDS);
        if !near_change && !self.with_plan(day - 1, overnight) && !self.with_plan(day, overnight) {
            return self.openings(day);
        }
        // Shifts of the previous days may reach into this one, and the two passes of a repeated
        // hour alternate.
        let (begin, end) = (self.begin_of(day), self.begin_of(day + 1));
        let near = (day - 2..=day).flat_map(|day| self.openings(day));
        let clipped = near.map(|o| Open { start: o.start.max(begin), end: o.end.min(end) });
        let mut all: Vec<Open> = clipped.filter(|open| open.start < open.end).collect();
        all.sort_unstable_by_key(|open| open.start);
        all.dedup_by(|later, kept| {
            let touches = later.start <= kept.end;
            kept.end = if touches { kept.end.max(later.end) } else { kept.end };
            touches
        });
        let mut openings = Openings::default();
        all.into_iter().for_each(|open| openings.push(open));
        openings
    }

    /// The first instant of a date; for a date that does not exist, that of the next one.
    pub(crate) fn begin_of(&self, day: Day) -> Unix {
        match self.zone().resolve(civil::local(day, 0)) {
            Resolved::Once(at) | Resolved::Fold { first: at, .. } => at,
            Resolved::Gap { end, .. } => end,
        }
    }

    /// The shifts that begin on a day, as instants.
    fn openings(&self, day: Day) -> Openings {
        let mut openings = Openings::default();
        let midnight = civil::local(day, 0);
        self.with_plan(day, |plan| {
            for shift in &*plan.shifts {
                let (from, to) =
                    (midnight + i64::from(shift.start), midnight + i64::from(shift.end));
                let mut segment = self.zone().segment(from - DAY_SECONDS);
                // Every segment between two changes of the clock may contain a part of the shift.
                while segment.start < to + DAY_SECONDS {
                    let offset = i64::from(segment.offset);
                    let start = (from - offset).max(segment.start);
                    let end = (to - offset).min(segment.end);
                    if start < end {
                        openings.push(Open { start, end });
                    }
                    if segment.end == i64::MAX {
                        break;
                    }
                    segment = self.zone().segment(segment.end);
                }
            }
        });
        openings
    }
}

/// Iterates over the days of a range that may have working time: working days, and the two days
/// after each, which an overnight shift may reach into. Ten years without any end the iteration.
struct BusyDays<'a> {
    calendar: &'a Calendar,
    days: Range<Day>,
}

impl Iterator for BusyDays<'_> {
    type Item = Day;

    fn next(&mut self) -> Option<Day> {
        let reach = self.days.start.saturating_add(SEARCH_DAYS).min(self.days.end);
        let working = self.calendar.first_working(self.days.start - 2..reach)?;
        let day = working.max(self.days.start);
        self.days.start = day + 1;
        (day < self.days.end).then_some(day)
    }
}

impl DoubleEndedIterator for BusyDays<'_> {
    fn next_back(&mut self) -> Option<Day> {
        let reach = self.days.end.saturating_sub(SEARCH_DAYS).max(self.days.start) - 2;
        let working = self.calendar.last_working(reach..self.days.end)?;
        let day = (working + 2).min(self.days.end - 1);
        self.days.end = day;
        (day >= self.days.start).then_some(day)
    }
}

impl Between {
    fn negated(self) -> Between {
        Between {
            working: -self.working,
            working_days: -self.working_days,
            weekend_days: -self.weekend_days,
            holidays: -self.holidays,
            exceptions: -self.exceptions,
        }
    }
}

/// The working time of a day. Most days have one or two ranges, and additions visit many days, so
/// these need no allocation.
#[derive(Default)]
struct Openings {
    near: [Option<Open>; 2],
    more: Vec<Open>,
}

impl Openings {
    fn push(&mut self, open: Open) {
        match self.near.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) if self.more.is_empty() => *slot = Some(open),
            _ => self.more.push(open),
        }
    }
}

impl IntoIterator for Openings {
    type Item = Open;
    type IntoIter = std::iter::Chain<
        std::iter::Flatten<std::array::IntoIter<Option<Open>, 2>>,
        std::vec::IntoIter<Open>,
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.near.into_iter().flatten().chain(self.more)
    }
}
