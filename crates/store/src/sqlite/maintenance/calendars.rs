//! Calendars, the release of the zone database, and backups.

use std::path::Path;
use std::sync::Arc;

use engine::turn::Refused;
use engine::{Moment, ScheduleId};
use rusqlite::{Connection, OpenFlags, params};

use crate::access::AuditEntry;
use crate::failure::Failure;
use crate::rows::Row as _;
use crate::rules::{self, Change};
use crate::sqlite::connections::file::{FileLock, create_copy, finish_copy};
use crate::sqlite::connections::query;
use crate::sqlite::transaction::core::Core;
use crate::views::calendars::calendars;

/// How many pages a backup copies in one step.
const BACKUP_PAGES: i32 = 1_024;

impl Core {
    pub(crate) fn put_calendar(
        &mut self,
        id: &str,
        spec: &str,
        moment: Moment,
        audit: Option<&AuditEntry>,
    ) -> Result<Vec<ScheduleId>, Failure> {
        let sql = "INSERT OR REPLACE INTO calendars (id, spec) VALUES (?1, ?2)";
        self.connection.prepare_cached(sql)?.execute([id, spec])?;
        // Composed calendars change with their parts, so every schedule with a calendar is
        // outdated.
        let sql = "INSERT OR IGNORE INTO outdated SELECT id FROM schedules
                   WHERE calendar IS NOT NULL ORDER BY id";
        self.connection.prepare_cached(sql)?.execute([])?;
        let sql = "SELECT id FROM schedules WHERE calendar IS NOT NULL ORDER BY id";
        let ids = query::all(&self.connection, sql, [], |row| row.single())?;
        self.reload_rules(&Change::Put(id))?;
        self.write_audit(audit, moment.now)?;
        Ok(ids)
    }

    pub(crate) fn delete_calendar(
        &mut self,
        id: &str,
        moment: Moment,
        audit: Option<&AuditEntry>,
    ) -> Result<bool, Failure> {
        let used = "SELECT id FROM schedules WHERE calendar = ?1 LIMIT 1";
        let user = query::one(&self.connection, used, [id], |row| row.single::<i64>())?;
        if let Some(user) = user {
            let message = format!("Calendar {id} is used by schedule {user}.");
            return Err(Failure::Refused(Refused::Conflict(message)));
        }
        let sql = "DELETE FROM calendars WHERE id = ?1";
        let deleted = self.connection.prepare_cached(sql)?.execute([id])? > 0;
        self.reload_rules(&Change::Deleted(id))?;
        self.write_audit(audit.filter(|_| deleted), moment.now)?;
        Ok(deleted)
    }

    fn reload_rules(&mut self, change: &Change<'_>) -> Result<(), Failure> {
        let rules =
            rules::changed(&self.rules(), &query::answer(calendars(&self.connection))?, change)?;
        self.new_rules = Some(Arc::new(rules));
        Ok(())
    }

    pub(crate) fn outdated(
        &mut self,
        zones: &str,
        after: ScheduleId,
        limit: usize,
    ) -> Result<Vec<ScheduleId>, Failure> {
        let sql = "SELECT value FROM meta WHERE key = 'zones'";
        let known: Option<String> = query::one(&self.connection, sql, [], |row| row.single())?;
        let is_known = known.as_deref() == Some(zones);
        // On a new store nothing was computed with another zone database yet.
        let sql = if is_known || known.is_none() {
            "SELECT schedule FROM outdated WHERE schedule > ?1 ORDER BY schedule LIMIT ?2"
        } else {
            "SELECT id FROM progress WHERE id > ?1 ORDER BY id LIMIT ?2"
        };
        let ids: Vec<ScheduleId> =
            query::all(&self.connection, sql, params![after.0, limit], |row| row.single())?;
        if ids.is_empty() && !is_known {
            let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES ('zones', ?1)";
            self.connection.prepare_cached(sql)?.execute([zones])?;
        }
        Ok(ids)
    }

    /// Those of these schedules whose next times may come from a calendar that has changed since.
    pub(crate) fn outdated_among(
        &self,
        ids: impl Iterator<Item = ScheduleId>,
    ) -> Result<Vec<ScheduleId>, Failure> {
        let sql = "SELECT EXISTS (SELECT 1 FROM outdated)";
        let any: bool = query::only(&self.connection, sql, [], |row| row.single())?;
        if !any {
            return Ok(Vec::new());
        }
        let sql = "SELECT 1 FROM outdated WHERE schedule = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = Vec::new();
        for id in ids {
            if statement.exists([id.0])? {
                found.push(id);
            }
        }
        Ok(found)
    }

    /// Clears the outdated mark of schedules whose next times were recomputed.
    pub(crate) fn up_to_date(&self, ids: &[ScheduleId]) -> Result<(), Failure> {
        let sql = "DELETE FROM outdated WHERE schedule = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        for id in ids {
            statement.execute([id.0])?;
        }
        Ok(())
    }
}

/// Copies the store in the file `from`, as of one instant, into the new file `to`. A process that
/// has it open goes on meanwhile. Returns the size of the copy in bytes.
pub fn backup_file(from: &Path, to: &Path) -> Result<u64, Failure> {
    // A store that is in use was looked at when it was opened.
    if let Some(lock) = FileLock::hold(from)? {
        lock.refuse_foreign_log(from)?;
    }
    // The source is not written to. But reading a log that a crash left behind needs a file that
    // only a writer may create.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(from, flags)?;
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    connection.pragma_update(None, "query_only", true)?;
    backup(&connection, to)
}

/// Copies the store as of one instant, while other connections go on.
pub(crate) fn backup(connection: &Connection, to: &Path) -> Result<u64, Failure> {
    if to.exists() {
        return Err(Failure::Refused(Refused::Conflict(format!(
            "{} exists already: name another file.",
            to.display()
        ))));
    }
    let failed = |error: std::io::Error| Failure::Unavailable(format!("{}: {error}", to.display()));
    // Inside a transaction the source does not change, and writes by others do not make the copy
    // start over.
    let instant = connection.unchecked_transaction()?;
    instant.query_row("SELECT count(*) FROM meta", [], |_| Ok(()))?;
    create_copy(to).map_err(failed)?;
    let mut copy = Connection::open(to)?;
    let backup = rusqlite::backup::Backup::new(&instant, &mut copy)?;
    backup.run_to_completion(BACKUP_PAGES, std::time::Duration::ZERO, None)?;
    drop(backup);
    drop(instant);
    finish_copy(copy)?;
    std::fs::File::open(to)
        .and_then(|file| {
            file.sync_all()?;
            file.metadata()
        })
        .map(|metadata| metadata.len())
        .map_err(failed)
}
