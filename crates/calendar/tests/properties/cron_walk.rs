//! Compares cron across changes of the clock with a walk over every instant.

use std::collections::BTreeMap;

use calendar::{Cron, Dst, DstOptions, Fold, Gap, Rule, Zones};
use jiff::Timestamp;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestCaseResult};

use super::cron_expression::{Expression, by_minute, by_second};
use super::same;
use super::walked_clock::{self, Walk, instant, nanosecond_before};

const LONGEST_GAP: i64 = 3 * 3600;

fn options() -> impl Strategy<Value = DstOptions> {
    let gap = prop_oneof![Just(None), Just(Some(Gap::Shift)), Just(Some(Gap::Skip))];
    let fold = prop_oneof![
        Just(None),
        Just(Some(Fold::First)),
        Just(Some(Fold::Last)),
        Just(Some(Fold::Both))
    ];
    prop_oneof![
        1 => Just(DstOptions::default()),
        2 => (gap, fold).prop_map(|(gap, fold)| DstOptions { gap, fold }),
    ]
}

/// The part of a walk that is compared. The passes of a fold may be as far apart as the margin.
#[derive(Clone, Copy)]
struct Span {
    from: i64,
    to: i64,
    margin: i64,
}

impl Span {
    fn in_the_middle_of(walk: &Walk, reach: i64, margin: i64) -> Span {
        let middle = (walk.start() + walk.end() + 60) / 2;
        Span { from: middle - reach, to: middle + reach, margin }
    }
}

/// The expected instants by the rules of daylight saving, with the overrides.
fn expected(walk: &Walk, part: Span, cron: &Expression, options: DstOptions) -> Vec<i64> {
    let shift = options.gap.map_or(!cron.is_wildcard(), |gap| gap == Gap::Shift);
    let usual = if cron.is_wildcard() { Fold::Both } else { Fold::First };
    let fold = options.fold.unwrap_or(usual);
    let mut shown = BTreeMap::<_, Vec<i64>>::new();
    for moment in walk.part(part.from - part.margin, part.to + part.margin) {
        if cron.matches(moment.date, moment.second_of_day) {
            shown.entry((moment.date, moment.second_of_day)).or_default().push(moment.unix);
        }
    }
    let pick = |passes: &Vec<i64>| match fold {
        Fold::First => passes[..1].to_vec(),
        Fold::Last => passes[passes.len() - 1..].to_vec(),
        Fold::Both => passes.clone(),
    };
    let mut all: Vec<i64> = shown.values().flat_map(pick).collect();
    for jump in walk.jumps.iter().filter(|jump| shift && jump.seconds <= LONGEST_GAP) {
        let missed = |(date, second): &&(_, u32)| cron.matches(*date, *second);
        all.extend(jump.skipped.iter().find(missed).map(|_| jump.end));
    }
    all.sort_unstable();
    all.dedup();
    all.retain(|unix| (part.from..part.to).contains(unix));
    all
}

fn check(
    zones: &Zones,
    walk: &Walk,
    part: Span,
    cron: &Expression,
    options: DstOptions,
) -> TestCaseResult {
    let parsed = Cron::parse(&cron.to_string());
    let parsed = parsed.map_err(|problem| TestCaseError::fail(problem.to_string()))?;
    prop_assert_eq!(parsed.is_wildcard(), cron.is_wildcard());
    let usual = if cron.is_wildcard() { Dst::WILDCARD } else { Dst::FIXED };
    let rule = Rule::cron_with(parsed, zones.get(walk.zone).unwrap(), usual.with(options));
    let Span { from, to, .. } = part;
    let expected: Vec<Timestamp> =
        expected(walk, part, cron, options).into_iter().map(instant).collect();

    let first = nanosecond_before(instant(from));
    let forward: Vec<Timestamp> = rule.after(first).take_while(|at| *at < instant(to)).collect();
    same("forwards", &forward, &expected)?;
    let previous = |at: &Timestamp| rule.previous_before(*at);
    let mut backward: Vec<Timestamp> =
        std::iter::successors(rule.previous_before(instant(to)), previous)
            .take_while(|at| *at > first)
            .collect();
    backward.reverse();
    same("backwards", &backward, &expected)?;

    for (n, &at) in expected.iter().enumerate().step_by(expected.len() / 200 + 1) {
        prop_assert_eq!(rule.next_after(nanosecond_before(at)), Some(at), "just before");
        if let Some(&next) = expected.get(n + 1) {
            prop_assert_eq!(rule.previous_before(next), Some(at));
            prop_assert_eq!(rule.next_after(instant(next.as_second() - 1)), Some(next));
        }
    }
    for jump in walk.jumps.iter().filter(|jump| (from..to).contains(&jump.end)) {
        for near in jump.end - 2..=jump.end + 2 {
            let next = expected.iter().find(|at| **at > instant(near));
            let found = rule.next_after(instant(near)).filter(|at| *at < instant(to));
            prop_assert_eq!(found.as_ref(), next, "after {}", instant(near));
            let previous = expected.iter().rev().find(|at| **at < instant(near));
            let found = rule.previous_before(instant(near)).filter(|at| *at > first);
            prop_assert_eq!(found.as_ref(), previous, "before {}", instant(near));
        }
    }
    Ok(())
}

fn minute_case() -> impl Strategy<Value = (&'static Walk, Expression)> {
    (0..walked_clock::minutes().len()).prop_flat_map(|at| {
        let walk = &walked_clock::minutes()[at];
        by_minute(walk.moments[0].date.year() as u32).prop_map(move |cron| (walk, cron))
    })
}

#[test]
fn every_minute_near_changes_of_the_clock() {
    let zones = Zones::bundled();
    proptest!(super::cases(2500), |((walk, cron) in minute_case(), options in options())| {
        let part = Span::in_the_middle_of(walk, 4 * 86_400, 2 * 86_400);
        check(&zones, walk, part, &cron, options)
            .map_err(|error| TestCaseError::fail(format!("{cron} in {}: {error}", walk.zone)))?;
    });
}

#[test]
fn every_second_near_changes_of_the_clock() {
    let zones = Zones::bundled();
    let walks = walked_clock::seconds();
    proptest!(super::cases(800), |(
        at in 0..walks.len(), cron in by_second(), options in options()
    )| {
        let walk = &walks[at];
        let part = Span::in_the_middle_of(walk, 9_000, 10_900);
        check(&zones, walk, part, &cron, options)
            .map_err(|error| TestCaseError::fail(format!("{cron} in {}: {error}", walk.zone)))?;
    });
}
