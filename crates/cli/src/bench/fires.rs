//! Measures runs per second from due to succeeded, and how late runs begin at a steady rate.

use std::time::Duration;

use engine::WorkflowId;
use engine::run::RunStatus;
use engine::turn::Notice;
use hdrhistogram::Histogram;
use jiff::{SignedDuration, Timestamp};
use server::{Stopwatch, SystemClock};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::node::Node;
use super::paced;
use super::schedules::create_due;
use super::stages::Spent;
use super::store_target::StoreTarget;
use crate::failure::Failure;

/// Schedules that a slow machine creates per second. All schedules must exist when they are due.
const CREATED_PER_SECOND: u64 = 10_000;
/// The least time between creation and the first due time.
const LEAD: SignedDuration = SignedDuration::from_millis(1_000);
/// How often creation may take longer than the lead before the machine is considered too slow to
/// measure.
const TRIES: u32 = 4;

/// The schedules that are due in a measurement, and when.
pub(super) struct Load {
    /// The number of the first schedule.
    pub(super) from: u64,
    pub(super) count: u64,
    /// The time from the first due time to the last.
    pub(super) over: Duration,
    pub(super) batch: u64,
}

/// A histogram of microseconds.
pub(super) fn histogram() -> Result<Histogram<u64>, Failure> {
    Histogram::new_with_bounds(1, 3_600_000_000, 3)
        .map_err(|error| Failure::Environment(error.to_string()))
}

/// The result of a measurement.
pub(super) struct Fired {
    /// The time from the first due time to the last success.
    pub(super) took: Duration,
    /// CPU time of the whole process during that time.
    pub(super) cpu: Duration,
    /// How much of it the store's threads spent, by stage.
    pub(super) stages: Spent,
    /// From due to begun, in microseconds.
    pub(super) lateness: Histogram<u64>,
    /// From due to committed for rows that were due at the same times, if they were measured.
    pub(super) raw: Option<Histogram<u64>>,
    /// How many schedule numbers were used.
    pub(super) used: u64,
}

/// How long before its due time a load of `count` schedules must be created.
pub(super) fn lead(count: u64) -> SignedDuration {
    LEAD + SignedDuration::from_millis((count * 1_000 / CREATED_PER_SECOND) as i64)
}

/// Creates schedules that are due soon, and waits until all their runs have succeeded.
pub(super) async fn fire(
    nodes: &[&Node],
    workflows: &[WorkflowId],
    load: &Load,
) -> Result<Fired, Failure> {
    fire_beside(nodes, workflows, load, None).await
}

/// Does the same while rows that are due at the same times are committed beside the store.
pub(super) async fn fire_beside(
    nodes: &[&Node],
    workflows: &[WorkflowId],
    load: &Load,
    raw: Option<&StoreTarget>,
) -> Result<Fired, Failure> {
    let node = nodes[0];
    let mut lead = lead(load.count);
    let mut used = 0;
    for _ in 0..TRIES {
        let first = later(node.hub.now(), lead);
        let due = due_times(first, load);
        let mut successes = successes(nodes);
        create_due(node, load.from + used, &due, workflows, load.batch).await?;
        used += load.count;
        let in_time = SystemClock.precise_now() < first;
        let raw = raw.map(|target| paced::begin(target, due));
        until(first).await;
        let (watch, cpu) = (Stopwatch::start(), super::process::cpu_time()?);
        let stages = Spent::now();
        let mut left = load.count;
        while left > 0 {
            match successes.recv().await {
                Some(Ok(more)) => left = left.saturating_sub(more),
                Some(Err(why)) => return Err(Failure::Environment(why.to_owned())),
                None => return Err(Failure::Environment("the node has stopped".to_owned())),
            }
        }
        let (took, cpu) = (watch.elapsed(), super::process::cpu_time()?.saturating_sub(cpu));
        let stages = Spent::now().since(stages);
        let mut lateness = node.watch.take_lateness();
        for other in &nodes[1..] {
            let theirs = other.watch.take_lateness();
            lateness.add(theirs).map_err(|error| Failure::Environment(error.to_string()))?;
        }
        let raw = match raw {
            Some(raw) => Some(raw.await.map_err(|e| Failure::Environment(e.to_string()))??),
            None => None,
        };
        if in_time {
            return Ok(Fired { took, cpu, stages, lateness, raw, used });
        }
        lead *= 2;
    }
    Err(Failure::Environment("schedules are created too slowly to be due in time".to_owned()))
}

/// Counts the runs that succeed from now on, by the notices of the nodes.
pub(super) fn successes(nodes: &[&Node]) -> UnboundedReceiver<Result<u64, &'static str>> {
    let (tell, told) = unbounded_channel();
    for node in nodes {
        let (mut notices, tell) = (node.hub.listen(), tell.clone());
        tokio::spawn(async move {
            loop {
                let heard = match notices.recv().await {
                    Ok(notices) => Ok(succeeded(&notices)),
                    Err(RecvError::Lagged(_)) => Err("the listener fell behind"),
                    Err(RecvError::Closed) => return,
                };
                // The receiver has stopped counting.
                if tell.send(heard).is_err() {
                    return;
                }
            }
        });
    }
    told
}

fn succeeded(notices: &[Notice]) -> u64 {
    let has_succeeded =
        |notice: &&Notice| matches!(notice, Notice::Run { status: RunStatus::Succeeded, .. });
    notices.iter().filter(has_succeeded).count() as u64
}

fn due_times(first: Timestamp, load: &Load) -> Vec<Timestamp> {
    let milliseconds = load.over.as_millis() as u64;
    (0..load.count)
        .map(|index| {
            let after = index * milliseconds / load.count.max(1);
            later(first, SignedDuration::from_millis(after as i64))
        })
        .collect()
}

fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

async fn until(at: Timestamp) {
    let wait = at.duration_since(SystemClock.precise_now());
    tokio::time::sleep(Duration::try_from(wait).unwrap_or(Duration::ZERO)).await;
}
