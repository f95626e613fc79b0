//! Day and second arithmetic on the proleptic Gregorian calendar, in plain integers.
//!
//! A *day* is a number of days since 1970-01-01; a *local* time is a number of seconds since
//! 1970-01-01T00:00:00 on a wall clock. Searches use these numbers, because building a date object
//! for every candidate costs more than the search itself. The crate's public interface uses
//! [`jiff`] types.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};

/// A day number: days since 1970-01-01.
pub(crate) type Day = i32;
/// Wall-clock seconds since 1970-01-01T00:00:00, in some zone.
pub(crate) type Local = i64;
/// Seconds since the Unix epoch.
pub(crate) type Unix = i64;

pub(crate) const DAY_SECONDS: i64 = 86_400;
/// The Gregorian calendar, weekdays included, repeats after 400 years: no date search needs more.
pub(crate) const CYCLE_YEARS: i32 = 400;
pub(crate) const CYCLE_SECONDS: i64 = 146_097 * DAY_SECONDS;
/// Searches end with "never" outside of these years: the range of [`jiff::Timestamp`], without its
/// edges.
pub(crate) const FIRST_YEAR: i32 = -9998;
pub(crate) const LAST_YEAR: i32 = 9998;

/// A date as numbers, for searches. Elsewhere the crate uses [`jiff::civil::Date`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ymd {
    pub(crate) year: i32,
    pub(crate) month: u32,
    pub(crate) day: u32,
}

/// The number of whole cycles that make every year and day in range positive.
const CYCLES: i32 = 82;
/// Days from the beginning of the shifted calendar, 1 March of year -32,800, to 1970-01-01.
const SHIFT: i32 = 719_468 + CYCLES * 146_097;

/// `clamp` as a const function.
const fn within(value: i32, limit: i32) -> i32 {
    if value > limit {
        limit
    } else if value < -limit {
        -limit
    } else {
        value
    }
}

/// The day number of a date. `month` must be 1 to 12; `day` may exceed the month's length. A year
/// outside of -32,000 to 32,000 counts as the last one inside, which is beyond the range of every
/// search.
pub(crate) const fn day_number(year: i32, month: u32, day: u32) -> Day {
    let year = within(year, 32_000);
    // Years begin in March here, so that the leap day is the last day of a year.
    let (before_march, month) = if month <= 2 { (1, month + 12) } else { (0, month) };
    let year = (year + 400 * CYCLES - before_march) as u32;
    let century = year / 100;
    let days_of_years = 1461 * year / 4 - century + century / 4;
    let days_of_months = (979 * month - 2919) / 32;
    (days_of_years + days_of_months + day - 1) as i32 - SHIFT
}

/// The date of a day number, by Neri and Schneider's algorithm ("Euclidean affine functions and
/// their application to calendar algorithms"), which uses multiplications instead of divisions.
///
/// A day outside of the years -32,000 to 32,000 gives the last date inside, which is beyond the
/// range of every search.
pub(crate) const fn ymd(day: Day) -> Ymd {
    let day = within(day, 80 * 146_097);
    let shifted = (day + SHIFT) as u32;
    let by_century = 4 * shifted + 3;
    let (century, day_of_century) = (by_century / 146_097, by_century % 146_097 / 4);
    let by_year = 2_939_745 * (4 * day_of_century + 3) as u64;
    let (year_of_century, day_of_year) = ((by_year >> 32) as u32, by_year as u32 / 2_939_745 / 4);
    let by_month = 2_141 * day_of_year + 197_913;
    let (month, day) = (by_month >> 16, (by_month & 0xffff) / 2_141 + 1);
    let next_year = day_of_year >= 306;
    Ymd {
        year: (100 * century + year_of_century) as i32 - 400 * CYCLES + next_year as i32,
        month: if next_year { month - 12 } else { month },
        day,
    }
}

pub(crate) const fn is_leap(year: i32) -> bool {
    // Multiples of 25 among the multiples of four are centuries; every fourth century is a leap
    // year.
    year & 3 == 0 && (year % 25 != 0 || year & 15 == 0)
}

pub(crate) const fn month_length(year: i32, month: u32) -> u32 {
    match month {
        2 => 28 + is_leap(year) as u32,
        // 30 and 31 alternate, with a break between July and August.
        _ => 30 | (month ^ (month >> 3)) & 1,
    }
}

pub(crate) const fn year_length(year: i32) -> u32 {
    if is_leap(year) { 366 } else { 365 }
}

