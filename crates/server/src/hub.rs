//! The hub connects the driver with the API and the pages: commands go in through it, and notices
//! of committed changes come out.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use engine::trace::Span;
use engine::turn::{Command, Effect, Notice};
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
use crate::notice_log::{self, LogLimit};
use crate::readiness::Readiness;
use crate::traces::{Exporter, SpanQueue, TraceTarget};
use crate::waiting::{Waiting, WaitingWorkers};

/// How many notices a slow listener may lag behind before it loses some.
const BEHIND: usize = 4_096;

/// A message that wakes the driver up.
#[derive(Debug)]
pub enum DriverSignal {
    Effects(Vec<Effect>),
    /// Runs may be waiting for a free slot.
    Look,
    /// A wakeup is due sooner than the driver expects.
    Sooner,
    /// A command may have been committed, but its effects were lost with the answer; or the store
    /// does not answer, which the next turn will show.
    Doubt,
    /// Other nodes declared this node id dead.
    Fenced(NodeId),
}

/// Takes commands, sends notices, and holds what the driver shares with the rest of the node.
pub struct Hub {
    store: Arc<dyn Store>,
    clock: StoreClock,
    signals: UnboundedSender<DriverSignal>,
    notices: broadcast::Sender<Arc<[Notice]>>,
    /// When the driver wakes up by itself, in milliseconds since 1970.
    wakes_at: AtomicI64,
    node: AtomicI64,
    waiting_workers: WaitingWorkers,
    /// Notified when a workflow or schedule is declared or changed.
    pub(crate) declared: Notify,
    log_limit: LogLimit,
    /// Goes up when access tokens or sign-ins change, on this node or on another one that notifies
    /// it.
    pub(crate) access_changes: Arc<watch::Sender<u64>>,
    /// Output of the attempts that this node performs.
    pub(crate) live: Arc<Live>,
    pub(crate) readiness: Readiness,
    /// Tasks that run to their end even if their caller goes away.
    tasks: TaskTracker,
    /// Spans waiting for export. `None` if tracing is off.
    spans: Option<Arc<SpanQueue>>,
    pub metrics: Metrics,
}

