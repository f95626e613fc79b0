//! Day plans: the hours and the reason of each date, computed once per year and cached.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::hours::{Dates, Shift};
use super::{Calendar, compose};
use crate::civil::{self, Day, Ymd};
use crate::english;
use crate::holidays::Region;

/// The years that searches cover and whose plans are cached. Nobody plans work outside of them.
const FIRST_KEPT: i32 = 1900;
const KEPT: usize = 400;
/// The days of the planned years.
pub(crate) const PLANNED: Range<Day> =
    civil::day_number(FIRST_KEPT, 1, 1)..civil::day_number(FIRST_KEPT + KEPT as i32, 1, 1);

/// Why a date is a working day or a day off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// An ordinary working day.
    Working,
    /// A weekday off, by its name.
    Weekend(&'static str),
    /// A holiday, which may still have working hours.
    Holiday(Arc<str>),
    /// A declared exception, or a make-up working day.
    Exception(Arc<str>),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Working => f.write_str("working day"),
            Reason::Weekend(weekday) => f.write_str(weekday),
            Reason::Holiday(name) => write!(f, "holiday: {name}"),
            Reason::Exception(name) => write!(f, "exception: {name}"),
        }
    }
}

/// The plan of one date: its working hours and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayPlan {
    /// Sorted; empty on a day off.
    pub shifts: Arc<[Shift]>,
    pub reason: Reason,
}

impl DayPlan {
    /// Whether the date has working hours.
    pub fn is_working(&self) -> bool {
        !self.shifts.is_empty()
    }
}

/// The change that a declared date makes.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) dates: Dates,
    pub(crate) reason: Reason,
    /// `None` means the hours of a regular day.
    pub(crate) shifts: Option<Arc<[Shift]>>,
}

/// How the plans of days are computed.
pub(crate) enum Source {
    Own(Own),
    /// Working time of any of the calendars.
    Union(Vec<Calendar>),
    /// Working time that all of the calendars have.
    Intersection(Vec<Calendar>),
    /// Working time of the first calendar that none of the others has.
    AllBut(Calendar, Vec<Calendar>),
}

pub(crate) struct Own {
    /// Hours by weekday, Sunday first.
    pub(crate) week: [Arc<[Shift]>; 7],
    pub(crate) regions: Vec<Region>,
    /// Later entries take precedence.
    pub(crate) entries: Vec<Entry>,
}

impl Source {
    pub(crate) fn for_region(region: &Region) -> Source {
        let nine_to_five: Arc<[Shift]> = [Shift { start: 9 * 3600, end: 17 * 3600 }].into();
        let weekend = weekend(region.code());
        let week = std::array::from_fn(|day| {
            if weekend >> day & 1 == 1 { Arc::from([]) } else { nine_to_five.clone() }
        });
        Source::Own(Own { week, regions: vec![region.clone()], entries: Vec::new() })
    }

    /// The length of the longest regular day, in seconds.
    pub(crate) fn longest_day(&self) -> i64 {
        match self {
            Source::Own(own) => own.week.iter().map(|day| seconds(day)).max().unwrap_or(0),
            Source::Union(all) => all.iter().map(Calendar::seconds_per_day).max().unwrap_or(0),
            Source::Intersection(all) => {
                all.iter().map(Calendar::seconds_per_day).min().unwrap_or(0)
            }
            Source::AllBut(base, _) => base.seconds_per_day(),
        }
    }

    pub(crate) fn regions<'a>(&'a self, into: &mut Vec<&'a Region>) {
        match self {
            Source::Own(own) => into.extend(&own.regions),
            Source::Union(all) | Source::Intersection(all) => {
                all.iter().for_each(|calendar| calendar.source().regions(into));
            }
            Source::AllBut(base, others) => {
                base.source().regions(into);
                others.iter().for_each(|calendar| calendar.source().regions(into));
            }
        }
    }

    fn year(&self, year: i32) -> YearPlan {
        let first = civil::day_number(year, 1, 1);
        let days = first..first + civil::year_length(year) as Day;
        let plans: Vec<DayPlan> = match self {
            Source::Own(own) => own.year(year, days),
            Source::Union(all) => {
                days.map(|day| compose::joined(all, day, compose::union(all, day))).collect()
            }
            Source::Intersection(all) => {
                days.map(|day| compose::joined(all, day, compose::intersection(all, day))).collect()
            }
            Source::AllBut(base, others) => {
                days.map(|day| compose::without(base, others, day)).collect()
            }
        };
        let mut working = [0u64; 6];
        for (at, _) in plans.iter().enumerate().filter(|(_, plan)| plan.is_working()) {
            working[at / 64] |= 1 << (at % 64);
        }
        YearPlan { first, working, plans }
    }
}

