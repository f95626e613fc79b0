//! Measures the time from opening a store to the first attempt, in a new process.

use std::io::Write;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use server::Stopwatch;

use super::node::Node;
use super::process;
use super::store_target::StoreTarget;
use crate::failure::Failure;

/// The report of the new process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Restarted {
    /// From opening the store to the first attempt.
    pub(super) milliseconds: f64,
    /// Resident memory at that time.
    pub(super) bytes: u64,
}

/// Starts a process that opens the store, in which a schedule is due.
pub(super) fn restart(target: &StoreTarget) -> Result<Restarted, Failure> {
    let this = std::env::current_exe()?;
    let output = Command::new(this)
        .arg("bench")
        .args(match target {
            StoreTarget::File(path) => vec!["--restart-of".into(), path.into()],
            StoreTarget::Postgres { url, schema } => {
                let schema = std::ffi::OsString::from(schema);
                vec!["--db".into(), url.into(), "--restart-of".into(), schema]
            }
        })
        .stderr(Stdio::inherit())
        .output()?;
    serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::Environment(format!("the restarted process: {error}")))
}

/// Measures inside the new process, and prints the report.
pub(super) async fn restarted(target: &StoreTarget, out: &mut dyn Write) -> Result<(), Failure> {
    let watch = Stopwatch::start();
    let node = Node::start(target).await?;
    node.watch.first.notified().await;
    let milliseconds = watch.elapsed().as_secs_f64() * 1_000.0;
    let bytes = process::resident()?;
    node.stop().await?;
    let text = serde_json::to_string(&Restarted { milliseconds, bytes })
        .map_err(|error| Failure::Environment(error.to_string()))?;
    Ok(writeln!(out, "{text}")?)
}
