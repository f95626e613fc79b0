//! Schedules, runs and handlers that the embedded store has set aside because they cannot be read
//! or decided.

use std::collections::HashSet;

use engine::run::RunState;
use engine::turn::{Command, Wakeup};
use engine::{RunId, ScheduleId};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::failure::Failure;
use crate::set_aside::{SetAside, finding, read, stored};
use crate::sqlite::rows::decode;
use crate::sqlite::rows::decode::ms;
use crate::sqlite::rows::topic_rows;
use crate::sqlite::transaction::apply::remember_greatest;
use crate::sqlite::transaction::core::Core;
use crate::sqlite::transaction::reader::run_key;
use crate::stored::json;
use crate::view::Finding;

impl Core {
    /// Sets it aside and removes its wakeup, so that the driver passes over it.
    pub(crate) fn set_aside(
        &mut self,
        what: Wakeup,
        why: &str,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let (kind, id) = stored(what);
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
        for aside in list(&self.connection)? {
            let is_readable = is_readable(&self.connection, aside.what);
            let comes_back = repair && is_readable;
            if comes_back {
                let (kind, id) = stored(aside.what);
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
    "UPDATE incidents SET ending = 2, ended_at = began_at, ended_told = '[]'
     WHERE schedule = ?1 AND ended_at IS NULL",
    "DELETE FROM schedules WHERE id = ?1",
    "DELETE FROM progress WHERE id = ?1",
    "DELETE FROM overrides WHERE schedule = ?1",
    "DELETE FROM words WHERE schedule = ?1",
    "DELETE FROM outdated WHERE schedule = ?1",
    "DELETE FROM wakeups WHERE kind = 1 AND id = ?1",
    "DELETE FROM set_aside WHERE kind = 1 AND id = ?1",
];

/// Puts a run back to before its beginning: everything it had going on is given up. `?1` is the
/// run.
const BEFORE_ITS_BEGIN: [&str; 5] = [
    "UPDATE workflows SET active = active - 1 WHERE concurrency IS NOT NULL AND active > 0
       AND id = (SELECT workflow FROM runs WHERE key = ?1 AND status IN (1, 2, 3) AND handler IS NULL)",
    "DELETE FROM queue WHERE run = ?1",
    "DELETE FROM approvals WHERE run = ?1",
    "DELETE FROM waits WHERE run = ?1",
    "DELETE FROM set_aside WHERE kind = 0 AND id = ?1",
];
const EMPTY_RUN: &str = "UPDATE runs SET status = 0, state = ?2, owners = NULL, lacks_place = 0,
       overdue = 0, timeout = NULL WHERE key = ?1 AND status < 4";
/// If the run still cannot be read: clears everything that is not needed to end it.
const BARE_RUN: &str =
    "UPDATE runs SET input = 'null', output = NULL, error = NULL, retry_of = NULL, trace = NULL,
       by = NULL, triggered_by = 0 WHERE key = ?1 AND status < 4";

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

    /// Turns an open run that cannot be read, or that is set aside, into one that has not begun:
    /// cancelling it then ends it, and the runs that wait for it go on.
    fn make_readable(&mut self, id: &RunId) -> Result<(), Failure> {
        let Some(key) = run_key(&self.connection, id)? else { return Ok(()) };
        let what = Wakeup::Run(key);
        let sql = "SELECT status < 4 FROM runs WHERE key = ?1";
        let is_open: bool =
            self.connection.prepare_cached(sql)?.query_row([key.0], |row| row.get(0))?;
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
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let (rows, has_workflow): (u8, bool) =
        connection.prepare_cached(sql)?.query_row([id.0], read)?;
    Ok(match (rows, has_workflow) {
        (0, _) => false,
        (2, true) => !is_readable(connection, Wakeup::Schedule(id)),
        _ => true,
    })
}

/// Whether it can be read, or does not exist at all.
fn is_readable(connection: &Connection, what: Wakeup) -> bool {
    let id = stored(what).1;
    let read = |sql: &str, read: fn(&Row<'_>) -> Result<(), rusqlite::Error>| {
        let mut statement = connection.prepare_cached(sql)?;
        statement.query_row([id], read).optional()
    };
    let found = match what {
        Wakeup::Schedule(_) => {
            let from = "FROM schedules s JOIN progress p ON p.id = s.id WHERE s.id = ?1";
            let sql = format!("SELECT {} {from}", decode::SCHEDULE);
            read(&sql, |row| decode::schedule(row).map(drop))
        }
        Wakeup::Run(_) => {
            let sql = format!("SELECT {} FROM runs r WHERE r.key = ?1", decode::RUN);
            read(&sql, |row| decode::run(row).map(drop))
        }
        Wakeup::Handler(_) => {
            let sql = format!("SELECT {} FROM handlers h WHERE h.id = ?1", topic_rows::HANDLER);
            read(&sql, |row| topic_rows::handler(row).map(drop))
        }
        Wakeup::Node(_) => return true,
    };
    found.is_ok()
}

/// Everything that is set aside, for the driver.
pub(crate) fn known(connection: &Connection) -> Result<HashSet<Wakeup>, Failure> {
    let mut statement = connection.prepare("SELECT kind, id FROM set_aside")?;
    let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    found.map(|row| row.map_err(Failure::from).and_then(|(kind, id)| read(kind, id))).collect()
}

/// Everything that is set aside, for people.
pub(crate) fn list(connection: &Connection) -> Result<Vec<SetAside>, Failure> {
    let sql = "SELECT a.kind, a.id, a.reason, a.at FROM set_aside a ORDER BY a.at, a.kind, a.id";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_map([], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, decode::instant(row, 3)?))
    })?;
    let mut all = Vec::new();
    for row in found {
        let (kind, id, reason, since): (i16, i64, String, Timestamp) = row?;
        let what = read(kind, id)?;
        let known = match what {
            Wakeup::Run(_) => run_id(connection, id)?,
            _ => None,
        };
        let id = known.unwrap_or_else(|| id.to_string());
        all.push(SetAside { what, id, reason, since });
    }
    Ok(all)
}

/// The id of a run, read on its own: everything else in the row may be unreadable.
fn run_id(connection: &Connection, key: i64) -> Result<Option<String>, Failure> {
    let sql = "SELECT uuid, schedule, n, retry FROM runs WHERE key = ?1";
    let found = connection.query_row(sql, [key], |row| {
        let schedule = row.get::<_, Option<i64>>(1)?.map(ScheduleId);
        Ok(decode::run_id(row, schedule, [0, 2, 3]).ok().map(|id| id.to_string()))
    });
    Ok(found.optional()?.flatten())
}
