//! Schedules, runs and handlers that the embedded store has set aside because they cannot be read
//! or decided.

use std::collections::HashSet;

use engine::run::RunState;
use engine::turn::{Command, Wakeup};
use engine::{RunId, ScheduleId};
use jiff::Timestamp;
use rusqlite::{Connection, Row, params};

use crate::codes::{WAKE_SCHEDULE, sql};
use crate::failure::Failure;
use crate::rows::{self, Read, Row as _};
use crate::set_aside::finding;
use crate::sqlite::connections::query;
use crate::sqlite::transaction::apply::remember_greatest;
use crate::sqlite::transaction::core::Core;
use crate::sqlite::transaction::reader::{RUN_BY_KEY, SCHEDULE_BY_ID, overrides, run_key};
use crate::sqlite::transaction::topic_reader::HANDLER_BY_ID;
use crate::stored::{json, ms};
use crate::view::Finding;
use crate::views::set_aside::list;
use crate::wakeups::{read_wakeup, stored_wakeup};

impl Core {
    /// Sets it aside and removes its wakeup, so that the driver passes over it.
    pub(crate) fn set_aside(
        &mut self,
        what: Wakeup,
        why: &str,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let (kind, id) = stored_wakeup(what);
        let sql = "INSERT OR REPLACE INTO set_aside (kind, id, reason, at) VALUES (?1, ?2, ?3, ?4)";
        self.connection.execute(sql, params![kind, id, why, ms(now)])?;
        self.connection
            .execute("DELETE FROM wakeups WHERE kind = ?1 AND id = ?2", [i64::from(kind), id])?;
        self.set_aside.insert(what);
        Ok(())
    }
}

impl Core {
    /// The findings for what is set aside. With `repair`, what can be read or no longer exists is
    /// taken back; later checks mend its wakeup.
    pub(crate) fn set_aside_findings(&mut self, repair: bool) -> Result<Vec<Finding>, Failure> {
        let mut findings = Vec::new();
        for aside in query::answer(list(&self.connection))? {
            let is_readable = is_readable(&self.connection, aside.what);
            let comes_back = repair && is_readable;
            if comes_back {
                let (kind, id) = stored_wakeup(aside.what);
                let sql = "DELETE FROM set_aside WHERE kind = ?1 AND id = ?2";
                self.connection.execute(sql, [i64::from(kind), id])?;
                self.set_aside.remove(&aside.what);
            }
            findings.push(finding(&aside, is_readable, comes_back));
        }
        Ok(findings)
    }
}

/// Deletes everything that belongs to a schedule, in all tables. `?1` is the schedule.
const DELETE_BROKEN: [&str; 10] = [
    "UPDATE schedule_counts SET count = count - 1 WHERE (workflow, status) IN (
       SELECT workflow, status FROM schedules WHERE id = ?1
       UNION ALL SELECT 0, status FROM schedules WHERE id = ?1)",
    "UPDATE schedule_blocks SET count = count - 1 WHERE (status, block) IN (
       SELECT status, id / 1024 FROM schedules WHERE id = ?1)",
    sql!(
        "UPDATE incidents SET ending = {incident_removed}, ended_at = began_at, ended_told = '[]'
         WHERE schedule = ?1 AND ended_at IS NULL"
    ),
    "DELETE FROM schedules WHERE id = ?1",
    "DELETE FROM progress WHERE id = ?1",
    "DELETE FROM overrides WHERE schedule = ?1",
    "DELETE FROM words WHERE schedule = ?1",
    "DELETE FROM outdated WHERE schedule = ?1",
    sql!("DELETE FROM wakeups WHERE kind = {schedule_wakeup} AND id = ?1"),
    sql!("DELETE FROM set_aside WHERE kind = {schedule_wakeup} AND id = ?1"),
];

/// Puts a run back to before its beginning: everything it had going on is given up. `?1` is the
/// run.
const BEFORE_ITS_BEGIN: [&str; 5] = [
    sql!(
        "UPDATE workflows SET active = active - 1 WHERE concurrency IS NOT NULL AND active > 0
         AND id = (SELECT workflow FROM runs WHERE key = ?1
                   AND status {active} AND handler IS NULL)"
    ),
    "DELETE FROM queue WHERE run = ?1",
    "DELETE FROM approvals WHERE run = ?1",
    "DELETE FROM waits WHERE run = ?1",
    sql!("DELETE FROM set_aside WHERE kind = {run_wakeup} AND id = ?1"),
];
const EMPTY_RUN: &str = sql!(
    "UPDATE runs SET status = {pending}, state = ?2, owners = NULL, waits_for_slot = 0,
     overdue = 0, timeout = NULL WHERE key = ?1 AND status {open}"
);
/// If the run still cannot be read: clears everything that is not needed to end it.
const BARE_RUN: &str = sql!(
    "UPDATE runs SET input = 'null', output = NULL, error = NULL, retry_of = NULL, trace = NULL,
     by = NULL, triggered_by = {by_schedule} WHERE key = ?1 AND status {open}"
);

