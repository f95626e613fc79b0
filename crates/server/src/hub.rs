//! Where the driver and the edges meet: commands go through here, and what happened is told from here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use engine::turn::{Command, Effect, Notice, Perform};
use engine::{Moment, NodeId};
use jiff::Timestamp;
use store::{CommandRequest, Commanded, Failure, Idempotency, Store, Turned};
use tokio::sync::broadcast;
use tokio::sync::mpsc::UnboundedSender;

use crate::clock::Clock;
use crate::metrics::Metrics;

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
    /// A command may have been committed, and what follows from it was lost with the answer.
    Doubt,
}

/// Commands in, notices out.
pub struct Hub {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    nudges: UnboundedSender<Nudge>,
    notices: broadcast::Sender<Arc<[Notice]>>,
    /// When the driver wakes up by itself, in milliseconds.
    wakes_at: AtomicI64,
    node: AtomicI64,
    ready: AtomicBool,
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
        Hub {
            store,
            clock,
            nudges,
            notices: broadcast::channel(BEHIND).0,
            wakes_at: AtomicI64::new(i64::MAX),
            node: AtomicI64::new(0),
            ready: AtomicBool::new(false),
            metrics: Metrics::default(),
        }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Carries out a command. When it returns, the outcome is stored, and the driver knows.
    pub async fn command(
        &self,
        command: Command,
        idempotency: Option<Idempotency>,
    ) -> Result<Commanded, Failure> {
        let now = self.clock.now();
        let request = CommandRequest {
            command,
            moment: Moment::new(now, now),
            node: NodeId(self.node.load(Ordering::Relaxed)),
            idempotency,
        };
        let mut commanded = match self.store.command(request).await {
            Ok(commanded) => commanded,
            Err(failure) => {
                if let Failure::Unknown(_) = failure {
                    let _ = self.nudges.send(Nudge::Doubt);
                }
                return Err(failure);
            }
        };
        self.tell(std::mem::take(&mut commanded.notices));
        let effects = std::mem::take(&mut commanded.effects);
        let wakes_at = self.wakes_at.load(Ordering::Acquire);
        let sooner = commanded.next_wakeup.is_some_and(|at| at.as_millisecond() < wakes_at);
        // A driver that is gone performs nothing any more: the next life will.
        if !effects.is_empty() {
            let _ = self.nudges.send(Nudge::Effects(effects));
        }
        if commanded.look {
            let _ = self.nudges.send(Nudge::Look);
        } else if sooner {
            let _ = self.nudges.send(Nudge::Sooner);
        }
        Ok(commanded)
    }

    /// What happens from now on.
    pub fn listen(&self) -> broadcast::Receiver<Arc<[Notice]>> {
        self.notices.subscribe()
    }

    /// Whether the store answers and the driver drives.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    pub(crate) fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    pub(crate) fn set_node(&self, node: NodeId) {
        self.node.store(node.0, Ordering::Relaxed);
        self.set_ready(true);
    }

    /// While the driver takes a turn it does not know when it will sleep until: whoever commits
    /// meanwhile has to nudge it.
    pub(crate) fn turning(&self) {
        self.wakes_at.store(i64::MAX, Ordering::Release);
    }

    pub(crate) fn committed(&self, turned: &Turned, next_wakeup: Option<Timestamp>) {
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
        if !notices.is_empty() && self.notices.receiver_count() > 0 {
            let _ = self.notices.send(notices.into());
        }
    }
}
