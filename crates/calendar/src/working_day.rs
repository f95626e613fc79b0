//! The nth, or last nth, working day of a month, quarter or year.

use std::cmp::Ordering;
use std::sync::OnceLock;

use crate::calendars::{Calendar, PLANNED};
use crate::civil::{self, Day, Local, Ymd};
use crate::dst::WallTimes;
use crate::english;

/// The period in which working days are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Period {
    Month,
    Quarter,
    Year,
}

impl Period {
    fn months(self) -> i32 {
        match self {
            Period::Month => 1,
            Period::Quarter => 3,
            Period::Year => 12,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Period::Month => "month",
            Period::Quarter => "quarter",
            Period::Year => "year",
        }
    }
}

/// A rule such as `monthly: {working_day: -1, at: "17:00"}`.
#[derive(Clone, Debug)]
pub(crate) struct WorkingDay {
    pub(crate) calendar: Calendar,
    period: Period,
    /// 1 is the first working day, -1 the last; never 0.
    nth: i32,
    /// Seconds of the day, sorted, at least one.
    times: Vec<u32>,
    /// The first and the last such day of all planned years, if there is any. It is computed at the
    /// first query, so that a day that never occurs, such as the hundredth working day of a month,
    /// is searched for once only.
    span: OnceLock<Option<(Day, Day)>>,
}

impl WorkingDay {
    pub(crate) fn new(calendar: Calendar, period: Period, nth: i32, mut times: Vec<u32>) -> Self {
        times.sort_unstable();
        times.dedup();
        WorkingDay { calendar, period, nth, times, span: OnceLock::new() }
    }

    /// Describes the rule in English: `at 17:00 on the last working day of the month`.
    pub(crate) fn words(&self) -> String {
        let clocks: Vec<String> = self.times.iter().map(|&t| english::clock(t)).collect();
        let which = match self.nth {
            -1 => "last".to_owned(),
            nth if nth < 0 => format!("{} last", english::ordinal_word(nth.unsigned_abs())),
            nth => english::ordinal_word(nth.unsigned_abs()),
        };
        let calendar = match self.calendar.id() {
            "" => String::new(),
            id => format!(" ({id})"),
        };
        let at = english::list(&clocks, "and");
        format!("at {at} on the {which} working day of the {}{calendar}", self.period.name())
    }

    /// The period that a day lies in, counted from year 0.
    fn period_of(&self, day: Day) -> i32 {
        let Ymd { year, month, .. } = civil::ymd(day);
        (year * 12 + month as i32 - 1).div_euclid(self.period.months())
    }

    fn first_day(&self, period: i32) -> Day {
        let months = period * self.period.months();
        civil::day_number(months.div_euclid(12), months.rem_euclid(12) as u32 + 1, 1)
    }

    /// The day of the rule in a period; `None` if the period has fewer working days.
    fn day_in(&self, period: i32) -> Option<Day> {
        self.calendar.nth_working(self.first_day(period)..self.first_day(period + 1), self.nth)
    }

    fn span(&self) -> Option<(Day, Day)> {
        *self.span.get_or_init(|| {
            let mut all = self.period_of(PLANNED.start)..self.period_of(PLANNED.end);
            let first = all.find_map(|period| self.day_in(period))?;
            let last = all.rev().find_map(|period| self.day_in(period));
            Some((first, last.unwrap_or(first)))
        })
    }
}

impl WallTimes for WorkingDay {
    fn at_or_after(&self, from: Local) -> Option<Local> {
        let (first, last) = self.span()?;
        let (today, now) = civil::split(from);
        let periods = self.period_of(today.max(first))..=self.period_of(last);
        periods.into_iter().find_map(|period| {
            let day = self.day_in(period)?;
            let time = match day.cmp(&today) {
                Ordering::Less => None,
                Ordering::Equal => self.times.iter().find(|&&time| time >= now),
                Ordering::Greater => self.times.first(),
            };
            time.map(|&time| civil::local(day, time))
        })
    }

    fn at_or_before(&self, from: Local) -> Option<Local> {
        let (first, last) = self.span()?;
        let (today, now) = civil::split(from);
        let periods = self.period_of(first)..=self.period_of(today.min(last));
        periods.into_iter().rev().find_map(|period| {
            let day = self.day_in(period)?;
            let time = match day.cmp(&today) {
                Ordering::Greater => None,
                Ordering::Equal => self.times.iter().rev().find(|&&time| time <= now),
                Ordering::Less => self.times.last(),
            };
            time.map(|&time| civil::local(day, time))
        })
    }
}
