//! Planted bugs: each is a way in which the store, the driver or the engine could be wrong, with
//! the checkers that must notice it. Used by tests only.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::run::Claimant;
use engine::turn::{Answer, Command};
use engine::{Moment, RunKey, ScheduleId};
use jiff::{SignedDuration, Timestamp};
use rusqlite::Connection;
use store::{CommandRequest, Commanded, Failure, TurnRequest, Turned};

use crate::bursts::planted as bursts;
use crate::handlers::planted as handlers;
use crate::process::planted;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// A report is lost on its way to the store.
    DropReport,
    /// A turn is applied twice, and only the second answer arrives.
    TurnTwice,
    /// The effects of a turn are lost.
    LoseEffects,
    /// The clock is half an hour fast.
    FireEarly,
    /// Reports of old attempts are taken for current ones.
    AcceptOldTokens,
    /// No capacity is ever free.
    IgnorePending,
    /// The driver believes that something is always due.
    NeverSleep,
    /// The driver believes that nothing is ever due.
    Oversleep,
    /// A schedule's wakeup is lost.
    LoseWakeup,
    /// A run's wakeup is lost.
    LoseTimeout,
    /// A schedule's mark goes back.
    RewindMark,
    /// A schedule goes back to its first occurrence.
    FireAgain,
    /// A ledger row is lost.
    SwallowRow,
    /// A schedule forgets its active occurrences.
    ForgetActive,
    /// A schedule forgets its queued occurrences.
    ForgetQueued,
    /// The node's row is lost.
    LoseNode,
    /// A paused schedule goes on.
    IgnorePause,
    /// A workflow forgets how many of its runs are active.
    ForgetLimit,
    /// A retry does not wait.
    RetryAtOnce,
    /// A success counts twice.
    CountTwice,
    /// The count of repeats starts over.
    ForgetRepeats,
    /// A suspended run goes on although nobody resolved it.
    Unsuspend,
    /// A run that has ended runs again.
    RunAgain,
    /// One of the schedules that use a calendar is not recomputed.
    ForgetRecompute,
    /// The schedules that a crash left to be recomputed are forgotten.
    ForgetLeftovers,
    /// History is removed a day before its time.
    ExpireEarly,
    /// History is kept a day longer.
    ExpireLate,
    /// A run is removed that has not ended.
    ExpireOpenRun,
    /// A ledger row is removed whose occurrence is not over.
    ExpireOpenRow,
    /// A step begins before what it depends on has ended.
    BeginTooEarly,
    /// The step that completed first is undone first.
    UndoInWrongOrder,
    /// A step that must be undone is not.
    ForgetToUndo,
    /// A timer completes at once.
    EndTimerEarly,
    /// A worker whose claim was lost is taken for the one that has it now.
    AcceptOldClaims,
    /// Anyone who knows the token of an attempt is taken for the worker that claimed it.
    AcceptOtherClaimants,
    /// An action of a deadline happens again.
    AlertAgain,
    /// A deadline is no longer watched.
    ForgetDeadline,
    /// An item counts as begun, but is not.
    LoseItem,
    /// A run does not report its end to the run that waits for it.
    LeaveParentWaiting,
    /// A step that must run again stays completed.
    StayDone,
    /// A queue entry is lost.
    LoseQueued,
    /// An approval is lost.
    ForgetToAsk,
    /// The records of earlier attempts are lost.
    ForgetAttempts,
    /// Events that a failed run has reserved stay reserved.
    ForgetToGiveBack,
    /// Reserved events are consumed before their run has succeeded.
    ConsumeTooEarly,
    /// A consumed event becomes pending again.
    WorkOnItAgain,
    /// An event is lost.
    LoseEvent,
    /// A topic counts one event too many.
    CountWrongly,
    /// Events that a producer publishes are stored before it has succeeded.
    PublishTooEarly,
    /// A workflow forgets that one of its handlers runs.
    HandleTwoAtOnce,
    /// A consumer forgets why it must look.
    ForgetCause,
    /// A consumer wakes too early.
    WakeTooEarly,
    /// A consumer is not woken.
    Oversleeping,
    /// A mutation with an unknown outcome is made again.
    MutateAgain,
    /// A mutation that was made is forgotten when the last phase fails.
    ForgetMutation,
    /// A handler keeps another state than its run returned.
    KeepSomethingElse,
    /// A workflow goes on although a mutation's outcome is unknown.
    GoOnAnyway,
    /// A run that ended in the decision that started it is still open.
    LeaveEndedOpen,
    /// A run that ended in the decision that started it is lost.
    LoseEndedRun,
    /// Of many wakeups due at once, those that a turn left for the next are forgotten.
    ForgetRestOfBurst,
    /// An event that existed before a step waited for it is taken, but stays pending.
    LeaveTakenPending,
    /// A command is committed, but the driver does not learn of it because its caller is gone.
    LoseGoneCallers,
    /// A schedule forgets its open incident: the next failure is reported again.
    ForgetIncident,
    /// An incident ends although nothing has succeeded.
    EndIncident,
    /// A command is acknowledged that was never committed.
    AcknowledgeInVain,
}

