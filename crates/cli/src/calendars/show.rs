//! Runs `punctual calendar show` and `check`.

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use anstyle::Style;
use calendar::{Calendar, DayPlan, Problem, Reason, Zones};
use jiff::civil::{Date, Weekday};
use serde::Serialize;

use super::{holidays, load, print_json};
use crate::clock;
use crate::failure::Failure;
use crate::terminal::{BOLD, Cell, DIM, NOTE, OFF, TODAY, columns};

const MONTHS_PER_ROW: i8 = 3;
/// Seven days of two digits each, separated by blanks.
const WEEK_WIDTH: usize = 20;
const MONTH_WIDTH: usize = WEEK_WIDTH + 4;

#[derive(Serialize)]
struct JsonDay {
    date: Date,
    weekday: String,
    working: bool,
    hours: Vec<String>,
    reason: String,
}

fn json_day(date: Date, plan: &DayPlan) -> JsonDay {
    JsonDay {
        date,
        weekday: date.strftime("%A").to_string(),
        working: plan.is_working(),
        hours: plan.shifts.iter().map(ToString::to_string).collect(),
        reason: plan.reason.to_string(),
    }
}

fn hours(plan: &DayPlan) -> String {
    let shifts: Vec<String> = plan.shifts.iter().map(ToString::to_string).collect();
    if shifts.is_empty() { "closed".into() } else { shifts.join(", ") }
}

fn days_from(first: Date) -> impl Iterator<Item = Date> {
    std::iter::successors(Some(first), |date| date.tomorrow().ok())
}

fn today(calendar: &Calendar) -> Date {
    calendar.date_of(clock::now())
}

#[derive(Serialize)]
struct JsonSummary<'a> {
    id: &'a str,
    timezone: &'a str,
    seconds_per_day: i64,
    today: JsonDay,
    coming: Vec<JsonDay>,
}

/// Prints the hours of the coming week, and the coming holidays and exceptions.
pub(super) fn summary(calendar: &Calendar, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let today = today(calendar);
    let special = |date: &Date| {
        matches!(calendar.day(*date).reason, Reason::Holiday(_) | Reason::Exception(_))
    };
    let coming: Vec<Date> = days_from(today).take(400).filter(special).take(12).collect();
    if json {
        return print_json(
            out,
            &JsonSummary {
                id: calendar.id(),
                timezone: calendar.zone().name(),
                seconds_per_day: calendar.seconds_per_day(),
                today: json_day(today, &calendar.day(today)),
                coming: coming.iter().map(|date| json_day(*date, &calendar.day(*date))).collect(),
            },
        );
    }
    let day_hours = calendar.seconds_per_day() as f64 / 3600.0;
    writeln!(
        out,
        "{BOLD}{}{BOLD:#}, {}; a working day is {day_hours} hours",
        calendar.id(),
        calendar.zone().name()
    )?;
    writeln!(out)?;
    let rows: Vec<Vec<Cell>> =
        days_from(today).take(7).map(|date| day_row(calendar, date)).collect();
    write!(out, "{}", columns(&rows))?;
    if !coming.is_empty() {
        writeln!(out, "\ncoming days off and exceptions")?;
        let rows: Vec<Vec<Cell>> = coming.iter().map(|date| day_row(calendar, *date)).collect();
        write!(out, "{}", columns(&rows))?;
    }
    Ok(())
}

fn day_row(calendar: &Calendar, date: Date) -> Vec<Cell> {
    let plan = calendar.day(date);
    let style = style(&plan);
    vec![
        Cell::styled(date.strftime("%a %Y-%m-%d").to_string(), style),
        Cell::plain(hours(&plan)),
        Cell::styled(plan.reason.to_string(), style),
    ]
}

fn style(plan: &DayPlan) -> Style {
    match (&plan.reason, plan.is_working()) {
        (Reason::Working, _) => Style::new(),
        (Reason::Weekend(_), _) => DIM,
        (_, true) => NOTE,
        (_, false) => OFF,
    }
}

/// Prints one date with its reason and its neighbours.
pub(super) fn date(
    calendar: &Calendar,
    text: &str,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let date: Date = text.parse().map_err(|_| {
        Problem::whole("date", text, "not a date").allow("YYYY-MM-DD").suggest("2026-12-24")
    })?;
    let plan = calendar.day(date);
    if json {
        return print_json(out, &json_day(date, &plan));
    }
    write!(out, "{}", columns(&[day_row(calendar, date)]))?;
    if !plan.is_working() {
        let next = calendar.working_day_from(date).map_or("none".into(), |d| d.to_string());
        let before = calendar.working_day_until(date).map_or("none".into(), |d| d.to_string());
        writeln!(out, "  {DIM}working day before: {before}; next: {next}{DIM:#}")?;
    }
    Ok(())
}

#[derive(Serialize)]
struct JsonYear<'a> {
    id: &'a str,
    timezone: &'a str,
    year: i16,
    working_days: usize,
    days: Vec<JsonDay>,
}

