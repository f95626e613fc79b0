//! Where the driver and the edges meet: commands go through here, and what happened is told from here.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use engine::trace::Span;
use engine::turn::{Command, Effect, Notice, Perform};
use engine::{Moment, NodeId};
use jiff::Timestamp;
use store::{AuditEntry, CommandRequest, Commanded, Failure, Idempotency, Stats, Store, Turned};
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Notify, broadcast, watch};
use tokio_util::task::TaskTracker;

use crate::clock::{Clock, StoreClock};
use crate::live::Live;
use crate::metrics::Metrics;
use crate::readiness::Readiness;
use crate::traces::{Exporter, SpanQueue, TraceTarget};
use crate::turnings::{self, LogLimit};
use crate::waiting::{Waiting, WaitingWorkers};

/// Notices that a slow listener may be behind.
const BEHIND: usize = 4_096;

/// A reason for the driver to wake up.
#[derive(Debug)]
pub enum Nudge {
    /// These are to be performed.
    Effects(Vec<Effect>),
    /// Runs may be waiting for a place.
    Look,
    /// Something is due sooner than the driver thinks.
    Sooner,
    /// A command may have been committed, and what follows from it was lost with the answer; or the
    /// store does not answer, which a turn will show.
    Doubt,
    /// This life of the node was taken for dead.
    Fenced(NodeId),
}

/// Commands in, notices out.
pub struct Hub {
    store: Arc<dyn Store>,
    clock: StoreClock,
    nudges: UnboundedSender<Nudge>,
    notices: broadcast::Sender<Arc<[Notice]>>,
    /// When the driver wakes up by itself, in milliseconds.
    wakes_at: AtomicI64,
    node: AtomicI64,
    waiting_workers: WaitingWorkers,
    /// A workflow or schedule was declared or changed.
    pub(crate) declared: Notify,
    log_limit: LogLimit,
    /// Goes up when tokens or sign-ins change, here or on another node that calls.
    pub(crate) access_changes: Arc<watch::Sender<u64>>,
    /// What is said by what this node performs.
    pub(crate) live: Arc<Live>,
    /// What is known about whether the node drives.
    pub(crate) readiness: Readiness,
    /// What goes on to its end whatever becomes of its caller.
    tasks: TaskTracker,
    /// Where what has ended goes, if it is traced.
    spans: Option<Arc<SpanQueue>>,
    /// Counters for `/metrics`.
    pub metrics: Metrics,
}

