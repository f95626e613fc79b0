//! Rows with bars over time: when each step and its attempts began and ended.
//!
//! Names have a column of their own that stays visible. The bars grow with the page and are
//! scrolled where they have less than [`NARROWEST`] pixels.

use std::fmt::Write;

use jiff::Timestamp;
use maud::{Markup, html};

use crate::axis::{Span, Wall, length_words, time_notches};
use crate::frame;
use crate::text::{NAME_SIZE, NOTE_SIZE, Num, Percent, counted, cut, width};

/// A Gantt chart: rows with bars over time.
pub struct Gantt<'a> {
    /// The heading: a sentence or a name.
    pub title: String,
    /// The rows, from top to bottom. Rows beyond [`ROWS`] are counted and not drawn.
    pub rows: Vec<Row>,
    /// The current time: a line, at which bars without an end stop.
    pub now: Option<Timestamp>,
    /// Lines across all rows.
    pub deadlines: Vec<Deadline>,
    pub wall: Wall<'a>,
}

/// A row: a step, or something below it.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub label: String,
    /// The nesting depth: 0 for a step, 1 for its attempts or items.
    pub depth: usize,
    /// The target of the name's link.
    pub href: Option<String>,
    pub bars: Vec<Bar>,
}

/// A range of time in a row.
#[derive(Clone, Debug)]
pub struct Bar {
    pub start: Timestamp,
    /// `None` if it continues until now.
    pub end: Option<Timestamp>,
    /// A class for its state, such as `is-ok`.
    pub state: String,
    /// The description, for the title of the bar: "attempt 2, failed".
    pub label: String,
    /// The target of its link.
    pub href: Option<String>,
}

/// A point in time that concerns all rows.
#[derive(Clone, Debug)]
pub struct Deadline {
    pub at: Timestamp,
    pub label: String,
    /// A class for its state, such as `is-warn`.
    pub state: String,
}

/// The most rows that are drawn: about as many as anybody scrolls through.
pub const ROWS: usize = 500;
/// The least width of the part with the bars, in pixels. The stylesheet contains the same number.
pub const NARROWEST: f64 = 420.0;

const ROW_HEIGHT: f64 = 24.0;
const BAR_HEIGHT: f64 = 12.0;
const AXIS_HEIGHT: f64 = 32.0;
const FLAG_HEIGHT: f64 = 16.0;
const WIDEST_NAME: f64 = 160.0;
/// Deadlines further away than this many times the drawn range are listed below the drawing.
const FAR: i128 = 3;
const INDENT: f64 = 14.0;
/// The least width of a bar, so that short ones are visible.
const THINNEST: f64 = 3.0;

