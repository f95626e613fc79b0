//! Formats a node's responses as text or JSON.

use std::io::Write;

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::terminal::{BOLD, Cell, DIM, NOTE, OFF, columns, duration};

const GOOD: Style = AnsiColor::Green.on_default();

/// Prints the response unchanged.
pub(super) fn json(out: &mut dyn Write, value: &Value) -> Result<(), Failure> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}

/// A field as text; empty if it is missing.
pub(super) fn field(value: &Value, name: &str) -> String {
    plain(&value[name])
}

/// A JSON value as text; null is empty.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The items of a list, or of a page.
pub(super) fn items(value: &Value) -> &[Value] {
    let list = value.as_array().or_else(|| value["items"].as_array());
    list.map_or(&[], Vec::as_slice)
}

/// A time for people to read: `2026-11-15 09:00:00 -05:00`.
pub(super) fn time(value: &Value, name: &str) -> Cell {
    time_of(value, name, false)
}

/// The time of an occurrence, with the fraction of a second that it may have: whoever overrides the
/// occurrence has to name it exactly.
pub(super) fn occurrence_time(value: &Value, name: &str) -> Cell {
    time_of(value, name, true)
}

fn time_of(value: &Value, name: &str, has_fraction: bool) -> Cell {
    let text = field(value, name);
    let Some((date, rest)) = text.split_once('T') else { return Cell::plain(text) };
    let at = rest.find(['Z', '+', '-']).unwrap_or(rest.len());
    let (clock, offset) = rest.split_at(at);
    let clock = if has_fraction { clock } else { clock.split('.').next().unwrap_or(clock) };
    let space = if offset == "Z" { "" } else { " " };
    Cell::plain(format!("{date} {clock}{space}{offset}"))
}

/// A time relative to now: `in 5m`, `12s ago`.
pub(super) fn distance(value: &Value, name: &str, now: Timestamp) -> Cell {
    let Some(at) = instant(&value[name]) else { return Cell::plain("") };
    let ahead = at.duration_since(now);
    let text = duration(ahead.abs());
    Cell::styled(
        if ahead.is_negative() { format!("{text} ago") } else { format!("in {text}") },
        DIM,
    )
}

/// How long something took, or has taken until now.
pub(super) fn took(value: &Value, now: Timestamp) -> Cell {
    let Some(from) = instant(&value["started_at"]) else { return Cell::plain("") };
    let to = instant(&value["ended_at"]).unwrap_or(now);
    Cell::plain(duration(to.duration_since(from)))
}

/// Parses a value as an instant.
pub(super) fn instant(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// A status or an outcome, in a colour that says whether it is good.
pub(super) fn state(text: &str) -> Cell {
    let style = match text {
        "succeeded" | "started" | "active" | "published" | "consumed" | "applied" => GOOD,
        "failed" | "dead" | "timed_out" | "missed" => OFF,
        "skipped" | "suspended" | "unknown" | "paused" | "dropped" | "cancelled" | "moved" => NOTE,
        _ => Style::new(),
    };
    Cell::styled(text, style)
}

/// Prints a table with headings.
pub(super) fn table(
    out: &mut dyn Write,
    headings: &[&str],
    rows: Vec<Vec<Cell>>,
) -> Result<(), Failure> {
    let headings = headings.iter().map(|heading| Cell::styled(*heading, DIM)).collect();
    let mut all = vec![headings];
    let first_lines = |row: Vec<Cell>| row.into_iter().map(Cell::first_line).collect();
    all.extend(rows.into_iter().map(first_lines));
    Ok(write!(out, "{}", columns(&all))?)
}

/// Prints how many entries are left and the cursor of the next page.
pub(super) fn more(out: &mut dyn Write, page: &Value) -> Result<(), Failure> {
    if let Some(cursor) = page["next_cursor"].as_str() {
        let shown = items(page).len();
        let total = &page["total"];
        writeln!(out, "{DIM}{shown} of {total}; the next: --cursor {cursor}{DIM:#}")?;
    }
    Ok(())
}

/// Prints names and values below each other, leaving out empty values.
pub(super) fn details(
    out: &mut dyn Write,
    title: &str,
    lines: Vec<(&str, Cell)>,
) -> Result<(), Failure> {
    writeln!(out, "{BOLD}{title}{BOLD:#}")?;
    let rows: Vec<Vec<Cell>> = lines
        .into_iter()
        .filter(|(_, cell)| !cell.is_empty())
        .map(|(name, cell)| vec![Cell::styled(name, DIM), cell])
        .collect();
    Ok(write!(out, "{}", columns(&rows))?)
}

/// Parses a JSON value from the command line.
pub(super) fn typed_json(option: &str, text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| not_json(option, text, &error))
}

/// Like [`typed_json`], but keeps the text unchanged, because parsing would alter large numbers.
pub(super) fn typed_raw(option: &str, text: &str) -> Result<Box<RawValue>, Failure> {
    serde_json::from_str(text).map_err(|error| not_json(option, text, &error))
}

fn not_json(option: &str, text: &str, error: &serde_json::Error) -> Failure {
    Failure::Mistake(format!(
        "{option}: not JSON: {error}\n  {text}\n  try: '{{\"key\": \"value\"}}' (texts need double quotes)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_occurrence_is_shown_with_the_fraction_of_its_second() {
        for (at, occurrence, other) in [
            ("2026-11-15T22:47:03.134Z", "2026-11-15 22:47:03.134Z", "2026-11-15 22:47:03Z"),
            (
                "2026-11-15T09:00:00-05:00",
                "2026-11-15 09:00:00 -05:00",
                "2026-11-15 09:00:00 -05:00",
            ),
        ] {
            let value = serde_json::json!({ "at": at });
            assert_eq!(occurrence_time(&value, "at").paint(0), occurrence);
            assert_eq!(time(&value, "at").paint(0), other);
        }
    }

    #[test]
    fn a_table_has_one_line_for_each_row() {
        let mut out = Vec::new();
        let row = vec![Cell::plain("disk full\nat /dev/sda"), Cell::plain("next")];
        table(&mut out, &["ERROR", "OTHER"], vec![row]).unwrap();
        let shown = String::from_utf8(out).unwrap();
        assert_eq!(shown.lines().count(), 2, "{shown}");
        assert!(shown.contains("disk full …") && !shown.contains("sda"), "{shown}");
    }
}
