//! An overview of the past and the future around now: stacked bars of counts, and below them a lane
//! of single marks for each schedule.
//!
//! Names have a column of their own that stays visible. The rest grows with the page and is
//! scrolled where it has less than [`NARROWEST`] pixels.

use jiff::Timestamp;
use maud::{Markup, html};

use crate::axis::{Scale, Span, Wall, time_notches};
use crate::frame;
use crate::text::{NAME_SIZE, Num, Percent, counted, cut, width};

/// An overview around now.
pub struct Timeline<'a> {
    /// The heading: a sentence or a name.
    pub title: String,
    pub start: Timestamp,
    pub end: Timestamp,
    /// The line between past and future.
    pub now: Timestamp,
    /// Counts, from left to right.
    pub buckets: Vec<Bucket>,
    /// One lane for each schedule. Lanes beyond [`LANES`] are counted and not drawn.
    pub lanes: Vec<Lane>,
    pub wall: Wall<'a>,
}

/// A range of time with its counts.
#[derive(Clone, Debug)]
pub struct Bucket {
    pub start: Timestamp,
    /// The end, where the next bucket may begin.
    pub end: Timestamp,
    /// The counts, from bottom to top.
    pub counts: Vec<Count>,
    /// The target of its link.
    pub href: Option<String>,
}

/// The number of occurrences of a kind.
#[derive(Clone, Debug)]
pub struct Count {
    /// A class for its state, such as `is-bad`.
    pub state: String,
    /// The name of the kind, for the legend: "failed".
    pub label: String,
    pub number: usize,
}

/// The marks of one schedule.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    pub label: String,
    /// The target of the name's link.
    pub href: Option<String>,
    /// Past and future occurrences.
    pub marks: Vec<Mark>,
}

#[derive(Clone, Debug)]
pub struct Mark {
    /// A mark after now is drawn hollow.
    pub at: Timestamp,
    /// A class for its state, such as `is-ok`.
    pub state: String,
    /// The outcome, for the title of the mark: "failed after 3 attempts".
    pub label: String,
    /// The target of its link.
    pub href: Option<String>,
}

/// The most lanes that are drawn.
pub const LANES: usize = 60;
/// The least width of the part with the marks, in pixels. The stylesheet contains the same number.
pub const NARROWEST: f64 = 420.0;

const BARS_HEIGHT: f64 = 110.0;
const BARS_TOP: f64 = 20.0;
const AXIS_HEIGHT: f64 = 34.0;
const LANE_HEIGHT: f64 = 26.0;
const WIDEST_NAME: f64 = 160.0;

