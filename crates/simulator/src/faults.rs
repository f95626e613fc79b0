//! A store that fails as real stores do: before the commit, after it, slowly, and together with the
//! node.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::schedule::Override;
use engine::turn::{Command, Wakeup};
use engine::{Moment, NodeId, RunId, RunKey, ScheduleId, TopicId, WorkflowId};
use futures_util::FutureExt as _;
use jiff::Timestamp;
use language::Rules;
use store::{
    AlertView, Answered, ApprovalQuery, ApprovalView, AuditEntry, AuditQuery, AuditView,
    CalendarView, CommandRequest, Commanded, EventQuery, EventView, Failure, Finding, HandlerView,
    IncidentQuery, IncidentView, Joined, LedgerQuery, LedgerRow, MutationQuery, MutationView,
    NewSignIn, NewToken, NodeView, Page, QueueView, RenewRequest, Renewed, Report, RunDetail,
    RunQuery, RunView, ScheduleQuery, ScheduleView, SecretHash, SetAside, SignInView, Stats, Store,
    Tally, TokenView, TopicQuery, TopicView, Trial, TurnRequest, Turned, UnusualQuery, UnusualRow,
    WorkflowQuery, WorkflowView,
};

use crate::clock::Time;
use crate::random::Random;
use crate::sabotage::Tampering;
use crate::watch::{Changes, Watch};

/// How often commits fail, per thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    pub(crate) unavailable: u32,
    pub(crate) unknown: u32,
    pub(crate) crash: u32,
    pub(crate) slow: u32,
    /// The slowest commit, in milliseconds.
    pub(crate) slowest: i64,
}

impl Rates {
    pub(crate) fn random(random: &mut Random) -> Rates {
        Rates {
            unavailable: random.pick(&[0, 5, 30]),
            unknown: random.pick(&[0, 5, 30]),
            crash: random.pick(&[0, 3, 15]),
            slow: random.pick(&[0, 10, 50]),
            slowest: random.pick(&[500, 10_000, 120_000]),
        }
    }
}

/// What the driver or the hub asked of the store, before a planted bug changed it.
#[derive(Debug)]
pub(crate) enum Asked {
    Turn {
        reports: Vec<Report>,
    },
    Command(Box<Command>),
    Join,
    PutCalendar,
    /// The schedules that must be recomputed.
    Outdated,
    /// With the retention of history.
    Expire {
        keep: i64,
    },
}

/// What is known about a request.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) asked: Asked,
    /// The time the node's clock showed.
    pub(crate) now: i64,
    /// Whether the request reached the store, and so may have changed something.
    pub(crate) reached: bool,
    /// The relevant part of the answer, if it arrived.
    pub(crate) told: Option<Told>,
    /// What changed in the file.
    pub(crate) changes: Result<Changes, String>,
    pub(crate) failure: Option<String>,
}

/// The relevant part of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Told {
    Nothing,
    /// How many reports were refused.
    Refused(usize),
    /// Whether there is more to remove.
    More(bool),
}

/// What the faulty store and the world share.
pub(crate) struct Desk {
    pub(crate) time: Arc<Time>,
    state: Mutex<State>,
    pub(crate) tampering: Tampering,
}

struct State {
    random: Random,
    rates: Rates,
    records: Vec<Record>,
    crashed: bool,
    /// Whether the answer to a command is pending at the first poll.
    is_late: bool,
    watch: Watch,
}

/// At most this many rows are removed in one commit: few, so that other commits come in between.
const EXPIRED: usize = 10;
/// How much more often commits fail that belong to a series.
const SEAM: u32 = 5;

/// What goes wrong with one commit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    Unavailable,
    LostBefore,
    LostAfter,
    CrashBefore,
    CrashAfter,
}

impl Desk {
    pub(crate) fn new(time: Arc<Time>, random: Random, watch: Watch, tampering: Tampering) -> Desk {
        let (rates, records) = (Rates::default(), Vec::new());
        let (crashed, is_late) = (false, false);
        let state = Mutex::new(State { random, rates, records, crashed, is_late, watch });
        Desk { time, state, tampering }
    }

    /// Reads the file through a connection of its own, not the store's.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Watch) -> T) -> T {
        look(&self.state().watch)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the answer to a command comes at the second poll, or at the first again.
    pub(crate) fn answer_late(&self, is_late: bool) {
        self.state().is_late = is_late;
    }

