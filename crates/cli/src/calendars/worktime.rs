//! Runs `punctual calendar add` and `between`.

use std::io::Write;

use calendar::{Amount, Calendar, Dst, Problem, format_duration, parse_instant};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::print_json;
use crate::failure::Failure;
use crate::terminal::{BOLD, Cell, DIM, columns};

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
    let result = calendar.add(start, Amount::parse(amount)?).ok_or_else(|| {
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

/// Formats working time in hours: `16h`, never `0.67 days`.
fn format_hours(time: SignedDuration) -> String {
    let sign = if time.is_negative() { "-" } else { "" };
    let minutes = time.as_mins().abs();
    match (minutes / 60, minutes % 60, time.as_secs().abs() % 60) {
        (hours, 0, 0) => format!("{sign}{hours}h"),
        (hours, minutes, 0) => format!("{sign}{hours}h{minutes:02}m"),
        (hours, minutes, seconds) => format!("{sign}{hours}h{minutes:02}m{seconds:02}s"),
    }
}