impl Timeline<'_> {
    pub fn draw(&self) -> Markup {
        let marks: usize = self.lanes.iter().map(|lane| lane.marks.len()).sum();
        let total: usize = self.buckets.iter().map(Bucket::total).sum();
        if marks == 0 && total == 0 {
            let sentence = "Nothing happened here, and nothing is coming.";
            return frame::empty("timeline", &self.title, sentence);
        }
        let span = Span::new(self.start, self.end).widened();
        let shown = &self.lanes[..self.lanes.len().min(LANES)];
        let scale = Scale::counts(self.buckets.iter().map(Bucket::total).max().unwrap_or(0));
        let bars = if total > 0 { BARS_TOP + BARS_HEIGHT } else { BARS_TOP };
        let top = bars + AXIS_HEIGHT;
        let height = top + shown.len() as f64 * LANE_HEIGHT + 4.0;
        let notches = time_notches(span, self.wall, NARROWEST);
        frame::scrolled(
            "timeline",
            &self.title,
            html! {
                div class="drawing-columns" {
                    svg class="drawing-names" width=(Num(name_width(shown))) height=(Num(height))
                        role="list" {
                        @if total > 0 { (self.counts(&scale, name_width(shown))) }
                        @for (number, lane) in shown.iter().enumerate() {
                            (lane.name(name_width(shown), top + number as f64 * LANE_HEIGHT))
                        }
                    }
                    svg class="drawing-plot" width="100%" height=(Num(height)) role="list" {
                        title { (self.title) }
                        desc { (self.description(total, marks)) }
                        @if total > 0 {
                            (grid(&scale))
                            @for bucket in &self.buckets { (self.bucket(bucket, span, &scale)) }
                        }
                        (frame::time_axis(&notches, bars + 3.0, &[(BARS_TOP, bars), (top, height)]))
                        @for (number, lane) in shown.iter().enumerate() {
                            (self.lane(lane, span, top + number as f64 * LANE_HEIGHT))
                        }
                        (self.now_line(span, height))
                    }
                }
                @if self.lanes.len() > shown.len() {
                    p class="drawing-note" { "and " (self.lanes.len() - shown.len()) " more" }
                }
                (self.legend())
            },
        )
    }

    fn description(&self, total: usize, marks: usize) -> String {
        let coming = self.lanes.iter().flat_map(|lane| &lane.marks);
        let coming = coming.filter(|mark| mark.at > self.now).count();
        format!(
            "From {} to {}: {total} counted, and {} in {}, {coming} of them after now, {}.",
            (self.wall.words)(self.start),
            (self.wall.words)(self.end),
            counted(marks, "mark", "marks"),
            counted(self.lanes.len(), "lane", "lanes"),
            (self.wall.words)(self.now),
        )
    }

    fn counts(&self, scale: &Scale, wide: f64) -> Markup {
        html! {
            g aria-hidden="true" {
                @for mark in &scale.marks {
                    text class="axis-label" text-anchor="end" x=(Num(wide - 8.0))
                        y=(Num(level(scale, *mark) + 4.0)) { (Num(*mark)) }
                }
            }
        }
    }

    fn bucket(&self, bucket: &Bucket, span: Span, scale: &Scale) -> Markup {
        if bucket.total() == 0 {
            return html! {};
        }
        let (from, to) = (span.position(bucket.start), span.position(bucket.end));
        let gap = (to - from) * 0.08;
        let mut below = 0;
        let stacked = bucket.counts.iter().filter(|count| count.number > 0).map(|count| {
            let (low, high) = (below, below + count.number);
            below = high;
            (count, level(scale, low as f64), level(scale, high as f64))
        });
        let words: Vec<String> = bucket
            .counts
            .iter()
            .filter(|count| count.number > 0)
            .map(|count| format!("{} {}", count.number, count.label))
            .collect();
        let inside = html! {
            title {
                (words.join(", ")) ": " ((self.wall.words)(bucket.start)) " to "
                ((self.wall.words)(bucket.end))
            }
            @for (count, low, high) in stacked {
                rect class={ "stack " (count.state) } x=(Percent(from + gap)) y=(Num(high))
                    width=(Percent(to - from - 2.0 * gap)) height=(Num(low - high)) {}
            }
        };
        html! {
            g class="bucket" role="listitem" { (frame::linked(bucket.href.as_deref(), inside)) }
        }
    }

    fn lane(&self, lane: &Lane, span: Span, top: f64) -> Markup {
        let y = Num(top + LANE_HEIGHT / 2.0);
        html! {
            line class="lane-line" x1="0" x2="100%" y1=(y) y2=(y) {}
            @for mark in lane.marks.iter().filter(|mark| span.contains(mark.at)) {
                @let is_coming = mark.at > self.now;
                g class={ "mark " (mark.state) @if is_coming { " mark-coming" } } role="listitem" {
                    (frame::linked(mark.href.as_deref(), html! {
                        title { (lane.label) ", " ((self.wall.words)(mark.at)) ": " (mark.label) }
                        circle cx=(Percent(span.position(mark.at))) cy=(y) r="5" {}
                    }))
                }
            }
        }
    }

    fn now_line(&self, span: Span, height: f64) -> Markup {
        if !span.contains(self.now) {
            return html! {};
        }
        let position = span.position(self.now);
        let x = Percent(position);
        let (anchor, dx) = if position > 0.6 { ("end", "-4") } else { ("start", "4") };
        html! {
            g class="flag flag-now" aria-hidden="true" {
                title { "now: " ((self.wall.words)(self.now)) }
                line x1=(x) x2=(x) y1="2" y2=(Num(height)) {}
                text text-anchor=(anchor) x=(x) dx=(dx) y="12" { "now" }
            }
        }
    }

    /// Each kind, with its total.
    fn legend(&self) -> Markup {
        let mut kinds: Vec<Count> = Vec::new();
        for count in self.buckets.iter().flat_map(|bucket| &bucket.counts) {
            match kinds.iter_mut().find(|kind| kind.label == count.label) {
                Some(kind) => kind.number += count.number,
                None => kinds.push(count.clone()),
            }
        }
        kinds.retain(|kind| kind.number > 0);
        html! {
            @if !kinds.is_empty() {
                ul class="drawing-legend" {
                    @for kind in &kinds {
                        li {
                            span class={ "swatch " (kind.state) } {}
                            (kind.label) " " (kind.number)
                        }
                    }
                }
            }
        }
    }
}

