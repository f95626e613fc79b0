//! The report of a benchmark, as a table or as JSON.

use std::io::Write;

use serde::Serialize;

use super::compare::{Earlier, Range};
use crate::failure::Failure;
use crate::terminal::{BOLD, Cell, DIM, NOTE, columns};

/// One measured value, with the limit it is compared with.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figure {
    /// The measurement that the figure belongs to.
    pub(super) measure: &'static str,
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) unit: &'static str,
    /// The raw limit that the figure is compared with, measured in the same run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<Limit>,
    /// The value that the figure should reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reach: Option<Reach>,
    /// The least and greatest value, if the benchmark was repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) range: Option<Range>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) earlier: Option<Earlier>,
}

/// A raw limit, and the ratio of the figure to it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Limit {
    pub(super) name: &'static str,
    pub(super) value: f64,
    pub(super) ratio: f64,
}

/// The value that a figure should reach.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reach {
    AtLeast(f64),
    AtMost(f64),
}

impl Figure {
    pub(super) fn new(
        measure: &'static str,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
    ) -> Figure {
        let (limit, reach, range, earlier) = (None, None, None, None);
        Figure { measure, name: name.into(), value, unit, limit, reach, range, earlier }
    }

    /// Whether this is the figure of a measurement with this name.
    pub(super) fn is_same_as(&self, measure: &str, name: &str) -> bool {
        self.measure == measure && self.name == name
    }

    pub(super) fn beside(mut self, limit: Option<(&'static str, f64)>) -> Figure {
        let ratio = |value: f64| if value > 0.0 { self.value / value } else { 0.0 };
        self.limit = limit.map(|(name, value)| Limit { name, value, ratio: ratio(value) });
        self
    }

    pub(super) fn at_least(self, reach: f64) -> Figure {
        Figure { reach: Some(Reach::AtLeast(reach)), ..self }
    }

    pub(super) fn at_most(self, reach: f64) -> Figure {
        Figure { reach: Some(Reach::AtMost(reach)), ..self }
    }

    fn holds(&self) -> Option<bool> {
        self.reach.map(|reach| match reach {
            Reach::AtLeast(wanted) => self.value >= wanted,
            Reach::AtMost(wanted) => self.value <= wanted,
        })
    }

    fn row(&self) -> Vec<Cell> {
        let wanted = match self.reach {
            Some(Reach::AtLeast(wanted)) => format!("≥ {}", number(wanted)),
            Some(Reach::AtMost(wanted)) => format!("≤ {}", number(wanted)),
            None => String::new(),
        };
        let style = if self.holds() == Some(false) { NOTE } else { BOLD };
        let limit = match &self.limit {
            Some(limit) => format!("{:.3} of {} {}", limit.ratio, number(limit.value), limit.name),
            None => String::new(),
        };
        let range = self.range.map_or(String::new(), |range| {
            format!("{} to {}", number(range.least), number(range.most))
        });
        let earlier = match &self.earlier {
            Some(Earlier { value, has_moved }) => {
                let moved = if *has_moved { ", moved" } else { "" };
                format!("{:.2} of {}{moved}", self.value / value, number(*value))
            }
            None => String::new(),
        };
        let moved = self.earlier.is_some_and(|earlier| earlier.has_moved);
        vec![
            Cell::plain(self.measure),
            Cell::plain(self.name.clone()),
            Cell::styled(format!("{:>10}", number(self.value)), style),
            Cell::plain(self.unit),
            Cell::plain(wanted),
            Cell::styled(limit, DIM),
            Cell::styled(range, DIM),
            Cell::styled(earlier, if moved { NOTE } else { DIM }),
        ]
    }
}

/// Formats a number: whole numbers in groups of three digits, small ones with two decimals.
fn number(value: f64) -> String {
    if value.abs() < 100.0 && value.fract() != 0.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

/// Prints the figures as a table.
pub(super) fn write_table(figures: &[Figure], out: &mut dyn Write) -> Result<(), Failure> {
    let has_range = figures.iter().any(|figure| figure.range.is_some());
    let has_earlier = figures.iter().any(|figure| figure.earlier.is_some());
    let head = [
        "measure",
        "",
        "         is",
        "",
        "wanted",
        "beside a limit of this machine",
        if has_range { "range" } else { "" },
        if has_earlier { "of before" } else { "" },
    ];
    let head = head.map(|text| Cell::styled(text, DIM)).into();
    let rows: Vec<Vec<Cell>> =
        std::iter::once(head).chain(figures.iter().map(Figure::row)).collect();
    Ok(out.write_all(columns(&rows).as_bytes())?)
}

/// Prints the figures as one JSON object.
pub(super) fn write_json(figures: &[Figure], out: &mut dyn Write) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Line<'a> {
        #[serde(flatten)]
        figure: &'a Figure,
        #[serde(skip_serializing_if = "Option::is_none")]
        holds: Option<bool>,
    }
    let lines: Vec<Line<'_>> =
        figures.iter().map(|figure| Line { figure, holds: figure.holds() }).collect();
    let text = serde_json::to_string_pretty(&serde_json::json!({ "figures": lines }))
        .map_err(|error| Failure::Environment(error.to_string()))?;
    Ok(writeln!(out, "{text}")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        let cases = [
            (0.0, "0"),
            (0.514, "0.51"),
            (7.0, "7"),
            (123.4, "123"),
            (1_234.0, "1 234"),
            (30_000_000.0, "30 000 000"),
            (-1_234.0, "-1 234"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn a_figure_holds_what_is_wanted_or_not() {
        let figure = Figure::new("fires", "", 10.0, "per s");
        assert_eq!(figure.holds(), None);
        assert_eq!(figure.clone().at_least(10.0).holds(), Some(true));
        assert_eq!(figure.clone().at_least(11.0).holds(), Some(false));
        assert_eq!(figure.clone().at_most(9.0).holds(), Some(false));
        assert_eq!(figure.beside(Some(("rows per s", 40.0))).limit.map(|l| l.ratio), Some(0.25));
    }
}
