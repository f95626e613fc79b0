//! Benchmarks: what they measure is in `crates/bench`.

use std::path::Path;

use crate::steps::{Outcome, cargo, run as run_command};

pub(crate) fn run(root: &Path, quick: bool) -> Outcome {
    // Built apart from the benchmarks, so that it is the program that users get: features that the
    // peers ask of shared crates do not reach it.
    run_command(cargo(root).args(["build", "--release", "--locked", "--package", "punctual"]))?;
    let mut command = cargo(root);
    command.args(["run", "--release", "--locked", "--quiet", "--package", "punctual-bench", "--"]);
    if quick {
        command.arg("--quick");
    }
    run_command(&mut command)
}

/// Only whether answers agree, for which a build without optimisation is quick enough.
pub(crate) fn check_answers(root: &Path) -> Outcome {
    let arguments = ["run", "--locked", "--quiet", "--package", "punctual-bench", "--", "--quick"];
    run_command(cargo(root).args(arguments))
}
