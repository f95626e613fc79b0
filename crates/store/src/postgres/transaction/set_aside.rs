//! Schedules, runs and handlers that the shared store has set aside because they cannot be read or
//! decided.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use engine::run::RunState;
use engine::turn::{Command, Wakeup};
use engine::{RunId, RunKey, ScheduleId};
use jiff::Timestamp;
use tokio_postgres::Row;

use crate::codes::sql;
use crate::failure::Failure;
use crate::postgres::Shared;
use crate::postgres::connections::tx_connection::{Query, TxConnection, param};
use crate::postgres::maintenance::check::look;
use crate::postgres::transaction::core::Core;
use crate::postgres::transaction::load::OVERRIDES;
use crate::rows::{self, Read, Row as _, handler_columns, run_columns, schedule_columns};
use crate::set_aside::finding;
use crate::stored::{json, ms};
use crate::view::Finding;
use crate::views::set_aside::{LIST, read};
use crate::wakeups::{read_wakeup, stored_wakeup};

const PUT: &str = "INSERT INTO set_aside (kind, id, reason, at) VALUES ($1, $2, $3, $4)
     ON CONFLICT (kind, id) DO UPDATE SET reason = excluded.reason";
pub(crate) const ALL: &str = "SELECT kind, id FROM set_aside";
const FORGET: &str = "DELETE FROM set_aside WHERE kind = $1 AND id = $2";
const SCHEDULE: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM schedules s JOIN progress p ON p.id = s.id WHERE s.id = $1"
);
/// Taken before the overrides of a schedule change, as everywhere.
const LOCK: &str = "SELECT id FROM progress WHERE id = $1 FOR UPDATE";
const RUN: &str = concat!("SELECT ", run_columns!(), " FROM runs r WHERE r.key = $1");
const HANDLER: &str = concat!("SELECT ", handler_columns!(), " FROM handlers h WHERE h.id = $1");

impl Core {
    /// Sets it aside and removes its wakeup, so that drivers pass over it. Other nodes learn of it
    /// when they come across it.
    pub(crate) fn set_aside(
        &mut self,
        what: Wakeup,
        why: &str,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let (kind, id) = stored_wakeup(what);
        let forget = match what {
            Wakeup::Run(_) => "UPDATE open_runs SET wake_at = NULL WHERE key = $1",
            Wakeup::Schedule(_) => "UPDATE progress SET wake_at = NULL WHERE id = $1",
            Wakeup::Handler(_) => "UPDATE handlers SET due = NULL WHERE id = $1",
            Wakeup::Node(_) => "DELETE FROM nodes WHERE id = $1",
        };
        self.tx.transact(|tx| {
            tx.begin(Vec::new())?;
            let (why, at) = (why.to_owned(), ms(now));
            let put = Query::new(PUT, vec![param(kind), param(id), param(why), param(at)]);
            tx.commit(vec![put, Query::new(forget, vec![param(id)])]).map(drop)
        })?;
        self.shared.pass_over(what);
        Ok(())
    }

    /// Loads everything that is set aside, also by other nodes.
    pub(crate) fn learn_set_aside(&mut self) -> Result<(), Failure> {
        let found = self.tx.transact(|tx| {
            tx.begin(Vec::new())?;
            Ok(tx.commit(vec![Query::new(ALL, Vec::new())])?.pop().unwrap_or_default())
        })?;
        let known: Result<HashSet<Wakeup>, Failure> = found.iter().map(wakeup).collect();
        self.shared.set_passed_over(Arc::new(known?));
        Ok(())
    }
}

/// Schedules of which some rows exist and others are missing.
const IN_PARTS: &str = "SELECT s.id FROM schedules s WHERE s.id = ANY($1)
       AND (NOT EXISTS (SELECT 1 FROM progress p WHERE p.id = s.id)
         OR NOT EXISTS (SELECT 1 FROM workflows w WHERE w.id = s.workflow))
     UNION ALL SELECT p.id FROM progress p WHERE p.id = ANY($1)
       AND NOT EXISTS (SELECT 1 FROM schedules s WHERE s.id = p.id)";
