//! Fuzzing with libFuzzer on the stable toolchain, which is possible without sanitizers.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::steps::{Outcome, cargo, run as run_command};

pub(crate) const TARGETS: [&str; 3] = ["ics", "rule_text", "timing"];

const CARGO_FUZZ_VERSION: &str = "0.13.2";
/// Longer inputs only slow the search down: no declaration worth a search is longer.
const LONGEST_INPUT: u32 = 4096;

/// Runs one target or all. What is found in the way of new inputs stays in `fuzz/corpus`.
pub(crate) fn run(root: &Path, target: Option<&str>, seconds: u32) -> Outcome {
    search(root, target, seconds, None)
}

/// The same inputs in every run, so that what fails on one machine fails on all.
pub(crate) fn replay(root: &Path, seconds: u32) -> Outcome {
    search(root, None, seconds, Some(1))
}

fn search(root: &Path, target: Option<&str>, seconds: u32, seed: Option<u32>) -> Outcome {
    has_compiler()?;
    let cargo_fuzz = installed_cargo_fuzz(root)?;
    let targets = TARGETS.iter().filter(|name| target.is_none_or(|wanted| wanted == **name));
    for target in targets {
        run_target(root, &cargo_fuzz, target, seconds, seed)?;
    }
    Ok(())
}

/// Fails without a C++ compiler, which libFuzzer needs.
fn has_compiler() -> Outcome {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let version = Command::new(&compiler).arg("--version").stdout(Stdio::null()).status();
    if version.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err(format!("libFuzzer needs a C++ compiler, and `{compiler}` is not there; install g++"))
}

fn run_target(
    root: &Path,
    cargo_fuzz: &Path,
    target: &str,
    seconds: u32,
    seed: Option<u32>,
) -> Outcome {
    let fuzz = root.join("fuzz");
    // A replay begins with the seeds alone: what other runs have found is not the same everywhere.
    let corpus = match seed {
        None => fuzz.join("corpus").join(target),
        Some(_) => root.join("target").join("fuzz-replay").join(target),
    };
    if seed.is_some() && corpus.exists() {
        fs::remove_dir_all(&corpus).map_err(|error| format!("{}: {error}", corpus.display()))?;
    }
    fs::create_dir_all(&corpus).map_err(|error| format!("{}: {error}", corpus.display()))?;
    println!("{target}: {seconds} s");
    let mut command = Command::new(cargo_fuzz);
    command.current_dir(&fuzz).args(["fuzz", "run", "--sanitizer", "none", target]).arg(&corpus);
    let seeds = fuzz.join("seeds").join(target);
    if seeds.is_dir() {
        command.arg(seeds);
    }
    command.args(["--", "-print_final_stats=1", "-verbosity=0"]);
    command.arg(format!("-max_total_time={seconds}"));
    command.args(seed.map(|seed| format!("-seed={seed}")));
    command.arg(format!("-max_len={LONGEST_INPUT}"));
    let dictionary = fuzz.join("dictionaries").join(format!("{target}.dict"));
    if dictionary.is_file() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    run_filtered(&mut command)
}

/// Shows what libFuzzer says, but for the words it recommends at the end and for the sanitizers
/// that it misses.
fn run_filtered(command: &mut Command) -> Outcome {
    let failed = |error: std::io::Error| format!("cargo-fuzz does not run: {error}");
    let mut child = command.stderr(Stdio::piped()).spawn().map_err(failed)?;
    let mut recommends = false;
    for line in child.stderr.take().into_iter().flat_map(|stderr| BufReader::new(stderr).split(10))
    {
        let line = line.map_err(failed)?;
        let line = String::from_utf8_lossy(&line);
        let is_edge = line.starts_with("######");
        recommends ^= is_edge;
        if !recommends && !is_edge && !line.starts_with("WARNING: Failed to find function") {
            println!("{line}");
        }
    }
    let status = child.wait().map_err(failed)?;
    if status.success() { Ok(()) } else { Err(format!("a finding, in fuzz/artifacts ({status})")) }
}

/// The pinned version, in a folder of our own: the machine's other tools stay as they are.
fn installed_cargo_fuzz(root: &Path) -> Result<PathBuf, String> {
    let tools = root.join("target").join("tools");
    let program = tools.join("bin").join("cargo-fuzz");
    let version = Command::new(&program).arg("--version").output();
    let is_pinned = version.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).trim().ends_with(CARGO_FUZZ_VERSION)
    });
    if !is_pinned {
        let mut install = cargo(root);
        install.args(["install", "--locked", "--force", "--root"]).arg(&tools);
        install.args(["--version", CARGO_FUZZ_VERSION, "cargo-fuzz"]);
        run_command(&mut install)?;
    }
    Ok(program)
}