/// The weekday. Sunday is 0, as in cron.
pub(crate) const fn weekday(day: Day) -> u32 {
    (day + 4).rem_euclid(7) as u32
}

pub(crate) const fn day_of(local: Local) -> Day {
    local.div_euclid(DAY_SECONDS) as Day
}

pub(crate) const fn second_of_day(local: Local) -> u32 {
    local.rem_euclid(DAY_SECONDS) as u32
}

/// The day, and the second of that day.
pub(crate) const fn split(local: Local) -> (Day, u32) {
    let day = local.div_euclid(DAY_SECONDS);
    (day as Day, (local - day * DAY_SECONDS) as u32)
}

pub(crate) const fn local(day: Day, second_of_day: u32) -> Local {
    day as i64 * DAY_SECONDS + second_of_day as i64
}

pub(crate) fn day_from_date(date: Date) -> Day {
    day_number(i32::from(date.year()), date.month() as u32, date.day() as u32)
}

/// The date of a day, or `None` outside of the years that [`jiff::civil::Date`] can hold.
pub(crate) fn date_from_day(day: Day) -> Option<Date> {
    let Ymd { year, month, day } = ymd(day);
    Date::new(i16::try_from(year).ok()?, month as i8, day as i8).ok()
}

pub(crate) fn local_from_datetime(datetime: DateTime) -> Local {
    let time = datetime.time();
    let second =
        time.hour() as u32 * 3600 + u32::from(time.minute() as u8) * 60 + time.second() as u32;
    local(day_from_date(datetime.date()), second)
}

pub(crate) fn datetime_from_local(value: Local) -> Option<DateTime> {
    let second = second_of_day(value);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    Some(date_from_day(day_of(value))?.at(hour as i8, minute as i8, second as i8, 0))
}

/// The smallest whole second strictly after `instant`.
pub(crate) fn second_after(instant: Timestamp) -> Unix {
    floor_second(instant) + 1
}

/// The largest whole second strictly before `instant`.
pub(crate) fn second_before(instant: Timestamp) -> Unix {
    let floor = floor_second(instant);
    if instant.subsec_nanosecond() == 0 { floor - 1 } else { floor }
}

pub(crate) fn floor_second(instant: Timestamp) -> Unix {
    // `as_second` truncates toward zero, and the fraction has the sign of the instant.
    if instant.subsec_nanosecond() < 0 { instant.as_second() - 1 } else { instant.as_second() }
}

/// `None` outside the range of [`Timestamp`]: a search that leaves it has found nothing.
pub(crate) fn timestamp(unix: Unix) -> Option<Timestamp> {
    Timestamp::from_second(unix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_jiff_on_every_day_of_eight_centuries() {
        let mut date = Date::constant(1600, 1, 1);
        let mut day = day_from_date(date);
        while date.year() < 2401 {
            let Ymd { year, month, day: of_month } = ymd(day);
            assert_eq!(
                (year as i16, month as i8, of_month as i8),
                (date.year(), date.month(), date.day())
            );
            assert_eq!(day_number(year, month, of_month), day);
            assert_eq!(weekday(day) as i8, date.weekday().to_sunday_zero_offset());
            assert_eq!(month_length(year, month), date.days_in_month() as u32);
            assert_eq!(year_length(year), date.days_in_year() as u32);
            date = date.tomorrow().unwrap();
            day += 1;
        }
    }

    #[test]
    fn agrees_with_jiff_at_the_ends() {
        assert!(ymd(i32::MAX).year > 30_000 && ymd(i32::MIN).year < -30_000);
        for year in [-9999, -9998, -401, -1, 0, 1, 9998, 9999] {
            for (month, day) in [(1, 1), (2, 28), (3, 1), (12, 31)] {
                let date = Date::constant(year, month, day);
                assert_eq!(date_from_day(day_from_date(date)), Some(date));
            }
        }
    }

    #[test]
    fn seconds_around_an_instant_are_strict() {
        for (text, after, before) in [
            ("1970-01-01T00:00:10Z", 11, 9),
            ("1970-01-01T00:00:10.5Z", 11, 10),
            ("1969-12-31T23:59:50Z", -9, -11),
            ("1969-12-31T23:59:50.5Z", -9, -10),
        ] {
            let instant: Timestamp = text.parse().unwrap();
            assert_eq!(second_after(instant), after, "{text}");
            assert_eq!(second_before(instant), before, "{text}");
        }
    }
}