const WHOLE: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM schedules s JOIN progress p ON p.id = s.id WHERE s.id = ANY($1)"
);
/// Deletes everything that belongs to schedules, in all tables. `$1` are the schedules.
const DELETE_BROKEN: [&str; 9] = [
    "INSERT INTO schedule_counts (workflow, status, slot, count)
     SELECT c.workflow, c.status, 0, -count(*) FROM (
       SELECT workflow, status FROM schedules WHERE id = ANY($1)
       UNION ALL SELECT 0, status FROM schedules WHERE id = ANY($1)) c
     GROUP BY c.workflow, c.status ORDER BY c.workflow, c.status
     ON CONFLICT (workflow, status, slot) DO UPDATE
       SET count = schedule_counts.count + excluded.count",
    "INSERT INTO schedule_blocks (status, block, slot, count)
     SELECT status, id / 1024, 0, -count(*) FROM schedules WHERE id = ANY($1)
     GROUP BY status, id / 1024 ORDER BY status, id / 1024
     ON CONFLICT (status, block, slot) DO UPDATE
       SET count = schedule_blocks.count + excluded.count",
    sql!(
        "UPDATE incidents SET ending = {incident_removed}, ended_at = began_at, ended_told = '[]'
         WHERE schedule = ANY($1) AND ended_at IS NULL"
    ),
    "DELETE FROM progress WHERE id = ANY($1)",
    "DELETE FROM schedules WHERE id = ANY($1)",
    "DELETE FROM overrides WHERE schedule = ANY($1)",
    "DELETE FROM words WHERE schedule = ANY($1)",
    "DELETE FROM outdated WHERE schedule = ANY($1)",
    sql!("DELETE FROM set_aside WHERE kind = {schedule_wakeup} AND id = ANY($1)"),
];

/// A run that is set aside.
const OPEN: &str = concat!(
    "SELECT ",
    run_columns!(),
    " FROM open_runs r
     WHERE (r.schedule = $1 AND r.n = $2 AND r.retry = $3) OR r.uuid = $4"
);
/// Puts a run back to before its beginning: everything it had going on is given up. `$1` is the
/// run.
const BEFORE_ITS_BEGIN: [&str; 5] = [
    sql!(
        "UPDATE workflows SET active = active - 1 WHERE concurrency IS NOT NULL AND active > 0
         AND id = (SELECT workflow FROM open_runs
                   WHERE key = $1 AND status {active} AND handler IS NULL)"
    ),
    "DELETE FROM queue WHERE run = $1",
    "DELETE FROM approvals WHERE run = $1",
    "DELETE FROM waits WHERE run = $1",
    sql!("DELETE FROM set_aside WHERE kind = {run_wakeup} AND id = $1"),
];
const EMPTY_RUN: &str = sql!(
    "UPDATE open_runs SET status = {pending}, state = $2, owners = NULL,
       waits_for_slot = false, overdue = false, timeout = NULL, wake_at = NULL, stamp = 0
     WHERE key = $1"
);
/// If the run still cannot be read: clears everything that is not needed to end it.
const BARE_RUN: &str = sql!(
    "UPDATE open_runs SET input = 'null', output = NULL, error = NULL, retry_of = NULL,
     trace = NULL, by = NULL, triggered_by = {by_schedule} WHERE key = $1"
);

/// Makes a command work on rows that cannot be read, so that a person can get rid of them. Returns
/// the command for the engine, and how many schedules were deleted already.
pub(crate) fn without_broken(
    tx: &mut TxConnection,
    shared: &Shared,
    command: &Command,
) -> Result<(Command, u64), Failure> {
    match command {
        Command::DeleteSchedules(ids) => {
            let broken = broken(tx, ids)?;
            let left = ids.iter().copied().filter(|id| !broken.contains(&id.0)).collect();
            if !broken.is_empty() {
                let gone: Vec<i64> = broken.iter().copied().collect();
                let delete = |sql: &&'static str| Query::new(sql, vec![param(gone.clone())]);
                tx.ask(DELETE_BROKEN.iter().map(delete).collect())?;
            }
            Ok((Command::DeleteSchedules(left), broken.len() as u64))
        }
        Command::CancelRun { id, .. } => {
            make_readable(tx, shared, id)?;
            Ok((command.clone(), 0))
        }
        Command::Override { id, nominal, action: None, .. } => {
            clear_unreadable(tx, *id, *nominal)?;
            Ok((command.clone(), 0))
        }
        _ => Ok((command.clone(), 0)),
    }
}

/// Those of these schedules that cannot be read, or that have missing rows.
fn broken(tx: &mut TxConnection, ids: &[ScheduleId]) -> Result<BTreeSet<i64>, Failure> {
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let mut broken = BTreeSet::new();
    for row in &tx.one(IN_PARTS, vec![param(ids.clone())])? {
        broken.insert(row.single()?);
    }
    for row in &tx.one(WHOLE, vec![param(ids)])? {
        if rows::schedule(row).is_err() {
            broken.insert(row.read(schedule_columns::id)?);
        }
    }
    Ok(broken)
}