    fn answers_late(&self) -> bool {
        self.state().is_late
    }

    pub(crate) fn set_rates(&self, rates: Rates) {
        self.state().rates = rates;
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        std::mem::take(&mut self.state().records)
    }

    /// Whether the node has crashed since the last call.
    pub(crate) fn take_crash(&self) -> bool {
        std::mem::take(&mut self.state().crashed)
    }

    fn fault(&self, asked: &Asked) -> Fault {
        let mut state = self.state();
        let Rates { unavailable, unknown, crash, slow, slowest } = state.rates;
        let often = match asked {
            Asked::Turn { .. } | Asked::Join => 1,
            Asked::Command(command) if !matches!(**command, Command::Recompute(_)) => 1,
            _ => SEAM,
        };
        let (unavailable, unknown, crash) = (unavailable * often, unknown * often, crash * often);
        if state.random.chance(slow) {
            self.time.pass(state.random.spread(1, slowest));
        }
        let half = state.random.chance(500);
        if state.random.chance(unavailable) {
            Fault::Unavailable
        } else if state.random.chance(unknown) {
            if half { Fault::LostBefore } else { Fault::LostAfter }
        } else if state.random.chance(crash) {
            if half { Fault::CrashBefore } else { Fault::CrashAfter }
        } else {
            Fault::None
        }
    }

    /// Makes a commit or loses it, and returns the answer or loses it.
    fn commit<T>(
        &self,
        asked: Asked,
        work: impl FnOnce() -> Result<T, Failure>,
        told: impl FnOnce(&T) -> Told,
    ) -> Result<T, Failure> {
        let now = self.time.wall();
        let fault = self.fault(&asked);
        let reached = matches!(fault, Fault::None | Fault::LostAfter | Fault::CrashAfter);
        let result = if reached { work() } else { Err(lost("before the commit")) };
        let result = match (fault, result) {
            (Fault::None, result) => result,
            (Fault::Unavailable, _) => Err(Failure::Unavailable("simulated".to_owned())),
            // A refusal is known before the commit, so it cannot be lost with the commit's outcome.
            (Fault::LostAfter, Err(failure)) => Err(failure),
            (Fault::CrashBefore | Fault::CrashAfter, _) => {
                self.state().crashed = true;
                Err(lost("with the node"))
            }
            (_, _) => Err(lost("on the way")),
        };
        let told = result.as_ref().ok().map(told);
        let failure = result.as_ref().err().map(ToString::to_string);
        let mut state = self.state();
        let changes = state.watch.changes().map_err(|error| error.to_string());
        state.records.push(Record { asked, now, reached, told, changes, failure });
        drop(state);
        result
    }
}

fn nothing<T>(_: &T) -> Told {
    Told::Nothing
}

fn lost(wher: &str) -> Failure {
    Failure::Unknown(format!("simulated: lost {wher}"))
}

/// The real store behind the faults.
pub(crate) struct FaultyStore {
    pub(crate) real: Arc<dyn Store>,
    pub(crate) desk: Arc<Desk>,
}

/// The answer of the inline store, which is ready at once.
pub(crate) fn answer<T>(answered: Answered<'_, T>) -> Result<T, Failure> {
    let not_ready = || Err(Failure::Unavailable("the answer is not there at once".to_owned()));
    answered.now_or_never().unwrap_or_else(not_ready)
}

fn ready<'a, T: Send + 'a>(result: Result<T, Failure>) -> Answered<'a, T> {
    Box::pin(std::future::ready(result))
}

