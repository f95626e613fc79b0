//! **The truth.** What is stored, and the transactions that change it.
//!
//! [`Store`] is the interface: claim what is due, load it, let the engine decide, commit; and views.
//! [`Sqlite`] is the embedded store, [`Postgres`] the one that many nodes share. The conformance suite in `tests/` holds for every store.
//!
//! Acknowledged means committed and synced: a method that returns `Ok` has done so.
#![forbid(unsafe_code)]

mod access;
mod check_run;
mod check_schedule;
mod check_shared;
mod failure;
mod machine_clock;
mod migrations;
mod notify_setup;
mod postgres;
mod request;
mod rules;
mod set_aside;
mod sqlite;
mod starting;
mod stored;
mod tally;
mod topic_view;
mod view;
mod wakeups;
mod words;

use futures_util::future::BoxFuture;

pub use access::{
    AuditEntry, AuditQuery, AuditView, NewSignIn, NewToken, SecretHash, SignInView, SignedInWith,
    TokenView,
};
pub use failure::{Failure, WriteFault};
pub use machine_clock::{MachineClock, Reading};
pub use postgres::{Moved, MovedTable, Postgres, PostgresClock, PostgresOptions, copy_to_postgres};
pub use request::{
    Call, CommandRequest, Commanded, Expired, Idempotency, Joined, RenewRequest, Renewed, Report,
    TurnRequest, Turned,
};
pub use set_aside::{SetAside, kind as kind_of};
pub use sqlite::{Sqlite, SqliteOptions, backup_file, check_damaged_file};
pub use starting::Trial;
pub use tally::{Tally, TallyKind};
pub use topic_view::{
    EventQuery, EventView, HandlerView, MutationQuery, MutationView, TopicQuery, TopicView,
};
pub use view::{
    ATTEMPTS_SHOWN, AlertView, ApprovalQuery, ApprovalView, CalendarView, Connections, Cursor,
    Finding, IncidentQuery, IncidentView, LedgerQuery, LedgerRow, NodeView, Page, QueueView,
    RunDetail, RunQuery, RunView, ScheduleQuery, ScheduleView, Stats, StepView, Total,
    UnusualQuery, UnusualRow, WorkflowQuery, WorkflowView,
};

use engine::turn::Wakeup;
use engine::{Moment, NodeId, RunId, RunKey, ScheduleId, TopicId, WorkflowId};
use jiff::{SignedDuration, Timestamp};

/// What a store answers with, some time.
pub type Answered<'a, T> = BoxFuture<'a, Result<T, Failure>>;