impl Gantt<'_> {
    pub fn draw(&self) -> Markup {
        let Some(extent) = self.extent() else {
            return frame::empty("gantt", &self.title, "Nothing has begun yet.");
        };
        let shown = self.shown();
        let [near, far] = self.near_and_far(extent);
        let instants = [extent.0, extent.1].into_iter().chain(near.iter().map(|near| near.at));
        let span = Span::around(instants);
        let flags = self.flags(&near, span);
        let lines = flags.iter().filter_map(|flag| flag.line).max().map_or(0, |line| line + 1);
        let top = lines as f64 * FLAG_HEIGHT + AXIS_HEIGHT;
        let height = top + shown.len() as f64 * ROW_HEIGHT + 4.0;
        let axis_y = lines as f64 * FLAG_HEIGHT;
        let notches = time_notches(span, self.wall, NARROWEST);
        frame::scrolled(
            "gantt",
            &self.title,
            html! {
                div class="drawing-columns" {
                    (names(shown, top, height))
                    svg class="drawing-plot" width="100%" height=(Num(height))
                        role="list" {
                        title { (self.title) }
                        desc { (self.description(extent)) }
                        (bands(shown, top))
                        (frame::time_axis(&notches, axis_y, &[(top - 4.0, height)]))
                        @for flag in &flags { (flag.draw(axis_y, height)) }
                        @for (number, row) in shown.iter().enumerate() {
                            (self.row(row, span, top + number as f64 * ROW_HEIGHT))
                        }
                    }
                }
                @if self.rows.len() > shown.len() {
                    p class="drawing-note" { "and " (self.rows.len() - shown.len()) " more" }
                }
                @for deadline in far {
                    p class="drawing-note" {
                        (deadline.label) ": " ((self.wall.words)(deadline.at))
                    }
                }
            },
        )
    }

    /// The range from the first start to the last end, or to now if a bar has not ended.
    fn extent(&self) -> Option<(Timestamp, Timestamp)> {
        let bars = || self.shown().iter().flat_map(|row| &row.bars);
        let is_open = bars().any(|bar| bar.end.is_none());
        let starts = || bars().map(|bar| bar.start);
        let ends = bars().filter_map(|bar| bar.end);
        let last = starts().chain(ends).chain(self.now.filter(|_| is_open)).max()?;
        Some((starts().min()?, last))
    }

    /// The deadlines that are drawn, and those so far away that the bars would be too small beside
    /// them.
    fn near_and_far(&self, (first, last): (Timestamp, Timestamp)) -> [Vec<&Deadline>; 2] {
        let length = last.duration_since(first).as_millis().max(1000);
        let mut sorted = [Vec::new(), Vec::new()];
        for deadline in &self.deadlines {
            let before = first.duration_since(deadline.at).as_millis();
            let after = deadline.at.duration_since(last).as_millis();
            sorted[usize::from(before.max(after) > length * FAR)].push(deadline);
        }
        sorted
    }

    fn shown(&self) -> &[Row] {
        &self.rows[..self.rows.len().min(ROWS)]
    }

    fn description(&self, (first, last): (Timestamp, Timestamp)) -> String {
        let bars: usize = self.rows.iter().map(|row| row.bars.len()).sum();
        format!(
            "{} with {} over {}.",
            counted(self.rows.len(), "row", "rows"),
            counted(bars, "bar", "bars"),
            length_words(last.duration_since(first).as_millis() as f64),
        )
    }

    /// The flags of deadlines and now, each with a line of the head if its label has room there.
    fn flags<'d>(&self, deadlines: &[&'d Deadline], span: Span) -> Vec<Flag<'d>> {
        let now = self.now.filter(|&now| span.contains(now));
        let mut flags: Vec<Flag> = deadlines
            .iter()
            .map(|d| (d.at, d.label.as_str(), format!("flag {}", d.state)))
            .chain(now.map(|now| (now, "now", "flag flag-now".to_owned())))
            .map(|(at, label, class)| Flag {
                position: span.position(at),
                label,
                class,
                line: None,
                title: format!("{label}: {}", (self.wall.words)(at)),
            })
            .collect();
        flags.sort_by(|a, b| a.position.total_cmp(&b.position));
        let mut taken = [f64::NEG_INFINITY; 3];
        for flag in &mut flags {
            let (from, to) = flag.reach();
            flag.line = taken.iter().position(|&end| end < from);
            if let Some(line) = flag.line {
                taken[line] = to;
            }
        }
        flags
    }

    fn row(&self, row: &Row, span: Span, top: f64) -> Markup {
        let words = row.bars.last().and_then(|bar| Some((self.length(bar)?, bar)));
        html! {
            @for bar in &row.bars { (bar.draw(self, row, span, top)) }
            @if let Some((words, bar)) = words {
                (beside(&words, span.position(bar.start), self.end(bar, span), top))
            }
        }
    }

    /// The duration of a bar, in words.
    fn length(&self, bar: &Bar) -> Option<String> {
        let length = bar.end.or(self.now)?.duration_since(bar.start);
        Some(length_words(length.as_millis().max(0) as f64))
    }

    fn end(&self, bar: &Bar, span: Span) -> f64 {
        let end = bar.end.or(self.now).map_or(1.0, |end| span.position(end));
        end.max(span.position(bar.start))
    }
}

