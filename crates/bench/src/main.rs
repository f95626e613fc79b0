//! Measures our evaluator beside three cron crates, on the same inputs in the same run.
//!
//! Times are printed, never asserted. What is checked is that answers agree with a slow, plain
//! reference: a peer that is wrong is marked and does not count, and if ours is wrong the run
//! fails.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the tables are this program's output")]

mod calc;
mod inputs;
mod measure;
mod next;
mod others;
mod parsing;
mod peers;
mod reference;
mod report;

use std::process::ExitCode;

use measure::Effort;
use report::Report;

const USAGE: &str = "usage: punctual-bench [--quick]";

fn main() -> ExitCode {
    let mut effort = Effort::FULL;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--quick" => effort = Effort::QUICK,
            calc::ECHO => return calc::echo().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS),
            _ => {
                eprintln!("{argument}: not known here\n{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    let mut report = Report::default();
    next::run(effort, &mut report);
    parsing::run(effort, &mut report);
    others::run(effort, &mut report);
    calc::run(effort, &mut report);
    report.summarise();
    if report.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
