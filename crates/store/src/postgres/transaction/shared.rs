//! Caches that the connections of one node share. All of it can be read again.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use calendar::Zones;
use engine::turn::{Effect, Wakeup};
use engine::{NodeId, RunId, RunKey, ScheduleId, WorkflowId};
use jiff::{SignedDuration, Timestamp};
use language::Rules;
use language::definition::Definition;
use tokio_postgres::Row;

use crate::failure::Failure;
use crate::machine_clock::Reading;
use crate::notify_setup::SharedSetup;
use crate::postgres::PostgresClock;
use crate::postgres::connections::tx_connection::{Query, param};
use crate::postgres::nodes::clock::Offset;
use crate::postgres::transaction::row_cache::RowCache;
use crate::postgres::transaction::wakeup_cache::WakeupCache;
use crate::request::{Call, Report};
use crate::rules;
use crate::stored::ms;
use crate::view::CalendarView;

/// How many definitions are cached. They never change, so any number would be correct.
const DEFINITIONS: usize = 1_000;
/// The least time between two [`Call::Look`] messages of this node, in milliseconds.
const CALLED: i64 = 250;
/// The channel on which nodes notify each other.
pub(crate) const CHANNEL: &str = "punctual";

/// What the connections of one node share.
pub(crate) struct Shared {
    pub(crate) clock: PostgresClock,
    pub(crate) lease: SignedDuration,
    zones: Arc<Zones>,
    /// The version of the calendars, and the rules built from them.
    rules: RwLock<(String, Arc<Rules>)>,
    definitions: Mutex<HashMap<(WorkflowId, u32), Arc<Definition>>>,
    /// The schedules of attempts that this node was given.
    attempts: Mutex<HashMap<RunKey, Option<ScheduleId>>>,
    /// How far the database's clock is ahead of this machine's.
    pub(crate) offset: Offset,
    last_call: AtomicI64,
    is_look_owed: AtomicBool,
    pub(crate) wakeup_cache: WakeupCache,
    pub(crate) row_cache: RowCache,
    /// Schedules, runs and handlers that are set aside, as far as this node knows.
    passed_over: RwLock<Arc<HashSet<Wakeup>>>,
    /// Whom the node can notify, and whom it notifies of failures.
    pub(crate) setup: SharedSetup,
    schema: String,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(
        clock: PostgresClock,
        lease: SignedDuration,
        zones: Arc<Zones>,
        schema: String,
    ) -> Shared {
        let rules = Arc::new(Rules::new(zones.clone()));
        Shared {
            clock,
            lease,
            zones,
            rules: RwLock::new((String::new(), rules)),
            definitions: Mutex::default(),
            attempts: Mutex::default(),
            offset: Offset::new(),
            last_call: AtomicI64::new(i64::MIN),
            is_look_owed: AtomicBool::new(false),
            wakeup_cache: WakeupCache::new(),
            row_cache: RowCache::default(),
            passed_over: RwLock::default(),
            setup: SharedSetup::default(),
            schema,
        }
    }

    /// Schedules, runs and handlers that are set aside, as far as this node knows.
    pub(crate) fn passed_over(&self) -> Arc<HashSet<Wakeup>> {
        self.passed_over.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_passed_over(&self, known: Arc<HashSet<Wakeup>>) {
        *self.passed_over.write().unwrap_or_else(PoisonError::into_inner) = known;
    }

    pub(crate) fn pass_over(&self, what: Wakeup) {
        let mut known = self.passed_over.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut known).insert(what);
    }

    /// The rules as they were last loaded.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// The rules, if they are of this version.
    pub(crate) fn rules_of(&self, version: &str) -> Option<Arc<Rules>> {
        let known = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        (known.0 == version).then(|| known.1.clone())
    }

    /// Loads the rules of another version of the calendars.
    pub(crate) fn reload(&self, version: String, found: &[Row]) -> Result<Arc<Rules>, Failure> {
        let calendars = calendars(found)?;
        let rules = Arc::new(rules::load(&calendars, self.zones.clone()));
        self.set_rules(version, rules.clone());
        Ok(rules)
    }

