//! Periods of which a rule takes every INTERVAL-th: days to years, and hours to seconds.

use super::days::Days;
use super::expand::Leaps;
use super::times::{Positions, Times};
use super::{Direction, Frequency, Rrule};
use crate::civil::{self, DAY_SECONDS, Day, Local};

/// Days, weeks, months or years, counted from the one that contains the start.
#[derive(Clone, Debug)]
pub(super) struct Periods {
    length: Length,
    anchor: i64,
    interval: i64,
}

#[derive(Clone, Copy, Debug)]
enum Length {
    Day,
    /// A week with its first weekday; Sunday is 0.
    Week(i32),
    Month,
    Year,
}

impl Periods {
    pub(super) fn of(rrule: &Rrule, start: Day) -> Periods {
        let length = match rrule.frequency {
            Frequency::Yearly => Length::Year,
            Frequency::Monthly => Length::Month,
            Frequency::Weekly => Length::Week(rrule.week_start as i32),
            _ => Length::Day,
        };
        let mut periods = Periods { length, anchor: 0, interval: i64::from(rrule.interval) };
        periods.anchor = periods.index(start);
        periods
    }

    /// The number of the period that contains a day.
    pub(super) fn index(&self, day: Day) -> i64 {
        match self.length {
            Length::Day => i64::from(day),
            // Day 0 was a Thursday.
            Length::Week(first) => i64::from((day + 4 - first).div_euclid(7)),
            Length::Month => {
                let date = civil::ymd(day);
                i64::from(date.year) * 12 + i64::from(date.month) - 1
            }
            Length::Year => i64::from(civil::ymd(day).year),
        }
    }

    /// The first day of a period.
    pub(super) fn start(&self, index: i64) -> Day {
        match self.length {
            Length::Day => index as Day,
            Length::Week(first) => index as Day * 7 - 4 + first,
            Length::Month => {
                civil::day_number(index.div_euclid(12) as i32, index.rem_euclid(12) as u32 + 1, 1)
            }
            Length::Year => civil::day_number(index as i32, 1, 1),
        }
    }

    /// The nearest day in an active period, including `day`.
    pub(super) fn nearest_active(&self, day: Day, direction: Direction) -> Day {
        if self.interval == 1 {
            return day;
        }
        let index = self.index(day);
        let past = (index - self.anchor).rem_euclid(self.interval);
        match direction {
            _ if past == 0 => day,
            Direction::Forward => self.start(index - past + self.interval),
            Direction::Backward => self.start(index - past + 1) - 1,
        }
    }
}

/// Hours, minutes or seconds as periods. All have the same length, so division finds them.
#[derive(Clone, Debug)]
pub(super) struct Units {
    /// Seconds of a unit.
    size: i64,
    /// Seconds between the starts of two active units.
    stride: i64,
    /// The start of the unit that contains the rule's start.
    anchor: Local,
    /// The times of day at which units that pass BYHOUR, BYMINUTE and BYSECOND start.
    starts: Times,
    /// The occurrences in a unit, as offsets.
    offsets: Times,
}

impl Units {
    /// The units of a rule, or `None` if BYSETPOS picks nothing.
    pub(super) fn of(rrule: &Rrule, start: Local, positions: Option<&Positions>) -> Option<Units> {
        let size = match rrule.frequency {
            Frequency::Secondly => 1,
            Frequency::Minutely => 60,
            _ => 3600,
        };
        let offsets = Times::of_unit(rrule);
        Some(Units {
            size,
            stride: size * i64::from(rrule.interval),
            anchor: start - start.rem_euclid(size),
            starts: Times::of_unit_starts(rrule),
            offsets: positions.map_or(Some(offsets.clone()), |p| p.pick(&offsets))?,
        })
    }

    /// The nearest occurrence, including `from`.
    pub(super) fn seek(
        &self,
        days: &Days,
        from: Local,
        direction: Direction,
        leaps: &mut Leaps,
    ) -> Option<Local> {
        let offset = from.rem_euclid(self.size);
        let current = from - offset;
        let mut unit = self.seek_unit(days, current, direction, leaps)?;
        if unit == current {
            if let Some(found) = self.offsets.seek(offset as u32, direction) {
                return Some(unit + i64::from(found));
            }
            let beyond = match direction {
                Direction::Forward => current + self.size,
                Direction::Backward => current - self.size,
            };
            unit = self.seek_unit(days, beyond, direction, leaps)?;
        }
        Some(unit + i64::from(self.offsets.edge(direction)))
    }

    /// The start of the nearest active unit that passes, including `unit`.
    fn seek_unit(
        &self,
        days: &Days,
        mut unit: Local,
        direction: Direction,
        leaps: &mut Leaps,
    ) -> Option<Local> {
        loop {
            leaps.take(1)?;
            let today = civil::day_of(unit);
            let day = days.seek(today, direction)?;
            let second = match direction {
                _ if day == today => civil::second_of_day(unit),
                Direction::Forward => 0,
                Direction::Backward => (DAY_SECONDS - 1) as u32,
            };
            let Some(second) = self.starts.seek(second, direction) else {
                unit = match direction {
                    Direction::Forward => civil::local(day + 1, 0),
                    Direction::Backward => civil::local(day, 0) - 1,
                };
                continue;
            };
            unit = civil::local(day, second);
            let past = (unit - self.anchor).rem_euclid(self.stride);
            match direction {
                _ if past == 0 => return Some(unit),
                Direction::Forward => unit += self.stride - past,
                Direction::Backward => unit -= past,
            }
        }
    }
}
