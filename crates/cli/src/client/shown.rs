//! A node's answers, for people and for programs.

use std::io::Write;

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::terminal::{BOLD, Cell, DIM, NOTE, OFF, columns, duration};

const GOOD: Style = AnsiColor::Green.on_default();

/// The answer as it came.
pub(super) fn json(out: &mut dyn Write, value: &Value) -> Result<(), Failure> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}

/// A field as text; nothing if it is not there.
pub(super) fn field(value: &Value, name: &str) -> String {
    plain(&value[name])
}

/// A value as text.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The items of a list.
pub(super) fn items(value: &Value) -> &[Value] {
    let list = value.as_array().or_else(|| value["items"].as_array());
    list.map_or(&[], Vec::as_slice)
}

/// A time as it is read: `2026-11-15 09:00:00 -05:00`.
pub(super) fn time(value: &Value, name: &str) -> Cell {
    let text = field(value, name);
    let Some((date, rest)) = text.split_once('T') else { return Cell::plain(text) };
    let at = rest.find(['Z', '+', '-']).unwrap_or(rest.len());
    let (clock, offset) = rest.split_at(at);
    let clock = clock.split('.').next().unwrap_or(clock);
    let space = if offset == "Z" { "" } else { " " };
    Cell::plain(format!("{date} {clock}{space}{offset}"))
}

/// A time as a distance from now: `in 5m`, `12s ago`.
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

/// An instant.
pub(super) fn instant(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// A status or an outcome, in the colour it deserves.
pub(super) fn state(text: &str) -> Cell {
    let style = match text {
        "succeeded" | "started" | "active" | "published" | "consumed" | "applied" => GOOD,
        "failed" | "dead" | "timed_out" | "missed" => OFF,
        "skipped" | "suspended" | "unknown" | "paused" | "dropped" | "cancelled" | "moved" => NOTE,
        _ => Style::new(),
    };
    Cell::styled(text, style)
}

/// A table with headings.
pub(super) fn table(
    out: &mut dyn Write,
    headings: &[&str],
    rows: Vec<Vec<Cell>>,
) -> Result<(), Failure> {
    let headings = headings.iter().map(|heading| Cell::styled(*heading, DIM)).collect();
    let mut all = vec![headings];
    all.extend(rows);
    Ok(write!(out, "{}", columns(&all))?)
}

/// What is left of a list.
pub(super) fn more(out: &mut dyn Write, page: &Value) -> Result<(), Failure> {
    if let Some(cursor) = page["next_cursor"].as_str() {
        let shown = items(page).len();
        let total = &page["total"];
        writeln!(out, "{DIM}{shown} of {total}; the next: --cursor {cursor}{DIM:#}")?;
    }
    Ok(())
}

/// Names and values below each other; those without a value are left out.
pub(super) fn sheet(
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

/// A JSON value that someone typed.
pub(super) fn typed_json(option: &str, text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| not_json(option, text, &error))
}

/// The same, as it was typed: numbers are not read and written again.
pub(super) fn typed_raw(option: &str, text: &str) -> Result<Box<RawValue>, Failure> {
    serde_json::from_str(text).map_err(|error| not_json(option, text, &error))
}

fn not_json(option: &str, text: &str, error: &serde_json::Error) -> Failure {
    Failure::Mistake(format!(
        "{option}: not JSON: {error}\n  {text}\n  try: '{{\"key\": \"value\"}}' (texts need double quotes)"
    ))
}