impl Bucket {
    fn total(&self) -> usize {
        self.counts.iter().map(|count| count.number).sum()
    }
}

impl Lane {
    fn name(&self, wide: f64, top: f64) -> Markup {
        html! {
            g class="row-name" role="listitem" {
                (frame::linked(self.href.as_deref(), html! {
                    title { (self.label) }
                    text x="0" y=(Num(top + LANE_HEIGHT / 2.0 + 4.5)) {
                        (cut(&self.label, NAME_SIZE, wide - 10.0))
                    }
                }))
            }
        }
    }
}

fn name_width(lanes: &[Lane]) -> f64 {
    let widths = lanes.iter().map(|lane| width(&lane.label, NAME_SIZE).min(WIDEST_NAME) + 12.0);
    widths.fold(40.0, f64::max)
}

/// The vertical position of a count.
fn level(scale: &Scale, count: f64) -> f64 {
    BARS_TOP + BARS_HEIGHT * (1.0 - scale.position(count))
}

fn grid(scale: &Scale) -> Markup {
    html! {
        g class="axis" aria-hidden="true" {
            @for mark in &scale.marks {
                @let y = Num(level(scale, *mark));
                line class="axis-line" x1="0" x2="100%" y1=(y) y2=(y) {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::tests::{check, wall};

    fn at(hour: i64) -> Timestamp {
        let start: Timestamp = "2026-03-12T00:00:00Z".parse().unwrap();
        start + jiff::SignedDuration::from_hours(hour)
    }

    fn timeline(buckets: Vec<Bucket>, lanes: Vec<Lane>) -> Timeline<'static> {
        let (title, wall) = ("Today".to_owned(), wall());
        Timeline { title, start: at(0), end: at(24), now: at(12), buckets, lanes, wall }
    }

    fn mark(hour: i64) -> Mark {
        let (state, label) = ("is-ok".to_owned(), "ran".to_owned());
        Mark { at: at(hour), state, label, href: Some(format!("/runs/{hour}")) }
    }

    fn count(state: &str, number: usize) -> Count {
        Count { state: format!("is-{state}"), label: state.to_owned(), number }
    }

    fn bucket(hour: i64, counts: Vec<Count>) -> Bucket {
        Bucket { start: at(hour), end: at(hour + 1), counts, href: None }
    }

    #[test]
    fn a_bar_and_a_lane() {
        let lane = Lane { label: "nightly".to_owned(), marks: vec![mark(20)], href: None };
        let buckets = vec![bucket(3, vec![count("ok", 3), count("bad", 1)])];
        insta::assert_snapshot!(check(&timeline(buckets, vec![lane]).draw()), @r##"
        <div class="drawing drawing-timeline" role="region" aria-label="Today" tabindex="0">
          <div class="drawing-columns">
            <svg class="drawing-names" width="57.24" height="194" role="list">
              <g aria-hidden="true">
                <text class="axis-label" text-anchor="end" x="49.24" y="134">0</text>
                <text class="axis-label" text-anchor="end" x="49.24" y="106.5">1</text>
                <text class="axis-label" text-anchor="end" x="49.24" y="79">2</text>
                <text class="axis-label" text-anchor="end" x="49.24" y="51.5">3</text>
                <text class="axis-label" text-anchor="end" x="49.24" y="24">4</text></g>
              <g class="row-name" role="listitem">
                <title>nightly</title>
                <text x="0" y="181.5">nightly</text></g></svg>
            <svg class="drawing-plot" width="100%" height="194" role="list">
              <title>Today</title>
              <desc>From 12 Mar 01:00:00 to 13 Mar 01:00:00: 4 counted, and 1 mark in 1 lane, 1 of them after now, 12 Mar 13:00:00.</desc>
              <g class="axis" aria-hidden="true">
                <line class="axis-line" x1="0" x2="100%" y1="130" y2="130"></line>
                <line class="axis-line" x1="0" x2="100%" y1="102.5" y2="102.5"></line>
                <line class="axis-line" x1="0" x2="100%" y1="75" y2="75"></line>
                <line class="axis-line" x1="0" x2="100%" y1="47.5" y2="47.5"></line>
                <line class="axis-line" x1="0" x2="100%" y1="20" y2="20"></line></g>
              <g class="bucket" role="listitem">
                <title>3 ok, 1 bad: 12 Mar 04:00:00 to 12 Mar 05:00:00</title>
                <rect class="stack is-ok" x="14.03%" y="47.5" width="3.39%" height="82.5"></rect>
                <rect class="stack is-bad" x="14.03%" y="20" width="3.39%" height="27.5"></rect></g>
              <g class="axis" aria-hidden="true">
                <line class="axis-line" x1="21.77%" x2="21.77%" y1="20" y2="130"></line>
                <line class="axis-line" x1="21.77%" x2="21.77%" y1="164" y2="194"></line>
                <text class="axis-label" text-anchor="middle" x="21.77%" y="144">06:00</text>
                <text class="axis-label axis-context" text-anchor="middle" x="21.77%" y="157">Thu 12 Mar</text>
                <line class="axis-line" x1="45.97%" x2="45.97%" y1="20" y2="130"></line>
                <line class="axis-line" x1="45.97%" x2="45.97%" y1="164" y2="194"></line>
                <text class="axis-label" text-anchor="middle" x="45.97%" y="144">12:00</text>
                <line class="axis-line" x1="70.16%" x2="70.16%" y1="20" y2="130"></line>
                <line class="axis-line" x1="70.16%" x2="70.16%" y1="164" y2="194"></line>
                <text class="axis-label" text-anchor="middle" x="70.16%" y="144">18:00</text>
                <line class="axis-line" x1="94.35%" x2="94.35%" y1="20" y2="130"></line>
                <line class="axis-line" x1="94.35%" x2="94.35%" y1="164" y2="194"></line>
                <text class="axis-label" text-anchor="end" x="94.35%" y="144">00:00</text>
                <text class="axis-label axis-context" text-anchor="end" x="94.35%" y="157">Fri 13 Mar</text></g>
              <line class="lane-line" x1="0" x2="100%" y1="177" y2="177"></line>
              <g class="mark is-ok mark-coming" role="listitem">
                <a href="/runs/20">
                  <title>nightly, 12 Mar 21:00:00: ran</title>
                  <circle cx="82.26%" cy="177" r="5"></circle></a></g>
              <g class="flag flag-now" aria-hidden="true">
                <title>now: 12 Mar 13:00:00</title>
                <line x1="50%" x2="50%" y1="2" y2="194"></line>
                <text text-anchor="start" x="50%" dx="4" y="12">now</text></g></svg></div>
          <ul class="drawing-legend">
            <li>
              <span class="swatch is-ok"></span>ok 3</li>
            <li>
              <span class="swatch is-bad"></span>bad 1</li></ul></div>
        "##);
    }

    #[test]
    fn nothing_here() {
        let lane = Lane { label: "nightly".to_owned(), ..Lane::default() };
        for lanes in [vec![], vec![lane]] {
            let drawn = check(&timeline(vec![bucket(1, vec![count("ok", 0)])], lanes).draw());
            assert!(drawn.contains("nothing is coming"), "{drawn}");
        }
    }

    #[test]
    fn what_is_coming_is_hollow() {
        let marks = vec![mark(1), mark(11), mark(13), mark(23), mark(30)];
        let lane = Lane { label: "nightly".to_owned(), marks, href: None };
        let drawn = check(&timeline(vec![], vec![lane]).draw());
        assert_eq!(drawn.matches("mark-coming").count(), 2, "{drawn}");
        assert_eq!(drawn.matches("<circle").count(), 4, "what lies outside is not drawn: {drawn}");
    }

    #[test]
    fn stacks_stand_on_each_other() {
        let counts = vec![count("ok", 40), count("bad", 10), count("idle", 0), count("warn", 50)];
        let drawn = check(&timeline(vec![bucket(3, counts)], vec![]).draw());
        let number = |piece: &str, name: &str| -> f64 {
            let value = piece.split(&format!(" {name}=\"")).nth(1).unwrap();
            value.split('"').next().unwrap().parse().unwrap()
        };
        let stacks: Vec<(f64, f64)> = drawn
            .lines()
            .filter(|line| line.contains("class=\"stack"))
            .map(|line| (number(line, "y"), number(line, "height")))
            .collect();
        assert_eq!(stacks, [(86.0, 44.0), (75.0, 11.0), (20.0, 55.0)]);
    }

    #[test]
    fn many_lanes_are_counted() {
        let lane = |n: i64| Lane { label: format!("{n}"), marks: vec![mark(n % 24)], href: None };
        let drawn = check(&timeline(vec![], (0..75).map(lane).collect()).draw());
        assert!(drawn.contains("and 15 more"), "{drawn}");
    }
}