/// A store. Each method says what is true when it has returned.
pub trait Store: Send + Sync + 'static {
    /// A new life of a node has an id of its own. On an embedded store every earlier life is known to
    /// be over, and what it was doing will be taken over with the next turn.
    fn join(&self, name: &str, moment: Moment) -> Answered<'_, Joined>;

    /// How long a node's lease lasts. None on an embedded store: nobody else could take anything over.
    fn lease(&self) -> Option<SignedDuration> {
        None
    }

    /// How many turns of a node the store takes side by side. Each settles what it was told before it looks at what
    /// is due, and none sees what another one is deciding.
    fn turns_at_a_time(&self) -> usize {
        1
    }

    /// The node lives: its lease begins anew, and it learns what others have done to its attempts and
    /// what there is to do. [`Failure::Fenced`] if it has been taken for dead.
    fn renew(&self, request: RenewRequest) -> Answered<'_, Renewed>;

    /// Gives the store the clocks of this machine. From then on a shared store compares them with its own clock
    /// whenever it reads that, and [`Store::skew`] says how they differ. An embedded store has no clock of its own.
    fn set_machine_clock(&self, clock: MachineClock) {
        drop(clock);
    }

    /// How far the store's clock is ahead of this machine's, as far as that is known: the store's decides. Nothing on
    /// an embedded store.
    fn skew(&self) -> SignedDuration {
        SignedDuration::ZERO
    }

    /// How the connections are used that questions are asked through. Nothing on an embedded store.
    fn connections(&self) -> Option<Connections> {
        None
    }

    /// Other nodes may call, through the store: `call` is called then. Nothing depends on it, it is only
    /// sooner than the next renewal.
    fn on_call(&self, call: Box<dyn Fn(Call) + Send + Sync>) {
        drop(call);
    }

    /// Answers when the store's file is gone for good, and says why: nothing is stored any more, and the node has to
    /// stop. On a shared store it never does.
    fn gone(&self) -> BoxFuture<'static, String> {
        Box::pin(std::future::pending())
    }

    /// The node has handed back everything and is gone.
    fn leave(&self, node: NodeId) -> Answered<'_, ()>;

    /// One turn of the driver: reports are settled, then wakeups due by now are claimed in order of
    /// their time and decided, then free places are filled. All of it is one transaction.
    fn turn(&self, request: TurnRequest) -> Answered<'_, Turned>;

    /// The driver passes over this from now on, and nothing wakes it: it cannot be read or decided as it is stored.
    fn set_aside(&self, what: Wakeup, why: &str, now: Timestamp) -> Answered<'_, ()>;

    /// What the node would decide over next: what is due, or else a run with a key after `after` that is pending or
    /// ready. Nothing is changed.
    fn next_to_decide(&self, now: Timestamp, after: RunKey) -> Answered<'_, Option<Trial>>;

    /// The node of this name decides over this alone. If it dies meanwhile, [`Joined`] says so to its next life.
    fn put_on_trial(&self, name: &str, what: Option<Wakeup>) -> Answered<'_, ()>;

    /// The node of this name has lived long enough, or is about to leave: if it dies from now on, that is no early
    /// death.
    fn has_settled(&self, name: &str) -> Answered<'_, ()>;

    /// What is set aside, in the order in which it was.
    fn all_set_aside(&self) -> Answered<'_, Vec<SetAside>>;

    /// A command was carried out, or nothing was changed ([`Failure::Refused`]). With an idempotency
    /// key, the same command again has the same answer and is not carried out. Who asked for it is written to the
    /// audit log with what was changed.
    fn command(&self, request: CommandRequest) -> Answered<'_, Commanded>;

    /// The calendar is known from now on; the schedules that use it are returned, to be recomputed.
    /// Until they are, they are `outdated`, and one that is woken is recomputed before it is decided.
    /// One that cannot be built, or without which others could not, is refused.
    fn put_calendar(
        &self,
        id: &str,
        spec: &str,
        moment: Moment,
        audit: Option<AuditEntry>,
    ) -> Answered<'_, Vec<ScheduleId>>;

    /// The calendar is forgotten, unless a schedule or another calendar uses it
    /// ([`Failure::Refused`]); whether it was there.
    fn delete_calendar(
        &self,
        id: &str,
        moment: Moment,
        audit: Option<AuditEntry>,
    ) -> Answered<'_, bool>;

    /// Up to `limit` schedules with an id after `after`, to be recomputed: all that there are if they
    /// were last computed with another zone database than this one, or else those that may have been
    /// with another calendar; none when all are done, which is then remembered.
    fn outdated(
        &self,
        zones: &str,
        after: ScheduleId,
        limit: usize,
    ) -> Answered<'_, Vec<ScheduleId>>;

    /// Ended runs, their steps, ledger rows, and events that are done with are removed if they were kept long
    /// enough, at most `limit` of each: `keep`, or as long as their schedule or workflow says. So are sign-ins
    /// that are over, what the audit log has kept for 400 days, and tallies of more than eight days ago.
    fn expire(&self, now: Timestamp, keep: SignedDuration, limit: usize) -> Answered<'_, Expired>;

    /// A page of schedules, by id.
    fn schedules(&self, query: ScheduleQuery) -> Answered<'_, Page<ScheduleView>>;
    /// One schedule.
    fn schedule(&self, id: ScheduleId) -> Answered<'_, Option<ScheduleView>>;
    /// Several schedules, in the order asked for; unknown ones are left out.
    fn schedules_by_id(&self, ids: Vec<ScheduleId>) -> Answered<'_, Vec<ScheduleView>>;
    /// The schedules that triggers and producers of a workflow declare, however many others start it.
    fn triggered(&self, workflow: WorkflowId) -> Answered<'_, Vec<ScheduleView>>;
    /// The schedules that are due next, soonest first.
    fn coming(&self, limit: usize) -> Answered<'_, Vec<ScheduleView>>;
    /// A page of a schedule's ledger, latest first.
    fn ledger(&self, query: LedgerQuery) -> Answered<'_, Page<LedgerRow>>;
    /// A page of occurrences of all schedules that did not run and will not, the latest decided first.
    fn unusual(&self, query: UnusualQuery) -> Answered<'_, Page<UnusualRow>>;
    /// What was decided and what has ended in the minutes that begin from `from` on and before `to`, in their
    /// order: of eight days, and exact.
    fn tallies(&self, from: Timestamp, to: Timestamp) -> Answered<'_, Vec<Tally>>;
    /// What is overridden of a schedule.
    fn overrides(&self, id: ScheduleId) -> Answered<'_, Vec<engine::schedule::Override>>;
    /// A page of runs, latest first.
    fn runs(&self, query: RunQuery) -> Answered<'_, Page<RunView>>;
    /// The latest run of each of these workflows, in the order asked for; those without runs are left out.
    fn last_runs(&self, workflows: Vec<WorkflowId>) -> Answered<'_, Vec<(WorkflowId, RunView)>>;
    /// One run with its steps.
    fn run(&self, id: RunId) -> Answered<'_, Option<RunDetail>>;
    /// What deadlines of this run and of its steps have brought about, the earliest first.
    fn alerts(&self, run: RunId) -> Answered<'_, Vec<AlertView>>;
    /// A page of incidents, latest first.
    fn incidents(&self, query: IncidentQuery) -> Answered<'_, Page<IncidentView>>;
    /// Every turn and command from now on tells people by this, unless a definition says otherwise.
    fn set_notify_setup(&self, setup: std::sync::Arc<language::notification_setup::Setup>);
    /// A page of what people are asked, that of the oldest run first.
    fn approvals(&self, query: ApprovalQuery) -> Answered<'_, Page<ApprovalView>>;
    /// The queues in which something waits for a worker, by name.
    fn queues(&self) -> Answered<'_, Vec<QueueView>>;
    /// A page of topics, by name.
    fn topics(&self, query: TopicQuery) -> Answered<'_, Page<TopicView>>;
    /// A page of events of a topic.
    fn events(&self, query: EventQuery) -> Answered<'_, Page<EventView>>;
    /// The events of a topic with these message ids, in their order; unknown ones are left out.
    fn events_by_id(
        &self,
        topic: TopicId,
        message_ids: Vec<String>,
    ) -> Answered<'_, Vec<EventView>>;
    /// The producers and consumers of a workflow, by name.
    fn handlers(&self, workflow: WorkflowId) -> Answered<'_, Vec<HandlerView>>;
    /// A page of mutations of the outside world, latest first.
    fn mutations(&self, query: MutationQuery) -> Answered<'_, Page<MutationView>>;
    /// A page of workflows, by name.
    fn workflows(&self, query: WorkflowQuery) -> Answered<'_, Page<WorkflowView>>;
    /// The workflow with this id or name, with one of its revisions (the live one, or else the newest,
    /// if none is named).
    fn workflow(
        &self,
        id_or_name: &str,
        revision: Option<u32>,
    ) -> Answered<'_, Option<WorkflowView>>;
    /// How many schedules of other workflows than this one use the calendar, and the names of up to five of these
    /// workflows.
    fn calendar_users(&self, id: &str, besides: WorkflowId) -> Answered<'_, (u64, Vec<String>)>;
    /// Calendars that were declared.
    fn calendars(&self) -> Answered<'_, Vec<CalendarView>>;
    /// Lives of nodes that are not over, by id.
    fn nodes(&self) -> Answered<'_, Vec<NodeView>>;
    /// The token is good from now on, unless there was ever one of its name ([`Failure::Refused`]).
    fn create_token(
        &self,
        new: NewToken,
        now: Timestamp,
        audit: Option<AuditEntry>,
    ) -> Answered<'_, TokenView>;
    /// Every token that was ever made, by id.
    fn tokens(&self) -> Answered<'_, Vec<TokenView>>;
    /// The token with this secret, good or not.
    fn token_by_hash(&self, hash: SecretHash) -> Answered<'_, Option<TokenView>>;
    /// The token is good no more, and whoever has signed in with it is signed out; nothing if there is none.
    fn revoke_token(
        &self,
        id: i64,
        now: Timestamp,
        audit: Option<AuditEntry>,
    ) -> Answered<'_, Option<TokenView>>;
    /// Somebody has signed in.
    fn begin_sign_in(
        &self,
        new: NewSignIn,
        now: Timestamp,
        audit: Option<AuditEntry>,
    ) -> Answered<'_, ()>;
    /// Who has signed in with this secret, whether or not that is over.
    fn sign_in(&self, hash: SecretHash) -> Answered<'_, Option<SignInView>>;
    /// They are signed out; whether they were signed in.
    fn end_sign_in(&self, hash: SecretHash) -> Answered<'_, bool>;
    /// A page of the audit log, latest first.
    fn audit(&self, query: AuditQuery) -> Answered<'_, Page<AuditView>>;
    /// What declarations are read with: the zone database, and the calendars as of now.
    fn rules(&self) -> std::sync::Arc<language::Rules>;
    /// Figures for people and metrics. `now` tells what is late.
    fn stats(&self, now: Timestamp) -> Answered<'_, Stats>;
    /// What is wrong with what is stored; repaired if asked.
    fn check(&self, now: Timestamp, repair: bool) -> Answered<'_, Vec<Finding>>;
    /// A copy of everything as of one instant, in a new file.
    fn backup(&self, to: std::path::PathBuf) -> Answered<'_, u64>;
}
