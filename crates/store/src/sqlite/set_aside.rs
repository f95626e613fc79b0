//! Schedules, runs and handlers that the embedded store has set aside because they cannot be read or decided.

use std::collections::HashSet;

use engine::ScheduleId;
use engine::turn::Wakeup;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::core::Core;
use super::rows::{self, ms};
use super::topic_rows;
use crate::failure::Failure;
use crate::set_aside::{SetAside, finding, read, stored};
use crate::view::Finding;

impl Core {
    /// The driver passes over it from now on, and its wakeup is gone.
    pub(super) fn set_aside(
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
    /// What is set aside; what can be read, or is gone, is there again if asked. Its wakeup is for others to mend.
    pub(super) fn check_set_aside(&mut self, repair: bool) -> Result<Vec<Finding>, Failure> {
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

/// Whether it can be read, or is not there at all.
fn is_readable(connection: &Connection, what: Wakeup) -> bool {
    let id = stored(what).1;
    let read = |sql: &str, read: fn(&Row<'_>) -> Result<(), rusqlite::Error>| {
        connection.query_row(sql, [id], read).optional().is_ok()
    };
    match what {
        Wakeup::Schedule(_) => {
            let from = "FROM schedules s JOIN progress p ON p.id = s.id WHERE s.id = ?1";
            let sql = format!("SELECT {} {from}", rows::SCHEDULE);
            read(&sql, |row| rows::schedule(row).map(drop))
        }
        Wakeup::Run(_) => {
            let sql = format!("SELECT {} FROM runs r WHERE r.key = ?1", rows::RUN);
            read(&sql, |row| rows::run(row).map(drop))
        }
        Wakeup::Handler(_) => {
            let sql = format!("SELECT {} FROM handlers h WHERE h.id = ?1", topic_rows::HANDLER);
            read(&sql, |row| topic_rows::handler(row).map(drop))
        }
        Wakeup::Node(_) => true,
    }
}

/// All of it, for the driver.
pub(super) fn known(connection: &Connection) -> Result<HashSet<Wakeup>, Failure> {
    let mut statement = connection.prepare("SELECT kind, id FROM set_aside")?;
    let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    found.map(|row| row.map_err(Failure::from).and_then(|(kind, id)| read(kind, id))).collect()
}

/// All of it, for people.
pub(super) fn list(connection: &Connection) -> Result<Vec<SetAside>, Failure> {
    let sql = "SELECT a.kind, a.id, a.reason, a.at FROM set_aside a ORDER BY a.at, a.kind, a.id";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, rows::instant(row, 3)?)))?;
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

/// The id of a run, of which everything else may be unreadable.
fn run_id(connection: &Connection, key: i64) -> Result<Option<String>, Failure> {
    let sql = "SELECT uuid, schedule, n, retry FROM runs WHERE key = ?1";
    let found = connection.query_row(sql, [key], |row| {
        let schedule = row.get::<_, Option<i64>>(1)?.map(ScheduleId);
        Ok(rows::run_id(row, schedule, [0, 2, 3]).ok().map(|id| id.to_string()))
    });
    Ok(found.optional()?.flatten())
}
