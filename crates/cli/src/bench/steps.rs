//! Measures steps per second through chains of steps, and the memory of a waiting run.

use std::fmt::Write as _;
use std::time::Duration;

use engine::WorkflowId;
use engine::run::RunStatus;
use engine::turn::Notice;
use tokio::sync::broadcast::error::RecvError;

use super::fires::{Fired, Load, fire, lead};
use super::node::Node;
use super::process;
use super::schedules::create_due;
use crate::failure::Failure;

/// Steps of a chain, one after the other.
pub(super) const LENGTH: u64 = 100;
/// More runs than are measured at the same time.
const CONCURRENCY: u64 = 10_000;

/// Runs `runs` chains concurrently, and measures from due to succeeded.
pub(super) async fn chains(node: &Node, runs: u64, from: u64) -> Result<Fired, Failure> {
    let mut source = format!("name: chain\nconcurrency: {CONCURRENCY}\nsteps:\n");
    for at in 0..LENGTH {
        let after = if at == 0 { String::new() } else { format!(", depends_on: s{}", at - 1) };
        // Writing into a string cannot fail.
        let _ = writeln!(source, "  - {{ id: s{at}, type: noop{after} }}");
    }
    let chain = node.save(&source).await?;
    let load = Load { from, count: runs, over: Duration::ZERO, batch: 10_000 };
    fire(&[node], &[chain], &load).await
}

/// Bytes of memory per run, for `runs` runs that wait for a day.
pub(super) async fn waiting(node: &Node, runs: u64, from: u64, batch: u64) -> Result<f64, Failure> {
    let source = "name: waiting\nsteps: [ { id: wait, type: timer, delay: 1d } ]\n";
    let waiting = node.save(source).await?;
    // The first runs allocate memory that does not depend on the number of waiting runs.
    wait_for(node, waiting, runs.min(1_000), from, batch).await?;
    let before = process::resident()?;
    wait_for(node, waiting, runs, from + runs, batch).await?;
    Ok(process::resident()?.saturating_sub(before) as f64 / runs as f64)
}

async fn wait_for(
    node: &Node,
    workflow: WorkflowId,
    runs: u64,
    from: u64,
    batch: u64,
) -> Result<(), Failure> {
    let mut notices = node.hub.listen();
    // A schedule that is created after its time is due only a day later.
    let due = node.hub.now() + lead(runs);
    create_due(node, from, &vec![due; runs as usize], &[workflow], batch).await?;
    let mut left = runs;
    while left > 0 {
        match notices.recv().await {
            Ok(batch) => {
                let waits = |notice: &&Notice| {
                    matches!(notice, Notice::Run { status: RunStatus::Waiting, .. })
                };
                left = left.saturating_sub(batch.iter().filter(waits).count() as u64);
            }
            Err(RecvError::Lagged(_)) => {
                return Err(Failure::Environment("notices were lost".to_owned()));
            }
            Err(RecvError::Closed) => {
                return Err(Failure::Environment("the node has stopped".to_owned()));
            }
        }
    }
    Ok(())
}
