//! Searches for the occurrences of a rule in wall-clock time, forward and backward, without a zone.
//!
//! The search never builds a set of dates. A rule based on days is (days that pass) × (times of
//! day), divided into periods of which every INTERVAL-th counts. A rule in hours, minutes or
//! seconds is (days that pass) × (starting times of units) × (offsets in a unit), of which every
//! INTERVAL-th unit counts. A search leaps to the next day, time or active period that may match,
//! so its cost depends on how rarely these coincide and not on how far away the result is.

use super::days::Days;
use super::periods::{Periods, Units};
use super::times::{Positions, Times};
use super::{Direction, Frequency, Rrule};
use crate::civil::{self, Day, Local};

/// The most leaps of one search. A leap takes 20 to 50 ns, so the longest search takes less than a
/// millisecond. Rules that people write need less than a hundred. A rule that needs more than this
/// has parts that coincide once in centuries (every 999,983 s, but only at 03:03:03), and the
/// search answers "never".
pub(super) const SEARCH_LEAPS: u32 = 15_000;
/// The most leaps for finding the end of COUNT, once per recurrence: ten for each occurrence that
/// COUNT may ask for, of which ordinary rules need two. A rule that needs more ends there.
pub(super) const COUNT_LEAPS: u32 = 30_000;
/// The cost of counting the set of a period, in leaps.
const PICK_LEAPS: u32 = 3;

/// How many leaps a search may still take.
#[derive(Debug)]
pub(super) struct Leaps(u32);

impl Leaps {
    pub(super) fn limit(leaps: u32) -> Leaps {
        Leaps(leaps)
    }

    /// Takes leaps, or returns `None` if too few are left, which ends the search.
    pub(super) fn take(&mut self, leaps: u32) -> Option<()> {
        self.0 = self.0.checked_sub(leaps)?;
        Some(())
    }

    #[cfg(test)]
    pub(super) fn left(&self) -> u32 {
        self.0
    }
}

/// A rule with its start, prepared for searching.
#[derive(Debug)]
pub(super) struct Plan {
    days: Days,
    shape: Shape,
}

#[derive(Debug)]
enum Shape {
    /// The rule can never have an occurrence.
    Empty,
    /// All times of the days that pass, in active periods.
    Days { times: Times, periods: Periods },
    /// Only the picked times (BYSETPOS) in the set of each active period.
    Picked { times: Times, periods: Periods, positions: Positions },
    /// Offsets from the starts of active hours, minutes or seconds.
    Units(Units),
}

impl Plan {
    pub(super) fn new(rrule: &Rrule, start: Local) -> Plan {
        let rrule = fill_in(rrule, start);
        Plan { days: Days::of(&rrule), shape: Shape::of(&rrule, start) }
    }

    /// The nearest occurrence in wall-clock time, including `from`.
    pub(super) fn seek(
        &self,
        from: Local,
        direction: Direction,
        leaps: &mut Leaps,
    ) -> Option<Local> {
        match &self.shape {
            Shape::Empty => None,
            Shape::Days { times, periods } => {
                self.seek_time(times, periods, from, direction, leaps)
            }
            Shape::Picked { times, periods, positions } => {
                self.seek_picked(times, periods, positions, from, direction, leaps)
            }
            Shape::Units(units) => units.seek(&self.days, from, direction, leaps),
        }
    }

    fn seek_time(
        &self,
        times: &Times,
        periods: &Periods,
        from: Local,
        direction: Direction,
        leaps: &mut Leaps,
    ) -> Option<Local> {
        let today = civil::day_of(from);
        let mut day = self.seek_day(periods, today, direction, leaps)?;
        if day == today {
            if let Some(second) = times.seek(civil::second_of_day(from), direction) {
                return Some(civil::local(day, second));
            }
            day = self.seek_day(periods, direction.step(today), direction, leaps)?;
        }
        Some(civil::local(day, times.edge(direction)))
    }

