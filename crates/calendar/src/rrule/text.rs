//! Formats a rule as canonical text: upper case, the order of the RFC, without default values.

use std::fmt::{self, Display, Formatter};

use jiff::civil::{Date, DateTime};

use super::{End, Frequency, NthWeekday, Rrule};

pub(super) const WEEKDAYS: [&str; 7] = ["SU", "MO", "TU", "WE", "TH", "FR", "SA"];
const MONDAY: u8 = 1;

impl Frequency {
    pub(super) const ALL: [(&'static str, Frequency); 7] = [
        ("SECONDLY", Frequency::Secondly),
        ("MINUTELY", Frequency::Minutely),
        ("HOURLY", Frequency::Hourly),
        ("DAILY", Frequency::Daily),
        ("WEEKLY", Frequency::Weekly),
        ("MONTHLY", Frequency::Monthly),
        ("YEARLY", Frequency::Yearly),
    ];

    fn text(self) -> &'static str {
        Frequency::ALL[self as usize].0
    }
}

impl Display for Rrule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "FREQ={}", self.frequency.text())?;
        match self.end {
            End::Never => {}
            End::Count(count) => write!(f, ";COUNT={count}")?,
            End::UntilDate(date) => write!(f, ";UNTIL={}", Basic(date))?,
            End::UntilWall(wall) => write!(f, ";UNTIL={}", BasicTime(wall))?,
            End::UntilUtc(utc) => write!(f, ";UNTIL={}Z", BasicTime(utc))?,
        }
        if self.interval != 1 {
            write!(f, ";INTERVAL={}", self.interval)?;
        }
        list(f, "BYSECOND", &self.seconds)?;
        list(f, "BYMINUTE", &self.minutes)?;
        list(f, "BYHOUR", &self.hours)?;
        list(f, "BYDAY", &self.weekdays)?;
        list(f, "BYMONTHDAY", &self.month_days)?;
        list(f, "BYYEARDAY", &self.year_days)?;
        list(f, "BYWEEKNO", &self.week_numbers)?;
        list(f, "BYMONTH", &self.months)?;
        list(f, "BYSETPOS", &self.positions)?;
        if self.week_start != MONDAY {
            write!(f, ";WKST={}", WEEKDAYS[self.week_start as usize])?;
        }
        Ok(())
    }
}

fn list(f: &mut Formatter<'_>, key: &str, items: &[impl Display]) -> fmt::Result {
    for (place, item) in items.iter().enumerate() {
        match place {
            0 => write!(f, ";{key}={item}")?,
            _ => write!(f, ",{item}")?,
        }
    }
    Ok(())
}

impl Display for NthWeekday {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.nth {
            0 => f.write_str(WEEKDAYS[self.weekday as usize]),
            nth => write!(f, "{nth}{}", WEEKDAYS[self.weekday as usize]),
        }
    }
}

/// A date in the basic format of RFC 5545: `19970902`.
struct Basic(Date);

impl Display for Basic {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let date = self.0;
        write!(f, "{:04}{:02}{:02}", date.year(), date.month(), date.day())
    }
}

/// A date with a time in the basic format of RFC 5545: `19970902T090000`.
struct BasicTime(DateTime);

impl Display for BasicTime {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let time = self.0.time();
        let (hour, minute, second) = (time.hour(), time.minute(), time.second());
        write!(f, "{}T{hour:02}{minute:02}{second:02}", Basic(self.0.date()))
    }
}
