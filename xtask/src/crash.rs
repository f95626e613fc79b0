//! The crash tests of `crates/cli/tests/cli/crash.rs`, `crash_process.rs` and `crash_handlers.rs`
//! in full size: 50 kills, 2,000 schedules, a minute; a process of 200 steps, 30 kills; a producer
//! and a consumer, 30 kills.
//!
//! A clock that is set forward or back is not among them: the host's cannot be set from here, and
//! under libfaketime the kernel's timer, on which a node sleeps, does not notice. The simulator
//! sets its own.

use std::path::Path;

use crate::steps::{Outcome, cargo, run_guarded};

pub(crate) fn run(root: &Path) -> Outcome {
    let arguments = [
        "test",
        "--locked",
        "--package",
        "punctual",
        "--test",
        "cli",
        "crash",
        "--",
        "--nocapture",
    ];
    // One after the other: each is to have the machine for itself.
    run_guarded(cargo(root).args(arguments).arg("--test-threads=1").env("PUNCTUAL_CRASH", "full"))
}
