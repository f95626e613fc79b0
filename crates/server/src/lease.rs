//! The node's lease on a shared store: renewed by a task of its own, beside the driver.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::{Moment, RunKey, WorkflowId};
use jiff::SignedDuration;
use store::{Call, Failure, RenewRequest, Renewed, Store};
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;

use crate::clock::StoreClock;
use crate::hub::{DriverSignal, Hub};

/// How many times a lease is renewed while it lasts: two renewals in a row may fail.
const TIMES: u32 = 3;
/// The driver sleeps by this machine's clock, so it is signalled when the store's clock has drifted
/// this far from it.
const DRIFT: SignedDuration = SignedDuration::from_millis(10);

/// The attempts that this node performs, shared by the driver and the lease renewals.
#[derive(Clone, Debug, Default)]
pub(crate) struct Performed(Arc<Mutex<Attempts>>);

/// Attempts by run and token, with the workflows that they belong to.
pub(crate) type Attempts = HashMap<(RunKey, u32), WorkflowId>;

impl Performed {
    pub(crate) fn held(&self) -> MutexGuard<'_, Attempts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn all(&self) -> Vec<(RunKey, u32)> {
        self.held().keys().copied().collect()
    }
}

/// Renews the lease of one node.
pub struct Renewals {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: StoreClock,
    pub(crate) hub: Arc<Hub>,
    pub(crate) capacity: usize,
    pub(crate) performed: Performed,
}

impl Renewals {
    /// Renews the lease once, and signals the driver with what the store returned.
    pub async fn run_once(&self) -> Result<(), Failure> {
        let now = self.clock.now();
        let request = RenewRequest {
            node: self.hub.node(),
            moment: Moment::new(now, now),
            capacity: self.capacity,
            performed: self.performed.all(),
        };
        let node = request.node;
        match self.store.renew(request).await {
            Ok(Renewed { effects, next_wakeup, look }) => {
                self.hub.readiness.committed();
                self.hub.pass_on(effects, next_wakeup, look);
                Ok(())
            }
            Err(Failure::Fenced) => {
                self.hub.signal(DriverSignal::Fenced(node));
                Err(Failure::Fenced)
            }
            Err(failure) => {
                self.hub.metrics.renewal_failed();
                tracing::debug!(%failure, "the lease was not renewed");
                // The next turn that succeeds sets the node ready again. A turn that hangs would
                // report nothing for a long time.
                self.hub.set_not_ready(format!("The lease is not renewed: {failure}."));
                // Makes the driver take a turn. If that fails too, the driver logs it and retries
                // until it succeeds.
                self.hub.signal(DriverSignal::Doubt);
                Err(failure)
            }
        }
    }

    /// Renews the lease periodically, and at once when another node asks for it. Never returns; on
    /// a store without leases it does nothing.
    pub(crate) async fn run(&self) -> Infallible {
        let Some(lease) = self.store.lease() else { return std::future::pending().await };
        let called = self.listen();
        let every = Duration::try_from(lease).unwrap_or_default() / TIMES;
        let mut ticks = tokio::time::interval(every.max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut skew = self.store.skew();
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = called.notified() => {}
            }
            // `run_once` has already reported a failure to the driver and to readiness.
            let _ = self.run_once().await;
            let drift = self.store.skew().checked_sub(skew).unwrap_or_default();
            if drift.abs() >= DRIFT {
                skew = self.store.skew();
                self.hub.signal(DriverSignal::Sooner);
            }
        }
    }

    /// Registers for calls of other nodes. The returned `Notify` fires when one of them asks for a
    /// renewal.
    fn listen(&self) -> Arc<Notify> {
        let called = Arc::new(Notify::new());
        // The store holds this closure, so it must not hold the hub, which holds the store.
        let (renew, signals) = (called.clone(), self.hub.signals());
        let access_changes = self.hub.access_changes.clone();
        self.store.on_call(Box::new(move |call| match call {
            Call::Renew => renew.notify_one(),
            Call::Look => drop(signals.send(DriverSignal::Look)),
            Call::Access => access_changes.send_modify(|changes| *changes += 1),
        }));
        called
    }
}
