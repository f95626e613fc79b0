//! Measures a store that is full of ended runs and pending schedules, beside the same store when it
//! was new, while as much history is removed as comes in.

use std::time::Duration;

use engine::WorkflowId;
use jiff::{SignedDuration, Timestamp};
use server::Stopwatch;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::fires::{Load, fire, successes};
use super::node::Node;
use super::report::Figure;
use super::sizes::Sizes;
use super::{Bench, DUE_NUMBERS, LONGEST_LOG_MB, WORKFLOWS, lists, schedules};
use crate::args::Measure;
use crate::failure::Failure;

/// They are due so often that a machine that is this fast keeps up.
const FILLED_PER_SECOND: u64 = 30_000;
/// Occurrences per second whose lateness is measured.
const RATE: u64 = 2_000;
/// Rows that one transaction removes, as in the background duties of a node.
const REMOVED: usize = 500;
/// A fire leaves a run and an entry in the ledger, which are counted one by one when they are
/// removed.
const ROWS_OF_A_FIRE: u64 = 2;
/// A figure may be worse by this factor than in the new store.
const WORSE: f64 = 1.2;

/// A figure of the store, which is measured twice.
struct Probed {
    name: String,
    value: f64,
    unit: &'static str,
}

/// What is measured with, twice in the same way.
struct Probe<'a> {
    node: &'a Node,
    workflows: &'a [WorkflowId],
    sizes: &'a Sizes,
    /// The number of the next schedule.
    due: u64,
}

impl Bench<'_> {
    /// Measures a store of its own before and after it has grown.
    pub(super) fn growth(&mut self) -> Result<(), Failure> {
        if !self.sizes.wants(Measure::Growth) {
            return Ok(());
        }
        let target = self.target.another("growth");
        let runtime: &Runtime = self.runtime;
        let measured = runtime.block_on(async {
            let node = Node::start(&target).await?;
            let measured = grown(&node, &self.sizes).await;
            node.stop().await?;
            measured
        });
        runtime.block_on(target.remove())?;
        self.figures.extend(measured?);
        Ok(())
    }
}

async fn grown(node: &Node, sizes: &Sizes) -> Result<Vec<Figure>, Failure> {
    let mut workflows = Vec::new();
    for at in 0..WORKFLOWS {
        workflows.push(node.save_workflow(&format!("nothing-{at}")).await?);
    }
    let mut probe = Probe { node, workflows: &workflows, sizes, due: DUE_NUMBERS };
    // The first fires create the pages of the store.
    probe.fires().await?;
    let new = probe.all().await?;
    schedules::create_far(node, 0, sizes.grown, &workflows, sizes.batch).await?;
    let filled = probe.fill().await?;
    let (before, stop) = (node.size().await?, CancellationToken::new());
    let full = tokio::join!(
        async {
            let full = probe.all().await;
            stop.cancel();
            full
        },
        keep_the_size(node, filled, &stop)
    );
    let (full, kept) = (full.0?, full.1?);
    let after = node.size().await? as f64 / 1e6;
    let name = |what: &str| format!("{what}, {} ended runs and as many pending", sizes.grown);
    let mut figures: Vec<Figure> =
        new.iter().zip(&full).map(|(new, full)| full.beside(new, &name(&full.name))).collect();
    let size = Figure::new("growth", name("size in the end"), after, "MB");
    let before = before as f64 / 1e6;
    figures.extend([
        size.beside(Some(("MB before as much came as went", before))).at_most(1.05 * before),
        Figure::new("growth", name("rows removed meanwhile"), kept.removed as f64, "")
            .beside(Some(("rows came in", kept.came as f64))),
    ]);
    if !node.is_shared() {
        let log = kept.longest_log as f64 / 1e6;
        figures.push(Figure::new("growth", name("longest log"), log, "MB").at_most(LONGEST_LOG_MB));
    }
    Ok(figures)
}

impl Probed {
    /// This figure of the full store beside that of the new one. A rate may be as much smaller as a
    /// time may be longer.
    fn beside(&self, new: &Probed, name: &str) -> Figure {
        let figure = Figure::new("growth", name, self.value, self.unit);
        if self.unit == "per s" {
            figure.beside(Some(("per s when it was new", new.value))).at_least(new.value / WORSE)
        } else {
            figure.beside(Some(("ms when it was new", new.value))).at_most(new.value * WORSE)
        }
    }
}

