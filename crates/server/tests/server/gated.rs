//! A store whose answers can be held back, like one whose disk or database is stuck.

use std::sync::{Arc, Mutex};

use engine::turn::Wakeup;
use engine::{Moment, NodeId, RunKey, ScheduleId};
use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use store::*;
use tokio::sync::{Notify, watch};

/// What happens to requests of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// They are carried out and answered.
    Open,
    /// They are carried out, and the answer is held back.
    Unanswered,
    /// They do not reach the store.
    Stuck,
    /// Their commits fail: the disk is full.
    Full,
}

/// A real store behind gates.
pub(crate) struct GatedStore {
    real: Arc<dyn Store>,
    pub(crate) turns: watch::Sender<Gate>,
    pub(crate) commands: watch::Sender<Gate>,
    /// How many commands were carried out whose answers are held back.
    pub(crate) unanswered: watch::Sender<usize>,
    /// A turn that decides over this kills the node that takes it.
    deadly: Mutex<Option<Wakeup>>,
    death: Notify,
}

impl GatedStore {
    pub(crate) fn new(real: Arc<dyn Store>) -> Arc<GatedStore> {
        let gate = || watch::channel(Gate::Open).0;
        Arc::new(GatedStore {
            real,
            turns: gate(),
            commands: gate(),
            unanswered: watch::channel(0).0,
            deadly: Mutex::default(),
            death: Notify::new(),
        })
    }

    /// From now on a node that decides over this dies: the turn does not return.
    pub(crate) fn make_deadly(&self, what: Wakeup) {
        *self.deadly.lock().unwrap() = Some(what);
    }

    /// Returns when a node has died of the deadly row.
    pub(crate) async fn died(&self) {
        self.death.notified().await;
    }

    async fn kills(&self, request: &TurnRequest) -> bool {
        let Some(what) = *self.deadly.lock().unwrap() else { return false };
        let aside = self.real.all_set_aside().await.unwrap();
        if aside.iter().any(|aside| aside.what == what) {
            return false;
        }
        let now = request.moment.now;
        match what {
            Wakeup::Schedule(id) if request.limit > 1 => {
                let found = self.real.schedule(id).await.unwrap();
                found.and_then(|view| view.schedule.wake_at()).is_some_and(|at| at <= now)
            }
            Wakeup::Schedule(_) if request.limit == 1 => {
                let next = self.real.next_to_decide(now, RunKey(i64::MAX)).await.unwrap();
                next == Some(Trial::Due(what))
            }
            Wakeup::Run(key) => request.begin == Some(key) || request.capacity.rescan,
            _ => false,
        }
    }

    /// Returns when the answers of `count` commands are held back.
    pub(crate) async fn held(&self, count: usize) {
        self.unanswered.subscribe().wait_for(|held| *held >= count).await.unwrap();
    }
}

/// Returns when a request of this kind may go on, with an error if its commit is to fail.
async fn pass(gate: &watch::Sender<Gate>) -> Result<(), Failure> {
    let passed = *gate.subscribe().wait_for(|gate| *gate != Gate::Stuck).await.unwrap();
    match passed {
        Gate::Full => Err(Failure::NotWritten {
            fault: WriteFault::DiskFull,
            said: "database or disk is full".to_owned(),
        }),
        Gate::Open | Gate::Unanswered | Gate::Stuck => Ok(()),
    }
}

async fn answered(gate: &watch::Sender<Gate>) {
    gate.subscribe().wait_for(|gate| *gate != Gate::Unanswered).await.unwrap();
}

macro_rules! passed_on {
    ($(fn $name:ident($($arg:ident: $kind:ty),*) -> $answer:ty;)*) => {
        $(fn $name(&self, $($arg: $kind),*) -> $answer {
            self.real.$name($($arg),*)
        })*
    };
}

/// Questions are not held back.
impl std::ops::Deref for GatedStore {
    type Target = dyn Administration;

    fn deref(&self) -> &Self::Target {
        self.real.administration()
    }
}

impl Store for GatedStore {
    fn administration(&self) -> &dyn Administration {
        self.real.administration()
    }

    fn turn(&self, request: TurnRequest) -> Answered<'_, Turned> {
        Box::pin(async move {
            pass(&self.turns).await?;
            if self.kills(&request).await {
                self.death.notify_one();
                std::future::pending::<()>().await;
            }
            let turned = self.real.turn(request).await;
            answered(&self.turns).await;
            turned
        })
    }

    fn command(&self, request: CommandRequest) -> Answered<'_, Commanded> {
        Box::pin(async move {
            pass(&self.commands).await?;
            let commanded = self.real.command(request).await;
            self.unanswered.send_modify(|held| *held += 1);
            answered(&self.commands).await;
            commanded
        })
    }

    fn on_call(&self, call: Box<dyn Fn(Call) + Send + Sync>) {
        self.real.on_call(call);
    }

    passed_on! {
        fn gone() -> BoxFuture<'static, String>;
        fn join(name: &str, moment: Moment) -> Answered<'_, Joined>;
        fn lease() -> Option<SignedDuration>;
        fn turns_at_a_time() -> usize;
        fn renew(request: RenewRequest) -> Answered<'_, Renewed>;
        fn skew() -> SignedDuration;
        fn connections() -> Option<Connections>;
        fn leave(node: NodeId) -> Answered<'_, ()>;
        fn put_calendar(
            id: &str,
            spec: &str,
            moment: Moment,
            audit: Option<AuditEntry>
        ) -> Answered<'_, Vec<ScheduleId>>;
        fn outdated(zones: &str, after: ScheduleId, limit: usize) -> Answered<'_, Vec<ScheduleId>>;
        fn expire(now: Timestamp, keep: SignedDuration, limit: usize) -> Answered<'_, Expired>;
    }
}
