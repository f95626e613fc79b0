//! Small drawings for one line of text: a bar towards a deadline, and a meter of used capacity.

use jiff::Timestamp;
use maud::{Markup, html};

use crate::axis::{Span, Wall};
use crate::frame;
use crate::text::{Num, Percent, counted};

/// A bar from a start to a due time, with warnings in between.
pub struct DeadlineBar<'a> {
    /// The name of what is due: "Approval".
    pub title: String,
    pub start: Timestamp,
    pub due: Timestamp,
    /// The times of warnings before the due time, with their names.
    pub warnings: Vec<(Timestamp, String)>,
    /// The end, or now: how far the bar is filled.
    pub until: Timestamp,
    /// Whether the bar has ended. If not, `until` is now.
    pub is_over: bool,
    /// A class for its state, such as `is-warn`.
    pub state: String,
    pub wall: Wall<'a>,
}

const HEIGHT: f64 = 20.0;
const TRACK: f64 = 8.0;

impl DeadlineBar<'_> {
    /// Draws the bar: as wide as the page allows, one line high.
    pub fn draw(&self) -> Markup {
        let last = self.due.max(self.until).max(self.start);
        let span = Span::new(self.start, last);
        // Leaves room for half of a line's width at both ends.
        let position = |at: Timestamp| 0.01 + span.position(at) * 0.98;
        let (start, until, due) = (position(self.start), position(self.until), position(self.due));
        let top = Num((HEIGHT - TRACK) / 2.0);
        frame::plain(
            "bar",
            html! {
                svg class={ "deadline " (self.state) } width="100%" height=(Num(HEIGHT))
                    role="img" {
                    title { (self.title) }
                    desc { (self.description()) }
                    rect class="track" x=(Percent(start)) y=(top) width="98%" height=(Num(TRACK))
                        rx="4" {}
                    rect class="fill" x=(Percent(start)) y=(top) width=(Percent(until - start))
                        height=(Num(TRACK)) rx="4" {
                        title { (self.state_words()) }
                    }
                    @for (at, name) in &self.warnings {
                        @let x = Percent(position(*at));
                    line class="warning" x1=(x) x2=(x) y1="3" y2="17" {
                            title { (name) ": " ((self.wall.words)(*at)) }
                        }
                    }
                    line class="due" x1=(Percent(due)) x2=(Percent(due)) y1="1" y2="19" {
                        title { "due " ((self.wall.words)(self.due)) }
                    }
                    @if !self.is_over {
                        circle class="now" cx=(Percent(until)) cy=(Num(HEIGHT / 2.0)) r="5" {
                            title { (self.state_words()) }
                        }
                    }
                }
            },
        )
    }

    fn state_words(&self) -> String {
        let at = (self.wall.words)(self.until);
        if self.is_over { format!("ended {at}") } else { format!("now {at}") }
    }

    fn description(&self) -> String {
        let late = if self.until > self.due { ", after it was due" } else { "" };
        let warnings = match self.warnings.len() {
            0 => String::new(),
            count => format!(", with {}", counted(count, "warning", "warnings")),
        };
        format!(
            "From {} to {}, when it is due{warnings}; {}{late}.",
            (self.wall.words)(self.start),
            (self.wall.words)(self.due),
            self.state_words(),
        )
    }
}

/// How much of a capacity is used.
pub struct Meter {
    /// The name of the capacity: "Slots".
    pub title: String,
    pub used: u64,
    pub capacity: u64,
    /// A class for its state, such as `is-ok`.
    pub state: String,
}

impl Meter {
    /// Draws a short bar with its numbers beside it.
    pub fn draw(&self) -> Markup {
        let share = match (self.used, self.capacity) {
            (0, _) => 0.0,
            (used, capacity) if used >= capacity => 1.0,
            (used, capacity) => used as f64 / capacity as f64,
        };
        html! {
            span class="drawing drawing-meter" {
                svg class={ "meter " (self.state) } width="80" height="8" role="img" {
                    title { (self.title) ": " (self.used) " of " (self.capacity) " used" }
                    rect class="track" width="80" height="8" rx="4" {}
                    rect class="fill" width=(Num(80.0 * share)) height="8" rx="4" {}
                }
                span class="meter-numbers" aria-hidden="true" { (self.used) " / " (self.capacity) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::tests::{check, wall};

    fn bar(until: &str, is_over: bool) -> String {
        let at = |text: &str| format!("2026-03-12T{text}:00Z").parse::<Timestamp>().unwrap();
        let bar = DeadlineBar {
            title: "Approval".to_owned(),
            start: at("10:00"),
            due: at("14:00"),
            warnings: vec![(at("13:00"), "an hour before".to_owned())],
            until: at(until),
            is_over,
            state: "is-run".to_owned(),
            wall: wall(),
        };
        check(&bar.draw())
    }

    #[test]
    fn before_and_after_it_is_due() {
        insta::assert_snapshot!(bar("12:00", false), @r##"
        <div class="drawing drawing-bar">
          <svg class="deadline is-run" width="100%" height="20" role="img">
            <title>Approval</title>
            <desc>From 12 Mar 11:00:00 to 12 Mar 15:00:00, when it is due, with 1 warning; now 12 Mar 13:00:00.</desc>
            <rect class="track" x="1%" y="6" width="98%" height="8" rx="4"></rect>
            <rect class="fill" x="1%" y="6" width="49%" height="8" rx="4">
              <title>now 12 Mar 13:00:00</title></rect>
            <line class="warning" x1="74.5%" x2="74.5%" y1="3" y2="17">
              <title>an hour before: 12 Mar 14:00:00</title></line>
            <line class="due" x1="99%" x2="99%" y1="1" y2="19">
              <title>due 12 Mar 15:00:00</title></line>
            <circle class="now" cx="50%" cy="10" r="5">
              <title>now 12 Mar 13:00:00</title></circle></svg></div>
        "##);
        let late = bar("18:00", true);
        assert!(late.contains("x1=\"50%\""), "due in the middle: {late}");
        assert!(late.contains("ended 12 Mar 19:00:00, after it was due"), "{late}");
        assert!(!late.contains("class=\"now\""), "{late}");
        bar("09:00", false);
    }

    #[test]
    fn meters() {
        let cases =
            [(0, 0, "0"), (0, 5, "0"), (1, 4, "20"), (4, 4, "80"), (9, 4, "80"), (1, 0, "80")];
        for (used, capacity, wide) in cases {
            let (title, state) = ("Places".to_owned(), "is-ok".to_owned());
            let drawn = check(&Meter { title, used, capacity, state }.draw());
            assert!(drawn.contains(&format!("class=\"fill\" width=\"{wide}\"")), "{drawn}");
            assert!(drawn.contains(&format!("Places: {used} of {capacity} used")), "{drawn}");
        }
    }
}
