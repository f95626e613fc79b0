//! **The truth.** What is stored, and the transactions that change it.
//!
//! [`Store`] is the interface: claim due wakeups, load rows, let the engine decide, commit; and
//! read views. [`Sqlite`] is the embedded store, [`Postgres`] the store that many nodes share. The
//! conformance suite in `tests/` runs against every store.
//!
//! A method that returns `Ok` has committed and synced its changes.
#![forbid(unsafe_code)]

mod access;
mod codes;
mod deciding;
mod failure;
mod invariants;
mod machine_clock;
mod methods;
mod migrations;
mod notify_setup;
mod postgres;
mod request;
mod rows;
mod rules;
mod schedule_counts;
mod set_aside;
mod sqlite;
mod stage;
mod starting;
mod stored;
mod tally;
mod topic_view;
mod view;
mod views;
mod wakeups;
mod word_search;
mod words;

use futures_util::future::BoxFuture;

pub use access::{
    AuditEntry, AuditQuery, AuditView, NewSignIn, NewToken, SecretHash, SignInView, SignedInWith,
    TokenRow, TokenView, UnreadableToken,
};
pub use failure::{Failure, WriteFault};
pub use machine_clock::{MachineClock, Reading};
pub use postgres::{
    CopySource, Moved, MovedTable, Postgres, PostgresClock, PostgresOptions, copy_to_postgres,
};
pub use request::{
    Call, CommandRequest, Commanded, Expired, Idempotency, Joined, RenewRequest, Renewed, Report,
    TurnRequest, Turned,
};
pub use set_aside::{SetAside, kind as kind_of};
pub use sqlite::{Sqlite, SqliteOptions, backup_file, check_damaged_file};
pub use stage::{STAGE_TARGET, Stage};
pub use starting::Trial;
pub use tally::{Tally, TallyKind};
pub use topic_view::{
    EventQuery, EventView, HandlerView, MutationQuery, MutationView, TopicQuery, TopicView,
};
pub use view::{
    ATTEMPTS_SHOWN, AlertView, ApprovalQuery, ApprovalView, CalendarView, Connections, Cursor,
    Finding, IncidentQuery, IncidentView, LedgerQuery, LedgerRow, NodeView, NotRunQuery, NotRunRow,
    Page, QueueView, RunDetail, RunQuery, RunView, ScheduleQuery, ScheduleView, Stats, StepView,
    Total, WorkflowQuery, WorkflowView,
};

use engine::run::Run;
use engine::turn::Wakeup;
use engine::{Moment, NodeId, RunId, RunKey, ScheduleId, TopicId, WorkflowId};
use jiff::{SignedDuration, Timestamp};

/// The answer of a store, as a future.
pub type Answered<'a, T> = BoxFuture<'a, Result<T, Failure>>;

/// A store, as a node drives it. Each method's comment says what is true after it returns.
///
/// What is asked of a store and changes nothing is in [`Queries`], and what people and operators do
/// beside the driver is in [`Administration`]. Both can be called on a `dyn Store`; a store that
/// wraps another one to disturb it forwards them in one line, [`Store::administration`].
pub trait Store: Send + Sync + 'static {
    /// Everything that this trait does not name.
    fn administration(&self) -> &dyn Administration;

    /// Registers a node under a new id. On an embedded store every node that joined before is known
    /// to be gone, and the next turn takes over its attempts.
    fn join(&self, name: &str, moment: Moment) -> Answered<'_, Joined>;

    /// How long a node's lease lasts. `None` on an embedded store: no other node could take
    /// anything over.
    fn lease(&self) -> Option<SignedDuration> {
        None
    }

    /// How many turns of one node the store runs concurrently. Each turn settles its reports before
    /// it looks at due wakeups, and no turn sees what another one is deciding.
    fn turns_at_a_time(&self) -> usize {
        1
    }

    /// The node's lease begins anew, and the node learns what other nodes did to its attempts and
    /// whether there is work. [`Failure::Fenced`] if other nodes have taken it for dead.
    fn renew(&self, request: RenewRequest) -> Answered<'_, Renewed>;

    /// Gives the store the clocks of this machine. From then on a shared store compares them with
    /// the database's clock whenever it reads that, and [`Store::skew`] returns the difference. An
    /// embedded store has no clock of its own.
    fn set_machine_clock(&self, clock: MachineClock) {
        drop(clock);
    }

    /// How far the store's clock is ahead of this machine's, as far as that is known; the store's
    /// clock is the one that counts. Zero on an embedded store.
    fn skew(&self) -> SignedDuration {
        SignedDuration::ZERO
    }

    /// How the connections that answer queries are used. `None` on an embedded store.
    fn connections(&self) -> Option<Connections> {
        None
    }

    /// Registers `call`, which runs when another node sends a [`Call`] through the store. Nothing
    /// depends on it: it only notifies this node sooner than its next lease renewal.
    fn on_call(&self, call: Box<dyn Fn(Call) + Send + Sync>) {
        drop(call);
    }

    /// Resolves, with the reason, when the store's file is gone for good: nothing can be stored any
    /// more, and the node has to stop. On a shared store it never resolves.
    fn gone(&self) -> BoxFuture<'static, String> {
        Box::pin(std::future::pending())
    }

    /// Removes the node, which has handed back all its attempts before.
    fn leave(&self, node: NodeId) -> Answered<'_, ()>;

    /// One turn of the driver: settles the reports, then claims due wakeups in order of their time
    /// and decides them, then fills free capacity. All of it is one transaction.
    fn turn(&self, request: TurnRequest) -> Answered<'_, Turned>;

    /// Carries out a command, or changes nothing ([`Failure::Refused`]). The same command again
    /// with the same idempotency key returns the same answer and is not carried out again. The
    /// audit log gets its row in the same transaction.
    fn command(&self, request: CommandRequest) -> Answered<'_, Commanded>;

    /// Stores the calendar and returns the schedules that use it, which must be recomputed. Until
    /// then they are `outdated`, and a schedule that wakes is recomputed before it is decided. A
    /// calendar that cannot be built, or that would break others, is refused.
    fn put_calendar(
        &self,
        id: &str,
        spec: &str,
        moment: Moment,
        audit: Option<AuditEntry>,
    ) -> Answered<'_, Vec<ScheduleId>>;

    /// Up to `limit` schedules with an id after `after` that must be recomputed: all schedules if
    /// they were last computed with another zone database than this one, otherwise those that may
    /// have been computed with an older calendar. An empty answer means all are done, and the store
    /// remembers that.
    fn outdated(
        &self,
        zones: &str,
        after: ScheduleId,
        limit: usize,
    ) -> Answered<'_, Vec<ScheduleId>>;

    /// Removes ended runs with their steps, ledger rows and finished events that were kept long
    /// enough, at most `limit` of each: `keep`, or as long as their schedule or workflow says. Also
    /// removes ended sign-ins, audit rows older than 400 days, and tallies older than eight days.
    fn expire(&self, now: Timestamp, keep: SignedDuration, limit: usize) -> Answered<'_, Expired>;
}