/// The days off of the usual week, as bits with Sunday as bit 0: Saturday and Sunday, except in the
/// countries listed.
fn weekend(region: &str) -> u8 {
    match region.get(..2).unwrap_or("") {
        "BD" | "BH" | "DZ" | "EG" | "IL" | "IQ" | "JO" | "KW" | "LY" | "OM" | "QA" | "SA"
        | "SD" | "SY" | "YE" => 0b110_0000,
        "NP" => 0b100_0000,
        _ => 0b100_0001,
    }
}

fn seconds(shifts: &[Shift]) -> i64 {
    shifts.iter().map(|shift| shift.seconds()).sum()
}

impl Own {
    fn year(&self, year: i32, days: Range<Day>) -> Vec<DayPlan> {
        let first = days.start;
        let mut plans: Vec<DayPlan> = days
            .map(|day| {
                let weekday = civil::weekday(day) as usize;
                let shifts = self.week[weekday].clone();
                let reason = if shifts.is_empty() {
                    Reason::Weekend(english::WEEKDAYS[weekday])
                } else {
                    Reason::Working
                };
                DayPlan { shifts, reason }
            })
            .collect();
        for (day, plan) in self.region_days(year) {
            if let Some(slot) = plans.get_mut((day - first) as usize) {
                *slot = plan;
            }
        }
        for entry in &self.entries {
            let (from, to) = match entry.dates {
                Dates::Span(from, to) => (from, to),
                Dates::Yearly { month, day } if day <= civil::month_length(year, month) => {
                    let day = civil::day_number(year, month, day);
                    (day, day)
                }
                Dates::Yearly { .. } => continue,
            };
            let last = first + plans.len() as Day - 1;
            for day in from.max(first)..=to.min(last) {
                let shifts = entry.shifts.clone().unwrap_or_else(|| self.regular(day));
                plans[(day - first) as usize] = DayPlan { shifts, reason: entry.reason.clone() };
            }
        }
        plans
    }

    fn region_days(&self, year: i32) -> Vec<(Day, DayPlan)> {
        let Ok(year) = i16::try_from(year) else { return Vec::new() };
        let mut names: HashMap<Day, Vec<Box<str>>> = HashMap::new();
        let mut days = Vec::new();
        for region in &self.regions {
            for holiday in region.holidays(year) {
                let on_day = names.entry(civil::day_from_date(holiday.date)).or_default();
                if !on_day.iter().any(|name| **name == *holiday.name) {
                    on_day.push((&*holiday.name).into());
                }
            }
        }
        for (day, names) in names {
            let reason = Reason::Holiday(names.join("; ").into());
            days.push((day, DayPlan { shifts: Arc::from([]), reason }));
        }
        for region in &self.regions {
            for made_up in region.working_days(year) {
                let day = civil::day_from_date(made_up.date);
                let reason = Reason::Exception((&*made_up.name).into());
                days.push((day, DayPlan { shifts: self.regular(day), reason }));
            }
        }
        days
    }

    /// The hours of the weekday, or those of the longest day if that weekday is off.
    fn regular(&self, day: Day) -> Arc<[Shift]> {
        let own = &self.week[civil::weekday(day) as usize];
        if !own.is_empty() {
            return own.clone();
        }
        // Of several days of that length, the first from Monday on.
        let longest = (1..8).map(|day| &self.week[day % 7]).rev().max_by_key(|day| seconds(day));
        longest.cloned().unwrap_or_else(|| own.clone())
    }
}

struct YearPlan {
    first: Day,
    working: [u64; 6],
    plans: Vec<DayPlan>,
}

impl YearPlan {
    /// The first working day at or after the `at`th day of the year.
    fn first_from(&self, at: Day) -> Option<Day> {
        let (first_word, bit) = (at as usize / 64, at % 64);
        let words = self.working.iter().enumerate().skip(first_word);
        words
            .map(|(word, &bits)| (word, if word == first_word { bits >> bit << bit } else { bits }))
            .find(|(_, bits)| *bits != 0)
            .map(|(word, bits)| self.first + word as Day * 64 + bits.trailing_zeros() as Day)
    }