/// Draws a year: twelve months with marked days off, and a list of these days.
pub(super) fn year(
    calendar: &Calendar,
    year: i16,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let year = if year == 0 { holidays::this_year() } else { year };
    let year = *holidays::years(Some(year), None)?.start();
    let days: Vec<Date> =
        days_from(Date::constant(year, 1, 1)).take_while(|date| date.year() == year).collect();
    let working = days.iter().filter(|date| calendar.day(**date).is_working()).count();
    if json {
        let days = days.iter().map(|date| json_day(*date, &calendar.day(*date))).collect();
        let (id, timezone) = (calendar.id(), calendar.zone().name());
        return print_json(out, &JsonYear { id, timezone, year, working_days: working, days });
    }
    writeln!(out, "{BOLD}{} {year}{BOLD:#}: {working} working days", calendar.id())?;
    for first in (1..=12).step_by(MONTHS_PER_ROW as usize) {
        writeln!(out)?;
        let months: Vec<Vec<Line>> = (first..first + MONTHS_PER_ROW)
            .map(|number| month(calendar, Date::constant(year, number, 1)))
            .collect();
        let height = months.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            let mut text = String::from(" ");
            let mut missing = 0;
            for month in &months {
                match month.get(line) {
                    Some(line) => {
                        text.push_str(&" ".repeat(missing));
                        text.push_str(&line.text);
                        missing = MONTH_WIDTH - line.width;
                    }
                    None => missing += MONTH_WIDTH,
                }
            }
            writeln!(out, "{text}")?;
        }
    }
    let special: Vec<Vec<Cell>> = days
        .iter()
        .filter(|date| {
            matches!(calendar.day(**date).reason, Reason::Holiday(_) | Reason::Exception(_))
        })
        .map(|date| day_row(calendar, *date))
        .collect();
    writeln!(out)?;
    write!(out, "{}", columns(&special))?;
    writeln!(
        out,
        "\n  12 working   {DIM}12 weekend{DIM:#}   {OFF}12*{OFF:#} holiday   {NOTE}12+{NOTE:#} other hours"
    )?;
    Ok(())
}

/// A line of a month, and its width on the screen without escape sequences.
struct Line {
    text: String,
    width: usize,
}

fn month(calendar: &Calendar, first: Date) -> Vec<Line> {
    let today = today(calendar);
    let title = first.strftime("%B").to_string();
    let indent = (WEEK_WIDTH - title.len()) / 2;
    let mut lines = vec![
        Line { text: format!("{:indent$}{BOLD}{title}{BOLD:#}", ""), width: indent + title.len() },
        Line { text: format!("{DIM}Mo Tu We Th Fr Sa Su{DIM:#}"), width: WEEK_WIDTH },
    ];
    let blank = first.weekday().to_monday_zero_offset() as usize * 3;
    let mut line = Line { text: " ".repeat(blank), width: blank };
    for date in days_from(first).take_while(|date| date.month() == first.month()) {
        let plan = calendar.day(date);
        let mark = match (&plan.reason, plan.is_working()) {
            (Reason::Holiday(_) | Reason::Exception(_), false) => "*",
            (Reason::Holiday(_) | Reason::Exception(_), true) => "+",
            _ => "",
        };
        let style = if date == today { TODAY } else { style(&plan) };
        // The mark takes the blank before the next day.
        let column = date.weekday().to_monday_zero_offset() as usize * 3;
        line.text.push_str(&" ".repeat(column.saturating_sub(line.width)));
        let _ = write!(line.text, "{style}{:>2}{style:#}{mark}", date.day());
        line.width = column + 2 + mark.len();
        if date.weekday() == Weekday::Sunday || date == first.last_of_month() {
            lines.push(std::mem::replace(&mut line, Line { text: String::new(), width: 0 }));
        }
    }
    lines
}

#[derive(Serialize)]
struct Checked {
    file: String,
    calendars: Vec<String>,
    /// Warnings do not make a file invalid, but may surprise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problems: Option<String>,
}

/// Prints every mistake in the calendar files; exit code 1 if there is any.
pub(super) fn check(
    files: &[PathBuf],
    zones: &Zones,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let now = clock::now();
    let mut checked = Vec::new();
    for file in files {
        let (built, problems) = match load::calendars(file, zones, None) {
            Ok(calendars) => (calendars, None),
            Err(failure @ Failure::Mistake(_)) => (Vec::new(), Some(failure.to_string())),
            Err(other) => return Err(other),
        };
        let warnings = built.iter().filter_map(|calendar| calendar.never_works(now));
        checked.push(Checked {
            file: file.display().to_string(),
            calendars: built.iter().map(|calendar| calendar.id().to_owned()).collect(),
            warnings: warnings.map(|warning| warning.message).collect(),
            problems,
        });
    }
    if json {
        print_json(out, &checked)?;
    } else {
        for Checked { file, calendars, warnings, .. } in
            checked.iter().filter(|c| c.problems.is_none())
        {
            for warning in warnings {
                writeln!(out, "{NOTE}{file}: {warning}{NOTE:#}")?;
            }
            writeln!(out, "{file}: {} ok", calendars.join(", "))?;
        }
    }
    let problems: Vec<String> =
        checked.into_iter().filter_map(|checked| checked.problems).collect();
    if problems.is_empty() { Ok(()) } else { Err(Failure::Mistake(problems.join("\n\n"))) }
}
