//! Calendars, the zone database's release, expiry, and copies.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use calendar::{CalendarSpec, Zones};
use engine::turn::Refused;
use engine::{Moment, Rules, ScheduleId};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::apply::remember_greatest;
use super::core::Core;
use super::rows::ms;
use crate::failure::Failure;
use crate::view::CalendarView;

/// Pages copied between two looks at the clock of others.
const BACKUP_PAGES: i32 = 1_024;
/// Answers to idempotency keys are kept so long after the last use of expiry.
const KEYS_KEPT_MS: i64 = 24 * 3_600_000;

pub(super) fn calendars(connection: &Connection) -> Result<Vec<CalendarView>, Failure> {
    let mut statement = connection.prepare_cached("SELECT id, spec FROM calendars ORDER BY id")?;
    let read = |row: &rusqlite::Row<'_>| Ok(CalendarView { id: row.get(0)?, spec: row.get(1)? });
    Ok(statement.query_map([], read)?.collect::<Result<_, _>>()?)
}

/// The rules that the stored calendars make. A calendar may be composed of others, in any order.
pub(super) fn load_rules(connection: &Connection, zones: Arc<Zones>) -> Result<Rules, Failure> {
    let mut rules = Rules::new(zones);
    let mut left = Vec::new();
    for view in calendars(connection)? {
        let spec: CalendarSpec = serde_json::from_str(&view.spec)
            .map_err(|error| Failure::Damaged(format!("calendar {}: {error}", view.id)))?;
        left.push(CalendarSpec { id: view.id, ..spec });
    }
    while !left.is_empty() {
        let before = left.len();
        left.retain(|spec| match rules.build_calendar(spec) {
            Ok(calendar) => {
                rules.declare(calendar);
                false
            }
            Err(_) => true,
        });
        if left.len() == before {
            let names: Vec<&str> = left.iter().map(|spec| spec.id.as_str()).collect();
            tracing::error!(calendars = names.join(", "), "calendars cannot be built any more");
            break;
        }
    }
    Ok(rules)
}

impl Core {
    pub(super) fn put_calendar(
        &mut self,
        id: &str,
        spec: &str,
        _: Moment,
    ) -> Result<Vec<ScheduleId>, Failure> {
        let sql = "INSERT OR REPLACE INTO calendars (id, spec) VALUES (?1, ?2)";
        self.connection.prepare_cached(sql)?.execute([id, spec])?;
        self.reload_rules()?;
        // Composed calendars change with their parts: all schedules with a calendar are looked at.
        let sql = "SELECT id FROM schedules WHERE calendar IS NOT NULL";
        let mut statement = self.connection.prepare_cached(sql)?;
        let ids = statement.query_map([], |row| row.get(0).map(ScheduleId))?;
        Ok(ids.collect::<Result<_, _>>()?)
    }

    pub(super) fn delete_calendar(&mut self, id: &str) -> Result<bool, Failure> {
        let used = "SELECT id FROM schedules WHERE calendar = ?1 LIMIT 1";
        let mut statement = self.connection.prepare_cached(used)?;
        let user: Option<i64> = statement.query_row([id], |row| row.get(0)).optional()?;
        if let Some(user) = user {
            let message = format!("Calendar {id} is used by schedule {user}.");
            return Err(Failure::Refused(Refused::Conflict(message)));
        }
        drop(statement);
        let sql = "DELETE FROM calendars WHERE id = ?1";
        let deleted = self.connection.prepare_cached(sql)?.execute([id])? > 0;
        self.reload_rules()?;
        Ok(deleted)
    }

    fn reload_rules(&mut self) -> Result<(), Failure> {
        let rules = load_rules(&self.connection, self.rules().zones().clone())?;
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
        Ok(())
    }

    pub(super) fn outdated(
        &mut self,
        zones: &str,
        after: ScheduleId,
        limit: usize,
    ) -> Result<Vec<ScheduleId>, Failure> {
        let sql = "SELECT value FROM meta WHERE key = 'zones'";
        let known: Option<String> =
            self.connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
        if known.as_deref() == Some(zones) {
            return Ok(Vec::new());
        }
        let ids: Vec<ScheduleId> = match known {
            // Nothing was computed with another one yet.
            None => Vec::new(),
            Some(_) => {
                let sql = "SELECT id FROM progress WHERE id > ?1 ORDER BY id LIMIT ?2";
                let mut statement = self.connection.prepare_cached(sql)?;
                let ids = statement.query_map(params![after.0, limit], |row| row.get(0))?;
                ids.map(|id| id.map(ScheduleId)).collect::<Result<_, _>>()?
            }
        };
        if ids.is_empty() {
            let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES ('zones', ?1)";
            self.connection.prepare_cached(sql)?.execute([zones])?;
        }
        Ok(ids)
    }