impl Core {
    /// Makes a command work on rows that cannot be read, so that a person can get rid of them.
    /// Returns the command for the engine, and how many schedules were deleted already.
    pub(crate) fn without_broken(&mut self, command: Command) -> Result<(Command, u64), Failure> {
        match command {
            Command::DeleteSchedules(mut ids) => {
                let all = ids.len();
                let mut broken = Vec::new();
                for id in &ids {
                    if is_broken(&self.connection, *id)? {
                        broken.push(*id);
                    }
                }
                ids.retain(|id| !broken.contains(id));
                for id in broken {
                    self.delete_broken(id)?;
                }
                let deleted = (all - ids.len()) as u64;
                Ok((Command::DeleteSchedules(ids), deleted))
            }
            Command::CancelRun { id, reason } => {
                self.make_readable(&id)?;
                Ok((Command::CancelRun { id, reason }, 0))
            }
            Command::Override { id, nominal, action: None, by } => {
                self.clear_unreadable(id, nominal)?;
                Ok((Command::Override { id, nominal, action: None, by }, 0))
            }
            other => Ok((other, 0)),
        }
    }

    fn delete_broken(&mut self, id: ScheduleId) -> Result<(), Failure> {
        for sql in DELETE_BROKEN {
            self.connection.execute(sql, [id.0])?;
        }
        remember_greatest(&self.connection, "greatest_schedule", id.0)?;
        self.set_aside.remove(&Wakeup::Schedule(id));
        self.memory.forget();
        Ok(())
    }

    /// Deletes an override that cannot be read. If it was what kept its schedule from being read,
    /// the schedule comes back: the engine computes its next time.
    fn clear_unreadable(&mut self, id: ScheduleId, nominal: Timestamp) -> Result<(), Failure> {
        let what = Wakeup::Schedule(id);
        if overrides(&self.connection, id).is_ok() {
            return Ok(());
        }
        let sql = "DELETE FROM overrides WHERE schedule = ?1 AND nominal = ?2";
        self.connection.execute(sql, params![id.0, ms(nominal)])?;
        let read = |row: &Row<'_>| rows::schedule(row);
        if is_readable(&self.connection, what)
            && let Some(schedule) = query::one(&self.connection, SCHEDULE_BY_ID, [id.0], read)?
        {
            // Setting it aside has removed its wakeup.
            if let Some(at) = schedule.wake_at() {
                let sql = "INSERT OR IGNORE INTO wakeups (due, kind, id) VALUES (?1, ?2, ?3)";
                self.connection.execute(sql, params![ms(at), WAKE_SCHEDULE, id.0])?;
            }
            let sql = sql!("DELETE FROM set_aside WHERE kind = {schedule_wakeup} AND id = ?1");
            self.connection.execute(sql, [id.0])?;
            self.set_aside.remove(&what);
        }
        self.memory.forget();
        Ok(())
    }

    /// Turns an open run that cannot be read, or that is set aside, into one that has not begun:
    /// cancelling it then ends it, and the runs that wait for it go on.
    fn make_readable(&mut self, id: &RunId) -> Result<(), Failure> {
        let Some(key) = run_key(&self.connection, id)? else { return Ok(()) };
        let what = Wakeup::Run(key);
        let sql = sql!("SELECT status {open} FROM runs WHERE key = ?1");
        let is_open: bool = query::only(&self.connection, sql, [key.0], |row| row.single())?;
        let is_set_aside = self.set_aside.contains(&what);
        if !is_open || !is_set_aside && is_readable(&self.connection, what) {
            return Ok(());
        }
        for sql in BEFORE_ITS_BEGIN {
            self.connection.execute(sql, [key.0])?;
        }
        self.connection.execute(EMPTY_RUN, params![key.0, json(&RunState::default())?])?;
        if !is_readable(&self.connection, what) {
            self.connection.execute(BARE_RUN, [key.0])?;
        }
        self.set_aside.remove(&what);
        self.memory.forget();
        Ok(())
    }
}

/// Whether a schedule has some of its rows but not all, or cannot be read.
fn is_broken(connection: &Connection, id: ScheduleId) -> Result<bool, Failure> {
    let sql = "SELECT EXISTS (SELECT 1 FROM schedules WHERE id = ?1)
                 + EXISTS (SELECT 1 FROM progress WHERE id = ?1),
               EXISTS (SELECT 1 FROM schedules s JOIN workflows w ON w.id = s.workflow
                       WHERE s.id = ?1)";
    let (rows, has_workflow): (u8, bool) = query::only(connection, sql, [id.0], |row| row.tuple())?;
    Ok(match (rows, has_workflow) {
        (0, _) => false,
        (2, true) => !is_readable(connection, Wakeup::Schedule(id)),
        _ => true,
    })
}

/// Whether the schedule, run or handler can be read, or does not exist at all.
fn is_readable(connection: &Connection, what: Wakeup) -> bool {
    let id = stored_wakeup(what).1;
    let readable =
        |sql: &str, read: fn(&Row<'_>) -> Read<()>| query::one(connection, sql, [id], read).is_ok();
    match what {
        Wakeup::Schedule(id) => {
            readable(SCHEDULE_BY_ID, |row| rows::schedule(row).map(drop))
                && overrides(connection, id).is_ok()
        }
        Wakeup::Run(_) => readable(RUN_BY_KEY, |row| rows::run(row).map(drop)),
        Wakeup::Handler(_) => readable(HANDLER_BY_ID, |row| rows::handler(row).map(drop)),
        Wakeup::Node(_) => true,
    }
}

/// Everything that is set aside, for the driver.
pub(crate) fn known(connection: &Connection) -> Result<HashSet<Wakeup>, Failure> {
    let mut statement = connection.prepare("SELECT kind, id FROM set_aside")?;
    let found = statement.query_and_then([], |row| {
        let (kind, id) = row.tuple()?;
        read_wakeup(kind, id)
    })?;
    found.collect()
}