impl Sabotage {
    pub const ALL: [Sabotage; 64] = [
        Sabotage::DropReport,
        Sabotage::TurnTwice,
        Sabotage::LoseEffects,
        Sabotage::FireEarly,
        Sabotage::AcceptOldTokens,
        Sabotage::IgnorePending,
        Sabotage::NeverSleep,
        Sabotage::Oversleep,
        Sabotage::LoseWakeup,
        Sabotage::LoseTimeout,
        Sabotage::RewindMark,
        Sabotage::FireAgain,
        Sabotage::SwallowRow,
        Sabotage::ForgetActive,
        Sabotage::ForgetQueued,
        Sabotage::LoseNode,
        Sabotage::IgnorePause,
        Sabotage::ForgetLimit,
        Sabotage::RetryAtOnce,
        Sabotage::CountTwice,
        Sabotage::ForgetRepeats,
        Sabotage::Unsuspend,
        Sabotage::RunAgain,
        Sabotage::ForgetRecompute,
        Sabotage::ForgetLeftovers,
        Sabotage::ExpireEarly,
        Sabotage::ExpireLate,
        Sabotage::ExpireOpenRun,
        Sabotage::ExpireOpenRow,
        Sabotage::BeginTooEarly,
        Sabotage::UndoInWrongOrder,
        Sabotage::ForgetToUndo,
        Sabotage::EndTimerEarly,
        Sabotage::AcceptOldClaims,
        Sabotage::AcceptOtherClaimants,
        Sabotage::AlertAgain,
        Sabotage::ForgetDeadline,
        Sabotage::LoseItem,
        Sabotage::LeaveParentWaiting,
        Sabotage::StayDone,
        Sabotage::LoseQueued,
        Sabotage::ForgetToAsk,
        Sabotage::ForgetAttempts,
        Sabotage::ForgetToGiveBack,
        Sabotage::ConsumeTooEarly,
        Sabotage::WorkOnItAgain,
        Sabotage::LoseEvent,
        Sabotage::CountWrongly,
        Sabotage::PublishTooEarly,
        Sabotage::HandleTwoAtOnce,
        Sabotage::ForgetCause,
        Sabotage::WakeTooEarly,
        Sabotage::Oversleeping,
        Sabotage::MutateAgain,
        Sabotage::ForgetMutation,
        Sabotage::KeepSomethingElse,
        Sabotage::GoOnAnyway,
        Sabotage::LeaveEndedOpen,
        Sabotage::LoseEndedRun,
        Sabotage::ForgetRestOfBurst,
        Sabotage::LeaveTakenPending,
        Sabotage::LoseGoneCallers,
        Sabotage::ForgetIncident,
        Sabotage::EndIncident,
    ];

    /// The planted bugs of worlds in which several nodes share a PostgreSQL.
    pub const OF_SHARED_WORLDS: [Sabotage; 12] = [
        Sabotage::AcknowledgeInVain,
        Sabotage::DropReport,
        Sabotage::TurnTwice,
        Sabotage::LoseEffects,
        Sabotage::LoseWakeup,
        Sabotage::RewindMark,
        Sabotage::SwallowRow,
        Sabotage::LoseNode,
        Sabotage::ForgetLimit,
        Sabotage::RunAgain,
        Sabotage::WorkOnItAgain,
        Sabotage::CountWrongly,
    ];