    /// The last working day at or before the `at`th day of the year.
    fn last_until(&self, at: Day) -> Option<Day> {
        let (last_word, bit) = (at as usize / 64, at % 64);
        let words = self.working.iter().enumerate().take(last_word + 1).rev();
        words
            .map(|(word, &bits)| {
                let above = 63 - bit;
                (word, if word == last_word { bits << above >> above } else { bits })
            })
            .find(|(_, bits)| *bits != 0)
            .map(|(word, bits)| self.first + word as Day * 64 + bits.ilog2() as Day)
    }

    /// The number of working days before the `at`th day of the year.
    fn count_before(&self, at: Day) -> u32 {
        let (word, bit) = (at as usize / 64, at % 64);
        let whole: u32 = self.working[..word].iter().map(|bits| bits.count_ones()).sum();
        let part = self.working.get(word).map_or(0, |bits| bits & !(u64::MAX << bit));
        whole + part.count_ones()
    }
}

/// A cache of the years computed so far.
pub(crate) struct Years(Box<[OnceLock<Box<YearPlan>>]>);

impl Default for Years {
    fn default() -> Years {
        Years((0..KEPT).map(|_| OnceLock::new()).collect())
    }
}

impl Years {
    /// Whether a day is a working day. Days outside of the planned years are not.
    pub(crate) fn is_working(&self, source: &Source, day: Day) -> bool {
        PLANNED.contains(&day)
            && self.with_year(source, day, |year| year.first_from(day - year.first) == Some(day))
    }

    /// The first working day of the range.
    pub(crate) fn first_working(&self, source: &Source, days: Range<Day>) -> Option<Day> {
        let mut day = days.start;
        while day < days.end {
            let found = self.with_year(source, day, |year| {
                year.first_from(day - year.first).ok_or(year.first + year.plans.len() as Day)
            });
            match found {
                Ok(found) => return Some(found).filter(|found| *found < days.end),
                Err(next_year) => day = next_year,
            }
        }
        None
    }

    /// The last working day of the range.
    pub(crate) fn last_working(&self, source: &Source, days: Range<Day>) -> Option<Day> {
        let mut day = days.end - 1;
        while day >= days.start {
            let found = self.with_year(source, day, |year| {
                year.last_until(day - year.first).ok_or(year.first - 1)
            });
            match found {
                Ok(found) => return Some(found).filter(|found| *found >= days.start),
                Err(year_before) => day = year_before,
            }
        }
        None
    }

    /// The nth working day, from 0, of a range inside one year; the nth from its end if `back`.
    pub(crate) fn nth_working(
        &self,
        source: &Source,
        days: Range<Day>,
        nth: u32,
        back: bool,
    ) -> Option<Day> {
        self.with_year(source, days.start, |year| {
            let (from, to) = (days.start - year.first, days.end - year.first);
            let count = year.count_before(to) - year.count_before(from);
            let nth = if back { count.checked_sub(nth + 1)? } else { nth };
            if nth >= count {
                return None;
            }
            // The number of working days before a date grows with the date, so a binary search
            // finds it.
            let rank = year.count_before(from) + nth;
            let (mut low, mut high) = (from, to - 1);
            while low < high {
                let middle = low + (high - low) / 2;
                if year.count_before(middle + 1) > rank { high = middle } else { low = middle + 1 }
            }
            Some(year.first + low)
        })
    }

    pub(crate) fn with_plan<T>(
        &self,
        source: &Source,
        day: Day,
        look: impl FnOnce(&DayPlan) -> T,
    ) -> T {
        if !PLANNED.contains(&day) {
            return look(&DayPlan {
                shifts: Arc::from([]),
                reason: Reason::Exception("not planned, outside of 1900 to 2299".into()),
            });
        }
        self.with_year(source, day, |year| look(&year.plans[(day - year.first) as usize]))
    }

    /// Reads the plan of a year, computing it if needed. `day` must be in the planned years.
    fn with_year<T>(&self, source: &Source, day: Day, look: impl FnOnce(&YearPlan) -> T) -> T {
        let Ymd { year, .. } = civil::ymd(day);
        let kept = &self.0[(year - FIRST_KEPT) as usize];
        look(kept.get_or_init(|| Box::new(source.year(year))))
    }
}
