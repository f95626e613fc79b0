//! Worlds without planted bugs hold together; every planted bug is found.

use simulator::{Failed, Options, Sabotage, burst, simulate};

/// Enough to see most of what can happen; more are a command of their own.
const SEEDS: std::ops::Range<u64> = 1..161;
/// Processes in worlds in which a bug of theirs is planted.
const PROCESSES: usize = 4;
/// The same for topics and handlers.
const HANDLERS: usize = 2;
/// Worlds with many processes and handlers.
const CROWDED: std::ops::Range<u64> = 1..61;
/// Worlds of many runs at once.
const BURSTS: std::ops::Range<u64> = 1..7;
/// Worlds in which a planted bug has to be found.
const CHANCES: std::ops::Range<u64> = 1..61;

fn told(seed: u64, failed: &Failed) -> String {
    let Failed { violation, step, trace, state } = failed;
    let (checker, message) = (violation.checker, &violation.message);
    let said = format!("seed {seed}, step {step}: {checker}: {message}");
    // At both ends: a long text may be cut at either.
    format!("{said}\n{state}\n{trace}\n{said}")
}

#[test]
fn worlds_without_bugs_hold_together() {
    for seed in SEEDS {
        if let Err(failed) = simulate(seed, Options::small(seed)) {
            panic!("{}", told(seed, &failed));
        }
    }
}

/// Worlds with many processes and handlers, which small ones seldom have.
#[test]
fn crowded_worlds_hold_together() {
    for seed in CROWDED {
        let options = Options { processes: PROCESSES, handlers: HANDLERS, ..Options::small(seed) };
        if let Err(failed) = simulate(seed, options) {
            panic!("{}", told(seed, &failed));
        }
    }
}

#[test]
fn bursts_come_to_their_end() {
    for seed in BURSTS {
        if let Err(failed) = burst(seed, None) {
            panic!("{}", told(seed, &failed));
        }
    }
}

#[test]
fn a_world_is_the_same_each_time() {
    let lived =
        |seed| format!("{:?}", simulate(seed, Options::small(seed)).map_err(|failed| failed.trace));
    for seed in SEEDS.take(5) {
        assert_eq!(lived(seed), lived(seed));
    }
}

#[test]
fn every_planted_bug_is_found_by_its_checker() {
    let mut unnoticed = Vec::new();
    for sabotage in Sabotage::ALL {
        let found = CHANCES.into_iter().find_map(|seed| {
            let mut options = Options { sabotage: Some(sabotage), ..Options::small(seed) };
            if sabotage.is_of_processes() {
                options.processes = PROCESSES;
            }
            if sabotage.is_of_handlers() {
                options.handlers = HANDLERS;
            }
            if sabotage.is_of_bursts() {
                burst(seed, Some(sabotage)).err()
            } else {
                simulate(seed, options).err()
            }
        });
        match found.map(|failed| failed.violation) {
            Some(violation) if sabotage.found_by().contains(&violation.checker) => {}
            other => unnoticed.push((sabotage, other)),
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
}