    /// The checkers of which at least one must notice.
    pub fn found_by(self) -> &'static [&'static str] {
        match self {
            Sabotage::DropReport => &["reports"],
            Sabotage::TurnTwice | Sabotage::LoseEffects => &["performed", "tokens"],
            Sabotage::FireEarly => &["early"],
            Sabotage::AcceptOldTokens => &["tokens"],
            Sabotage::IgnorePending => &["slots"],
            Sabotage::NeverSleep => &["busy"],
            Sabotage::Oversleep => &["alarm"],
            Sabotage::LoseWakeup | Sabotage::LoseTimeout => &["alarm", "late", "store"],
            Sabotage::RewindMark => &["mark"],
            Sabotage::FireAgain => &["occurrences", "mark", "next", "early"],
            Sabotage::SwallowRow => &["ledger"],
            Sabotage::ForgetActive => &["live", "overlap", "counters"],
            Sabotage::ForgetQueued => &["live"],
            Sabotage::LoseNode => &["store", "performed"],
            Sabotage::IgnorePause => &["states", "next"],
            Sabotage::ForgetLimit => &["concurrency", "store"],
            Sabotage::RetryAtOnce => &["retries"],
            Sabotage::CountTwice => &["counters"],
            Sabotage::ForgetRepeats => &["counters", "repeats", "next", "states"],
            Sabotage::Unsuspend | Sabotage::RunAgain => &["states"],
            Sabotage::ForgetRecompute | Sabotage::ForgetLeftovers => &["calendar"],
            Sabotage::ExpireEarly
            | Sabotage::ExpireLate
            | Sabotage::ExpireOpenRun
            | Sabotage::ExpireOpenRow => &["expiry"],
            Sabotage::BeginTooEarly => &["order", "shape", "slots"],
            Sabotage::UndoInWrongOrder => &["undoing"],
            Sabotage::ForgetToUndo => &["undoing"],
            Sabotage::EndTimerEarly => &["timer"],
            Sabotage::AcceptOldClaims => &["tokens"],
            Sabotage::AcceptOtherClaimants => &["claimants"],
            Sabotage::AlertAgain => &["deadline", "states"],
            Sabotage::ForgetDeadline => &["deadline", "late", "alarm", "states", "store"],
            Sabotage::LoseItem => &["items"],
            Sabotage::LeaveParentWaiting => &["family", "store"],
            Sabotage::StayDone => &["again", "shape", "order"],
            Sabotage::LoseQueued => &["waiting", "store"],
            Sabotage::ForgetToAsk => &["waiting", "store"],
            Sabotage::ForgetAttempts => &["history"],
            Sabotage::ForgetToGiveBack => &["events", "store"],
            Sabotage::ConsumeTooEarly => &["events"],
            Sabotage::WorkOnItAgain => &["events"],
            Sabotage::LoseEvent => &["lost"],
            Sabotage::CountWrongly => &["counts", "store"],
            Sabotage::PublishTooEarly => &["published", "store"],
            Sabotage::HandleTwoAtOnce => &["turns", "causes", "store", "wake"],
            Sabotage::ForgetCause => &["causes"],
            Sabotage::WakeTooEarly => &["wake", "causes"],
            Sabotage::Oversleeping => &["alarm", "late", "store"],
            Sabotage::MutateAgain => &["states", "deeds", "performed", "guessed"],
            Sabotage::ForgetMutation => &["causes", "events", "deeds", "store"],
            Sabotage::KeepSomethingElse => &["state"],
            Sabotage::GoOnAnyway => &["guessed"],
            Sabotage::LeaveEndedOpen => &["ended"],
            Sabotage::LoseEndedRun => &["runs"],
            Sabotage::ForgetRestOfBurst => &["ledger"],
            Sabotage::LeaveTakenPending => &["events"],
            Sabotage::LoseGoneCallers => &["alarm", "late", "performed", "slots", "turns"],
            Sabotage::ForgetIncident | Sabotage::EndIncident => &["incidents"],
            Sabotage::AcknowledgeInVain => &["acknowledged"],
        }
    }

    /// The change that the planted bug makes in the file between two commits.
    fn sql(self) -> Option<&'static str> {
        Some(match self {
            Sabotage::LoseWakeup => {
                "DELETE FROM wakeups WHERE kind = 1 AND id =
                 (SELECT id FROM wakeups WHERE kind = 1 ORDER BY due LIMIT 1)"
            }
            Sabotage::LoseTimeout => {
                "DELETE FROM wakeups WHERE kind = 0 AND id =
                 (SELECT key FROM runs WHERE status = 1 AND json_extract(state, '$.e') IS NULL LIMIT 1)"
            }
            Sabotage::RewindMark => "UPDATE progress SET mark = mark - 86400000 WHERE n > 2",
            Sabotage::FireAgain => {
                "UPDATE progress SET next_nominal = l.nominal, next_effective = l.effective,
                  mark = l.effective - 1
                 FROM ledger l WHERE l.schedule = progress.id AND l.n = progress.n - 1
                  AND l.outcome = 0 AND progress.next_nominal IS NOT NULL"
            }
            Sabotage::SwallowRow => {
                "DELETE FROM ledger WHERE (schedule, n) IN (SELECT schedule, max(n) FROM ledger)"
            }
            Sabotage::ForgetActive => {
                "UPDATE progress SET live = json_set(live, '$[0]', json('[]'))
                 WHERE json_array_length(live, '$[0]') > 0"
            }
            Sabotage::ForgetQueued => {
                "UPDATE progress SET live = json_set(live, '$[1]', json('[]'))
                 WHERE json_array_length(live, '$[1]') > 0"
            }
            Sabotage::LoseNode => {
                "DELETE FROM nodes WHERE id IN
                 (SELECT json_extract(state, '$.a[0].d.p.o') FROM runs WHERE status = 1)"
            }
            Sabotage::IgnorePause => "UPDATE schedules SET status = 0 WHERE status = 1",
            Sabotage::ForgetLimit => {
                "UPDATE workflows SET active = 0 WHERE concurrency IS NOT NULL AND active > 0"
            }
            Sabotage::RetryAtOnce => {
                "INSERT OR IGNORE INTO wakeups (due, kind, id)
                 SELECT ?1, 1, id FROM progress
                 WHERE json_extract(live, '$[0][0].w.at') > ?1 + 1000;
                 UPDATE progress SET live = json_set(live, '$[0][0].w.at', ?1)
                 WHERE json_extract(live, '$[0][0].w.at') > ?1 + 1000"
            }
            Sabotage::ForgetIncident => {
                "UPDATE progress SET incident = NULL WHERE incident IS NOT NULL"
            }
            Sabotage::EndIncident => {
                "UPDATE incidents SET ending = 0, ended_at = began_at, ended_told = '[]'
                 WHERE ended_at IS NULL"
            }
            Sabotage::CountTwice => "UPDATE progress SET run_count = run_count + 1 WHERE run_count > 1",
            Sabotage::ForgetRepeats => {
                "UPDATE progress SET current_repeat = 0 WHERE current_repeat > 0 AND id IN
                 (SELECT id FROM schedules WHERE json_extract(declared, '$.total_repeats') > 0)"
            }
            Sabotage::Unsuspend => {
                "UPDATE runs SET status = 1, state = json_set(state, '$.a[0].d', 'r')
                 WHERE status = 3 AND json_extract(state, '$.a[0].d.k') IS NOT NULL"
            }
            Sabotage::RunAgain => {
                "UPDATE runs SET status = 1 WHERE key = (SELECT max(key) FROM runs WHERE status > 3)"
            }
            other => {
                let of_processes = planted::sql(other);
                return of_processes.or_else(|| handlers::sql(other)).or_else(|| bursts::sql(other));
            }
        })
    }

    /// Whether the planted bug is one of processes.
    pub fn is_of_processes(self) -> bool {
        let of_claims = [Sabotage::AcceptOldClaims, Sabotage::AcceptOtherClaimants];
        of_claims.contains(&self) || planted::sql(self).is_some()
    }

    /// Whether the planted bug is one of topics and handlers.
    pub fn is_of_handlers(self) -> bool {
        handlers::sql(self).is_some()
    }

    /// Whether the planted bug is one of runs that end in the decision that starts them.
    pub fn is_of_bursts(self) -> bool {
        bursts::sql(self).is_some()
    }

    /// Changes the file, if there is something to change. Returns whether it did.
    pub(crate) fn strike(self, connection: &Connection, now: i64) -> rusqlite::Result<bool> {
        let Some(sql) = self.sql() else { return Ok(false) };
        let mut changed = 0;
        for statement in sql.split(';') {
            let mut statement = connection.prepare_cached(statement)?;
            changed += match statement.parameter_count() {
                0 => statement.execute([])?,
                _ => statement.execute([now])?,
            };
        }
        Ok(changed > 0)
    }
}

