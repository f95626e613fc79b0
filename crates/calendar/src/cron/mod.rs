//! Cron expressions: the dialect, and the search over wall-clock time.

mod days;
mod field;
mod parse;
mod words;
mod years;

use std::fmt;

use days::Days;
use years::Years;

use crate::civil::{self, CYCLE_YEARS, Day, FIRST_YEAR, LAST_YEAR, Local, Ymd};
use crate::dst::WallTimes;
use crate::problem::Problem;

/// Names of common expressions, with or without `@`, in upper or lower case.
pub(crate) const PRESETS: [(&str, &str); 10] = [
    ("daily", "0 0 * * *"),
    ("midnight", "0 0 * * *"),
    ("hourly", "0 * * * *"),
    ("weekly", "0 0 * * 0"),
    ("monthly", "0 0 1 * *"),
    ("yearly", "0 0 1 1 *"),
    ("annually", "0 0 1 1 *"),
    ("weekdays", "0 0 * * 1-5"),
    ("every_5min", "*/5 * * * *"),
    ("every_15min", "*/15 * * * *"),
];

/// A cron expression: a set of wall-clock times. It has no zone; [`Rule`](crate::Rule) adds one.
///
/// Five fields (minute, hour, day of month, month, day of week), six with leading seconds, seven
/// with a trailing year; or a preset such as `@daily`. The dialect:
///
/// | written | meaning |
/// |---|---|
/// | `*` `,` `-` `/` | every, list, range, step; `5/15` is `5-59/15` |
/// | `?` | in the day fields the same as `*` |
/// | `JAN`…, `SUN`… | names, in any case; `0` and `7` are Sunday, `FRI-SUN` is fine |
/// | `L`, `L-3`, `LW` | last day, three days before it, last Monday-to-Friday day |
/// | `15W` | Monday-to-Friday day nearest to the 15th, in the same month |
/// | `5#3`, `5L`, `FRI#L` | third, last Friday of the month |
/// | `+MON` | the day of week must match *as well as* the day of month |
///
/// If both day fields are restricted (anything but a bare `*` or `?`), either may match.
///
/// ```
/// use calendar::Cron;
/// assert!(Cron::parse("0 9 * * MON-FRI").is_ok());
/// assert!(Cron::parse("0 22-6 * * *").unwrap_err().to_string().contains("0 22-23,0-6 * * *"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    text: Box<str>,
    seconds: u64,
    minutes: u64,
    hours: u32,
    days: Days,
    /// Bit 1 is January.
    months: u16,
    /// The months in which the rule can match at all.
    reachable: u16,
    years: Years,
    wildcard: bool,
}

impl Cron {
    /// Parses an expression of at most 256 ASCII characters.
    pub fn parse(text: &str) -> Result<Cron, Problem> {
        parse::parse(text)
    }

    /// Whether the minute or hour field begins with `*`. Such a rule keeps its spacing at a change
    /// of the clock; any other keeps its times of day.
    pub fn is_wildcard(&self) -> bool {
        self.wildcard
    }

    /// Whether the rule names hours of the day. A rule that runs in every hour means the same in
    /// every zone.
    pub(crate) fn names_hours(&self) -> bool {
        self.hours.count_ones() < 24
    }

    /// Describes the expression in English: `at 09:00 on weekdays`.
    pub fn words(&self) -> String {
        words::words(self)
    }

    /// The day of the month, if it is a single one that some of the rule's months do not have.
    pub(crate) fn only_late_day(&self) -> Option<u32> {
        let day = self.days.single_day_of_month()?;
        let months = (1..=12).filter(|month| self.months >> month & 1 == 1);
        // 2000 is a leap year, so that a rule for 29 February alone gets no warning.
        let short = months.clone().any(|month| civil::month_length(2000, month) < day);
        (short && months.count() > 1).then_some(day)
    }

