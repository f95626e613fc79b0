//! Worlds on a real PostgreSQL hold together, and planted bugs are found in them.

use simulator::{Failed, Options, Sabotage, SharedOptions, StoreKind, simulate, simulate_shared};

/// Worlds with one transaction at a time: the same each time.
const SERIAL: std::ops::Range<u64> = 1..3;
/// Worlds in which several nodes share the store.
const SHARED: std::ops::Range<u64> = 33..37;
/// Worlds in which a planted bug has to be found.
const CHANCES: std::ops::Range<u64> = 1..13;

fn told(seed: u64, failed: &Failed) -> String {
    let Failed { violation, step, trace, state } = failed;
    let (checker, message) = (violation.checker, &violation.message);
    let said = format!("seed {seed}, step {step}: {checker}: {message}");
    // At both ends: a long text may be cut at either.
    format!("{said}\n{state}\n{trace}\n{said}")
}

/// The seeds of this run: those of the environment, for looking into a failure, or the given ones.
fn seeds(default: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match (number("SIMULATE_FROM"), number("SIMULATE_TO")) {
        (Some(from), to) => from..to.unwrap_or(from + 1),
        _ => default,
    }
}

#[test]
fn one_transaction_at_a_time() {
    for seed in seeds(SERIAL) {
        let options = Options { store: StoreKind::Postgres, days: 1, ..Options::small(seed) };
        if let Err(failed) = simulate(seed, options) {
            panic!("{}", told(seed, &failed));
        }
    }
}

/// Seed 8: the first ledger row of a schedule is of an occurrence that goes on and was written
/// again. The later rows are past their time, and expire nevertheless.
#[test]
fn rows_behind_an_active_occurrence_expire() {
    let options = Options { store: StoreKind::Postgres, days: 1, ..Options::small(8) };
    if let Err(failed) = simulate(8, options) {
        panic!("{}", told(8, &failed));
    }
}

#[test]
fn nodes_that_share_a_store() {
    for seed in seeds(SHARED) {
        match simulate_shared(seed, SharedOptions::new(seed)) {
            Ok(summary) => println!("seed {seed}: {summary:?}"),
            Err(failed) => panic!("{}", told(seed, &failed)),
        }
    }
}

#[test]
fn every_planted_bug_is_found_by_its_checker() {
    let mut unnoticed = Vec::new();
    for sabotage in Sabotage::OF_SHARED_WORLDS {
        let found = CHANCES.into_iter().find_map(|seed| {
            let options = SharedOptions {
                nodes: 2,
                handlers: 1,
                sabotage: Some(sabotage),
                ..SharedOptions::new(seed)
            };
            simulate_shared(seed, options).err()
        });
        println!("{sabotage:?}: {:?}", found.as_ref().map(|failed| failed.violation.checker));
        match found.map(|failed| failed.violation) {
            Some(violation) if sabotage.found_by().contains(&violation.checker) => {}
            other => unnoticed.push((sabotage, other)),
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
}
