//! Durations over time: a dot for each run, with the median and the 95th percentile.
//!
//! The drawing grows with the page, and is scrolled where it has less than [`NARROWEST`] pixels.

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use crate::axis::{Scale, Span, Wall, duration_words, length_words as words, time_notches};
use crate::frame;
use crate::text::{NOTE_SIZE, Num, Percent, counted, width};

pub struct Series<'a> {
    /// The heading: "How long it took".
    pub title: String,
    /// The noun for one and for several: "run", "runs".
    pub noun: (&'a str, &'a str),
    /// The durations, in any order.
    pub dots: Vec<Dot>,
    pub wall: Wall<'a>,
}

/// A duration at a point in time, drawn as a dot.
#[derive(Clone, Debug)]
pub struct Dot {
    pub at: Timestamp,
    /// On a logarithmic scale, a value below the least is drawn at the bottom.
    pub length: SignedDuration,
    /// A class for its state, such as `is-ok`.
    pub state: String,
    /// The outcome, for the title of the dot.
    pub label: String,
    /// The target of its link.
    pub href: Option<String>,
}

/// The least width of the part with the dots, in pixels. The stylesheet contains the same number.
pub const NARROWEST: f64 = 260.0;

const TOP: f64 = 8.0;
const HEIGHT: f64 = 150.0;
const AXIS_HEIGHT: f64 = 34.0;

/// Statistics of all durations.
struct Summary {
    median: f64,
    most_below: f64,
    longest: f64,
}

impl Series<'_> {
    pub fn draw(&self) -> Markup {
        if self.dots.is_empty() {
            return frame::empty("series", &self.title, "There is nothing to measure yet.");
        }
        let span = Span::around(self.dots.iter().map(|dot| dot.at));
        let summary = self.summary();
        let scale = Scale::durations(self.dots.iter().map(Dot::millis));
        let names: Vec<String> = scale.marks.iter().map(|&mark| duration_words(mark)).collect();
        let wide = names.iter().map(|name| width(name, NOTE_SIZE)).fold(20.0, f64::max) + 10.0;
        let level = |value: f64| Num(TOP + HEIGHT * (1.0 - scale.position(value)));
        let height = Num(TOP + HEIGHT + AXIS_HEIGHT);
        let notches = time_notches(span, self.wall, NARROWEST);
        frame::scrolled(
            "series",
            &self.title,
            html! {
                div class="drawing-columns" {
                    svg class="drawing-names" width=(Num(wide)) height=(height) aria-hidden="true" {
                        @for (mark, name) in scale.marks.iter().zip(&names) {
                            text class="axis-label" text-anchor="end" x=(Num(wide - 8.0))
                                y=(Num(level(*mark).0 + 4.0)) { (name) }
                        }
                    }
                    svg class="drawing-plot" width="100%" height=(height) role="list" {
                        title { (self.title) }
                        desc { (self.description(&summary)) }
                        g class="axis" aria-hidden="true" {
                            @for mark in &scale.marks {
                                line class="axis-line" x1="0" x2="100%" y1=(level(*mark))
                                    y2=(level(*mark)) {}
                            }
                        }
                        (frame::time_axis(&notches, TOP + HEIGHT + 3.0, &[(TOP, TOP + HEIGHT)]))
                        (across("series-median", "median", summary.median, level(summary.median)))
                        @let most = summary.most_below;
                    (across("series-most", "95 %", most, level(most)))
                        @for dot in &self.dots { (self.dot(dot, span, level(dot.millis()))) }
                    }
                }
                ul class="drawing-legend" {
                    li { span class="swatch swatch-median" {} "median " (words(summary.median)) }
                    li { span class="swatch swatch-most" {} "95 % within " (words(summary.most_below)) }
                    li { "longest " (words(summary.longest)) }
                }
            },
        )
    }

    fn summary(&self) -> Summary {
        let mut sorted: Vec<f64> = self.dots.iter().map(Dot::millis).collect();
        sorted.sort_by(f64::total_cmp);
        // The nearest rank: a value that was measured, not one in between.
        let rank = |share: usize| {
            let rank = (sorted.len() * share).div_ceil(100);
            sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
        };
        Summary { median: rank(50), most_below: rank(95), longest: rank(100) }
    }

    fn description(&self, summary: &Summary) -> String {
        format!(
            "{}: the median is {}, 95 in 100 stay within {}, the longest took {}.",
            counted(self.dots.len(), self.noun.0, self.noun.1),
            words(summary.median),
            words(summary.most_below),
            words(summary.longest),
        )
    }

    fn dot(&self, dot: &Dot, span: Span, y: Num) -> Markup {
        html! {
            g class={ "dot " (dot.state) } role="listitem" {
                (frame::linked(dot.href.as_deref(), html! {
                    title {
                        ((self.wall.words)(dot.at)) ": " (words(dot.millis())) ", " (dot.label)
                    }
                    circle cx=(Percent(span.position(dot.at))) cy=(y) r="4" {}
                }))
            }
        }
    }
}

impl Dot {
    fn millis(&self) -> f64 {
        self.length.as_millis() as f64
    }
}

