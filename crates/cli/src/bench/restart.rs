//! From opening a store to the first attempt, in a process of its own.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use server::Stopwatch;

use super::node::Node;
use super::process;
use crate::failure::Failure;

/// What the new process says.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Restarted {
    /// From opening the store to the first attempt.
    pub(super) milliseconds: f64,
    /// Resident memory then.
    pub(super) bytes: u64,
}

/// Starts a process that opens the store, in which something is due.
pub(super) fn restart(path: &Path) -> Result<Restarted, Failure> {
    let this = std::env::current_exe()?;
    let output = Command::new(this)
        .args(["bench", "--restart-of"])
        .arg(path)
        .stderr(Stdio::inherit())
        .output()?;
    serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::Environment(format!("the restarted process: {error}")))
}

/// What that process does.
pub(super) async fn restarted(path: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let watch = Stopwatch::start();
    let node = Node::start(path).await?;
    node.watch.first.notified().await;
    let milliseconds = watch.elapsed().as_secs_f64() * 1_000.0;
    let bytes = process::resident()?;
    node.stop().await?;
    let text = serde_json::to_string(&Restarted { milliseconds, bytes })
        .map_err(|error| Failure::Environment(error.to_string()))?;
    Ok(writeln!(out, "{text}")?)
}
