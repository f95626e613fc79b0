//! Runs `punctual calendar holidays`.

use std::io::Write;

use calendar::Problem;
use calendar::holidays::Region;
use jiff::civil::Date;
use serde::Serialize;

use super::print_json;
use crate::clock;
use crate::failure::Failure;
use crate::terminal::{BOLD, Cell, DIM, NOTE, columns};

/// The most years in one list.
const YEAR_LIMIT: i16 = 100;

#[derive(Serialize)]
struct JsonRegion {
    code: String,
    name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subdivisions: Vec<JsonRegion>,
}

/// Lists the regions whose holidays are known.
pub(super) fn regions(json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let countries: Vec<JsonRegion> = Region::countries()
        .map(|country| JsonRegion {
            code: country.code.to_string(),
            name: country.name.to_string(),
            subdivisions: country
                .subdivisions
                .iter()
                .map(|part| JsonRegion {
                    code: part.code.to_string(),
                    name: part.name.to_string(),
                    subdivisions: Vec::new(),
                })
                .collect(),
        })
        .collect();
    if json {
        return print_json(out, &countries);
    }
    let rows: Vec<Vec<Cell>> = countries
        .iter()
        .map(|country| {
            let parts = country.subdivisions.iter().map(|part| part.code.as_str());
            let parts: Vec<&str> = parts.map(|code| code.get(3..).unwrap_or(code)).collect();
            vec![
                Cell::styled(&*country.code, BOLD),
                Cell::plain(&*country.name),
                Cell::styled(parts.join(" "), DIM),
            ]
        })
        .collect();
    write!(out, "{}", columns(&rows))?;
    Ok(())
}

/// The range of years to list, checked.
pub(super) fn years(
    year: Option<i16>,
    to: Option<i16>,
) -> Result<std::ops::RangeInclusive<i16>, Failure> {
    let first = year.unwrap_or_else(this_year);
    let last = to.unwrap_or(first);
    if (1..=9999).contains(&first) && first <= last && last - first < YEAR_LIMIT {
        return Ok(first..=last);
    }
    let text = format!("{first}-{last}");
    Err(Problem::whole("years", &text, "not a span of years")
        .allow(format!("up to {YEAR_LIMIT} years, the first one first"))
        .into())
}

/// The current year in UTC.
pub(super) fn this_year() -> i16 {
    calendar::Zone::utc().wall(clock::now()).year()
}

#[derive(Serialize)]
struct JsonHoliday {
    date: Date,
    weekday: String,
    name: String,
}

/// Lists the holidays of one region.
pub(super) fn of_region(
    code: &str,
    year: Option<i16>,
    to: Option<i16>,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let region = Region::parse(code).map_err(Problem::from)?;
    let years = years(year, to)?;
    let mut all = Vec::new();
    for year in years.clone() {
        all.extend(region.holidays(year).into_iter().map(|holiday| JsonHoliday {
            date: holiday.date,
            weekday: holiday.date.strftime("%A").to_string(),
            name: holiday.name.to_string(),
        }));
    }
    if json {
        return print_json(out, &all);
    }
    writeln!(out, "{BOLD}{} ({}){BOLD:#}", region.name(), region.code())?;
    let rows: Vec<Vec<Cell>> = all
        .iter()
        .map(|day| {
            vec![
                Cell::plain(day.date.to_string()),
                Cell::styled(&day.weekday[..3], DIM),
                Cell::plain(&*day.name),
            ]
        })
        .collect();
    write!(out, "{}", columns(&rows))?;
    if let Some(known) = region.known_years()
        && years.clone().any(|year| !known.contains(&year))
    {
        let (from, to) = (known.start(), known.end());
        writeln!(out, "{NOTE}! not all holidays are known outside of {from}-{to}{NOTE:#}")?;
    }
    Ok(())
}
