//! Working hours of one day: shifts, and how they are written.

use jiff::civil::Date;

use crate::civil::{self, DAY_SECONDS, Day};
use crate::english;
use crate::problem::Problem;

/// The most intervals of a day. More are a mistake and not a shift plan.
const SHIFT_LIMIT: usize = 48;

/// A range of working time, in seconds from local midnight of the day it begins on. An overnight
/// shift ends after 24:00 and belongs to the day it begins on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shift {
    /// The opening time, in seconds from midnight.
    pub start: u32,
    /// Seconds from midnight, at most 48 hours.
    pub end: u32,
}

impl Shift {
    /// The length on a day without a change of the clock.
    pub fn seconds(self) -> i64 {
        i64::from(self.end - self.start)
    }
}

impl std::fmt::Display for Shift {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let day = DAY_SECONDS as u32;
        let end = if self.end > day { self.end - day } else { self.end };
        write!(f, "{}-{}", english::clock(self.start), english::clock(end))
    }
}

/// Parses `HH:MM`, `HH:MM:SS` or `24:00` into seconds from midnight.
pub(crate) fn parse_clock(text: &str) -> Result<u32, Problem> {
    let bad = |message: &str| {
        Problem::whole("time-of-day", text, message).allow("00:00 to 24:00").suggest("09:00")
    };
    let mut parts = text.trim().split(':');
    let mut number = |limit: u32| {
        let part = parts.next().unwrap_or("");
        let digits =
            !part.is_empty() && part.len() <= 2 && part.bytes().all(|b| b.is_ascii_digit());
        part.parse::<u32>().ok().filter(|n| digits && *n <= limit)
    };
    let (hour, minute) = (number(24), number(59));
    let second = if text.matches(':').count() == 2 { number(59) } else { Some(0) };
    let (Some(hour), Some(minute), Some(second)) = (hour, minute, second) else {
        return Err(bad("not a time of day"));
    };
    if parts.next().is_some() {
        return Err(bad("not a time of day"));
    }
    let seconds = hour * 3600 + minute * 60 + second;
    if seconds > DAY_SECONDS as u32 {
        return Err(bad("a day ends at 24:00"));
    }
    Ok(seconds)
}

/// Parses `09:00-17:00`. An end before the start is on the next day.
pub(crate) fn parse_shift(text: &str) -> Result<Shift, Problem> {
    let (start, end) = text.split_once(['-', '–']).ok_or_else(|| {
        Problem::whole("hours", text, "not an interval of working hours")
            .allow("from-to, such as 09:00-17:00 or 22:00-06:00")
    })?;
    shift(parse_clock(start)?, parse_clock(end)?, text)
}

pub(crate) fn shift(start: u32, end: u32, text: &str) -> Result<Shift, Problem> {
    let day = DAY_SECONDS as u32;
    if start == end || start == day {
        return Err(Problem::whole("hours", text, "the interval is empty")
            .suggest("00:00-24:00 for the whole day, or leave the day out"));
    }
    Ok(Shift { start, end: if end < start { end + day } else { end } })
}

/// Sorts the shifts of a day, and refuses overlaps.
pub(crate) fn day_plan(mut shifts: Vec<Shift>) -> Result<Vec<Shift>, Problem> {
    if shifts.len() > SHIFT_LIMIT {
        let message = format!("{} intervals in one day", shifts.len());
        return Err(Problem::whole("hours", "", message).allow(format!("at most {SHIFT_LIMIT}")));
    }
    shifts.sort_unstable();
    for pair in shifts.windows(2) {
        if pair[1].start < pair[0].end {
            let joined = Shift { start: pair[0].start, end: pair[0].end.max(pair[1].end) };
            let text = format!("{}, {}", pair[0], pair[1]);
            return Err(
                Problem::whole("hours", &text, "the intervals overlap").suggest(joined.to_string())
            );
        }
    }
    Ok(shifts)
}

/// Parses `mon`, `mon-fri`, `sat,sun`, `fri-mon` into bits, with Sunday as bit 0.
pub(crate) fn parse_weekdays(text: &str) -> Result<u8, Problem> {
    let mut days = 0u8;
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (weekday(from, text)?, weekday(to, text)?);
        let mut day = from;
        loop {
            days |= 1 << day;
            if day == to {
                break;
            }
            day = (day + 1) % 7;
        }
    }
    Ok(days)
}

fn weekday(word: &str, text: &str) -> Result<u32, Problem> {
    let word = word.trim();
    let known = |name: &&str| {
        name.eq_ignore_ascii_case(word) || (word.len() == 3 && name[..3].eq_ignore_ascii_case(word))
    };
    let found = english::WEEKDAYS.iter().position(known);
    found.map(|day| day as u32).ok_or_else(|| {
        let start = text.find(word).unwrap_or(0);
        Problem::new("weekday", text, start..start + word.len(), "not a day of the week")
            .allow("mon tue wed thu fri sat sun, ranges such as mon-fri, lists with commas")
    })
}

/// The dates of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dates {
    /// From the first day to the second, inclusive.
    Span(Day, Day),
    /// The same date every year.
    Yearly { month: u32, day: u32 },
}

/// Parses `2026-12-24`, or `12-24` for every year.
pub(crate) fn parse_dates(text: &str) -> Result<Dates, Problem> {
    let text = text.trim();
    if let Ok(date) = text.parse::<Date>() {
        let day = civil::day_from_date(date);
        return Ok(Dates::Span(day, day));
    }
    // 2000 is a leap year, so that 02-29 is a valid date.
    if text.len() == 5
        && let Ok(date) = format!("2000-{text}").parse::<Date>()
    {
        return Ok(Dates::Yearly { month: date.month() as u32, day: date.day() as u32 });
    }
    Err(Problem::whole("date", text, "not a date")
        .allow("YYYY-MM-DD, or MM-DD for every year")
        .suggest("2026-12-24"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_day() {
        for (text, seconds) in
            [("00:00", 0), ("9:05", 32_700), ("24:00", 86_400), ("23:59:59", 86_399)]
        {
            assert_eq!(parse_clock(text), Ok(seconds), "{text}");
        }
        for text in ["", "24:01", "9", "09:60", "9:0x", "-1:00", "09:00:00:00", "٩:00", "+9:00"] {
            assert!(parse_clock(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shifts() {
        assert_eq!(parse_shift("22:00-06:00").unwrap().to_string(), "22:00-06:00");
        assert_eq!(parse_shift("22:00-06:00").unwrap().seconds(), 8 * 3600);
        assert_eq!(parse_shift("00:00-24:00").unwrap().seconds(), 86_400);
        assert!(parse_shift("09:00-09:00").is_err());
        let overlapping =
            vec![parse_shift("09:00-12:00").unwrap(), parse_shift("11:00-13:00").unwrap()];
        assert!(day_plan(overlapping).unwrap_err().message.contains("overlap"));
    }

    #[test]
    fn weekdays_may_wrap_around_the_week() {
        assert_eq!(parse_weekdays("mon-fri"), Ok(0b011_1110));
        assert_eq!(parse_weekdays("fri-Mon"), Ok(0b110_0011));
        assert_eq!(parse_weekdays("Sunday, wed"), Ok(0b000_1001));
        assert!(parse_weekdays("mon-fry").is_err());
        assert!(parse_weekdays("").is_err());
    }

    #[test]
    fn dates() {
        assert_eq!(parse_dates("02-29"), Ok(Dates::Yearly { month: 2, day: 29 }));
        assert!(parse_dates("2026-02-30").is_err());
        assert!(parse_dates("13-01").is_err());
    }
}
