//! Tests of the `punctual` binary, used as a person or a script would.

mod access;
mod answers;
mod bench;
mod browser;
mod calc;
mod calendars;
mod crash;
mod crash_handlers;
mod crash_process;
mod fake_node;
mod folders;
mod following;
mod next;
mod node;
mod peer_suites;
mod processes;
mod remote;
mod scripts;
mod secrets;
mod serving;
mod shared_store;
mod store_files;
mod topics;
mod validate;
mod vectors;
mod worker;
mod workers_together;
mod zones;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn punctual() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    // The tests must not depend on the machine's own zone database.
    command.env_remove("PUNCTUAL_TZDIR").env("NO_COLOR", "1");
    for name in ["PUNCTUAL_URL", "PUNCTUAL_TOKEN", "PUNCTUAL_LOG", "PUNCTUAL_DB"] {
        command.env_remove(name);
    }
    command
}

/// Runs a command and returns its exit code, standard output and standard error.
fn run(args: &[&str]) -> (i32, String, String) {
    finished(punctual().args(args).output().expect("the binary starts"))
}

/// The output of a command, which must succeed.
fn shown(args: &[&str]) -> String {
    let (code, out, err) = run(args);
    assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
    // The release of the zone database is removed, so that expected texts stay the same with a
    // newer one.
    match out.split_once("zone database 20") {
        Some((before, after)) => format!("{before}zone database …{}", &after[3..]),
        None => out,
    }
}

/// The error output of a command, which must be refused.
fn refused(args: &[&str]) -> String {
    let (code, out, err) = run(args);
    assert_eq!((code, out.as_str()), (1, ""), "{args:?}: {err}");
    err
}

fn finished(output: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
}

/// Sends lines through `punctual calc`.
fn calc(lines: &str) -> Vec<serde_json::Value> {
    let mut child = punctual()
        .arg("calc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut input = child.stdin.take().expect("piped");
    let lines = lines.to_owned();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let (code, out, err) = finished(child.wait_with_output().expect("it ends"));
    writer.join().expect("no panic").expect("all is read");
    assert_eq!((code, err.as_str()), (0, ""));
    out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The folder of shared vectors, if it exists beside the repository.
fn shared_vectors() -> Option<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/vectors"));
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!(
        "skipped: {} is not there; only the copies in tests/data were checked",
        folder.display()
    );
    None
}

/// Creates a file for one test. It is removed with the build folder.
fn file(name: &str, text: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("the file is written");
    path.to_str().expect("text").to_owned()
}
