//! A store that fails as real stores do: before the commit, after it, slowly, and together with the
//! node.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::turn::Command;
use engine::{Moment, NodeId, ScheduleId};
use futures_util::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use server::SystemClock;
use store::{
    Administration, Answered, AuditEntry, CommandRequest, Commanded, Failure, Joined, RenewRequest,
    Renewed, Report, Store, TurnRequest, Turned,
};

use crate::clock::Time;
use crate::random::Random;
use crate::sabotage::Tampering;
use crate::wait::wait_for;
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
pub(crate) enum StoreRequest {
    Turn {
        reports: Vec<Report>,
        awake_since: i64,
    },
    /// With its idempotency key.
    Command(Box<Command>, String),
    Join,
    PutCalendar,
    /// The schedules that must be recomputed.
    Outdated,
    /// With the retention of history.
    Expire {
        keep: i64,
    },
}

/// A request with its result, as far as the simulator knows it.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) asked: StoreRequest,
    /// The time the node's clock showed.
    pub(crate) now: i64,
    /// Whether the request reached the store, and so may have changed something.
    pub(crate) reached: bool,
    /// The relevant part of the answer, if it arrived.
    pub(crate) told: Option<Told>,
    /// What changed in the file. Where transactions overlap, that is only known afterwards.
    pub(crate) changes: Result<Changes, Failure>,
    pub(crate) failure: Option<Failure>,
    /// Whether the simulation made it fail.
    pub(crate) is_simulated: bool,
    /// When it was sent and answered, by the host's clock, in microseconds.
    pub(crate) sent_and_answered: (i64, i64),
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
    watch: SharedWatch,
    /// Whether transactions of other nodes overlap with those of this one.
    pub(crate) overlaps: bool,
    pub(crate) tampering: Tampering,
}

/// What the machines of one world read the file through.
pub(crate) type SharedWatch = Arc<Mutex<Watch>>;

struct State {
    random: Random,
    rates: Rates,
    records: Vec<Record>,
    crashed: bool,
    /// Whether the answer to a command is pending at the first poll.
    is_late: bool,
}

/// At most this many rows are removed in one commit: few, so that other commits come in between.
const EXPIRED: usize = 10;
/// How much more often commits fail that belong to a series.
const SEAM: u32 = 5;

/// The fault of one commit.
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
    pub(crate) fn new(
        time: Arc<Time>,
        random: Random,
        watch: SharedWatch,
        overlaps: bool,
        tampering: Tampering,
    ) -> Desk {
        let (rates, records) = (Rates::default(), Vec::new());
        let (crashed, is_late) = (false, false);
        let state = Mutex::new(State { random, rates, records, crashed, is_late });
        Desk { time, state, watch, overlaps, tampering }
    }

    /// Reads the file through a connection of its own, not the store's.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Watch) -> T) -> T {
        look(&self.watch())
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Whether the node has crashed and nobody has noticed.
    pub(crate) fn has_crashed(&self) -> bool {
        self.state().crashed
    }

    fn fault(&self, asked: &StoreRequest) -> Fault {
        let mut state = self.state();
        let Rates { unavailable, unknown, crash, slow, slowest } = state.rates;
        let often = match asked {
            StoreRequest::Turn { .. } | StoreRequest::Join => 1,
            StoreRequest::Command(command, _) if !matches!(**command, Command::Recompute(_)) => 1,
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
        asked: StoreRequest,
        work: impl FnOnce() -> Result<T, Failure>,
        told: impl FnOnce(&T) -> Told,
    ) -> Result<T, Failure> {
        let now = self.time.wall();
        let fault = self.fault(&asked);
        let sent = host_time();
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
        let failure = result.as_ref().err().cloned();
        let changes = if self.overlaps { Ok(Changes::default()) } else { self.watch().changes() };
        self.state().records.push(Record {
            asked,
            now,
            reached,
            told,
            changes,
            failure,
            is_simulated: fault != Fault::None,
            sent_and_answered: (sent, host_time()),
        });
        result
    }
}

/// Microseconds since 1970 by the host's clock, as PostgreSQL on the same host reads it.
fn host_time() -> i64 {
    SystemClock.precise_now().as_microsecond()
}

fn nothing<T>(_: &T) -> Told {
    Told::Nothing
}

fn lost(moment: &str) -> Failure {
    Failure::Unknown(format!("simulated: lost {moment}"))
}

/// The real store behind the faults.
pub(crate) struct FaultyStore {
    pub(crate) real: Arc<dyn Store>,
    pub(crate) desk: Arc<Desk>,
}

/// The answer of the store. The embedded one is ready at once.
pub(crate) fn answer<T>(answered: Answered<'_, T>) -> Result<T, Failure> {
    wait_for(answered)
}

fn ready<'a, T: Send + 'a>(result: Result<T, Failure>) -> Answered<'a, T> {
    Box::pin(std::future::ready(result))
}

impl Store for FaultyStore {
    fn administration(&self) -> &dyn Administration {
        self.real.administration()
    }

    fn join(&self, name: &str, moment: Moment) -> Answered<'_, Joined> {
        ready(self.desk.commit(
            StoreRequest::Join,
            || answer(self.real.join(name, moment)),
            nothing,
        ))
    }

    fn lease(&self) -> Option<SignedDuration> {
        self.real.lease().filter(|_| self.desk.overlaps)
    }

    fn renew(&self, request: RenewRequest) -> Answered<'_, Renewed> {
        self.real.renew(request)
    }

    fn leave(&self, node: NodeId) -> Answered<'_, ()> {
        self.real.leave(node)
    }

    fn turn(&self, request: TurnRequest) -> Answered<'_, Turned> {
        let awake_since = request.moment.awake_since.as_millisecond();
        let asked = StoreRequest::Turn { reports: request.reports.clone(), awake_since };
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

    fn command(&self, request: CommandRequest) -> Answered<'_, Commanded> {
        let key = request.idempotency.as_ref().map(|known| known.key.clone()).unwrap_or_default();
        let asked = StoreRequest::Command(Box::new(request.command.clone()), key);
        let request = self.desk.tampering.command(request);
        let work = || match self.desk.tampering.answer_in_vain() {
            Some(commanded) => Ok(commanded),
            None => answer(self.real.command(request)),
        };
        let result = self.desk.commit(asked, work, nothing);
        if self.desk.answers_late() {
            Box::pin(async { tokio::task::yield_now().await }.map(|()| result))
        } else {
            ready(result)
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
        ready(self.desk.commit(StoreRequest::PutCalendar, work, nothing))
    }

    fn outdated(
        &self,
        zones: &str,
        after: ScheduleId,
        limit: usize,
    ) -> Answered<'_, Vec<ScheduleId>> {
        let work =
            || Ok(self.desk.tampering.outdated(answer(self.real.outdated(zones, after, limit))?));
        ready(self.desk.commit(StoreRequest::Outdated, work, nothing))
    }

    fn expire(
        &self,
        now: Timestamp,
        keep: SignedDuration,
        limit: usize,
    ) -> Answered<'_, store::Expired> {
        let asked = StoreRequest::Expire { keep: keep.as_millis() as i64 };
        let tampering = &self.desk.tampering;
        let work = || {
            let (now, keep) = tampering.expire(now, keep);
            let expired = answer(self.real.expire(now, keep, limit.min(EXPIRED)))?;
            self.desk.look(|watch| tampering.expired(watch.connection()))?;
            Ok(expired)
        };
        ready(self.desk.commit(asked, work, |expired| Told::More(expired.more)))
    }
}