impl std::ops::Deref for dyn Store {
    type Target = dyn Administration;

    fn deref(&self) -> &(dyn Administration + 'static) {
        self.administration()
    }
}

/// Changes beside the driver: tokens and sign-ins, rows set aside, repairs, copies.
pub trait Administration: Queries {
    /// Sets this schedule, run or handler aside, because it cannot be read or decided as it is
    /// stored. From now on the driver passes over it and nothing wakes it.
    fn set_aside(&self, what: Wakeup, why: &str, now: Timestamp) -> Answered<'_, ()>;

    /// Notes that the node of this name decides this one thing alone. If the node dies meanwhile,
    /// [`Joined`] reports that at its next start.
    fn put_on_trial(&self, name: &str, what: Option<Wakeup>) -> Answered<'_, ()>;

    /// Notes that the node of this name has run long enough, or is about to leave: if it dies from
    /// now on, that does not count as an early death.
    fn has_settled(&self, name: &str) -> Answered<'_, ()>;

    /// Deletes the calendar, unless a schedule or another calendar uses it ([`Failure::Refused`]).
    /// Returns whether it existed.
    fn delete_calendar(
        &self,
        id: &str,
        moment: Moment,
        audit: Option<AuditEntry>,
    ) -> Answered<'_, bool>;

    /// Sets how every later turn and command notifies people, unless a definition says otherwise.
    fn set_notify_setup(&self, setup: std::sync::Arc<language::notification_setup::Setup>);

    /// Creates a token, unless a token ever had its name ([`Failure::Refused`]).
    fn create_token(
        &self,
        new: NewToken,
        now: Timestamp,
        audit: Option<AuditEntry>,
    ) -> Answered<'_, TokenView>;

    /// Revokes the token and ends every sign-in made with it; `None` if there is no such token.
    fn revoke_token(
        &self,
        id: i64,
        now: Timestamp,
        audit: Option<AuditEntry>,
    ) -> Answered<'_, Option<TokenRow>>;

    fn begin_sign_in(
        &self,
        new: NewSignIn,
        now: Timestamp,
        audit: Option<AuditEntry>,
    ) -> Answered<'_, ()>;

    /// Ends the sign-in. Returns whether it existed.
    fn end_sign_in(&self, hash: SecretHash) -> Answered<'_, bool>;

    /// Checks every invariant of the store and returns what is wrong, repaired if `repair` is set.
    fn check(&self, now: Timestamp, repair: bool) -> Answered<'_, Vec<Finding>>;

    /// Copies everything, as of one instant, into a new file. Returns its size in bytes.
    fn backup(&self, to: std::path::PathBuf) -> Answered<'_, u64>;
}