/// The first turns are left alone, so that there is something to spoil.
const WARM_UP: u64 = 20;

/// What a planted bug does to requests and answers.
#[derive(Default)]
pub(crate) struct Tampering {
    pub(crate) sabotage: Option<Sabotage>,
    turns: AtomicU64,
    /// The current tokens of each run, for the bug that old ones are taken for them.
    pub(crate) tokens: Mutex<BTreeMap<i64, Vec<u32>>>,
    /// The tokens of claimed attempts, by the run's id.
    pub(crate) claims: Mutex<BTreeMap<String, Vec<(u32, Claimant)>>>,
}

impl Tampering {
    pub(crate) fn new(sabotage: Option<Sabotage>) -> Tampering {
        Tampering { sabotage, ..Tampering::default() }
    }

    fn is(&self, sabotage: Sabotage) -> bool {
        self.sabotage == Some(sabotage) && self.turns.load(Ordering::Relaxed) > WARM_UP
    }

    pub(crate) fn request(&self, mut request: TurnRequest) -> TurnRequest {
        self.turns.fetch_add(1, Ordering::Relaxed);
        if self.is(Sabotage::DropReport) {
            request.reports.pop();
        }
        if self.is(Sabotage::FireEarly) {
            let now = request.moment.now.checked_add(SignedDuration::from_mins(30));
            request.moment = Moment { now: now.unwrap_or(request.moment.now), ..request.moment };
        }
        if self.is(Sabotage::AcceptOldTokens)
            && let Ok(tokens) = self.tokens.lock()
        {
            for report in &mut request.reports {
                let RunKey(run) = report.run;
                let current = tokens.get(&run).map(Vec::as_slice).unwrap_or_default();
                if !current.contains(&report.token) {
                    report.token = current.first().copied().unwrap_or(report.token);
                }
            }
        }
        if self.is(Sabotage::IgnorePending) {
            request.capacity.free_slots = 0;
        }
        request
    }