    /// The nearest day that passes the filters and lies in an active period.
    fn seek_day(
        &self,
        periods: &Periods,
        mut day: Day,
        direction: Direction,
        leaps: &mut Leaps,
    ) -> Option<Day> {
        loop {
            leaps.take(1)?;
            day = self.days.seek(day, direction)?;
            let active = periods.nearest_active(day, direction);
            if active == day {
                return Some(day);
            }
            day = active;
        }
    }

    fn seek_picked(
        &self,
        times: &Times,
        periods: &Periods,
        positions: &Positions,
        mut from: Local,
        direction: Direction,
        leaps: &mut Leaps,
    ) -> Option<Local> {
        loop {
            leaps.take(PICK_LEAPS)?;
            let today = civil::day_of(from);
            let day = self.seek_day(periods, today, direction, leaps)?;
            let index = periods.index(day);
            let (start, end) = (periods.start(index), periods.start(index + 1));
            let per_day = times.count();
            let count = self.days.count(start, end) * per_day;
            // The rank of `from` in the set of the period: 0 or the whole count if `from` lies
            // outside of it.
            let second = civil::second_of_day(from);
            let rank = |second: u32| {
                let today_rank = if day == today { times.rank(second) } else { 0 };
                self.days.count(start, today) * per_day + today_rank
            };
            let inside = (start..end).contains(&today);
            let pick = match direction {
                Direction::Forward => {
                    positions.at_or_after(if inside { rank(second) } else { 0 }, count)
                }
                Direction::Backward => {
                    positions.before(if inside { rank(second + 1) } else { count }, count)
                }
            };
            if let Some(pick) = pick {
                let day = self.days.select(start, end, pick / per_day)?;
                return Some(civil::local(day, times.select(pick % per_day)));
            }
            from = match direction {
                Direction::Forward => civil::local(end, 0),
                Direction::Backward => civil::local(start, 0) - 1,
            };
        }
    }
}

impl Shape {
    /// `rrule` must already have the parts that are taken from its start.
    fn of(rrule: &Rrule, start: Local) -> Shape {
        let positions = Positions::of(&rrule.positions);
        let picks = !rrule.positions.is_empty();
        let every_unit = rrule.interval == 1 && !picks;
        if rrule.frequency < Frequency::Daily && !every_unit {
            return Units::of(rrule, start, picks.then_some(&positions))
                .map_or(Shape::Empty, Shape::Units);
        }
        let times = Times::of_day(rrule);
        let periods = Periods::of(rrule, civil::day_of(start));
        if !picks {
            return Shape::Days { times, periods };
        }
        if rrule.frequency > Frequency::Daily {
            return Shape::Picked { times, periods, positions };
        }
        positions.pick(&times).map_or(Shape::Empty, |times| Shape::Days { times, periods })
    }
}

/// Takes the parts that the rule leaves open from its start, as RFC 5545 says.
pub(super) fn fill_in(rrule: &Rrule, start: Local) -> Rrule {
    let mut rrule = rrule.clone();
    let date = civil::ymd(civil::day_of(start));
    let any_day = rrule.week_numbers.is_empty()
        && rrule.year_days.is_empty()
        && rrule.month_days.is_empty()
        && rrule.weekdays.is_empty();
    if any_day {
        match rrule.frequency {
            Frequency::Yearly => {
                if rrule.months.is_empty() {
                    rrule.months = vec![date.month as i16];
                }
                rrule.month_days = vec![date.day as i16];
            }
            Frequency::Monthly => rrule.month_days = vec![date.day as i16],
            Frequency::Weekly => {
                let weekday = civil::weekday(civil::day_of(start)) as u8;
                rrule.weekdays = vec![super::NthWeekday { nth: 0, weekday }];
            }
            _ => {}
        }
    }
    let second = civil::second_of_day(start);
    let frequency = rrule.frequency;
    let fill = |list: &mut Vec<i16>, unit: Frequency, value: u32| {
        if list.is_empty() && frequency > unit {
            *list = vec![value as i16];
        }
    };
    fill(&mut rrule.hours, Frequency::Hourly, second / 3600);
    fill(&mut rrule.minutes, Frequency::Minutely, second / 60 % 60);
    fill(&mut rrule.seconds, Frequency::Secondly, second % 60);
    rrule
}
