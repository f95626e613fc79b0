//! Checks the invariants of the stored rows.

use std::sync::{Arc, LazyLock};

use engine::{RunId, WorkflowId};
use jiff::Timestamp;
use language::Rules;
use rusqlite::Connection;

use crate::failure::Failure;
use crate::invariants;
use crate::invariants::{
    Checks, Database, Fragments, Listed, RowKind, RunBreach, ScheduleBreach, Statements, Step,
};
use crate::rows::{Positional, Row as _};
use crate::sqlite::maintenance::check_file::{integrity, schema};
use crate::sqlite::maintenance::{check_runs, check_schedules};
use crate::sqlite::transaction::core::Core;
use crate::view::Finding;

const FRAGMENTS: Fragments = Fragments {
    open_runs: "(SELECT * FROM runs WHERE status {open})",
    open_runs_by_status: "(SELECT * FROM runs INDEXED BY runs_open WHERE status {open})",
    ended_runs: "runs",
    performed: "(SELECT r.key AS run, a.value ->> '$.d.p.o' AS node
         FROM runs AS r INDEXED BY runs_open, json_each(r.state, '$.a') AS a
         WHERE r.status {open} AND r.status = {running}
           AND a.value ->> '$.d.p.o' IS NOT NULL)",
    insert_lost_nodes: "INSERT OR IGNORE INTO nodes (id, name, started_at)
                          SELECT id, 'lost', 0 FROM {lost_nodes};
                        INSERT OR IGNORE INTO wakeups (due, kind, id)
                          SELECT 0, {node_wakeup}, id FROM nodes WHERE name = 'lost'",
    reserved_events: "(SELECT * FROM events INDEXED BY events_reserved
         WHERE state = {event_reserved})",
    event_topic: "e.topic",
    event_state: "e.state",
    // An early wakeup does no harm.
    sleeping_handlers: "(SELECT h.id, h.name, coalesce(h.retry_at, h.wake_at) AS due
         FROM handlers AS h
         LEFT JOIN (SELECT id, min(due) AS due FROM wakeups
                    WHERE kind = {handler_wakeup}
                    GROUP BY id) AS w ON w.id = h.id
         WHERE coalesce(h.retry_at, h.wake_at) IS NOT NULL
           AND (w.due IS NULL OR w.due > coalesce(h.retry_at, h.wake_at)))",
    wake_handlers: "INSERT OR IGNORE INTO wakeups (due, kind, id)
                      SELECT due, {handler_wakeup}, id FROM {sleeping_handlers}",
    slot_column: "",
    slot: "",
};

pub(crate) static INVARIANTS: LazyLock<Vec<Statements>> =
    LazyLock::new(|| invariants::statements(Database::Sqlite, &FRAGMENTS));

impl Core {
    pub(crate) fn check(&mut self, now: Timestamp, repair: bool) -> Result<Vec<Finding>, Failure> {
        // Clears the caches, so that everything is read from the file, and no cached copy outlives
        // a repair.
        self.memory.forget();
        let mut findings = schema(&self.connection, repair);
        findings.extend(integrity(&self.connection, repair));
        findings.extend(invariants::check(self, now, repair));
        Ok(findings)
    }
}

impl Checks for Core {
    fn invariants(&self) -> &'static [Statements] {
        &INVARIANTS
    }

    fn select<T: Positional>(
        &mut self,
        sql: &'static str,
        params: &[i64],
    ) -> Result<Vec<T>, Failure> {
        let mut statement = self.connection.prepare(sql)?;
        let params = rusqlite::params_from_iter(params);
        statement.query_and_then(params, |row| row.tuple())?.collect()
    }

    fn mend(&mut self, steps: &'static [Step]) -> Result<(), Failure> {
        let statements = steps.iter().filter_map(|step| match step {
            Step::Lock(_) => None,
            Step::Run(sql) => Some(sql.as_str()),
        });
        mend(&self.connection, statements)
    }

    fn read_all(&mut self, kind: RowKind, found: &mut Listed) -> Result<(), Failure> {
        let mut statement = self.connection.prepare(kind.source().all)?;
        let width = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            kind.check(row, width, found);
        }
        Ok(())
    }

    fn check_set_aside(&mut self, repair: bool) -> Result<Vec<Finding>, Failure> {
        self.set_aside_findings(repair)
    }

    fn check_runs(&mut self, repair: bool) -> Result<Vec<(i64, RunBreach)>, Failure> {
        check_runs::check(&self.connection, repair)
    }

    fn lost_steps(&mut self) -> Result<Vec<(RunId, Vec<u32>)>, Failure> {
        check_runs::without_steps(&self.connection)
    }

    fn check_schedules(
        &mut self,
        now: Timestamp,
        repair: bool,
    ) -> Result<Vec<(i64, ScheduleBreach)>, Failure> {
        check_schedules::check(&self.connection, &self.rules(), now, repair)
    }

    fn rules(&self) -> Arc<Rules> {
        Core::rules(self)
    }

    fn publish_again(&mut self, workflow: WorkflowId, now: Timestamp) -> Result<(), Failure> {
        self.connection.execute_batch("SAVEPOINT publish")?;
        let done = self.command(invariants::publish_again(workflow, now));
        if done.is_err() {
            self.memory.forget();
            self.connection.execute_batch("ROLLBACK TO publish")?;
        }
        self.connection.execute_batch("RELEASE publish")?;
        done.map(drop)
    }
}

/// Runs all of these statements or none.
pub(crate) fn mend<'a>(
    connection: &Connection,
    mut statements: impl Iterator<Item = &'a str>,
) -> Result<(), Failure> {
    connection.execute_batch("SAVEPOINT mend")?;
    let mended = statements.try_for_each(|sql| connection.execute_batch(sql));
    if mended.is_err() {
        connection.execute_batch("ROLLBACK TO mend")?;
    }
    connection.execute_batch("RELEASE mend")?;
    Ok(mended?)
}

#[cfg(test)]
mod tests {
    use crate::sqlite::{Sqlite, SqliteOptions};
    use crate::{Administration as _, Queries as _, Store as _, TurnRequest};
    use engine::turn::Capacity;
    use engine::{Moment, NodeId};
    use futures_util::FutureExt as _;

    /// SQLite uses a partial index only if the query repeats its condition; otherwise `INDEXED BY`
    /// fails to prepare.
    #[test]
    fn every_question_about_open_runs_finds_its_index() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions { inline: true, ..SqliteOptions::default() };
        let zones = calendar::Zones::bundled();
        let store = Sqlite::open(&folder.path().join("x.db"), zones, options).unwrap();
        let now = "2026-03-01T00:00:00Z".parse().unwrap();
        let moment = Moment::new(now, now);
        let joined = |name| store.join(name, moment).now_or_never().unwrap().unwrap().node;
        let (first, second) = (joined("a"), joined("a"));
        let request = |node: NodeId| TurnRequest {
            moment,
            node,
            reports: Vec::new(),
            limit: 10,
            begin: None,
            held: Default::default(),
            capacity: Capacity::new(1),
            performed: Some(Vec::new()),
            traced: false,
        };
        store.turn(request(second)).now_or_never().unwrap().unwrap();
        assert_eq!(store.check(now, true).now_or_never().unwrap().unwrap(), []);
        store.stats(now).now_or_never().unwrap().unwrap();
        for node in [first, second] {
            store.leave(node).now_or_never().unwrap().unwrap();
        }
    }
}
