//! Terminal output: columns, and colour where the terminal supports it.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use jiff::SignedDuration;

/// For the most important text.
pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
/// For days off and failures.
pub(crate) const OFF: Style = AnsiColor::Red.on_default();
pub(crate) const ADDED: Style = AnsiColor::Green.on_default();
/// For notes about something unexpected.
pub(crate) const NOTE: Style = AnsiColor::Yellow.on_default();
/// For the current day in a calendar.
pub(crate) const TODAY: Style = Style::new().invert();

/// A piece of text with a style.
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A cell without a style.
    pub(crate) fn plain(text: impl Into<String>) -> Cell {
        Cell::styled(text, Style::new())
    }

    /// A cell with a style.
    pub(crate) fn styled(text: impl Into<String>, style: Style) -> Cell {
        Cell { text: text.into(), style }
    }

    /// The cell with the first line of its text alone: a second one would break the table.
    pub(crate) fn first_line(mut self) -> Cell {
        if let Some((first, _)) = self.text.split_once('\n') {
            self.text = format!("{} …", first.trim_end());
        }
        self
    }

    /// Whether the text is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }

    /// The text in its style, padded to a width.
    pub(crate) fn paint(&self, width: usize) -> String {
        let fill = " ".repeat(width.saturating_sub(self.width()));
        format!("{}{}{}{fill}", self.style, self.text, self.style.render_reset())
    }
}

/// Aligns cells in columns, separated by two blanks.
pub(crate) fn columns(rows: &[Vec<Cell>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(Cell::width).max();
    let widths: Vec<usize> = (0..count).map(|at| width(at).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let last = row.iter().rposition(|cell| !cell.text.is_empty()).map_or(0, |at| at + 1);
        let mut line = String::from("  ");
        for (at, cell) in row.iter().take(last).enumerate() {
            // The last cell is not padded, so that lines have no trailing blanks.
            let fill = if at + 1 == last { 0 } else { widths[at] + 2 };
            line.push_str(&cell.paint(fill));
        }
        let _ = writeln!(text, "{}", if last == 0 { "" } else { &line });
    }
    text
}

/// Formats a duration in its two largest units: `1m 5s`, `2d 3h`; `340ms`.
pub(crate) fn duration(length: SignedDuration) -> String {
    let seconds = length.as_secs();
    let two = |size: i64, unit: &str, below: i64, small: &str| match seconds % size / below {
        0 => format!("{}{unit}", seconds / size),
        rest => format!("{}{unit} {rest}{small}", seconds / size),
    };
    match seconds {
        0 => format!("{}ms", length.as_millis()),
        1..=59 => format!("{seconds}s"),
        60..=3_599 => two(60, "m", 1, "s"),
        3_600..=86_399 => two(3_600, "h", 60, "m"),
        _ => two(86_400, "d", 3_600, "h"),
    }
}
