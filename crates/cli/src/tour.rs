//! `punctual tour`: runs example commands that show when things are due.

use std::io::Write;

use calendar::Zones;
use clap::Parser;

use crate::args::{Cli, Command};
use crate::failure::Failure;
use crate::terminal::{BOLD, DIM};

/// The stops of the tour: what each shows, and its command.
const STOPS: [(&str, &[&str]); 6] = [
    (
        "Nine o'clock on working days in Munich: weekends and Bavarian holidays are left out",
        &[
            "next",
            "0 9 * * 1-5",
            "--tz",
            "Europe/Berlin",
            "--calendar",
            "DE-BY",
            "-n",
            "6",
            "--from",
            "2026-12-22T12:00",
        ],
    ),
    (
        "Half past two in New York, in the night when there is no half past two",
        &[
            "next",
            "30 2 * * *",
            "--tz",
            "America/New_York",
            "-n",
            "3",
            "--from",
            "2027-03-12T12:00",
        ],
    ),
    (
        "The last working day of the month in the United States",
        &[
            "next",
            "{monthly: {working_day: -1, at: \"17:00\"}}",
            "--tz",
            "America/New_York",
            "--calendar",
            "US",
            "-n",
            "4",
        ],
    ),
    (
        "Two working days after a Friday afternoon",
        &["calendar", "add", "US", "2026-02-27T14:00", "2d", "--tz", "America/New_York"],
    ),
    ("A mistake is answered with its place and a way out", &["next", "0 22-6 * * *"]),
    ("This year in Bavaria", &["calendar", "show", "DE-BY", "--year", "--tz", "Europe/Berlin"]),
];

pub(crate) fn run(zones: &Zones, out: &mut dyn Write) -> Result<(), Failure> {
    for (title, words) in STOPS {
        writeln!(out, "{BOLD}{title}{BOLD:#}")?;
        let typed: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        writeln!(out, "{DIM}$ punctual {}{DIM:#}\n", typed.join(" "))?;
        let args = std::iter::once("punctual").chain(words.iter().copied());
        let cli = Cli::try_parse_from(args).map_err(|e| Failure::Mistake(e.to_string()))?;
        let shown = match &cli.command {
            Command::Next(args) => crate::next::run(args, zones, out),
            Command::Calendar(command) => crate::calendars::run(command, zones, out),
            _ => Ok(()),
        };
        match shown {
            Err(Failure::Mistake(text)) => writeln!(out, "{text}")?,
            other => other?,
        }
        writeln!(out)?;
    }
    writeln!(
        out,
        "{DIM}`punctual next RULE` for your own; `punctual --help` for the rest.{DIM:#}"
    )?;
    Ok(())
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_/:.".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{word}'") }
}
