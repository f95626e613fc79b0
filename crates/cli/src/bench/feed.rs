//! Measures how late others begin beside a feed without end: runs whose deadlines start two more.

use std::time::Duration;

use engine::turn::{Command, IfBusy, NewRun, Starter};
use hdrhistogram::Histogram;

use super::fires::{Load, fire};
use super::node::Node;
use crate::failure::Failure;

/// Occurrences per second whose lateness is measured.
const RATE: u64 = 20;
/// Each run starts two others before it ends, so the feed doubles until a limit ends it.
const FEED: &str = "name: feed
deadline:
  within: 100ms
  actions:
    - {at: deadline, start: feed}
    - {at: 50%, start: feed}
steps: [{id: wait, type: timer, delay: 1h}]
";

/// The lateness before the feed begins, and while it grows, in microseconds.
pub(super) struct Lateness {
    pub(super) before: Histogram<u64>,
    pub(super) beside: Histogram<u64>,
    /// How many schedule numbers were used.
    pub(super) used: u64,
}

pub(super) async fn lateness(node: &Node, from: u64, over: Duration) -> Result<Lateness, Failure> {
    let workflows = [node.save_workflow("beside-feed").await?];
    let count = (RATE as f64 * over.as_secs_f64()) as u64;
    let load = |from| Load { from, count, over, batch: count };
    let before = fire(&[node], &workflows, &load(from)).await?;
    let id = node.save(FEED).await?;
    let (by, if_busy) = (Starter::Caller("bench".to_owned()), IfBusy::Wait);
    let run = NewRun { id: 1, payload: None, by, trace: None, if_busy };
    node.hub.command(Command::StartWorkflow { id, run }, None).await?;
    let beside = fire(&[node], &workflows, &load(from + before.used)).await?;
    let used = before.used + beside.used;
    Ok(Lateness { before: before.lateness, beside: beside.lateness, used })
}