impl Bar {
    fn draw(&self, gantt: &Gantt<'_>, row: &Row, span: Span, top: f64) -> Markup {
        let began = (gantt.wall.words)(self.start);
        let mut title = format!("{}: {}, from {began}", row.label, self.label);
        if let Some(end) = self.end {
            let _ = write!(title, " to {}", (gantt.wall.words)(end));
        }
        if let Some(length) = gantt.length(self) {
            let _ = write!(title, ", {length}");
        }
        if self.end.is_none() {
            title.push_str(", not ended");
        }
        let (start, end) = (span.position(self.start), gantt.end(self, span));
        let is_thin = (end - start) * NARROWEST < THINNEST;
        let open = if self.end.is_none() { " bar-open" } else { "" };
        let inside = html! {
            title { (title) }
            @let (y, high) = (Num(top + (ROW_HEIGHT - BAR_HEIGHT) / 2.0), Num(BAR_HEIGHT));
            @if is_thin {
                rect x=(Percent(start)) y=(y) width=(Num(THINNEST)) height=(high) rx="1" {}
            } @else {
                rect x=(Percent(start)) y=(y) width=(Percent(end - start)) height=(high) rx="3" {}
            }
        };
        html! {
            g class={ "bar" (open) " " (self.state) } role="listitem" {
                (frame::linked(self.href.as_deref(), inside))
            }
        }
    }
}

/// The duration of the last bar of a row, after the bar, or before it if there is no room.
fn beside(words: &str, start: f64, end: f64, top: f64) -> Markup {
    let room = width(words, NOTE_SIZE) / NARROWEST + 0.03;
    let y = Num(top + ROW_HEIGHT / 2.0 + 4.0);
    html! {
        @if end + room < 1.0 {
            text class="bar-length" x=(Percent(end)) dx="6" y=(y) aria-hidden="true" { (words) }
        } @else if start > room {
            text class="bar-length" text-anchor="end" x=(Percent(start)) dx="-6" y=(y)
                aria-hidden="true" {
                (words)
            }
        }
    }
}

struct Flag<'a> {
    position: f64,
    label: &'a str,
    class: String,
    line: Option<usize>,
    title: String,
}

impl Flag<'_> {
    fn text(&self) -> std::borrow::Cow<'_, str> {
        cut(self.label, NOTE_SIZE, 130.0)
    }

    /// The horizontal extent of the label in the narrowest drawing.
    fn reach(&self) -> (f64, f64) {
        let wide = (width(&self.text(), NOTE_SIZE) + 10.0) / NARROWEST;
        if self.is_left() {
            (self.position - wide, self.position)
        } else {
            (self.position, self.position + wide)
        }
    }

    /// Whether the label is to the left of its line.
    fn is_left(&self) -> bool {
        self.position > 0.6
    }

    fn draw(&self, axis_y: f64, height: f64) -> Markup {
        let top = self.line.map_or(axis_y, |line| line as f64 * FLAG_HEIGHT);
        let x = Percent(self.position);
        html! {
            g class=(self.class) {
                title { (self.title) }
                line x1=(x) x2=(x) y1=(Num(top + 2.0)) y2=(Num(height)) {}
                @if self.line.is_some() {
                    text text-anchor=[self.is_left().then_some("end")] x=(x)
                        dx=(if self.is_left() { "-4" } else { "4" }) y=(Num(top + 12.0)) {
                        (self.text())
                    }
                }
            }
        }
    }
}

