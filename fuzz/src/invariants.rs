//! What must hold for every accepted rule, timing and calendar, whatever was written.

use std::fmt;
use std::time::Duration;

use calendar::{Calendar, Mistake, Occurrence, Problem, Rule, Timing};
use cpu_time::ThreadTime;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

/// The promise is a millisecond. Fifty of the thread's own time are never an accident, not even in
/// an instrumented build on a slow machine.
const CALL_LIMIT: Duration = Duration::from_millis(50);
const REPEATS: usize = 3;

/// Searches give up after some centuries; nothing is promised about going back over such a hole.
const LONG_HOLE: SignedDuration = SignedDuration::from_hours(90 * 366 * 24);

/// A declaration that shows itself as the JSON it could have been written as, so that a finding can
/// be pasted.
pub struct Written<'a, T>(pub &'a T);

impl<T: Serialize> fmt::Debug for Written<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self.0).unwrap_or_default())
    }
}

/// Makes one call and ends the run if it works too long.
pub fn bounded<T>(name: &str, subject: &dyn fmt::Debug, call: impl Fn() -> T) -> T {
    let start = ThreadTime::now();
    let answer = call();
    let mut spent = start.elapsed();
    // A virtual machine may charge a thread for what its host did: only what is slow every time
    // is slow.
    for _ in 0..REPEATS {
        if spent < CALL_LIMIT {
            return answer;
        }
        let start = ThreadTime::now();
        call();
        spent = start.elapsed();
    }
    assert!(spent < CALL_LIMIT, "{name} took {spent:?} for {subject:?}");
    answer
}

/// A problem can be shown, points into its own text, and says something.
pub fn check_problem(problem: &Problem) {
    let shown = bounded("Problem::to_string", problem, || problem.to_string());
    assert!(!shown.is_empty() && !problem.message.is_empty(), "{problem:?}");
    assert!(shown.len() < 4000, "a problem of {} bytes: {problem:?}", shown.len());
    assert!(problem.text.get(problem.span.clone()).is_some(), "{problem:?}");
    assert!(problem.column() >= 1, "{problem:?}");
}

/// All mistakes can be shown, and a refusal has at least one.
pub fn check_mistakes(mistakes: &[Mistake]) {
    assert!(!mistakes.is_empty(), "refused without a mistake");
    for mistake in mistakes {
        check_problem(&mistake.problem);
        assert!(!mistake.path.is_empty() && !mistake.to_string().is_empty(), "{mistake:?}");
    }
}

/// Next and previous of a rule agree with each other.
pub fn check_rule(rule: &Rule, written: &dyn fmt::Debug, at: Timestamp) {
    assert!(!rule.words().is_empty(), "{written:?}");
    let next = |from| bounded("next_after", written, || rule.next_after(from));
    let previous = |from| bounded("previous_before", written, || rule.previous_before(from));
    check_order(written, at, next, previous, has_past(rule));
}

/// Next and previous of a timing agree with each other and with its bounds.
pub fn check_timing(timing: &Timing, written: &dyn fmt::Debug, at: Timestamp) {
    assert!(!timing.words().is_empty(), "{written:?}");
    let next = |from| bounded("next_after", written, || timing.next_after(from));
    let previous = |from| bounded("previous_before", written, || timing.previous_before(from));
    let effective = |found: Option<Occurrence>| found.map(|occurrence| occurrence.effective);
    check_order(
        written,
        at,
        |from| effective(next(from)),
        |from| effective(previous(from)),
        has_past(timing.rule()),
    );
    for warning in bounded("warnings", written, || timing.warnings(at)) {
        assert!(!warning.to_string().is_empty(), "{written:?}");
    }
    for row in bounded("preview", written, || timing.preview(at, 3)) {
        assert!(row.nominal > at, "{written:?} previews {row:?} after {at}");
    }
}

/// Going on step by step, and asking from somewhere between two steps, give the same occurrences.
pub fn check_skipping(timing: &Timing, written: &dyn fmt::Debug, at: Timestamp, places: &[u8]) {
    if !has_past(timing.rule()) {
        return;
    }
    let next = |from| bounded("next_after", written, || timing.next_after(from));
    let previous = |from| bounded("previous_before", written, || timing.previous_before(from));
    let mut last: Option<Occurrence> = None;
    for place in places {
        let from = last.map_or(at, |last| last.effective);
        let Some(step) = next(from) else { return };
        let hole = step.effective.duration_since(from);
        if hole > LONG_HOLE {
            return;
        }
        let inside = from + hole / 256 * i32::from(*place);
        assert_eq!(next(inside), Some(step), "{written:?}: the next after {inside} and {from}");
        if let Some(last) = last.filter(|last| last.effective < inside) {
            assert_eq!(previous(inside), Some(last), "{written:?}: the one before {inside}");
        }
        last = Some(step);
    }
}

/// A calendar answers for every date and instant, and its arithmetic is consistent.
pub fn check_calendar(calendar: &Calendar, written: &dyn fmt::Debug, at: Timestamp) {
    let date = calendar.date_of(at);
    let day = bounded("day", written, || calendar.day(date));
    assert!(!day.reason.to_string().is_empty(), "{written:?} {date}");
    let from = bounded("working_day_from", written, || calendar.working_day_from(date));
    let until = bounded("working_day_until", written, || calendar.working_day_until(date));
    assert!(from.is_none_or(|from| from >= date), "{written:?} {date} {from:?}");
    assert!(until.is_none_or(|until| until <= date), "{written:?} {date} {until:?}");
    let fitted = bounded("fit", written, || calendar.fit(at));
    assert!(fitted.is_none_or(|fitted| fitted >= at), "{written:?} {at} {fitted:?}");
    for days in [2.0, 0.5, -3.0] {
        let moved = bounded("add_days", written, || calendar.add_days(at, days));
        let Some(moved) = moved else { continue };
        assert!((moved >= at) == (days > 0.0), "{written:?} {at} {days} days: {moved}");
        let Some(between) = bounded("between", written, || calendar.between(at, moved)) else {
            continue;
        };
        let wanted = SignedDuration::from_secs_f64(days * calendar.seconds_per_day() as f64);
        assert_eq!(between.working, wanted, "{written:?} {at} to {moved}, {days} days");
    }
}

/// What depends on when runs ended has no past that a rule could know, and moves with the question.
fn has_past(rule: &Rule) -> bool {
    match rule {
        Rule::AfterCompletion(_) => false,
        Rule::Any(rules) => rules.iter().all(has_past),
        _ => true,
    }
}

fn check_order(
    subject: &dyn fmt::Debug,
    at: Timestamp,
    next: impl Fn(Timestamp) -> Option<Timestamp>,
    previous: impl Fn(Timestamp) -> Option<Timestamp>,
    has_past: bool,
) {
    if let Some(last) = previous(at) {
        assert!(last < at, "{subject:?}: {last} is not before {at}");
    }
    let Some(first) = next(at) else { return };
    assert!(first > at, "{subject:?}: {first} is not after {at}");
    if let Some(before) = previous(first).filter(|_| has_past) {
        assert!(before <= at, "{subject:?}: {before} lies between {at} and its next, {first}");
        if first.duration_since(before) < LONG_HOLE {
            assert_eq!(next(before), Some(first), "{subject:?}: the next after {before}");
        }
    }
    let Some(second) = next(first) else { return };
    assert!(second > first, "{subject:?}: {second} is not after {first}");
    if has_past && second.duration_since(first) < LONG_HOLE {
        assert_eq!(previous(second), Some(first), "{subject:?}: the one before {second}");
    }
}
