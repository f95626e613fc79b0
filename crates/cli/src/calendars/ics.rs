//! Runs `punctual calendar ics`.

use std::io::Write;

use calendar::{IcsEvent, IcsTime, Reason, Zone, Zones, read_ics, write_ics};
use jiff::civil::Date;
use serde::Serialize;

use super::{holidays, load, print_json};
use crate::clock;
use crate::document::Document;
use crate::failure::Failure;
use crate::terminal::{Cell, columns};

#[derive(Serialize)]
struct JsonSpan {
    from: Date,
    to: Date,
    name: String,
}

pub(super) fn run(
    named: &str,
    zones: &Zones,
    year: Option<i16>,
    to: Option<i16>,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if named.ends_with(".ics") {
        return read(named, json, out);
    }
    let calendar = load::calendar(named, zones, Some(&Zone::utc()))?;
    let mut days = Vec::new();
    for year in holidays::years(year, to)? {
        let first = Date::new(year, 1, 1).ok();
        let of_year = std::iter::successors(first, |date| date.tomorrow().ok())
            .take_while(|date| date.year() == year);
        days.extend(of_year.filter_map(|date| match calendar.day(date).reason {
            Reason::Holiday(name) | Reason::Exception(name) => Some((date, name)),
            Reason::Working | Reason::Weekend(_) => None,
        }));
    }
    if json {
        let spans: Vec<JsonSpan> = days
            .iter()
            .map(|(date, name)| JsonSpan { from: *date, to: *date, name: name.to_string() })
            .collect();
        return print_json(out, &spans);
    }
    let events: Vec<IcsEvent> = days
        .into_iter()
        .map(|(date, name)| IcsEvent {
            time: IcsTime::Day(date),
            summary: name.to_string(),
            uid: format!("{}-{date}@punctual", calendar.id()),
        })
        .collect();
    out.write_all(write_ics(calendar.id(), &events, clock::now()).as_bytes())?;
    Ok(())
}

fn read(path: &str, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let document = Document::read(path.as_ref())?;
    let days = read_ics(&document.text)?;
    if json {
        let spans: Vec<JsonSpan> = days
            .into_iter()
            .map(|day| JsonSpan { from: day.first, to: day.last, name: day.name })
            .collect();
        return print_json(out, &spans);
    }
    let rows: Vec<Vec<Cell>> = days
        .iter()
        .map(|day| {
            let to = if day.first == day.last { String::new() } else { format!("to {}", day.last) };
            vec![Cell::plain(day.first.to_string()), Cell::plain(to), Cell::plain(&*day.name)]
        })
        .collect();
    write!(out, "{}", columns(&rows))?;
    Ok(())
}
