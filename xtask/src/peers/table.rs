//! The table, in Markdown, with a numbered note wherever a figure needs a word.

use std::fmt::Write as _;

use super::list::{Peer, Store};
use super::versions::version;

#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) note: Option<String>,
}

impl Cell {
    pub(super) fn new(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), note: None }
    }

    /// Not measured, and why.
    pub(super) fn missing(why: impl Into<String>) -> Cell {
        Cell::new("-").with(why)
    }

    pub(super) fn with(self, note: impl Into<String>) -> Cell {
        Cell { note: Some(note.into()), ..self }
    }
}

pub(super) struct Row {
    pub(super) name: String,
    pub(super) version: String,
    /// The store, and the settings.
    pub(super) settings: String,
    /// In the order of the head.
    pub(super) cells: [Cell; 7],
}

impl Row {
    pub(super) fn of(peer: &Peer, cells: [Cell; 7]) -> Row {
        let store = match peer.store {
            Store::Postgres => "PostgreSQL",
            Store::Redis => "Redis",
            Store::Memory => "memory",
        };
        Row {
            name: peer.package.to_owned(),
            version: version(peer.package).to_owned(),
            settings: format!("{store}: {}", peer.settings),
            cells,
        }
    }

    /// Nothing could be measured.
    pub(super) fn missing(peer: &Peer, why: &str) -> Row {
        Row::of(peer, std::array::from_fn(|_| Cell::missing(why)))
    }
}

const HEAD: [&str; 10] = [
    "peer",
    "version",
    "storage and settings",
    "created/s",
    "completed/s",
    "late at 500/s, p50 / p99 ms",
    "late at 2,000/s, p50 / p99 ms",
    "restart, ms",
    "MB then",
    "lost / doubled",
];

/// The rows below their head, and the notes below the rows.
pub(super) fn markdown(rows: &[Row]) -> String {
    let mut notes: Vec<&str> = Vec::new();
    let mut text = format!("| {} |\n|{}\n", HEAD.join(" | "), "---|".repeat(HEAD.len()));
    for row in rows {
        // Writing into a string cannot fail.
        let _ = write!(text, "| {} | {} | {} |", row.name, row.version, row.settings);
        for cell in &row.cells {
            let _ = write!(text, " {}", cell.text);
            if let Some(note) = cell.note.as_deref() {
                let known = notes.iter().position(|known| *known == note);
                let at = known.unwrap_or(notes.len());
                if known.is_none() {
                    notes.push(note);
                }
                let _ = write!(text, " ({})", at + 1);
            }
            text.push_str(" |");
        }
        text.push('\n');
    }
    text.push('\n');
    for (at, note) in notes.iter().enumerate() {
        let _ = writeln!(text, "{}. {}", at + 1, note.replace('\n', " "));
    }
    text
}

/// A whole number, in groups of three digits.
pub(super) fn whole(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_numbered_once() {
        let cells = ["1", "2", "3", "4", "5", "6", "7"].map(Cell::new);
        let mut row = Row {
            name: "a".to_owned(),
            version: "1.0".to_owned(),
            settings: "none".to_owned(),
            cells,
        };
        row.cells[1] = Cell::missing("slow");
        row.cells[2] = Cell::missing("slow");
        let text = markdown(&[row]);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            ["| a | 1.0 | none | 1 | - (1) | - (1) | 4 | 5 | 6 | 7 |", "", "1. slow"]
        );
    }

    #[test]
    fn numbers_are_grouped() {
        for (value, text) in [(0.4, "0"), (999.0, "999"), (1_000.0, "1,000"), (1e6, "1,000,000")] {
            assert_eq!(whole(value), text);
        }
    }
}
