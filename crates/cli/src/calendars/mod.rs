//! `punctual calendar …`: shows calendars, calculates with them, and declares them on a node.

mod holidays;
mod ics;
pub(crate) mod load;
mod show;
mod worktime;

use std::io::Write;

use calendar::{Calendar, Zone, Zones};
use serde::Serialize;

use crate::args::{CalendarCommand, Which};
use crate::failure::Failure;

/// Runs one of the subcommands.
pub(crate) fn run(
    command: &CalendarCommand,
    zones: &Zones,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    match command {
        CalendarCommand::Show { which, year, date, json } => {
            let calendar = which.load(zones)?;
            match (year, date) {
                (Some(year), _) => show::year(&calendar, *year, *json, out),
                (None, Some(date)) => show::date(&calendar, date, *json, out),
                (None, None) => show::summary(&calendar, *json, out),
            }
        }
        CalendarCommand::Check { files, json } => show::check(files, zones, *json, out),
        CalendarCommand::Put { file, id, json } => {
            crate::client::put_calendar(file, id.as_deref(), *json, out)
        }
        CalendarCommand::Add { which, start, amount, json } => {
            worktime::add(&which.load(zones)?, start, amount, *json, out)
        }
        CalendarCommand::Between { which, from, to, json } => {
            worktime::between(&which.load(zones)?, from, to, *json, out)
        }
        CalendarCommand::Holidays { region: Some(region), year, to, json } => {
            holidays::of_region(region, *year, *to, *json, out)
        }
        CalendarCommand::Holidays { region: None, json, .. } => holidays::regions(*json, out),
        CalendarCommand::Ics { calendar, year, to, json } => {
            ics::run(calendar, zones, *year, *to, *json, out)
        }
    }
}

impl Which {
    fn load(&self, zones: &Zones) -> Result<Calendar, Failure> {
        let zone: Option<Zone> = self.tz.as_deref().map(|name| zones.get(name)).transpose()?;
        load::calendar(&self.calendar, zones, zone.as_ref())
    }
}

/// Prints a value as JSON.
fn print_json(out: &mut dyn Write, value: &impl Serialize) -> Result<(), Failure> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}