impl Store for FaultyStore {
    fn join(&self, name: &str, moment: Moment) -> Answered<'_, Joined> {
        ready(self.desk.commit(Asked::Join, || answer(self.real.join(name, moment)), nothing))
    }

    fn renew(&self, request: RenewRequest) -> Answered<'_, Renewed> {
        self.real.renew(request)
    }

    fn leave(&self, node: NodeId) -> Answered<'_, ()> {
        self.real.leave(node)
    }

    fn turn(&self, request: TurnRequest) -> Answered<'_, Turned> {
        let asked = Asked::Turn { reports: request.reports.clone() };
        let tampering = &self.desk.tampering;
        let work = || {
            let request = tampering.request(request);
            let again = tampering.again(&request);
            let mut turned = answer(self.real.turn(request))?;
            if let Some(again) = again {
                turned = answer(self.real.turn(again))?;
            }
            Ok(tampering.answer(turned, self.desk.time.wall()))
        };
        ready(self.desk.commit(asked, work, |turned| Told::Refused(turned.refused)))
    }

    fn set_aside(&self, what: Wakeup, why: &str, now: Timestamp) -> Answered<'_, ()> {
        self.real.set_aside(what, why, now)
    }

    fn next_to_decide(&self, now: Timestamp, after: RunKey) -> Answered<'_, Option<Trial>> {
        self.real.next_to_decide(now, after)
    }

    fn put_on_trial(&self, name: &str, what: Option<Wakeup>) -> Answered<'_, ()> {
        self.real.put_on_trial(name, what)
    }

    fn has_settled(&self, name: &str) -> Answered<'_, ()> {
        self.real.has_settled(name)
    }

    fn all_set_aside(&self) -> Answered<'_, Vec<SetAside>> {
        self.real.all_set_aside()
    }

    fn command(&self, request: CommandRequest) -> Answered<'_, Commanded> {
        let asked = Asked::Command(Box::new(request.command.clone()));
        let request = self.desk.tampering.command(request);
        let result = self.desk.commit(asked, || answer(self.real.command(request)), nothing);
        match self.desk.answers_late() {
            true => Box::pin(async { tokio::task::yield_now().await }.map(|()| result)),
            false => ready(result),
        }
    }

    fn put_calendar(
        &self,
        id: &str,
        spec: &str,
        moment: Moment,
        audit: Option<AuditEntry>,
    ) -> Answered<'_, Vec<ScheduleId>> {
        let work = || answer(self.real.put_calendar(id, spec, moment, audit));
        ready(self.desk.commit(Asked::PutCalendar, work, nothing))
    }

    fn delete_calendar(
        &self,
        id: &str,
        moment: Moment,
        audit: Option<AuditEntry>,
    ) -> Answered<'_, bool> {
        self.real.delete_calendar(id, moment, audit)
    }

    fn outdated(
        &self,
        zones: &str,
        after: ScheduleId,
        limit: usize,
    ) -> Answered<'_, Vec<ScheduleId>> {
        let work =
            || Ok(self.desk.tampering.outdated(answer(self.real.outdated(zones, after, limit))?));
        ready(self.desk.commit(Asked::Outdated, work, nothing))
    }

    fn expire(
        &self,
        now: Timestamp,
        keep: jiff::SignedDuration,
        limit: usize,
    ) -> Answered<'_, store::Expired> {
        let asked = Asked::Expire { keep: keep.as_millis() as i64 };
        let tampering = &self.desk.tampering;
        let work = || {
            let (now, keep) = tampering.expire(now, keep);
            let expired = answer(self.real.expire(now, keep, limit.min(EXPIRED)))?;
            self.desk.look(|watch| tampering.expired(watch.connection()))?;
            Ok(expired)
        };
        ready(self.desk.commit(asked, work, |expired| Told::More(expired.more)))
    }

    fn schedules(&self, query: ScheduleQuery) -> Answered<'_, Page<ScheduleView>> {
        self.real.schedules(query)
    }

    fn schedule(&self, id: ScheduleId) -> Answered<'_, Option<ScheduleView>> {
        self.real.schedule(id)
    }

    fn schedules_by_id(&self, ids: Vec<ScheduleId>) -> Answered<'_, Vec<ScheduleView>> {
        self.real.schedules_by_id(ids)
    }

    fn triggered(&self, workflow: WorkflowId) -> Answered<'_, Vec<ScheduleView>> {
        self.real.triggered(workflow)
    }

    fn coming(&self, limit: usize) -> Answered<'_, Vec<ScheduleView>> {
        self.real.coming(limit)
    }

    fn ledger(&self, query: LedgerQuery) -> Answered<'_, Page<LedgerRow>> {
        self.real.ledger(query)
    }

    fn unusual(&self, query: UnusualQuery) -> Answered<'_, Page<UnusualRow>> {
        self.real.unusual(query)
    }

    fn tallies(&self, from: Timestamp, to: Timestamp) -> Answered<'_, Vec<Tally>> {
        self.real.tallies(from, to)
    }

    fn overrides(&self, id: ScheduleId) -> Answered<'_, Vec<Override>> {
        self.real.overrides(id)
    }

    fn runs(&self, query: RunQuery) -> Answered<'_, Page<RunView>> {
        self.real.runs(query)
    }

    fn last_runs(&self, workflows: Vec<WorkflowId>) -> Answered<'_, Vec<(WorkflowId, RunView)>> {
        self.real.last_runs(workflows)
    }

    fn run(&self, id: RunId) -> Answered<'_, Option<RunDetail>> {
        self.real.run(id)
    }

    fn incidents(&self, query: IncidentQuery) -> Answered<'_, Page<IncidentView>> {
        self.real.incidents(query)
    }

    fn set_notify_setup(&self, setup: Arc<language::notification_setup::Setup>) {
        self.real.set_notify_setup(setup);
    }

    fn alerts(&self, run: RunId) -> Answered<'_, Vec<AlertView>> {
        self.real.alerts(run)
    }

    fn approvals(&self, query: ApprovalQuery) -> Answered<'_, Page<ApprovalView>> {
        self.real.approvals(query)
    }

    fn queues(&self) -> Answered<'_, Vec<QueueView>> {
        self.real.queues()
    }

    fn topics(&self, query: TopicQuery) -> Answered<'_, Page<TopicView>> {
        self.real.topics(query)
    }

    fn events(&self, query: EventQuery) -> Answered<'_, Page<EventView>> {
        self.real.events(query)
    }

    fn events_by_id(
        &self,
        topic: TopicId,
        message_ids: Vec<String>,
    ) -> Answered<'_, Vec<EventView>> {
        self.real.events_by_id(topic, message_ids)
    }

    fn handlers(&self, workflow: WorkflowId) -> Answered<'_, Vec<HandlerView>> {
        self.real.handlers(workflow)
    }

    fn mutations(&self, query: MutationQuery) -> Answered<'_, Page<MutationView>> {
        self.real.mutations(query)
    }

    fn workflows(&self, query: WorkflowQuery) -> Answered<'_, Page<WorkflowView>> {
        self.real.workflows(query)
    }

    fn workflow(
        &self,
        id_or_name: &str,
        revision: Option<u32>,
    ) -> Answered<'_, Option<WorkflowView>> {
        self.real.workflow(id_or_name, revision)
    }

    fn calendar_users(&self, id: &str, besides: WorkflowId) -> Answered<'_, (u64, Vec<String>)> {
        self.real.calendar_users(id, besides)
    }

    fn calendars(&self) -> Answered<'_, Vec<CalendarView>> {
        self.real.calendars()
    }

    fn nodes(&self) -> Answered<'_, Vec<NodeView>> {
        self.real.nodes()
    }

    fn create_token(
        &self,
        new: NewToken,
        now: Timestamp,
        audit: Option<AuditEntry>,
    ) -> Answered<'_, TokenView> {
        self.real.create_token(new, now, audit)
    }

    fn tokens(&self) -> Answered<'_, Vec<TokenView>> {
        self.real.tokens()
    }

    fn token_by_hash(&self, hash: SecretHash) -> Answered<'_, Option<TokenView>> {
        self.real.token_by_hash(hash)
    }

    fn revoke_token(
        &self,
        id: i64,
        now: Timestamp,
        audit: Option<AuditEntry>,
    ) -> Answered<'_, Option<TokenView>> {
        self.real.revoke_token(id, now, audit)
    }

    fn begin_sign_in(
        &self,
        new: NewSignIn,
        now: Timestamp,
        audit: Option<AuditEntry>,
    ) -> Answered<'_, ()> {
        self.real.begin_sign_in(new, now, audit)
    }

    fn sign_in(&self, hash: SecretHash) -> Answered<'_, Option<SignInView>> {
        self.real.sign_in(hash)
    }

    fn end_sign_in(&self, hash: SecretHash) -> Answered<'_, bool> {
        self.real.end_sign_in(hash)
    }

    fn audit(&self, query: AuditQuery) -> Answered<'_, Page<AuditView>> {
        self.real.audit(query)
    }

    fn rules(&self) -> Arc<Rules> {
        self.real.rules()
    }

    fn stats(&self, now: Timestamp) -> Answered<'_, Stats> {
        self.real.stats(now)
    }

    fn check(&self, now: Timestamp, repair: bool) -> Answered<'_, Vec<Finding>> {
        self.real.check(now, repair)
    }

    fn backup(&self, to: PathBuf) -> Answered<'_, u64> {
        self.real.backup(to)
    }
}
