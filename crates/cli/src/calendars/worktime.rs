//! `punctual calendar add` and `between`.

use std::io::Write;

use calendar::{Calendar, Dst, Problem, format_duration, parse_duration, parse_instant};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::print_json;
use crate::failure::Failure;
use crate::terminal::{BOLD, Cell, DIM, columns};

/// How much working time someone asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Amount {
    /// Working days, each as long as the calendar's day.
    Days(f64),
    /// Working hours, minutes, seconds.
    Time(SignedDuration),
}

/// `2d`, `2 days`, `2 working days`, `0.5d`; `16h`, `90m`, `16 working hours`. Negative with `-`.
fn parse_amount(text: &str) -> Result<Amount, Problem> {
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
    match unit.as_str() {
        "d" | "day" | "days" => {
            let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            let days = number.parse::<f64>().ok().filter(|d| plain && *d <= 100_000.0);
            Ok(Amount::Days(days.ok_or_else(refuse)? * f64::from(sign)))
        }
        "hour" | "hours" => parse_amount(&format!("{}{number}h", if sign < 0 { "-" } else { "" })),
        "minute" | "minutes" => {
            parse_amount(&format!("{}{number}m", if sign < 0 { "-" } else { "" }))
        }
        _ if rest.contains(['d', 'w']) => {
            Err(refuse().suggest("working days alone (2d), or hours and minutes alone (1h30m)"))
        }
        _ => Ok(Amount::Time(parse_duration(rest)? * sign)),
    }
}

#[derive(Serialize)]
struct Added<'a> {
    calendar: &'a str,
    timezone: &'a str,
    start: String,
    amount: &'a str,
    result: String,
    elapsed_seconds: i64,
}

pub(super) fn add(
    calendar: &Calendar,
    start_text: &str,
    amount: &str,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let start = parse_instant(start_text, calendar.zone(), Dst::FIXED)?;
    let result = match parse_amount(amount)? {
        Amount::Days(days) => calendar.add_days(start, days),
        Amount::Time(time) => calendar.add_time(start, time),
    };
    let result = result.ok_or_else(|| {
        Problem::whole("working-time", amount, "the calendar does not hold that much working time")
            .suggest("punctual calendar show, to see its hours")
    })?;
    let zone = calendar.zone();
    if json {
        return print_json(
            out,
            &Added {
                calendar: calendar.id(),
                timezone: zone.name(),
                start: zone.rfc3339(start),
                amount,
                result: zone.rfc3339(result),
                elapsed_seconds: result.duration_since(start).as_secs(),
            },
        );
    }
    writeln!(out, "{BOLD}{}{BOLD:#}", spoken(calendar, result))?;
    let (low, high) = (start.min(result), start.max(result));
    let Some(between) = calendar.between(low, high) else { return Ok(()) };
    writeln!(
        out,
        "{DIM}{amount} of working time from {}: {} elapsed, {} worked on {} days, {} weekend days, \
         {} holidays between{DIM:#}",
        spoken(calendar, start),
        format_duration(high.duration_since(low)),
        format_duration(between.working),
        between.working_days,
        between.weekend_days,
        between.holidays
    )?;
    Ok(())
}

fn spoken(calendar: &Calendar, at: Timestamp) -> String {
    let zone = calendar.zone();
    let wall = zone.wall(at);
    let form = if wall.second() == 0 { "%a %Y-%m-%d %H:%M" } else { "%a %Y-%m-%d %H:%M:%S" };
    format!("{} ({})", wall.strftime(form), zone.name())
}

#[derive(Serialize)]
struct BetweenAnswer<'a> {
    calendar: &'a str,
    timezone: &'a str,
    from: String,
    to: String,
    working_seconds: i64,
    working_minutes: i64,
    working_days: i32,
    weekend_days: i32,
    holidays: i32,
    exceptions: i32,
}

pub(super) fn between(
    calendar: &Calendar,
    from: &str,
    to: &str,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let zone = calendar.zone();
    let from = parse_instant(from, zone, Dst::FIXED)?;
    let to = parse_instant(to, zone, Dst::FIXED)?;
    let between = calendar.between(from, to).ok_or_else(|| {
        Problem::whole("working-time", "", "the times are too far apart")
            .allow("at most a century apart, in the years 1900 to 2299")
    })?;
    if json {
        return print_json(
            out,
            &BetweenAnswer {
                calendar: calendar.id(),
                timezone: zone.name(),
                from: zone.rfc3339(from),
                to: zone.rfc3339(to),
                working_seconds: between.working.as_secs(),
                working_minutes: between.working.as_mins(),
                working_days: between.working_days,
                weekend_days: between.weekend_days,
                holidays: between.holidays,
                exceptions: between.exceptions,
            },
        );
    }
    let days = between.working.as_secs_f64() / calendar.seconds_per_day().max(1) as f64;
    let row = |name: &str, value: String| vec![Cell::plain(name), Cell::styled(value, BOLD)];
    let hours = format_hours(between.working);
    let rows = [
        row("working time", format!("{hours} ({days:.2} working days)")),
        row("working days", between.working_days.to_string()),
        row("weekend days", between.weekend_days.to_string()),
        row("holidays", between.holidays.to_string()),
        row("exceptions", between.exceptions.to_string()),
    ];
    write!(out, "{}", columns(&rows))?;
    Ok(())
}

/// Working time is counted in hours: `16h`, never `0.67 days`.
fn format_hours(time: SignedDuration) -> String {
    let sign = if time.is_negative() { "-" } else { "" };
    let minutes = time.as_mins().abs();
    match (minutes / 60, minutes % 60, time.as_secs().abs() % 60) {
        (hours, 0, 0) => format!("{sign}{hours}h"),
        (hours, minutes, 0) => format!("{sign}{hours}h{minutes:02}m"),
        (hours, minutes, seconds) => format!("{sign}{hours}h{minutes:02}m{seconds:02}s"),
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
            assert_eq!(parse_amount(text), Ok(expected), "{text}");
        }
        for text in ["", "d", "2", "1d4h", "1e3d", "2w", "nan d", "999999999d"] {
            assert!(parse_amount(text).is_err(), "{text}");
        }
    }
}
