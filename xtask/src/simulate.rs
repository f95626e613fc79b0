//! Simulated worlds, one after the other: the real node under a virtual clock, crashes and faults.

use std::path::Path;

use crate::steps::{Outcome, cargo, run as run_command};

/// Runs until stopped, unless told otherwise; stops at the first world that fails.
pub(crate) fn run(
    root: &Path,
    seed: Option<u64>,
    seeds: Option<u64>,
    minutes: Option<u64>,
    year: bool,
    bursts: bool,
) -> Outcome {
    let mut command = cargo(root);
    command.args(["run", "--release", "--quiet", "--package", "punctual-simulator", "--"]);
    for (name, value) in [("--seed", seed), ("--seeds", seeds), ("--minutes", minutes)] {
        if let Some(value) = value {
            command.arg(name).arg(value.to_string());
        }
    }
    if year {
        command.arg("--year");
    }
    if bursts {
        command.arg("--bursts");
    }
    run_command(&mut command)
}