/// The column of names.
fn names(rows: &[Row], top: f64, height: f64) -> Markup {
    let name_width = |row: &Row| {
        row.depth as f64 * INDENT + width(&row.label, NAME_SIZE).min(WIDEST_NAME) + 14.0
    };
    let wide = rows.iter().map(name_width).fold(60.0, f64::max).min(WIDEST_NAME + 14.0);
    let has_links = rows.iter().any(|row| row.href.is_some());
    html! {
        // Bars contain the names of their rows, so screen readers skip this column unless it has
        // links.
        svg class="drawing-names" width=(Num(wide)) height=(Num(height))
            role=[has_links.then_some("list")] aria-hidden=[(!has_links).then_some("true")] {
            @for (number, row) in rows.iter().enumerate() {
                @let x = (row.depth as f64 * INDENT).min(WIDEST_NAME / 2.0);
                @let y = top + number as f64 * ROW_HEIGHT + ROW_HEIGHT / 2.0 + 4.5;
                @let depth = if row.depth == 0 { "row-name" } else { "row-name row-below" };
                g class=(depth) role=[row.href.is_some().then_some("listitem")] {
                    (frame::linked(row.href.as_deref(), html! {
                        title { (row.label) }
                        text x=(Num(x)) y=(Num(y)) {
                            (cut(&row.label, NAME_SIZE, wide - x - 10.0))
                        }
                    }))
                }
            }
        }
    }
}