impl Hub {
    /// Creates the hub of a node. `signals` is the sending half of the driver's channel.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        signals: UnboundedSender<DriverSignal>,
    ) -> Hub {
        let (notices, _) = broadcast::channel(BEHIND);
        Hub {
            live: Arc::new(Live::new(notices.clone())),
            clock: StoreClock::new(clock, store.clone()),
            store,
            signals,
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

    /// Turns tracing on. The returned exporter sends the spans to `target`.
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

    /// Whether tracing is on.
    pub(crate) fn is_traced(&self) -> bool {
        self.spans.is_some()
    }

    pub(crate) fn trace(&self, spans: Vec<Span>) {
        if let Some(queue) = &self.spans {
            queue.put(spans);
        }
    }

    /// The store of this node.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The current time by the store's clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Carries out a command in a task of its own. When this returns, the outcome is stored and the
    /// driver is signalled. If the caller goes away, it loses only the answer. The effects in the
    /// answer are for the caller: attempts that a worker has claimed, which `handout::claim` asks
    /// for.
    pub async fn command(
        self: &Arc<Self>,
        command: Command,
        idempotency: Option<Idempotency>,
    ) -> Result<Commanded, Failure> {
        self.audited(command, idempotency, None).await
    }

    /// Like [`Hub::command`], and writes `audit` to the audit log in the same transaction.
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

    /// Runs `work` in a task of its own and waits for it. The task goes on if the caller goes away
    /// or gives up, so requests that write to the store use this. A node that stops waits for such
    /// tasks.
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
                // A task is cancelled only when its runtime shuts down.
                Err(error) => Err(Failure::Unknown(error.to_string()).into()),
            },
        }
    }

    /// Runs `work` in a task that no caller waits for. A node that stops does.
    pub(crate) fn in_background(
        &self,
        runtime: &Handle,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        self.tasks.spawn_on(work, runtime);
    }

    /// Waits until all tasks of [`Hub::uninterrupted`] and [`Hub::in_background`] have ended.
    pub(crate) async fn finished(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// How many commands the store has not answered yet.
    pub fn commands_in_flight(&self) -> usize {
        self.readiness.commands.count()
    }

    /// Carries out a command without a task of its own. The caller must wait for the answer: if it
    /// does not, the driver is not signalled with the command's effects.
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
        let in_flight = self.readiness.commands.begin(now);
        let answered = self.store.command(request).await;
        drop(in_flight);
        let mut commanded = match answered {
            Ok(commanded) => commanded,
            Err(failure) => {
                self.readiness.failed(&failure, self.clock.now());
                match failure {
                    Failure::Unknown(_) => self.signal(DriverSignal::Doubt),
                    Failure::Fenced => self.signal(DriverSignal::Fenced(node)),
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
                self.metrics.begun(perform.due, now);
            }
        }
        let effects = std::mem::replace(&mut commanded.effects, claimed);
        self.pass_on(effects, commanded.next_wakeup, commanded.look);
        Ok(commanded)
    }

    /// Signals the driver: effects, and with wakeups or waiting runs that it would not find by
    /// itself in time.
    pub(crate) fn pass_on(&self, effects: Vec<Effect>, next_wakeup: Option<Timestamp>, look: bool) {
        let wakes_at = self.wakes_at.load(Ordering::Acquire);
        let sooner = next_wakeup.is_some_and(|at| at.as_millisecond() < wakes_at);
        if !effects.is_empty() {
            self.signal(DriverSignal::Effects(effects));
        }
        if look {
            self.signal(DriverSignal::Look);
        } else if sooner {
            self.signal(DriverSignal::Sooner);
        }
    }

    /// Wakes the driver up. If the driver is gone, the signal is lost: the effects are read from
    /// the store at the next start.
    pub(crate) fn signal(&self, signal: DriverSignal) {
        let _ = self.signals.send(signal);
    }

    /// A sender to the driver, for holders that must not keep the hub alive.
    pub(crate) fn signals(&self) -> UnboundedSender<DriverSignal> {
        self.signals.clone()
    }

    /// Adds a caller to the workers that wait for attempts in these queues.
    pub(crate) fn wait_for_work(&self, queues: &[String]) -> Waiting<'_> {
        self.waiting_workers.join(queues)
    }

    /// The node id of this start.
    pub(crate) fn node(&self) -> NodeId {
        NodeId(self.node.load(Ordering::Relaxed))
    }

    /// Subscribes to the notices of everything committed from now on.
    pub fn listen(&self) -> broadcast::Receiver<Arc<[Notice]>> {
        self.notices.subscribe()
    }

    /// Why the node is not driving, as far as it knows without asking the store. `None` when it is
    /// driving.
    pub fn why_not_ready(&self) -> Option<String> {
        self.readiness.why_not(self.now())
    }

    /// Why the node is not driving, judged by what the store reports as due.
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

    /// During a turn the driver does not know until when it will sleep, so whoever commits a wakeup
    /// meanwhile has to signal it.
    pub(crate) fn turn_began(&self) {
        self.wakes_at.store(i64::MAX, Ordering::Release);
    }

    pub(crate) fn committed(
        &self,
        turned: &mut Turned,
        next_wakeup: Option<Timestamp>,
        settled: usize,
    ) {
        let has_written = turned.claimed + settled + turned.effects.len() > 0;
        self.readiness.turned(self.now(), has_written);
        let wakes_at = next_wakeup.map_or(i64::MAX, |at| at.as_millisecond());
        self.wakes_at.store(wakes_at, Ordering::Release);
        self.metrics.turn(turned);
        self.tell(std::mem::take(&mut turned.notices));
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
            if notice_log::is_logged(notice) && self.log_limit.permits(self.clock.now()) {
                notice_log::log(notice);
            }
        }
        if !notices.is_empty() && self.notices.receiver_count() > 0 {
            let _ = self.notices.send(notices.into());
        }
    }
}
