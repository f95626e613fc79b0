//! Dates that follow the sun and the moon by a formula: Easter, and the equinoxes in Japan.

use jiff::ToSpan;
use jiff::civil::Date;

/// Easter Sunday of the western churches, by the Gregorian computus.
pub(super) fn western_easter(year: i16) -> Option<Date> {
    let y = i32::from(year);
    let century = y.div_euclid(100);
    let solar = century - century.div_euclid(4);
    let lunar = (8 * century + 13).div_euclid(25);
    let epact = (19 * y.rem_euclid(19) + solar - lunar + 15).rem_euclid(30);
    // The two latest full moons of the cycle count as one day earlier.
    let late = epact == 29 || (epact == 28 && y.rem_euclid(19) > 10);
    let full_moon = epact - i32::from(late);
    let weekday = (y + y.div_euclid(4) + full_moon + 2 - solar).rem_euclid(7);
    days_after_21_march(year, full_moon + 7 - weekday)
}

/// Easter Sunday of the orthodox churches: the Julian computus, as a Gregorian date.
pub(super) fn orthodox_easter(year: i16) -> Option<Date> {
    let y = i32::from(year);
    let full_moon = (19 * y.rem_euclid(19) + 15).rem_euclid(30);
    let weekday = (y + y.div_euclid(4) + full_moon).rem_euclid(7);
    let century = y.div_euclid(100);
    let julian_lag = century - century.div_euclid(4) - 2;
    days_after_21_march(year, full_moon + 7 - weekday + julian_lag)
}

fn days_after_21_march(year: i16, days: i32) -> Option<Date> {
    Date::new(year, 3, 21).ok()?.checked_add(days.days()).ok()
}

/// The vernal equinox in Japan. The formula holds for 1980 to 2099.
pub(super) fn vernal_equinox(year: i16) -> Option<Date> {
    Date::new(year, 3, equinox_day(year, 20_843_100)?).ok()
}

/// The autumnal equinox in Japan. The formula holds for 1980 to 2099.
pub(super) fn autumnal_equinox(year: i16) -> Option<Date> {
    Date::new(year, 9, equinox_day(year, 23_248_800)?).ok()
}

/// The day of the month, computed from the time of the equinox in 1980 in millionths of a day.
fn equinox_day(year: i16, in_1980: i32) -> Option<i8> {
    if !(1980..=2099).contains(&year) {
        return None;
    }
    let since = i32::from(year) - 1980;
    i8::try_from((in_1980 + 242_194 * since) / 1_000_000 - since / 4).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::{Weekday, date};

    #[test]
    fn western_easter_falls_on_the_days_of_the_church_tables() {
        for expected in [
            date(1818, 3, 22),
            date(1943, 4, 25),
            date(1954, 4, 18),
            date(1981, 4, 19),
            date(2000, 4, 23),
            date(2024, 3, 31),
            date(2025, 4, 20),
            date(2038, 4, 25),
            date(2049, 4, 18),
            date(2285, 3, 22),
        ] {
            assert_eq!(western_easter(expected.year()), Some(expected));
        }
    }

    #[test]
    fn orthodox_easter_falls_on_the_days_of_the_church_tables() {
        for expected in [
            date(1899, 4, 30),
            date(2010, 4, 4),
            date(2013, 5, 5),
            date(2021, 5, 2),
            date(2024, 5, 5),
            date(2025, 4, 20),
            date(2043, 5, 3),
        ] {
            assert_eq!(orthodox_easter(expected.year()), Some(expected));
        }
    }

    #[test]
    fn easter_is_a_sunday_in_every_year() {
        for year in -9999..=9999 {
            for easter in [western_easter(year), orthodox_easter(year)] {
                assert_eq!(easter.map(Date::weekday), Some(Weekday::Sunday), "{year}");
            }
        }
        assert_eq!(western_easter(i16::MAX), None);
        assert_eq!(orthodox_easter(i16::MIN), None);
    }

    #[test]
    fn equinoxes_are_those_of_the_japanese_almanac() {
        for (year, march, september) in
            [(1980, 20, 23), (2012, 20, 22), (2023, 21, 23), (2025, 20, 23), (2044, 20, 22)]
        {
            assert_eq!(vernal_equinox(year), Some(date(year, 3, march)));
            assert_eq!(autumnal_equinox(year), Some(date(year, 9, september)));
        }
        assert_eq!(vernal_equinox(1979), None);
        assert_eq!(autumnal_equinox(2100), None);
    }
}
