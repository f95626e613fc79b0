//! `punctual worker`: runs a command for each attempt of the given queues.

mod command;
mod protocol;

use std::sync::Arc;
use std::time::Duration;

use server::Secrets;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::args::worker::WorkerArgs;
use crate::client::Line;
use crate::failure::Failure;
use crate::node::signals::Signals;
use crate::node::{logging, own_name, runtime};
use command::Program;
use protocol::{Attempt, Node, Report, Unanswered};

/// Pause between claims that a node answers with nothing, in case the node does not hold such
/// claims open.
const PAUSE: Duration = Duration::from_millis(200);
/// Pause after the first request without an answer. The pause doubles with each further one, up to
/// [`LONGEST_WAIT`].
const SHORTEST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

pub(crate) fn run(args: &WorkerArgs) -> Result<(), Failure> {
    let line = Line::from_environment()?;
    let secrets = Secrets::default().with_own(logging::own_secrets());
    let secrets = secrets.map_err(|error| Failure::Mistake(error.to_string()))?;
    logging::start(args.log, "info", Arc::new(secrets))?;
    let name = args.name.clone().unwrap_or_else(own_name);
    let worker = Arc::new(Worker {
        node: Node::new(line, &args.queue, name.clone(), args.lease),
        program: Program::new(&args.command)?,
        lease: Duration::from_secs(args.lease),
        slots: Arc::new(Semaphore::new(args.concurrency as usize)),
        going_on: TaskTracker::new(),
    });
    // The runtime is dropped at the end, and attempts that still run are killed with it.
    let runtime = runtime()?;
    runtime.block_on(async {
        let mut signals = Signals::new()?;
        tracing::info!(worker = name, queues = ?args.queue, "ready");
        let ended = tokio::select! {
            refused = worker.take_on() => Err(refused),
            signal = signals.next() => Ok(signal),
        };
        worker.finish(ended, &mut signals).await
    })
}

struct Worker {
    node: Node,
    program: Program,
    lease: Duration,
    /// One permit for each attempt that may run at the same time.
    slots: Arc<Semaphore>,
    going_on: TaskTracker,
}

impl Worker {
    /// Claims attempts as slots are free, until the node refuses.
    async fn take_on(self: &Arc<Self>) -> Failure {
        let mut outage = Outage::default();
        loop {
            let mut slots = self.free_slots().await;
            match self.node.claim(slots.len()).await {
                Ok(attempts) => {
                    outage.is_over();
                    if attempts.is_empty() {
                        tokio::time::sleep(PAUSE).await;
                    }
                    for attempt in attempts {
                        let (worker, slot) = (Arc::clone(self), slots.pop());
                        self.going_on.spawn(async move {
                            worker.attend(attempt).await;
                            drop(slot);
                        });
                    }
                }
                Err(Unanswered::Later(why)) => outage.wait(&why).await,
                Err(Unanswered::Lost) => outage.wait("the node answers 409 to a claim").await,
                Err(Unanswered::Refused(failure)) => return failure,
            }
        }
    }