impl Probe<'_> {
    async fn all(&mut self) -> Result<Vec<Probed>, Failure> {
        let mut all = self.fires().await?;
        all.extend(self.lateness().await?);
        all.extend(self.lists().await?);
        Ok(all)
    }

    async fn fires(&mut self) -> Result<Vec<Probed>, Failure> {
        let mut rates = Vec::new();
        for (name, at_once) in [("fires", false), ("fires, nothing to perform", true)] {
            self.node.watch.end_noops(at_once);
            let (count, batch) = (self.sizes.fires, self.sizes.batch);
            let load = Load { from: self.due, count, over: Duration::ZERO, batch };
            let fired = fire(&[self.node], self.workflows, &load).await?;
            self.due += fired.used;
            let value = count as f64 / fired.took.as_secs_f64();
            rates.push(Probed { name: name.to_owned(), value, unit: "per s" });
        }
        self.node.watch.end_noops(false);
        Ok(rates)
    }

    async fn lateness(&mut self) -> Result<Vec<Probed>, Failure> {
        let over = self.sizes.kept_up;
        let count = (RATE as f64 * over.as_secs_f64()) as u64;
        let load = Load { from: self.due, count, over, batch: self.sizes.batch };
        let fired = fire(&[self.node], self.workflows, &load).await?;
        self.due += fired.used;
        let quantile = |name: &str, quantile| Probed {
            name: format!("lateness at {RATE} per s, {name}"),
            value: fired.lateness.value_at_quantile(quantile) as f64 / 1_000.0,
            unit: "ms",
        };
        Ok(vec![quantile("p50", 0.5), quantile("p99", 0.99)])
    }

    async fn lists(&mut self) -> Result<Vec<Probed>, Failure> {
        let most = self.due - DUE_NUMBERS;
        let asked = lists::ask(&*self.node.store, self.sizes.queries, most, self.workflows).await?;
        let p99 = |asked: lists::QueryTimes| Probed {
            name: format!("{}, p99", asked.kind),
            value: asked.took.value_at_quantile(0.99) as f64 / 1_000.0,
            unit: "ms",
        };
        Ok(asked.into_iter().map(p99).collect())
    }

    /// Fills the store with ended runs. Returns since when, and how long it took.
    async fn fill(&mut self) -> Result<Filled, Failure> {
        let repeats = self.sizes.repeats;
        let count = self.sizes.grown.div_ceil(repeats);
        let every = Duration::from_secs_f64((count as f64 / FILLED_PER_SECOND as f64).max(0.2));
        let mut successes = successes(&[self.node]);
        self.node.watch.end_noops(true);
        let (since, watch) = (self.node.hub.now(), Stopwatch::start());
        schedules::create_repeating(self.node, self.due, count, repeats, every, self.workflows)
            .await?;
        self.due += count;
        let mut left = count * repeats;
        while left > 0 {
            match successes.recv().await {
                Some(Ok(more)) => left = left.saturating_sub(more),
                Some(Err(why)) => return Err(Failure::Environment(why.to_owned())),
                None => return Err(Failure::Environment("the node has stopped".to_owned())),
            }
        }
        self.node.watch.end_noops(false);
        Ok(Filled { since, took: watch.elapsed() })
    }
}

/// When the store was filled.
struct Filled {
    since: Timestamp,
    took: Duration,
}

/// What came and went.
#[derive(Default)]
struct Kept {
    came: u64,
    removed: u64,
    longest_log: u64,
}

/// Removes as much history as comes in, oldest first: what was filled in within minutes passes as
/// if it had been kept for as long as it takes to come in again.
async fn keep_the_size(
    node: &Node,
    filled: Filled,
    stop: &CancellationToken,
) -> Result<Kept, Failure> {
    let mut kept = Kept::default();
    let mut successes = successes(&[node]);
    let step = SignedDuration::try_from(filled.took / 1_000).unwrap_or(SignedDuration::ZERO);
    let mut oldest = filled.since;
    loop {
        let more = tokio::select! {
            () = stop.cancelled() => return Ok(kept),
            more = successes.recv() => more,
        };
        match more {
            Some(Ok(more)) => kept.came += ROWS_OF_A_FIRE * more,
            Some(Err(why)) => return Err(Failure::Environment(why.to_owned())),
            None => return Ok(kept),
        }
        while kept.removed < kept.came && !stop.is_cancelled() {
            let now = node.hub.now();
            let expired = node.store.expire(now, now.duration_since(oldest), REMOVED).await?;
            kept.removed += expired.removed;
            kept.longest_log = kept.longest_log.max(node.log_size());
            if !expired.more {
                oldest = oldest.checked_add(step).unwrap_or(oldest);
            }
        }
    }
}