/// Deletes an override that cannot be read. If it was what kept its schedule from being decided,
/// the schedule comes back: the engine computes its next time, and nodes learn of it with their
/// next renewal.
fn clear_unreadable(
    tx: &mut TxConnection,
    id: ScheduleId,
    nominal: Timestamp,
) -> Result<(), Failure> {
    let is_unreadable = |row: &Row| rows::occurrence_override(row).is_err();
    let all = |tx: &mut TxConnection| tx.one(OVERRIDES, vec![param(vec![id.0])]);
    if !all(tx)?.iter().any(is_unreadable) {
        return Ok(());
    }
    let delete = "DELETE FROM overrides WHERE schedule = $1 AND nominal = $2";
    tx.ask(vec![
        Query::new(LOCK, vec![param(id.0)]),
        Query::new(delete, vec![param(id.0), param(ms(nominal))]),
    ])?;
    if !all(tx)?.iter().any(is_unreadable) {
        let (kind, id) = stored_wakeup(Wakeup::Schedule(id));
        tx.one(FORGET, vec![param(kind), param(id)])?;
    }
    Ok(())
}

/// Turns an open run that cannot be read, or that is set aside, into one that has not begun:
/// cancelling it then ends it, and the runs that wait for it go on.
fn make_readable(tx: &mut TxConnection, shared: &Shared, id: &RunId) -> Result<(), Failure> {
    let (schedule, n, retry, uuid) = match id {
        RunId::Occurrence { schedule, n, retry } => {
            (Some(schedule.0), Some(n.cast_signed()), Some(retry.cast_signed()), None)
        }
        RunId::Other(uuid) => (None, None, None, Some(uuid::Uuid::from_u128(*uuid))),
    };
    let which = vec![param(schedule), param(n), param(retry), param(uuid)];
    let found = tx.one(OPEN, which)?;
    let Some(row) = found.first() else { return Ok(()) };
    let key: i64 = row.read(run_columns::key)?;
    let is_set_aside = shared.passed_over().contains(&Wakeup::Run(RunKey(key)));
    if !is_set_aside && rows::run(row).is_ok() {
        return Ok(());
    }
    let mut queries: Vec<Query> =
        BEFORE_ITS_BEGIN.iter().map(|sql| Query::new(sql, vec![param(key)])).collect();
    queries.push(Query::new(EMPTY_RUN, vec![param(key), param(json(&RunState::default())?)]));
    tx.ask(queries)?;
    if tx.one(RUN, vec![param(key)])?.first().is_some_and(|row| rows::run(row).is_err()) {
        tx.one(BARE_RUN, vec![param(key)])?;
    }
    Ok(())
}

impl Core {
    /// The findings for what is set aside. With `repair`, what can be read or no longer exists is
    /// taken back; later checks mend its wakeup, and nodes learn of it with their next renewal.
    pub(crate) fn set_aside_findings(&mut self, repair: bool) -> Result<Vec<Finding>, Failure> {
        let found = look(&mut self.tx, LIST, Vec::new)?;
        let mut findings = Vec::new();
        for row in &found {
            let aside = read(row)?;
            let is_readable = self.is_readable(aside.what)?;
            let comes_back = repair && is_readable;
            if comes_back {
                let (kind, id) = stored_wakeup(aside.what);
                self.tx.transact(|tx| {
                    tx.begin(Vec::new())?;
                    tx.commit(vec![Query::new(FORGET, vec![param(kind), param(id)])]).map(drop)
                })?;
            }
            findings.push(finding(&aside, is_readable, comes_back));
        }
        if repair && !findings.is_empty() {
            self.learn_set_aside()?;
        }
        Ok(findings)
    }

    /// Whether the schedule, run or handler can be read, or does not exist at all.
    fn is_readable(&mut self, what: Wakeup) -> Result<bool, Failure> {
        let id = stored_wakeup(what).1;
        let (sql, read): (&'static str, fn(&Row) -> bool) = match what {
            Wakeup::Schedule(_) => {
                let overrides = look(&mut self.tx, OVERRIDES, || vec![param(vec![id])])?;
                if !overrides.iter().all(|row| rows::occurrence_override(row).is_ok()) {
                    return Ok(false);
                }
                (SCHEDULE, |row| rows::schedule(row).is_ok())
            }
            Wakeup::Run(_) => (RUN, |row| rows::run(row).is_ok()),
            Wakeup::Handler(_) => (HANDLER, |row| rows::handler(row).is_ok()),
            Wakeup::Node(_) => return Ok(true),
        };
        Ok(look(&mut self.tx, sql, || vec![param(id)])?.first().is_none_or(read))
    }
}

/// The schedule, run or handler that a row of [`ALL`] names.
fn wakeup(row: &Row) -> Read<Wakeup> {
    let (kind, id) = row.tuple()?;
    read_wakeup(kind, id)
}