    /// The expression of the preset, if one was written.
    pub fn expanded(&self) -> Option<&'static str> {
        parse::preset(self.text.trim())
    }

    fn written(self, text: &str) -> Cron {
        Cron { text: text.trim().into(), ..self }
    }

    fn matches_date(&self, Ymd { year, month, day }: Ymd) -> bool {
        self.reachable >> month & 1 == 1
            && self.days.in_month(year, month) >> day & 1 == 1
            && self.years.at_or_after(year) == Some(year)
    }

    fn is_every_day(&self) -> bool {
        self.months == 0b1_1111_1111_1110 && self.years == Years::Every && self.days.is_every()
    }

    /// The first matching day after the date.
    fn day_after(&self, date: Ymd) -> Option<Day> {
        if self.reachable == 0 {
            return None;
        }
        let mut year = self.years.at_or_after(date.year.max(FIRST_YEAR))?;
        let mut from = if year == date.year { (date.month, date.day + 1) } else { (1, 1) };
        for _ in 0..=CYCLE_YEARS {
            if year > LAST_YEAR {
                break;
            }
            let mut months = u32::from(self.reachable) & (u32::MAX << from.0);
            while months != 0 {
                let month = months.trailing_zeros();
                months &= months - 1;
                let first = if month == from.0 { from.1 } else { 1 };
                let days = self.days.in_month(year, month) & !up_to(first - 1);
                if days != 0 {
                    return Some(civil::day_number(year, month, days.trailing_zeros()));
                }
            }
            year = self.years.at_or_after(year + self.years_to_skip(year))?;
            from = (1, 1);
        }
        None
    }

    /// The number of years to the next one that can match: a rule for 29 February alone needs leap
    /// years.
    fn years_to_skip(&self, year: i32) -> i32 {
        const FEBRUARY: u16 = 1 << 2;
        let leap_day_only = self.reachable == FEBRUARY && self.days.are_numbers();
        if leap_day_only && self.days.in_month(2001, 2) == 0 { 4 - (year & 3) } else { 1 }
    }

    /// The last matching day before the date.
    fn day_before(&self, date: Ymd) -> Option<Day> {
        if self.reachable == 0 {
            return None;
        }
        let mut year = self.years.at_or_before(date.year.min(LAST_YEAR))?;
        let mut from = if year == date.year { (date.month, date.day - 1) } else { (12, 31) };
        for _ in 0..=CYCLE_YEARS {
            if year < FIRST_YEAR {
                break;
            }
            let mut months = u32::from(self.reachable) & up_to(from.0);
            while months != 0 {
                let month = months.ilog2();
                months &= !(1 << month);
                let last = if month == from.0 { from.1 } else { 31 };
                let days = self.days.in_month(year, month) & up_to(last);
                if days != 0 {
                    return Some(civil::day_number(year, month, days.ilog2()));
                }
            }
            year = self.years.at_or_before(year - 1)?;
            from = (12, 31);
        }
        None
    }

    fn first_time(&self) -> u32 {
        let first_hour = self.hours.trailing_zeros();
        first_hour * 3600 + self.minutes.trailing_zeros() * 60 + self.seconds.trailing_zeros()
    }

    fn last_time(&self) -> u32 {
        self.hours.ilog2() * 3600 + self.minutes.ilog2() * 60 + self.seconds.ilog2()
    }

    /// The first matching second of a day at or after `second`.
    fn time_at_or_after(&self, second: u32) -> Option<u32> {
        let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
        let hours = u64::from(self.hours);
        if hours >> h & 1 == 1 {
            if self.minutes >> m & 1 == 1
                && let Some(s) = lowest_from(self.seconds, s)
            {
                return Some(h * 3600 + m * 60 + s);
            }
            if let Some(m) = lowest_from(self.minutes, m + 1) {
                return Some(h * 3600 + m * 60 + self.seconds.trailing_zeros());
            }
        }
        let h = lowest_from(hours, h + 1)?;
        Some(h * 3600 + self.minutes.trailing_zeros() * 60 + self.seconds.trailing_zeros())
    }

    /// The last matching second of a day at or before `second`.
    fn time_at_or_before(&self, second: u32) -> Option<u32> {
        let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
        let hours = u64::from(self.hours);
        if hours >> h & 1 == 1 {
            if self.minutes >> m & 1 == 1
                && let Some(s) = highest_below(self.seconds, s + 1)
            {
                return Some(h * 3600 + m * 60 + s);
            }
            if let Some(m) = highest_below(self.minutes, m) {
                return Some(h * 3600 + m * 60 + self.seconds.ilog2());
            }
        }
        let h = highest_below(hours, h)?;
        Some(h * 3600 + self.minutes.ilog2() * 60 + self.seconds.ilog2())
    }
}