/// Queries of a store. None of them changes it.
pub trait Queries: Send + Sync + 'static {
    /// What the node would decide next of what was there at `by`: a wakeup that was due then, or
    /// else a pending or ready run that was created by then, with a key after `after`.
    fn next_to_decide(&self, by: Timestamp, after: RunKey) -> Answered<'_, Option<Trial>>;

    /// Everything that is set aside, oldest first.
    fn all_set_aside(&self) -> Answered<'_, Vec<SetAside>>;

    /// A page of schedules, by id.
    fn schedules(&self, query: ScheduleQuery) -> Answered<'_, Page<ScheduleView>>;

    /// The schedule with this id.
    fn schedule(&self, id: ScheduleId) -> Answered<'_, Option<ScheduleView>>;

    /// Several schedules, in the order of `ids`; unknown ids are left out.
    fn schedules_by_id(&self, ids: Vec<ScheduleId>) -> Answered<'_, Vec<ScheduleView>>;

    /// The schedules that the workflow's own triggers and producers declare, and no others that
    /// start it.
    fn triggered(&self, workflow: WorkflowId) -> Answered<'_, Vec<ScheduleView>>;

    /// The schedules that are due next, soonest first.
    fn coming(&self, limit: usize) -> Answered<'_, Vec<ScheduleView>>;

    /// A page of a schedule's ledger, latest first.
    fn ledger(&self, query: LedgerQuery) -> Answered<'_, Page<LedgerRow>>;

    /// A page of occurrences of all schedules that did not run and will not, latest decided first.
    fn not_run(&self, query: NotRunQuery) -> Answered<'_, Page<NotRunRow>>;

    /// Tallies of the minutes that begin at or after `from` and before `to`, in order. They are
    /// exact, and go back eight days.
    fn tallies(&self, from: Timestamp, to: Timestamp) -> Answered<'_, Vec<Tally>>;

    /// A page of runs, latest first.
    fn runs(&self, query: RunQuery) -> Answered<'_, Page<RunView>>;

    /// The latest run of each of these workflows, in the order of `workflows`; workflows without
    /// runs are left out.
    fn last_runs(&self, workflows: Vec<WorkflowId>) -> Answered<'_, Vec<(WorkflowId, RunView)>>;

    /// One run with its steps.
    fn run(&self, id: RunId) -> Answered<'_, Option<RunDetail>>;

    /// The run's position in the queue of runs that wait for the same concurrency limit, from 1.
    /// `None` if it waits for none.
    fn position(&self, run: Box<Run>) -> Answered<'_, Option<u64>>;

    /// What the deadlines of this run and its steps brought about, earliest first.
    fn alerts(&self, run: RunId) -> Answered<'_, Vec<AlertView>>;

    /// A page of incidents, latest first.
    fn incidents(&self, query: IncidentQuery) -> Answered<'_, Page<IncidentView>>;

    /// A page of open approvals, those of the oldest run first.
    fn approvals(&self, query: ApprovalQuery) -> Answered<'_, Page<ApprovalView>>;

    /// The queues in which attempts wait for workers, by name.
    fn queues(&self) -> Answered<'_, Vec<QueueView>>;

    /// A page of topics, by name.
    fn topics(&self, query: TopicQuery) -> Answered<'_, Page<TopicView>>;

    /// A page of events of a topic.
    fn events(&self, query: EventQuery) -> Answered<'_, Page<EventView>>;

    /// The events of a topic with these message ids, in the order of `message_ids`; unknown ids are
    /// left out.
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

    /// The workflow with this id or name, with one revision: the named one, else the live one, else
    /// the newest.
    fn workflow(
        &self,
        id_or_name: &str,
        revision: Option<u32>,
    ) -> Answered<'_, Option<WorkflowView>>;

    /// The id of the workflow with this id or name. Unlike [`Queries::workflow`] it reads no
    /// definition.
    fn workflow_id(&self, id_or_name: &str) -> Answered<'_, Option<WorkflowId>>;

    /// How many schedules of workflows other than `besides` use the calendar, and the names of up
    /// to five of these workflows.
    fn calendar_users(&self, id: &str, besides: WorkflowId) -> Answered<'_, (u64, Vec<String>)>;

    fn calendars(&self) -> Answered<'_, Vec<CalendarView>>;

    /// The nodes that have joined and are not gone, by id.
    fn nodes(&self) -> Answered<'_, Vec<NodeView>>;

    /// Every token that was ever created, by id.
    fn tokens(&self) -> Answered<'_, Vec<TokenRow>>;

    /// The token with this secret, valid or not.
    fn token_by_hash(&self, hash: SecretHash) -> Answered<'_, Option<TokenView>>;

    /// The sign-in with this secret, expired or not.
    fn sign_in(&self, hash: SecretHash) -> Answered<'_, Option<SignInView>>;

    /// A page of the audit log, latest first.
    fn audit(&self, query: AuditQuery) -> Answered<'_, Page<AuditView>>;

    /// The zone database and the current calendars, which declarations are read with.
    fn rules(&self) -> std::sync::Arc<language::Rules>;

    /// Figures for people and metrics. Wakeups due by `now` count as late.
    fn stats(&self, now: Timestamp) -> Answered<'_, Stats>;
}