    pub(super) fn expire(&mut self, before: Timestamp, limit: usize) -> Result<u64, Failure> {
        let connection = &self.connection;
        // Keys are in the order of creation: the oldest runs are at the beginning.
        let sql = "SELECT key, status, created_at, ended_at FROM runs ORDER BY key LIMIT ?1";
        let mut statement = connection.prepare_cached(sql)?;
        let read = |row: &rusqlite::Row<'_>| {
            let ended: Option<i64> = row.get(3)?;
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, ended))
        };
        let oldest = statement.query_map([limit], read)?.collect::<Result<Vec<_>, _>>()?;
        let expired: Vec<i64> = oldest
            .into_iter()
            .filter(|(_, status, ended)| *status >= 4 && ended.is_some_and(|at| at < ms(before)))
            .map(|(key, ..)| key)
            .collect();
        for key in &expired {
            connection.prepare_cached("DELETE FROM steps WHERE run = ?1")?.execute([key])?;
            connection.prepare_cached("DELETE FROM runs WHERE key = ?1")?.execute([key])?;
        }
        if let Some(last) = expired.last() {
            remember_greatest(connection, "greatest_run", *last)?;
        }
        let sql = "DELETE FROM idempotency WHERE key IN
                   (SELECT key FROM idempotency WHERE created_at < ?1 LIMIT ?2)";
        let keys = connection
            .prepare_cached(sql)?
            .execute(params![ms(before).max(KEYS_KEPT_MS) - KEYS_KEPT_MS, limit])?;
        let ledger = self.expire_ledger(before, limit)?;
        Ok((expired.len() + keys) as u64 + ledger)
    }

    /// The ledger is clustered by schedule: a few schedules in each go, going on where it stopped.
    fn expire_ledger(&self, before: Timestamp, limit: usize) -> Result<u64, Failure> {
        let connection = &self.connection;
        let sql = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'expired_schedule'";
        let from: i64 = connection
            .prepare_cached(sql)?
            .query_row([], |row| row.get(0))
            .optional()?
            .unwrap_or(0);
        let sql =
            "SELECT DISTINCT schedule FROM ledger WHERE schedule > ?1 ORDER BY schedule LIMIT ?2";
        let mut statement = connection.prepare_cached(sql)?;
        let schedules = statement.query_map(params![from, limit], |row| row.get(0))?;
        let schedules = schedules.collect::<Result<Vec<i64>, _>>()?;
        let sql = "DELETE FROM ledger WHERE schedule = ?1 AND n IN
                   (SELECT n FROM ledger WHERE schedule = ?1 AND decided_at < ?2 ORDER BY n LIMIT ?3)";
        let mut deleted = 0;
        for schedule in &schedules {
            let params = params![schedule, ms(before), limit];
            deleted += connection.prepare_cached(sql)?.execute(params)? as u64;
        }
        let next = schedules.last().filter(|_| schedules.len() == limit).copied().unwrap_or(0);
        let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES ('expired_schedule', ?1)";
        connection.prepare_cached(sql)?.execute([next.to_string()])?;
        Ok(deleted)
    }
}

/// Copies the store page by page, as of one instant, while others go on.
pub(super) fn backup(connection: &Connection, to: &Path) -> Result<u64, Failure> {
    if to.exists() {
        return Err(Failure::Refused(Refused::Conflict(format!(
            "{} exists already: name another file.",
            to.display()
        ))));
    }
    let mut copy = Connection::open(to)?;
    let backup = rusqlite::backup::Backup::new(connection, &mut copy)?;
    backup.run_to_completion(BACKUP_PAGES, std::time::Duration::ZERO, None)?;
    drop(backup);
    copy.pragma_update(None, "journal_mode", "DELETE")?;
    copy.close().map_err(|(_, error)| Failure::from(error))?;
    std::fs::File::open(to)
        .and_then(|file| {
            file.sync_all()?;
            file.metadata()
        })
        .map(|metadata| metadata.len())
        .map_err(|error| Failure::Unavailable(format!("{}: {error}", to.display())))
}