    pub(crate) fn again(&self, request: &TurnRequest) -> Option<TurnRequest> {
        self.is(Sabotage::TurnTwice).then(|| request.clone())
    }

    pub(crate) fn command(&self, mut request: CommandRequest) -> CommandRequest {
        if self.is(Sabotage::ForgetRecompute)
            && let Command::Recompute(ids) = &mut request.command
        {
            ids.pop();
        }
        if let Command::EndAttempt { id, token, claimant, .. } = &mut request.command
            && let Ok(claims) = self.claims.lock()
            && let Some(current) = claims.get(&id.to_string())
        {
            let known = current.iter().find(|(known, _)| known == token);
            let taken_for = match known {
                Some(known) if self.is(Sabotage::AcceptOtherClaimants) => Some(known),
                None if self.is(Sabotage::AcceptOldClaims) => current.first(),
                _ => None,
            };
            if let Some(other) = taken_for {
                (*token, *claimant) = other.clone();
            }
        }
        request
    }

    /// The answer to a command that is not carried out.
    pub(crate) fn answer_in_vain(&self) -> Option<Commanded> {
        self.is(Sabotage::AcknowledgeInVain).then(|| Commanded {
            answer: Answer::Count(1),
            created: None,
            replayed: false,
            effects: Vec::new(),
            notices: Vec::new(),
            spans: Vec::new(),
            next_wakeup: None,
            look: false,
        })
    }

    /// Whether the effects of commands whose callers are gone are lost.
    pub(crate) fn loses_gone_callers(&self) -> bool {
        self.is(Sabotage::LoseGoneCallers)
    }

    pub(crate) fn outdated(&self, ids: Vec<ScheduleId>) -> Vec<ScheduleId> {
        if self.is(Sabotage::ForgetLeftovers) { Vec::new() } else { ids }
    }

    pub(crate) fn expire(
        &self,
        now: Timestamp,
        keep: SignedDuration,
    ) -> (Timestamp, SignedDuration) {
        let day = SignedDuration::from_hours(24);
        if self.is(Sabotage::ExpireEarly) {
            return (now.checked_add(day).unwrap_or(now), keep);
        }
        (now, if self.is(Sabotage::ExpireLate) { keep + day } else { keep })
    }

    /// Removes rows besides those that have expired.
    pub(crate) fn expired(&self, connection: &Connection) -> Result<(), Failure> {
        let sql = if self.is(Sabotage::ExpireOpenRun) {
            "DELETE FROM runs WHERE key = (SELECT min(key) FROM runs WHERE status < 4)"
        } else if self.is(Sabotage::ExpireOpenRow) {
            "DELETE FROM ledger WHERE run = (SELECT min(key) FROM runs WHERE status = 1)"
        } else {
            return Ok(());
        };
        let struck = connection.execute(sql, []);
        struck.map(drop).map_err(|error| Failure::Damaged(error.to_string()))
    }

    pub(crate) fn answer(&self, mut turned: Turned, now: i64) -> Turned {
        if self.is(Sabotage::LoseEffects) {
            turned.effects.clear();
        }
        if self.is(Sabotage::NeverSleep) {
            turned.next_wakeup = Timestamp::from_millisecond(now).ok();
        }
        if self.is(Sabotage::Oversleep) {
            turned.next_wakeup = None;
        }
        turned
    }
}