impl Hub {
    /// `nudges` lead to the driver.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        nudges: UnboundedSender<Nudge>,
    ) -> Hub {
        let (notices, _) = broadcast::channel(BEHIND);
        Hub {
            live: Arc::new(Live::new(notices.clone())),
            clock: StoreClock::new(clock, store.clone()),
            store,
            nudges,
            notices,
            wakes_at: AtomicI64::new(i64::MAX),
            node: AtomicI64::new(0),
            waiting_workers: WaitingWorkers::default(),
            declared: Notify::new(),
            log_limit: LogLimit::default(),
            access_changes: Arc::default(),
            readiness: Readiness::default(),
            tasks: TaskTracker::new(),
            spans: None,
            metrics: Metrics::default(),
        }
    }

    /// From now on what ends is traced.
    pub(crate) fn trace_to(
        &mut self,
        target: TraceTarget,
        node: &str,
    ) -> Result<Exporter, reqwest::Error> {
        let (exported, dropped) = self.metrics.spans();
        let queue = Arc::new(SpanQueue::new(dropped.clone()));
        self.spans = Some(queue.clone());
        Exporter::new(target, node, queue, exported, dropped)
    }

    /// Whether what ends is traced.
    pub(crate) fn is_traced(&self) -> bool {
        self.spans.is_some()
    }

    pub(crate) fn trace(&self, spans: Vec<Span>) {
        if let Some(queue) = &self.spans {
            queue.put(spans);
        }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Now, by the store's clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Carries out a command in a task of its own. When it returns, the outcome is stored, and the driver knows. A caller
    /// that goes away loses the answer, not what follows from the command. The effects that are left are for the
    /// caller: what a worker has claimed, which `handout::claim` asks for.
    pub async fn command(
        self: &Arc<Self>,
        command: Command,
        idempotency: Option<Idempotency>,
    ) -> Result<Commanded, Failure> {
        self.audited(command, idempotency, None).await
    }

    /// The same; who it was is in the audit log with what it changed.
    pub async fn audited(
        self: &Arc<Self>,
        command: Command,
        idempotency: Option<Idempotency>,
        audit: Option<AuditEntry>,
    ) -> Result<Commanded, Failure> {
        let hub = self.clone();
        let work = async move { hub.carry_out(command, idempotency, audit).await };
        self.uninterrupted(work).await
    }

    /// Does work in a task of its own, and waits for it. The work goes on when the caller goes away or gives up:
    /// whoever writes to the store from a request does it in here. A node that stops waits for it.
    pub async fn uninterrupted<T, E>(
        &self,
        work: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Failure> + Send + 'static,
    {
        match self.tasks.spawn(work).await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // Tasks are cancelled only with the runtime that they are in.
                Err(error) => Err(Failure::Unknown(error.to_string()).into()),
            },
        }
    }

    /// Does work that nobody waits for, save a node that stops.
    pub(crate) fn in_background(
        &self,
        runtime: &Handle,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        self.tasks.spawn_on(work, runtime);
    }

    /// Returns when everything has ended that goes on without its caller.
    pub(crate) async fn finished(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Commands that the store has not answered.
    pub fn commands_in_flight(&self) -> usize {
        self.readiness.commands.count()
    }

    /// Carries out a command where there are no tasks: the caller has to wait for the answer, or the driver does not
    /// learn what follows from the command.
    pub async fn carry_out(
        &self,
        command: Command,
        idempotency: Option<Idempotency>,
        audit: Option<AuditEntry>,
    ) -> Result<Commanded, Failure> {
        let now = self.clock.now();
        if let Command::EndAttempt { end, .. } = &command {
            self.metrics.reported(end);
        }
        let request = CommandRequest {
            command,
            moment: Moment::new(now, now),
            node: self.node(),
            idempotency,
            traced: self.is_traced(),
            audit,
        };
        let node = request.node;
        let flight = self.readiness.commands.begin(now);
        let answered = self.store.command(request).await;
        drop(flight);
        let mut commanded = match answered {
            Ok(commanded) => commanded,
            Err(failure) => {
                self.readiness.failed(&failure, self.clock.now());
                match failure {
                    Failure::Unknown(_) => self.nudge(Nudge::Doubt),
                    Failure::Fenced => self.nudge(Nudge::Fenced(node)),
                    _ => {}
                }
                return Err(failure);
            }
        };
        self.readiness.committed();
        self.trace(std::mem::take(&mut commanded.spans));
        self.tell(std::mem::take(&mut commanded.notices));
        let is_claimed = |effect: &mut Effect| matches!(effect, Effect::Claimed { .. });
        let claimed: Vec<Effect> = commanded.effects.extract_if(.., is_claimed).collect();
        for effect in &claimed {
            if let Effect::Claimed { perform, .. } = effect {
                self.performing(perform, now);
            }
        }
        let effects = std::mem::replace(&mut commanded.effects, claimed);
        self.pass_on(effects, commanded.next_wakeup, commanded.look);
        Ok(commanded)
    }

    /// Tells the driver what there is to do, if it would not find out by itself.
    pub(crate) fn pass_on(&self, effects: Vec<Effect>, next_wakeup: Option<Timestamp>, look: bool) {
        let wakes_at = self.wakes_at.load(Ordering::Acquire);
        let sooner = next_wakeup.is_some_and(|at| at.as_millisecond() < wakes_at);
        if !effects.is_empty() {
            self.nudge(Nudge::Effects(effects));
        }
        if look {
            self.nudge(Nudge::Look);
        } else if sooner {
            self.nudge(Nudge::Sooner);
        }
    }

    /// Wakes the driver up. One that is gone performs nothing any more: the next life will.
    pub(crate) fn nudge(&self, nudge: Nudge) {
        let _ = self.nudges.send(nudge);
    }

    /// The way to the driver, for those who must not hold the hub.
    pub(crate) fn nudges(&self) -> UnboundedSender<Nudge> {
        self.nudges.clone()
    }

    /// A place among those who wait for something in these queues.
    pub(crate) fn wait_for_work(&self, queues: &[String]) -> Waiting<'_> {
        self.waiting_workers.join(queues)
    }

    /// This life of the node.
    pub(crate) fn node(&self) -> NodeId {
        NodeId(self.node.load(Ordering::Relaxed))
    }

    /// What happens from now on.
    pub fn listen(&self) -> broadcast::Receiver<Arc<[Notice]>> {
        self.notices.subscribe()
    }

    /// Why the node does not drive, in words, as far as it knows by itself; nothing when it does.
    pub fn why_not_ready(&self) -> Option<String> {
        self.readiness.why_not(self.now())
    }

    /// The same, given what the store says is due.
    pub(crate) fn why_late(&self, stats: &Stats) -> Option<String> {
        self.readiness.why_late(stats, self.now())
    }

    pub(crate) fn set_ready(&self) {
        self.readiness.set_driving();
    }

    pub(crate) fn set_not_ready(&self, why: impl Into<String>) {
        self.readiness.set_not_driving(why.into());
    }

    pub(crate) fn set_node(&self, node: NodeId, capacity: usize) {
        self.metrics.set_capacity(capacity);
        self.node.store(node.0, Ordering::Relaxed);
        self.set_ready();
    }

    /// While the driver takes a turn it does not know when it will sleep until: whoever commits
    /// meanwhile has to nudge it.
    pub(crate) fn turning(&self) {
        self.wakes_at.store(i64::MAX, Ordering::Release);
    }

    pub(crate) fn committed(
        &self,
        turned: &Turned,
        next_wakeup: Option<Timestamp>,
        settled: usize,
    ) {
        let has_written = turned.claimed + settled + turned.effects.len() > 0;
        self.readiness.turned(self.now(), has_written);
        let wakes_at = next_wakeup.map_or(i64::MAX, |at| at.as_millisecond());
        self.wakes_at.store(wakes_at, Ordering::Release);
        self.metrics.turn(turned);
        self.tell(turned.notices.clone());
    }

    pub(crate) fn performing(&self, perform: &Perform, now: Timestamp) {
        self.metrics.performing(perform, now);
    }

    fn tell(&self, notices: Vec<Notice>) {
        self.metrics.notices(&notices);
        for notice in &notices {
            if let Notice::Queued { queue, count } = notice {
                self.waiting_workers.wake(queue, *count);
            }
            if let Notice::Workflow { .. } | Notice::Schedule { .. } = notice {
                self.declared.notify_one();
            }
            if turnings::is_logged(notice) && self.log_limit.permits(self.clock.now()) {
                turnings::log(notice);
            }
        }
        if !notices.is_empty() && self.notices.receiver_count() > 0 {
            let _ = self.notices.send(notices.into());
        }
    }
}
