//! Amounts of working time, as people write them.

use jiff::{SignedDuration, Timestamp};

use crate::calendars::Calendar;
use crate::duration::parse_duration;
use crate::problem::Problem;

/// The most working days, about four centuries. A larger amount is a mistake.
const MOST_DAYS: f64 = 100_000.0;

/// An amount of working time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Working days, each as long as the calendar's day.
    Days(f64),
    /// Working hours, minutes, seconds.
    Time(SignedDuration),
}

impl Amount {
    /// Parses `2d`, `2 days`, `2 working days`, `0.5d`; `16h`, `90m`, `16 working hours`. Negative
    /// with `-`.
    ///
    /// ```
    /// use calendar::Amount;
    /// assert_eq!(Amount::parse("2 working days"), Ok(Amount::Days(2.0)));
    /// assert!(Amount::parse("2 sundays").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Amount, Problem> {
        let (sign, rest) = match text.trim().strip_prefix('-') {
            Some(rest) => (-1, rest.trim()),
            None => (1, text.trim()),
        };
        let number = rest.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ').trim();
        let unit = rest[number.len()..].replace("working", "").trim().to_ascii_lowercase();
        let refuse = || {
            Problem::whole("amount", text, "not an amount of working time")
                .allow("2d (working days), 16h, 90m, 1h30m; negative to go back")
        };
        let time = |text: &str| Ok(Amount::Time(parse_duration(text)? * sign));
        match unit.as_str() {
            "d" | "day" | "days" => {
                let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
                let days = number.parse::<f64>().ok().filter(|d| plain && *d <= MOST_DAYS);
                Ok(Amount::Days(days.ok_or_else(refuse)? * f64::from(sign)))
            }
            "hour" | "hours" => time(&format!("{number}h")),
            "minute" | "minutes" => time(&format!("{number}m")),
            _ if rest.contains(['d', 'w']) => {
                Err(refuse().suggest("working days alone (2d), or hours and minutes alone (1h30m)"))
            }
            _ => time(rest),
        }
    }
}

impl Calendar {
    /// The instant that lies this much working time after the start, or before it if the amount is
    /// negative. `None` if the calendar does not have that much working time.
    pub fn add(&self, start: Timestamp, amount: Amount) -> Option<Timestamp> {
        match amount {
            Amount::Days(days) => self.add_days(start, days),
            Amount::Time(time) => self.add_time(start, time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        let hours = |h| Amount::Time(SignedDuration::from_hours(h));
        for (text, expected) in [
            ("2d", Amount::Days(2.0)),
            ("2 working days", Amount::Days(2.0)),
            ("-1 day", Amount::Days(-1.0)),
            ("0.5d", Amount::Days(0.5)),
            ("16h", hours(16)),
            ("-16 working hours", hours(-16)),
            ("120m", hours(2)),
        ] {
            assert_eq!(Amount::parse(text), Ok(expected), "{text}");
        }
        for text in ["", "d", "2", "1d4h", "1e3d", "2w", "nan d", "999999999d"] {
            assert!(Amount::parse(text).is_err(), "{text}");
        }
    }
}
