//! A store whose answers can be held back, like one whose disk or database is stuck.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use engine::schedule::Override;
use engine::turn::Wakeup;
use engine::{Moment, NodeId, RunId, RunKey, ScheduleId, TopicId, WorkflowId};
use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use language::Rules;
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
            Wakeup::Run(key) => request.begin == Some(key) || request.places.look,
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

impl Store for GatedStore {
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
        fn set_aside(what: Wakeup, why: &str, now: Timestamp) -> Answered<'_, ()>;
        fn next_to_decide(now: Timestamp, after: RunKey) -> Answered<'_, Option<Trial>>;
        fn put_on_trial(name: &str, what: Option<Wakeup>) -> Answered<'_, ()>;
        fn has_settled(name: &str) -> Answered<'_, ()>;
        fn all_set_aside() -> Answered<'_, Vec<SetAside>>;
        fn join(name: &str, moment: Moment) -> Answered<'_, Joined>;
        fn lease() -> Option<SignedDuration>;
        fn turns_at_a_time() -> usize;
        fn renew(request: RenewRequest) -> Answered<'_, Renewed>;
        fn skew() -> SignedDuration;
        fn connections() -> Option<Connections>;
        fn leave(node: NodeId) -> Answered<'_, ()>;
        fn put_calendar(id: &str, spec: &str, moment: Moment, audit: Option<AuditEntry>) -> Answered<'_, Vec<ScheduleId>>;
        fn delete_calendar(id: &str, moment: Moment, audit: Option<AuditEntry>) -> Answered<'_, bool>;
        fn outdated(zones: &str, after: ScheduleId, limit: usize) -> Answered<'_, Vec<ScheduleId>>;
        fn expire(now: Timestamp, keep: SignedDuration, limit: usize) -> Answered<'_, Expired>;
        fn schedules(query: ScheduleQuery) -> Answered<'_, Page<ScheduleView>>;
        fn schedule(id: ScheduleId) -> Answered<'_, Option<ScheduleView>>;
        fn schedules_by_id(ids: Vec<ScheduleId>) -> Answered<'_, Vec<ScheduleView>>;
        fn triggered(workflow: WorkflowId) -> Answered<'_, Vec<ScheduleView>>;
        fn coming(limit: usize) -> Answered<'_, Vec<ScheduleView>>;
        fn ledger(query: LedgerQuery) -> Answered<'_, Page<LedgerRow>>;
        fn unusual(query: UnusualQuery) -> Answered<'_, Page<UnusualRow>>;
        fn tallies(from: Timestamp, to: Timestamp) -> Answered<'_, Vec<Tally>>;
        fn overrides(id: ScheduleId) -> Answered<'_, Vec<Override>>;
        fn runs(query: RunQuery) -> Answered<'_, Page<RunView>>;
        fn last_runs(workflows: Vec<WorkflowId>) -> Answered<'_, Vec<(WorkflowId, RunView)>>;
        fn run(id: RunId) -> Answered<'_, Option<RunDetail>>;
        fn alerts(run: RunId) -> Answered<'_, Vec<AlertView>>;
        fn incidents(query: IncidentQuery) -> Answered<'_, Page<IncidentView>>;
        fn set_notify_setup(setup: Arc<language::notification_setup::Setup>) -> ();
        fn approvals(query: ApprovalQuery) -> Answered<'_, Page<ApprovalView>>;
        fn queues() -> Answered<'_, Vec<QueueView>>;
        fn topics(query: TopicQuery) -> Answered<'_, Page<TopicView>>;
        fn events(query: EventQuery) -> Answered<'_, Page<EventView>>;
        fn events_by_id(topic: TopicId, message_ids: Vec<String>) -> Answered<'_, Vec<EventView>>;
        fn handlers(workflow: WorkflowId) -> Answered<'_, Vec<HandlerView>>;
        fn mutations(query: MutationQuery) -> Answered<'_, Page<MutationView>>;
        fn workflows(query: WorkflowQuery) -> Answered<'_, Page<WorkflowView>>;
        fn workflow(id_or_name: &str, revision: Option<u32>) -> Answered<'_, Option<WorkflowView>>;
        fn calendar_users(id: &str, besides: WorkflowId) -> Answered<'_, (u64, Vec<String>)>;
        fn calendars() -> Answered<'_, Vec<CalendarView>>;
        fn nodes() -> Answered<'_, Vec<NodeView>>;
        fn create_token(new: NewToken, now: Timestamp, audit: Option<AuditEntry>) -> Answered<'_, TokenView>;
        fn tokens() -> Answered<'_, Vec<TokenView>>;
        fn token_by_hash(hash: SecretHash) -> Answered<'_, Option<TokenView>>;
        fn revoke_token(id: i64, now: Timestamp, audit: Option<AuditEntry>) -> Answered<'_, Option<TokenView>>;
        fn begin_sign_in(new: NewSignIn, now: Timestamp, audit: Option<AuditEntry>) -> Answered<'_, ()>;
        fn sign_in(hash: SecretHash) -> Answered<'_, Option<SignInView>>;
        fn end_sign_in(hash: SecretHash) -> Answered<'_, bool>;
        fn audit(query: AuditQuery) -> Answered<'_, Page<AuditView>>;
        fn rules() -> Arc<Rules>;
        fn stats(now: Timestamp) -> Answered<'_, Stats>;
        fn check(now: Timestamp, repair: bool) -> Answered<'_, Vec<Finding>>;
        fn backup(to: PathBuf) -> Answered<'_, u64>;
    }
}
