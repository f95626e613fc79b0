//! Tables, and what they come to.

use crate::measure::{Measured, Verdict};
use crate::next::HEADLINES;
use crate::others::WORKING_DAYS;
use crate::parsing;

pub(crate) const OURS: &str = "punctual";

/// Times the speed of the fastest right peer.
const SPEED_GOAL: f64 = 5.0;
const PARSE_LIMIT_NANOS: f64 = 3000.0;
const WORKING_DAYS_LIMIT_NANOS: f64 = 1000.0;
const CALC_GOAL_PER_SECOND: f64 = 200_000.0;

/// Everything that was measured.
#[derive(Default)]
pub(crate) struct Report {
    cases: Vec<Case>,
    answers_per_second: Option<f64>,
    calc_is_wrong: bool,
}

struct Case {
    kind: &'static str,
    name: &'static str,
    results: Vec<Measured>,
}

impl Report {
    /// Prints the table of a case and keeps it for the summary.
    pub(crate) fn add(&mut self, kind: &'static str, name: &'static str, results: Vec<Measured>) {
        println!("{kind}: {name}");
        let ours = results.first().map_or(f64::NAN, |first| first.nanos);
        for result in &results {
            println!(
                "  {:<24}{:>14} ns {:>10.2}x   {}",
                result.name,
                grouped(result.nanos),
                result.nanos / ours,
                verdict(result.verdict),
            );
        }
        println!();
        self.cases.push(Case { kind, name, results });
    }

    pub(crate) fn add_calc(&mut self, answers_per_second: f64, is_right: bool) {
        self.answers_per_second = Some(answers_per_second);
        self.calc_is_wrong |= !is_right;
    }

    /// Whether all of our own answers were those of the reference.
    pub(crate) fn is_right(&self) -> bool {
        let ours = self.cases.iter().filter_map(|case| case.results.first());
        let wrong = ours.filter(|ours| matches!(ours.verdict, Verdict::Wrong { .. })).count();
        wrong == 0 && !self.calc_is_wrong
    }

    /// Prints whether our times reach the goals and our answers agree with the reference.
    pub(crate) fn summarise(&self) {
        println!("summary");
        if cfg!(debug_assertions) {
            println!("  built without optimisation: the times above mean nothing");
        } else {
            self.goals();
        }
        let answers = if self.is_right() { "agree" } else { "DO NOT AGREE" };
        println!("  our answers {answers} with the reference");
    }

    /// As information: nothing fails because a machine was busy.
    fn goals(&self) {
        for name in HEADLINES {
            let Some(results) = self.results("next", name) else { continue };
            let Some((ours, peers)) = results.split_first() else { continue };
            let right = peers.iter().filter(|p| matches!(p.verdict, Verdict::Right { .. }));
            match right.min_by(|a, b| a.nanos.total_cmp(&b.nanos)) {
                Some(peer) => {
                    let times = peer.nanos / ours.nanos;
                    let goal = reached(times >= SPEED_GOAL);
                    println!(
                        "  next of {name}: {times:.1} times faster than the fastest right peer \
                         ({}); goal {SPEED_GOAL} times: {goal}",
                        peer.name,
                    );
                }
                None => println!("  next of {name}: no peer is right"),
            }
        }
        for name in parsing::CASES {
            self.limit("parse", name, PARSE_LIMIT_NANOS);
        }
        self.limit("working time", WORKING_DAYS, WORKING_DAYS_LIMIT_NANOS);
        match self.answers_per_second {
            Some(rate) => println!(
                "  punctual calc: {} answers per second; goal {}: {}",
                grouped(rate),
                grouped(CALC_GOAL_PER_SECOND),
                reached(rate >= CALC_GOAL_PER_SECOND),
            ),
            None => println!("  punctual calc: not measured"),
        }
    }

    fn limit(&self, kind: &str, name: &str, limit: f64) {
        let ours = self.results(kind, name).and_then(<[Measured]>::first);
        if let Some(ours) = ours {
            println!(
                "  {kind} of {name}: {} ns; limit {} ns: {}",
                grouped(ours.nanos),
                grouped(limit),
                reached(ours.nanos <= limit),
            );
        }
    }

    fn results(&self, kind: &str, name: &str) -> Option<&[Measured]> {
        let case = self.cases.iter().find(|case| case.kind == kind && case.name == name)?;
        Some(&case.results)
    }
}

fn reached(is_reached: bool) -> &'static str {
    if is_reached { "reached" } else { "NOT reached" }
}

fn verdict(verdict: Verdict) -> String {
    match verdict {
        Verdict::Right { checked } => format!("right ({checked})"),
        Verdict::Wrong { wrong, checked } => format!("wrong ({wrong} of {checked})"),
        Verdict::Unchecked => String::new(),
    }
}

/// `12 345`; one decimal below a hundred.
pub(crate) fn grouped(number: f64) -> String {
    if number.is_nan() || number < 100.0 {
        return format!("{number:.1}");
    }
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_are_grouped() {
        assert_eq!(grouped(99.96), "100.0");
        assert_eq!(grouped(123.4), "123");
        assert_eq!(grouped(1_234_567.0), "1 234 567");
    }

    #[test]
    fn only_our_own_mistakes_count() {
        let measured = |name, verdict| Measured { name, verdict, nanos: 1.0 };
        let (right, wrong) =
            (Verdict::Right { checked: 1 }, Verdict::Wrong { wrong: 1, checked: 1 });
        let mut report = Report::default();
        report.add("next", "a", vec![measured(OURS, right), measured("peer", wrong)]);
        assert!(report.is_right());
        report.add("next", "b", vec![measured(OURS, wrong)]);
        assert!(!report.is_right());
    }
}