impl WallTimes for Cron {
    fn at_or_after(&self, from: Local) -> Option<Local> {
        let (day, second) = civil::split(from);
        if self.is_every_day() {
            return Some(match self.time_at_or_after(second) {
                Some(second) => civil::local(day, second),
                None => civil::local(day + 1, self.first_time()),
            });
        }
        let date = civil::ymd(day);
        if self.matches_date(date)
            && let Some(second) = self.time_at_or_after(second)
        {
            return Some(civil::local(day, second));
        }
        Some(civil::local(self.day_after(date)?, self.first_time()))
    }

    fn at_or_before(&self, from: Local) -> Option<Local> {
        let (day, second) = civil::split(from);
        if self.is_every_day() {
            return Some(match self.time_at_or_before(second) {
                Some(second) => civil::local(day, second),
                None => civil::local(day - 1, self.last_time()),
            });
        }
        let date = civil::ymd(day);
        if self.matches_date(date)
            && let Some(second) = self.time_at_or_before(second)
        {
            return Some(civil::local(day, second));
        }
        Some(civil::local(self.day_before(date)?, self.last_time()))
    }
}

/// Formats the expression as written.
impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn lowest_from(bits: u64, from: u32) -> Option<u32> {
    let rest = bits & u64::MAX.checked_shl(from).unwrap_or(0);
    (rest != 0).then(|| rest.trailing_zeros())
}

fn highest_below(bits: u64, below: u32) -> Option<u32> {
    let rest = bits & !u64::MAX.checked_shl(below).unwrap_or(0);
    (rest != 0).then(|| rest.ilog2())
}

/// Bits 0 to `last`, which is at most 31.
fn up_to(last: u32) -> u32 {
    u32::MAX >> (31 - last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_rules_are_known_when_they_are_read() {
        for expression in
            ["0 0 30 2 *", "0 0 31 4,6 *", "0 0 1W * +SUN", "0 0 L-30 2,4 *", "0 0 8-14 * +MON#1"]
        {
            assert_eq!(Cron::parse(expression).unwrap().reachable, 0, "{expression}");
        }
        for expression in ["0 0 29 2 +MON", "0 0 * 2 SUN#5", "0 0 L-28 2 *", "0 0 31W 1 *"] {
            assert_ne!(Cron::parse(expression).unwrap().reachable, 0, "{expression}");
        }
    }

    #[test]
    fn only_the_29th_of_february_waits_for_leap_years() {
        let year_after_2017 = |text: &str| {
            let cron = Cron::parse(text).unwrap();
            let from = civil::local(civil::day_number(2017, 12, 31), 0);
            civil::ymd(civil::day_of(cron.at_or_after(from).unwrap())).year
        };
        for (expression, year) in [
            ("0 0 29 2 *", 2020),
            ("0 0 28,29 2 *", 2018),
            ("0 0 8W 2 +THU", 2018),
            ("0 0 29 2 +MON", 2044),
            ("0 0 29 2,3 *", 2018),
        ] {
            assert_eq!(year_after_2017(expression), year, "{expression}");
        }
    }
}