fn across(class: &str, name: &str, value: f64, y: Num) -> Markup {
    html! {
        g class=(class) aria-hidden="true" {
            title { (name) ": " (words(value)) }
            line x1="0" x2="100%" y1=(y) y2=(y) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::tests::{check, wall};

    fn series(lengths: &[i64]) -> String {
        let start: Timestamp = "2026-03-12T00:00:00Z".parse().unwrap();
        let dots = lengths.iter().enumerate().map(|(number, &length)| Dot {
            at: start + SignedDuration::from_hours(number as i64),
            length: SignedDuration::from_millis(length),
            state: "is-ok".to_owned(),
            label: "succeeded".to_owned(),
            href: None,
        });
        let (title, noun) = ("How long it took".to_owned(), ("run", "runs"));
        check(&Series { title, noun, dots: dots.collect(), wall: wall() }.draw())
    }

    #[test]
    fn what_is_told() {
        let all: Vec<i64> = (1..=100).map(|n| n * 10).collect();
        let cases: [(&[i64], &str); 5] = [
            (&[], "There is nothing to measure yet."),
            (
                &[700],
                "1 run: the median is 700 ms, 95 in 100 stay within 700 ms, the longest took 700 ms.",
            ),
            (&[0], "the median is 0 ms"),
            (
                &all,
                "100 runs: the median is 500 ms, 95 in 100 stay within 950 ms, the longest took 1 s.",
            ),
            (&[3, 1, 2], "3 runs: the median is 2 ms"),
        ];
        for (lengths, expected) in cases {
            let drawn = series(lengths);
            assert!(drawn.contains(expected), "{expected}: {drawn}");
        }
    }

    #[test]
    fn far_apart_is_shown_by_powers() {
        assert!(series(&[1000, 60_000]).contains(">0</text>"));
        let far = series(&[100, 60_000, 0, -5]);
        assert!(!far.contains(">0</text>"), "{far}");
        for name in ["100 ms", "1 s", "10 s", "1 min"] {
            assert!(far.contains(&format!(">{name}</text>")), "{name}: {far}");
        }
    }

    #[test]
    fn one_dot() {
        insta::assert_snapshot!(series(&[700]), @r##"
        <div class="drawing drawing-series" role="region" aria-label="How long it took" tabindex="0">
          <div class="drawing-columns">
            <svg class="drawing-names" width="50.92" height="192" aria-hidden="true">
              <text class="axis-label" text-anchor="end" x="42.92" y="162">0</text>
              <text class="axis-label" text-anchor="end" x="42.92" y="124.5">200 ms</text>
              <text class="axis-label" text-anchor="end" x="42.92" y="87">400 ms</text>
              <text class="axis-label" text-anchor="end" x="42.92" y="49.5">600 ms</text>
              <text class="axis-label" text-anchor="end" x="42.92" y="12">800 ms</text></svg>
            <svg class="drawing-plot" width="100%" height="192" role="list">
              <title>How long it took</title>
              <desc>1 run: the median is 700 ms, 95 in 100 stay within 700 ms, the longest took 700 ms.</desc>
              <g class="axis" aria-hidden="true">
                <line class="axis-line" x1="0" x2="100%" y1="158" y2="158"></line>
                <line class="axis-line" x1="0" x2="100%" y1="120.5" y2="120.5"></line>
                <line class="axis-line" x1="0" x2="100%" y1="83" y2="83"></line>
                <line class="axis-line" x1="0" x2="100%" y1="45.5" y2="45.5"></line>
                <line class="axis-line" x1="0" x2="100%" y1="8" y2="8"></line></g>
              <g class="axis" aria-hidden="true">
                <line class="axis-line" x1="0%" x2="0%" y1="8" y2="158"></line>
                <text class="axis-label" text-anchor="start" x="0%" y="172">00:59:59.500</text>
                <text class="axis-label axis-context" text-anchor="start" x="0%" y="185">Thu 12 Mar</text>
                <line class="axis-line" x1="50%" x2="50%" y1="8" y2="158"></line>
                <text class="axis-label" text-anchor="middle" x="50%" y="172">01:00:00.000</text>
                <line class="axis-line" x1="100%" x2="100%" y1="8" y2="158"></line>
                <text class="axis-label" text-anchor="end" x="100%" y="172">01:00:00.500</text></g>
              <g class="series-median" aria-hidden="true">
                <title>median: 700 ms</title>
                <line x1="0" x2="100%" y1="26.75" y2="26.75"></line></g>
              <g class="series-most" aria-hidden="true">
                <title>95 %: 700 ms</title>
                <line x1="0" x2="100%" y1="26.75" y2="26.75"></line></g>
              <g class="dot is-ok" role="listitem">
                <title>12 Mar 01:00:00: 700 ms, succeeded</title>
                <circle cx="50%" cy="26.75" r="4"></circle></g></svg></div>
          <ul class="drawing-legend">
            <li>
              <span class="swatch swatch-median"></span>median 700 ms</li>
            <li>
              <span class="swatch swatch-most"></span>95 % within 700 ms</li>
            <li>longest 700 ms</li></ul></div>
        "##);
    }
}
