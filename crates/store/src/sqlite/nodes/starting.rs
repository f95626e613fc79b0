//! How the embedded store keeps the [`Starting`] row of a node.

use engine::RunKey;
use engine::turn::Wakeup;
use jiff::Timestamp;
use rusqlite::params;

use crate::codes::sql;
use crate::failure::Failure;
use crate::rows::Row as _;
use crate::sqlite::connections::query;
use crate::sqlite::transaction::core::Core;
use crate::starting::{FIND_ALL, Starting, Trial};
use crate::stored::ms;

impl Core {
    /// Reads the row an earlier start left, and stores the row of the new start.
    pub(crate) fn begin_start(&self, name: &str) -> Result<Starting, Failure> {
        let rows = query::all(&self.connection, FIND_ALL, [], |row| row.tuple())?;
        let (starting, left) = Starting::after(name, &rows);
        for key in left {
            self.connection.execute("DELETE FROM meta WHERE key = ?1", [key])?;
        }
        self.keep_starting(name, &starting)?;
        Ok(starting)
    }

    pub(crate) fn put_on_trial(&self, name: &str, what: Option<Wakeup>) -> Result<(), Failure> {
        let starting = Starting::read(self.starting(name)?.as_deref());
        self.keep_starting(name, &starting.trying(what))
    }

    pub(crate) fn has_settled(&self, name: &str) -> Result<(), Failure> {
        let sql = "DELETE FROM meta WHERE key = ?1";
        self.connection.execute(sql, [Starting::key(name)])?;
        Ok(())
    }

    pub(crate) fn next_to_decide(
        &mut self,
        by: Timestamp,
        after: RunKey,
    ) -> Result<Option<Trial>, Failure> {
        if let Some((_, what)) = self.due(by, 1)?.first() {
            return Ok(Some(Trial::Due(*what)));
        }
        let ready = "SELECT min(key) FROM runs INDEXED BY runs_ready
                     WHERE waits_for_slot = 1 AND key > ?1 AND created_at <= ?2";
        let pending = sql!(
            "SELECT min(key) FROM runs INDEXED BY runs_open
             WHERE status = {pending} AND status {open} AND key > ?1 AND created_at <= ?2"
        );
        let mut keys = Vec::new();
        for sql in [ready, pending] {
            let key: Option<RunKey> =
                query::only(&self.connection, sql, [after.0, ms(by)], |row| row.single())?;
            keys.extend(key);
        }
        Ok(keys.into_iter().min().map(Trial::Begin))
    }

    fn starting(&self, name: &str) -> Result<Option<String>, Failure> {
        let sql = "SELECT value FROM meta WHERE key = ?1";
        query::one(&self.connection, sql, [Starting::key(name)], |row| row.single())
    }

    fn keep_starting(&self, name: &str, starting: &Starting) -> Result<(), Failure> {
        let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)";
        self.connection.execute(sql, params![Starting::key(name), starting.text()])?;
        Ok(())
    }
}