    pub(crate) fn set_rules(&self, version: String, rules: Arc<Rules>) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = (version, rules);
    }

    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    pub(crate) fn definition(&self, id: WorkflowId, revision: u32) -> Option<Arc<Definition>> {
        held(&self.definitions).get(&(id, revision)).cloned()
    }

    pub(crate) fn remember_definition(
        &self,
        id: WorkflowId,
        revision: u32,
        definition: Arc<Definition>,
    ) {
        let mut known = held(&self.definitions);
        if known.len() >= DEFINITIONS {
            known.clear();
        }
        known.insert((id, revision), definition);
    }

    /// Remembers the schedules of runs that are attempted here, and forgets those that have ended.
    pub(crate) fn remember_attempts(&self, effects: &[Effect], reports: &[Report]) {
        let mut attempts = held(&self.attempts);
        for report in reports {
            attempts.remove(&report.run);
        }
        for effect in effects {
            if let Effect::Perform(perform) = effect
                && let RunId::Occurrence { schedule, .. } = perform.run_id
            {
                attempts.insert(perform.run, Some(schedule));
            }
        }
    }

    /// The schedules of these runs, and the runs whose schedules are not known.
    pub(crate) fn schedules_of(&self, runs: &[i64]) -> (Vec<i64>, Vec<i64>) {
        let attempts = held(&self.attempts);
        let (mut schedules, mut unknown) = (Vec::new(), Vec::new());
        for run in runs {
            match attempts.get(&RunKey(*run)) {
                Some(schedule) => schedules.extend(schedule.map(|id| id.0)),
                None => unknown.push(*run),
            }
        }
        (schedules, unknown)
    }

    /// Learns from an answer: the database's clock showed `theirs` between the reading `sent` and
    /// now. If the caller's clock counts, this is ignored.
    pub(crate) fn told_time(&self, sent: Option<Reading>, theirs: Timestamp) {
        if self.clock == PostgresClock::Database {
            self.offset.answered(sent, theirs);
        }
    }

    /// The time to write for a caller: the caller's own if its clock counts, otherwise `None`, and
    /// the database uses its clock.
    pub(crate) fn given(&self, now: Timestamp) -> Option<i64> {
        match self.clock {
            PostgresClock::Caller => Some(ms(now)),
            PostgresClock::Database => None,
        }
    }

    /// After a commit with an unknown outcome, cached wakeups may be wrong: they are forgotten.
    pub(crate) fn doubt(&self, failure: &Failure) {
        if let Failure::Unknown(_) = failure {
            self.wakeup_cache.forget();
        }
    }

    /// Notes that something has come to wait of which the other nodes do not know yet.
    pub(crate) fn owe_look(&self) {
        self.is_look_owed.store(true, Ordering::Relaxed);
    }

    /// Whether other nodes do not know yet of something that waits, and enough time has passed
    /// since the last [`Call::Look`] of this node. If so, it is about to be sent.
    pub(crate) fn may_call_look(&self, now: Timestamp) -> bool {
        let (now, last) = (now.as_millisecond(), self.last_call.load(Ordering::Relaxed));
        let has_paused = now.saturating_sub(last) >= CALLED || now < last;
        let may = has_paused && self.is_look_owed.swap(false, Ordering::Relaxed);
        if may {
            self.last_call.store(now, Ordering::Relaxed);
        }
        may
    }

    /// The statement that notifies the nodes other than the sender, or all of them without a
    /// sender. They get the message when the transaction commits.
    pub(crate) fn ask_call(&self, call: Call, sender: Option<NodeId>) -> Query {
        let word = match call {
            Call::Look => "look",
            Call::Renew => "renew",
            Call::Access => "access",
        };
        let sender = sender.map_or_else(|| "-".to_owned(), |node| node.0.to_string());
        let message = format!("{word} {sender} {}", self.schema);
        Query::new("SELECT pg_notify($1, $2)", vec![param(CHANNEL.to_owned()), param(message)])
    }

    /// Parses a message of another node of the same store.
    pub(crate) fn heard(&self, message: &str, node: NodeId) -> Option<Call> {
        let mut parts = message.splitn(3, ' ');
        let (word, from, schema) = (parts.next()?, parts.next()?, parts.next()?);
        if schema != self.schema || from.parse() == Ok(node.0) {
            return None;
        }
        match word {
            "look" => Some(Call::Look),
            "renew" => Some(Call::Renew),
            "access" => Some(Call::Access),
            _ => None,
        }
    }
}

pub(crate) fn calendars(found: &[Row]) -> Result<Vec<CalendarView>, Failure> {
    found.iter().map(crate::views::calendars::read).collect()
}