    /// Waits for a free slot, and returns all slots that are free.
    async fn free_slots(&self) -> Vec<OwnedSemaphorePermit> {
        let mut slots = Vec::new();
        // The semaphore is never closed.
        slots.extend(Arc::clone(&self.slots).acquire_owned().await);
        while let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            slots.push(slot);
        }
        slots
    }

    /// Performs one claimed attempt and reports its result.
    async fn attend(&self, attempt: Attempt) {
        let Attempt { run, step, attempt: number, .. } = &attempt;
        tracing::info!(run, step, attempt = number, "begun");
        let cancel = CancellationToken::new();
        let working = self.program.run(&attempt, cancel.clone());
        let losing = self.keep(&attempt, &cancel);
        tokio::pin!(working);
        let report = tokio::select! {
            report = &mut working => report,
            () = losing => {
                tracing::warn!(run, step, "the attempt is another's now: the command is ended");
                cancel.cancel();
                working.await;
                return;
            }
        };
        match &report {
            Report::Completed(_) => tracing::info!(run, step, "completed"),
            Report::Failed { code, message, .. } => {
                tracing::warn!(run, step, code, "failed: {message}");
            }
        }
        self.report(&attempt, report).await;
    }

    /// Sends heartbeats for an attempt, and cancels it if the node says so. Returns only when the
    /// attempt is lost.
    async fn keep(&self, attempt: &Attempt, cancel: &CancellationToken) {
        let (usual, hurried) = (self.lease / 3, self.lease / 10);
        let mut wait = usual;
        loop {
            tokio::time::sleep(wait).await;
            wait = usual;
            match self.node.beat(attempt).await {
                Ok(true) if !cancel.is_cancelled() => {
                    tracing::info!(run = attempt.run, step = attempt.step, "cancelled");
                    cancel.cancel();
                }
                Ok(_) => {}
                Err(Unanswered::Lost) => return,
                Err(Unanswered::Later(why)) => {
                    tracing::warn!(run = attempt.run, "no sign of life came through: {why}");
                    wait = hurried;
                }
                // The answer to the report will say whether the attempt still counts.
                Err(Unanswered::Refused(why)) => {
                    tracing::warn!(run = attempt.run, "a sign of life was refused: {why}");
                }
            }
        }
    }

    /// Sends the report until the node has answered.
    async fn report(&self, attempt: &Attempt, mut report: Report) {
        let (run, step) = (&attempt.run, &attempt.step);
        let mut outage = Outage::default();
        loop {
            match (self.node.report(attempt, &report).await, &report) {
                (Ok(()), _) => return,
                (Err(Unanswered::Lost), _) => {
                    tracing::warn!(run, step, "the report came too late: the attempt has ended");
                    return;
                }
                (Err(Unanswered::Later(why)), _) => outage.wait(&why).await,
                (Err(Unanswered::Refused(why)), Report::Completed(_)) => {
                    tracing::warn!(run, step, "the output was refused: {why}");
                    let (code, message) = ("output_refused".to_owned(), why.to_string());
                    report = Report::Failed { code, message, retryable: false };
                }
                (Err(Unanswered::Refused(why)), Report::Failed { .. }) => {
                    tracing::error!(run, step, "the report was refused: {why}");
                    return;
                }
            }
        }
    }

    /// Waits for running attempts to end, or for another signal.
    async fn finish(
        &self,
        ended: Result<&'static str, Failure>,
        signals: &mut Signals,
    ) -> Result<(), Failure> {
        self.going_on.close();
        let left = self.going_on.len();
        match &ended {
            Ok(signal) if left > 0 => {
                tracing::info!(going_on = left, "{signal}: finishing; again to stop at once");
            }
            Ok(signal) => tracing::info!("{signal}: stopped"),
            Err(_) => tracing::error!(going_on = left, "the node refuses: finishing"),
        }
        tokio::select! {
            () = self.going_on.wait() => ended.map(drop),
            signal = signals.next() => Err(Failure::Environment(format!(
                "{signal} again: {} attempts were left undone; others take them when their leases end",
                self.going_on.len()
            ))),
        }
    }
}

/// A time in which the node does not answer. Its beginning and its end are logged.
#[derive(Default)]
struct Outage {
    questions: u32,
}

impl Outage {
    async fn wait(&mut self, why: &str) {
        if self.questions == 0 {
            tracing::warn!("asking again until there is an answer: {why}");
        }
        let wait = SHORTEST_WAIT.saturating_mul(2_u32.saturating_pow(self.questions));
        self.questions += 1;
        tokio::time::sleep(wait.min(LONGEST_WAIT)).await;
    }

    fn is_over(&mut self) {
        if self.questions > 0 {
            tracing::info!("the node answers again");
        }
        self.questions = 0;
    }
}
