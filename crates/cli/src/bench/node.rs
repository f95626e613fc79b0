//! A node as `serve` runs it, without its HTTP server, and with a watch on its attempts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use engine::RunKey;
use engine::WorkflowId;
use engine::turn::{Answer, Command, Perform};
use hdrhistogram::Histogram;
use language::definition::{ReadContext, read};
use runners::{Policy, Runners};
use server::{Clock, Dispatch, Driver, Hub, RunnerDispatch, SharedDispatch, SystemClock};
use store::{Report, Store};
use tokio::sync::Notify;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::fires::histogram;
use super::store_target::StoreTarget;
use crate::failure::Failure;

/// The most attempts at the same time.
const CAPACITY: usize = 4_096;

/// A running node. [`Node::stop`] ends it.
pub(super) struct Node {
    pub(super) hub: Arc<Hub>,
    pub(super) store: Arc<dyn Store>,
    pub(super) watch: Arc<Watch>,
    stop: CancellationToken,
    driving: JoinHandle<Result<(), store::Failure>>,
    target: StoreTarget,
}

/// Observes attempts as they begin.
pub(super) struct Watch {
    inner: SharedDispatch,
    lateness: Mutex<Histogram<u64>>,
    /// Notified when the first attempt begins.
    pub(super) first: Notify,
    ends_noops: AtomicBool,
}

impl Watch {
    /// The times from due to begun, in microseconds, since the last call.
    pub(super) fn take_lateness(&self) -> Histogram<u64> {
        let mut lateness = self.lateness.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = lateness.clone();
        lateness.reset();
        seen
    }

    /// Sets whether steps that do nothing end in the turn that begins them, as `serve` lets them.
    /// At first they stand for work that takes no time.
    pub(super) fn end_noops(&self, ends: bool) {
        self.ends_noops.store(ends, Ordering::Relaxed);
    }
}

impl Dispatch for Watch {
    fn perform(&self, perform: Perform) -> Option<Report> {
        if let Some(due) = perform.due {
            let late = SystemClock.precise_now().duration_since(due);
            let late = u64::try_from(late.as_micros()).unwrap_or(0);
            let mut lateness = self.lateness.lock().unwrap_or_else(PoisonError::into_inner);
            lateness.saturating_record(late);
        }
        self.first.notify_one();
        self.inner.perform(perform)
    }

    fn cancel(&self, run: RunKey, token: u32) {
        self.inner.cancel(run, token);
    }

    fn abandon(&self) {
        self.inner.abandon();
    }

    fn ends_noops(&self) -> bool {
        self.ends_noops.load(Ordering::Relaxed)
    }
}

impl Node {
    /// Opens the store and drives it.
    pub(super) async fn start(target: &StoreTarget) -> Result<Node, Failure> {
        let store = target.open().await?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let (signal, signals) = unbounded_channel();
        let (report, reports) = unbounded_channel();
        let hub = Arc::new(Hub::new(store.clone(), clock.clone(), signal));
        let runners = Runners::new(Policy::default())
            .map_err(|error| Failure::Environment(error.to_string()))?;
        let watch = Arc::new(Watch {
            inner: SharedDispatch(Arc::new(RunnerDispatch::new(runners, report))),
            lateness: Mutex::new(histogram()?),
            first: Notify::new(),
            ends_noops: AtomicBool::new(false),
        });
        let driver =
            Driver::join(store.clone(), clock, watch.clone(), hub.clone(), "bench", CAPACITY)
                .await?;
        let stop = CancellationToken::new();
        let driving = tokio::spawn(driver.run(signals, reports, stop.clone()));
        Ok(Node { hub, store, watch, stop, driving, target: target.clone() })
    }

    /// The size of the WAL beside the file, in bytes; 0 on PostgreSQL.
    pub(super) fn log_size(&self) -> u64 {
        let log = self.target.log().and_then(|log| std::fs::metadata(log).ok());
        log.map_or(0, |log| log.len())
    }

    /// How many bytes the store has on disk, without the WAL.
    pub(super) async fn size(&self) -> Result<u64, Failure> {
        self.target.size().await
    }

    /// Whether other nodes can use the store.
    pub(super) fn is_shared(&self) -> bool {
        self.target.is_shared()
    }

    /// Stops the node and closes the store.
    pub(super) async fn stop(self) -> Result<(), Failure> {
        self.stop.cancel();
        let driven = self.driving.await;
        driven.map_err(|error| Failure::Environment(error.to_string()))??;
        Ok(())
    }

    /// Publishes a workflow with one step that does nothing.
    pub(super) async fn save_workflow(&self, name: &str) -> Result<WorkflowId, Failure> {
        self.save(&format!("name: {name}\nsteps:\n  - {{id: nothing, type: noop}}\n")).await
    }

    /// Saves and publishes a workflow.
    pub(super) async fn save(&self, source: &str) -> Result<WorkflowId, Failure> {
        let rules = self.store.rules();
        let context =
            ReadContext { zones: rules.zones(), now: self.hub.now(), known_calendar: &|_| None };
        let definition =
            read(source, &context).map_err(|flaws| Failure::Environment(format!("{flaws:?}")))?;
        let definition = Arc::new(definition);
        let source = source.to_owned();
        let command = Command::SaveWorkflow { source, definition, publish: true, folder: None };
        match self.hub.command(command, None).await?.answer {
            Answer::Workflow { id, .. } => Ok(id),
            other => Err(Failure::Environment(format!("no workflow: {other:?}"))),
        }
    }
}

impl From<store::Failure> for Failure {
    fn from(failure: store::Failure) -> Failure {
        Failure::Environment(failure.to_string())
    }
}
