//! Simulated worlds, one after the other: the real node under a virtual clock, crashes and faults.

use std::path::Path;

use crate::steps::{Outcome, cargo, run as run_command};

/// Runs until stopped, unless told otherwise; stops at the first world that fails. The arguments
/// are those of the program `simulate`.
pub(crate) fn run(
    root: &Path,
    numbers: [(&str, Option<u64>); 4],
    store: Option<&str>,
    switches: &[(&str, bool)],
) -> Outcome {
    let mut command = cargo(root);
    command.args(["run", "--release", "--quiet", "--package", "punctual-simulator", "--"]);
    for (name, number) in numbers {
        if let Some(number) = number {
            command.arg(name).arg(number.to_string());
        }
    }
    if let Some(store) = store {
        command.args(["--store", store]);
    }
    command.args(switches.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name));
    run_command(&mut command)
}