/// Stripes behind every other row.
fn bands(rows: &[Row], top: f64) -> Markup {
    html! {
        g aria-hidden="true" {
            @for number in (0..rows.len()).step_by(2) {
                rect class="row-band" x="0" width="100%" height=(Num(ROW_HEIGHT))
                    y=(Num(top + number as f64 * ROW_HEIGHT)) {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::tests::{check, wall};

    fn at(text: &str) -> Timestamp {
        format!("2026-03-12T{text}Z").parse().unwrap()
    }

    fn bar(start: &str, end: &str) -> Bar {
        let end = (!end.is_empty()).then(|| at(end));
        let (label, state) = ("attempt 1".to_owned(), "is-ok".to_owned());
        Bar { start: at(start), end, state, label, href: None }
    }

    fn row(label: &str, bars: Vec<Bar>) -> Row {
        Row { label: label.to_owned(), bars, ..Row::default() }
    }

    fn gantt(rows: Vec<Row>) -> Gantt<'static> {
        Gantt { title: "A run".to_owned(), rows, now: None, deadlines: Vec::new(), wall: wall() }
    }

    #[test]
    fn two_bars() {
        let drawn = gantt(vec![row("fetch <b>", vec![bar("10:00:00", "10:00:30")])]).draw();
        insta::assert_snapshot!(check(&drawn), @r##"
        <div class="drawing drawing-gantt" role="region" aria-label="A run" tabindex="0">
          <div class="drawing-columns">
            <svg class="drawing-names" width="78.48" height="60" aria-hidden="true">
              <g class="row-name">
                <title>fetch &lt;b&gt;</title>
                <text x="0" y="48.5">fetch &lt;b&gt;</text></g></svg>
            <svg class="drawing-plot" width="100%" height="60" role="list">
              <title>A run</title>
              <desc>1 row with 1 bar over 30 s.</desc>
              <g aria-hidden="true">
                <rect class="row-band" x="0" width="100%" height="24" y="32"></rect></g>
              <g class="axis" aria-hidden="true">
                <line class="axis-line" x1="2.38%" x2="2.38%" y1="28" y2="60"></line>
                <text class="axis-label" text-anchor="start" x="2.38%" y="11">11:00:00</text>
                <text class="axis-label axis-context" text-anchor="start" x="2.38%" y="24">Thu 12 Mar</text>
                <line class="axis-line" x1="34.13%" x2="34.13%" y1="28" y2="60"></line>
                <text class="axis-label" text-anchor="middle" x="34.13%" y="11">11:00:10</text>
                <line class="axis-line" x1="65.87%" x2="65.87%" y1="28" y2="60"></line>
                <text class="axis-label" text-anchor="middle" x="65.87%" y="11">11:00:20</text>
                <line class="axis-line" x1="97.62%" x2="97.62%" y1="28" y2="60"></line>
                <text class="axis-label" text-anchor="end" x="97.62%" y="11">11:00:30</text></g>
              <g class="bar is-ok" role="listitem">
                <title>fetch &lt;b&gt;: attempt 1, from 12 Mar 11:00:00 to 12 Mar 11:00:30, 30 s</title>
                <rect x="2.38%" y="38" width="95.24%" height="12" rx="3"></rect></g></svg></div></div>
        "##);
    }

    #[test]
    fn nothing_has_begun() {
        for rows in [vec![], vec![row("fetch", vec![])]] {
            assert!(check(&gantt(rows).draw()).contains("Nothing has begun yet."));
        }
    }

    #[test]
    fn what_takes_no_time_is_seen() {
        let bars = vec![bar("10:00:00", "10:00:00"), bar("11:00:00", "10:59:00")];
        let drawn = check(&gantt(vec![row("fetch", bars)]).draw());
        assert_eq!(drawn.matches("width=\"3\"").count(), 2, "{drawn}");
        assert!(!drawn.contains("width=\"-"), "{drawn}");
        check(&gantt(vec![row("fetch", vec![bar("10:00:00", "10:00:00")])]).draw());
    }

    #[test]
    fn what_is_open_ends_now() {
        let mut gantt = gantt(vec![row("fetch", vec![bar("10:00:00", "")])]);
        assert!(check(&gantt.draw()).contains("11:00:00, not ended"));
        gantt.now = Some(at("10:01:30"));
        let drawn = check(&gantt.draw());
        assert!(drawn.contains("1 min 30 s, not ended"), "{drawn}");
        assert!(drawn.contains(">now</text>"), "{drawn}");
    }

    #[test]
    fn five_hundred_rows_and_no_more() {
        let rows = (0..512).map(|n| row(&format!("item {n}"), vec![bar("10:00:00", "10:00:30")]));
        let drawn = check(&gantt(rows.collect()).draw());
        assert!(drawn.contains("and 12 more"));
        assert_eq!(drawn.matches("class=\"bar is-ok\"").count(), ROWS);
    }

    #[test]
    fn labels_of_deadlines_keep_apart() {
        let mut gantt = gantt(vec![row("fetch", vec![bar("10:00:00", "11:00:00")])]);
        gantt.now = Some(at("10:30:00"));
        gantt.deadlines = (0..6)
            .map(|n| Deadline {
                at: at(&format!("10:3{n}:00")),
                label: format!("must be done {n}"),
                state: "is-bad".to_owned(),
            })
            .collect();
        let (first, last) = gantt.extent().unwrap();
        let near: Vec<&Deadline> = gantt.deadlines.iter().collect();
        let flags = gantt.flags(&near, Span::around([first, last].into_iter()));
        for (number, a) in flags.iter().enumerate() {
            for b in flags[..number].iter().filter(|b| b.line.is_some() && b.line == a.line) {
                assert!(b.reach().1 <= a.reach().0, "{} and {}", a.label, b.label);
            }
        }
        let drawn = check(&gantt.draw());
        assert_eq!(drawn.matches("class=\"flag is-bad\"").count(), 6);
    }

    #[test]
    fn what_is_due_in_weeks_does_not_hide_the_bars() {
        let mut gantt = gantt(vec![row("fetch", vec![bar("10:00:00", "10:01:00")])]);
        let label = "due".to_owned();
        gantt.deadlines = vec![Deadline { at: at("23:00:00"), label, state: "is-bad".to_owned() }];
        let drawn = check(&gantt.draw());
        assert!(drawn.contains("<p class=\"drawing-note\">due: 13 Mar 00:00:00</p>"), "{drawn}");
        assert!(!drawn.contains("class=\"flag"), "{drawn}");
    }

    #[test]
    fn milliseconds_and_weeks() {
        for (start, end) in [("10:00:00", "10:00:00.004"), ("10:00:00", "23:00:00")] {
            let drawn = check(&gantt(vec![row("fetch", vec![bar(start, end)])]).draw());
            assert!(drawn.matches("axis-label").count() >= 3, "{drawn}");
        }
        let mut long = bar("10:00:00", "10:00:00");
        long.end = Some("2026-05-01T00:00:00Z".parse().unwrap());
        assert!(check(&gantt(vec![row("fetch", vec![long])]).draw()).contains("30 Mar"));
    }
}
