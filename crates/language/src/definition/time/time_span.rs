//! A span of time, measured by the clock or in working hours.

use calendar::{Problem, parse_duration};
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use super::duration;
use crate::definition::limits;
use crate::definition::reading::{Field, Reading};
use crate::definition::text::{Flaw, Kind};

/// The maximum number of working days: about ten years, as for other durations.
const MOST_DAYS: f64 = 3_660.0;

/// `3h`, `16 working hours`, `2 working days`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeSpan {
    /// Time by the clock.
    Elapsed(SignedDuration),
    Working(SignedDuration),
    /// Working days, each as long as the calendar says.
    WorkingDays(f64),
}

impl TimeSpan {
    /// Reads `5m`, `1h30m`, `PT5M`, `300` (seconds), `16 working hours`, `30 working minutes` or `2
    /// working days`. It must be more than zero and at most ten years.
    pub fn parse(text: &str) -> Result<TimeSpan, Problem> {
        let span = match text.split_once("working") {
            Some((number, unit)) => working(text, number.trim(), unit.trim())?,
            None => TimeSpan::Elapsed(duration::parse(text)?),
        };
        if span.is_nothing() {
            Err(Problem::whole("duration", text, "a duration of nothing").allow("at least 1ms"))
        } else {
            Ok(span)
        }
    }

    /// Whether its meaning depends on a calendar.
    pub fn needs_calendar(self) -> bool {
        !matches!(self, TimeSpan::Elapsed(_))
    }

    fn is_nothing(self) -> bool {
        match self {
            TimeSpan::Elapsed(time) | TimeSpan::Working(time) => time.is_zero(),
            TimeSpan::WorkingDays(days) => days <= 0.0,
        }
    }
}

fn working(text: &str, number: &str, unit: &str) -> Result<TimeSpan, Problem> {
    let refuse = || {
        Problem::whole("duration", text, "not an amount of working time")
            .allow("16 working hours, 30 working minutes, 2 working days")
    };
    let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let amount = number.parse::<f64>().ok().filter(|_| plain && number.len() <= 12);
    let amount = amount.ok_or_else(refuse)?;
    let of_hours = |unit_name: &str| {
        if number.contains('.') {
            Err(refuse().suggest("minutes instead of a fraction of hours"))
        } else {
            parse_duration(&format!("{number}{unit_name}"))
                .ok()
                .filter(|time| *time <= limits::DURATION)
                .map(TimeSpan::Working)
                .ok_or_else(refuse)
        }
    };
    match unit {
        "day" | "days" if amount <= MOST_DAYS => Ok(TimeSpan::WorkingDays(amount)),
        "hour" | "hours" => of_hours("h"),
        "minute" | "minutes" => of_hours("m"),
        _ => Err(refuse()),
    }
}

/// Reads a time span. Working time is allowed only if there is a calendar.
pub(crate) fn read(
    reading: &mut Reading<'_>,
    field: &Field<'_>,
    has_calendar: bool,
) -> Option<TimeSpan> {
    let read = match &field.node.kind {
        Kind::Text(text) | Kind::Number(text) => TimeSpan::parse(text),
        _ => {
            let expected = "a text such as 5m, 1h30m or 2 working hours";
            reading.text_such_as(field, expected)?;
            return None;
        }
    };
    match read {
        Ok(span) if span.needs_calendar() && !has_calendar => {
            let flaw = Flaw::new("no-calendar", "working time needs a calendar")
                .suggest("calendar: US, or the id of a calendar, at the top of the definition");
            reading.refuse(field, flaw);
            None
        }
        Ok(span) => Some(span),
        Err(problem) => {
            reading.problem(field, problem);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads() {
        let elapsed = |seconds| Ok(TimeSpan::Elapsed(SignedDuration::from_secs(seconds)));
        let of_hours = |seconds| Ok(TimeSpan::Working(SignedDuration::from_secs(seconds)));
        for (text, expected) in [
            ("30s", elapsed(30)),
            ("5m", elapsed(300)),
            ("1h30m", elapsed(5_400)),
            ("1d", elapsed(86_400)),
            ("PT5M", elapsed(300)),
            ("300", elapsed(300)),
            ("16 working hours", of_hours(57_600)),
            ("1 working hour", of_hours(3_600)),
            ("30 working minutes", of_hours(1_800)),
            ("2 working days", Ok(TimeSpan::WorkingDays(2.0))),
            ("0.5 working days", Ok(TimeSpan::WorkingDays(0.5))),
        ] {
            assert_eq!(TimeSpan::parse(text), expected, "{text}");
        }
        assert_eq!(
            TimeSpan::parse("500ms"),
            Ok(TimeSpan::Elapsed(SignedDuration::from_millis(500)))
        );
    }

    #[test]
    fn refuses() {
        for text in [
            "",
            "0",
            "0s",
            "0 working days",
            "0 working hours",
            "-1 working days",
            "working days",
            "2 working",
            "2 working weeks",
            "1.5 working hours",
            "3661 working days",
            "1e3 working days",
            "999999999999 working hours",
            "two working days",
            "2 days",
            "99999999999999999999d",
        ] {
            assert!(TimeSpan::parse(text).is_err(), "{text}");
        }
    }
}
