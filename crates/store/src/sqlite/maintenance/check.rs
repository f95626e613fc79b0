//! Checks the invariants of the stored rows.

use jiff::Timestamp;
use rusqlite::Connection;

use crate::check_run::{TOLD, more};
use crate::check_shared::shared_invariants;
use crate::failure::Failure;
use crate::sqlite::maintenance::check_file::{integrity, schema};
use crate::sqlite::maintenance::check_rows::unreadable;
use crate::sqlite::maintenance::check_topics::OF_TOPICS;
use crate::sqlite::rows::decode::ms;
use crate::sqlite::transaction::core::Core;
use crate::view::Finding;

/// One invariant: a query for its breaches, and the statements that mend them.
pub(crate) struct Invariant {
    pub(crate) code: &'static str,
    /// Selects an id and a text for each breach.
    pub(crate) breaches: &'static str,
    pub(crate) message: &'static str,
    /// Statements that mend all breaches; empty if a person has to look.
    pub(crate) mend: &'static [&'static str],
}

/// Attempts of nodes that have no row.
macro_rules! lost {
    () => {
        "runs r INDEXED BY runs_open, json_each(r.state, '$.a') active
         WHERE r.status < 4 AND r.status = 1 AND active.value ->> '$.d.p.o' IS NOT NULL
           AND active.value ->> '$.d.p.o' NOT IN (SELECT id FROM nodes)"
    };
}

/// How many schedules of each status each workflow has, and all workflows together, counted one by
/// one.
macro_rules! counted {
    () => {
        "SELECT * FROM (SELECT workflow, status, count(*) FROM schedules GROUP BY workflow, status
         UNION ALL SELECT 0, status, count(*) FROM schedules GROUP BY status)"
    };
}

macro_rules! counts {
    () => {
        "SELECT workflow, status, count FROM schedule_counts WHERE count <> 0"
    };
}

/// A statement for both stores needs no wrapping here.
macro_rules! as_it_is {
    ($sql:expr) => {
        $sql
    };
}

/// The invariants that hold in both stores.
const SHARED: &[Invariant] = &shared_invariants!(as_it_is, Invariant);

const INVARIANTS: [Invariant; 11] = [
    Invariant {
        code: "schedule-without-progress",
        breaches: "SELECT id, '' FROM schedules WHERE id NOT IN (SELECT id FROM progress)",
        message: "schedule {id} does not know how far it has come: restore a copy that does, or delete it \
                  (`punctual schedule delete {id}`) and declare it again",
        mend: &[],
    },
    Invariant {
        code: "wakeup-of-nothing",
        breaches: "SELECT id, kind FROM wakeups
                   WHERE kind NOT BETWEEN 0 AND 3
                      OR (kind = 1 AND id NOT IN (SELECT id FROM progress))
                      OR (kind = 0 AND id NOT IN (SELECT key FROM runs WHERE status < 4))
                      OR (kind = 2 AND id NOT IN (SELECT id FROM nodes))
                      OR (kind = 3 AND id NOT IN (SELECT id FROM handlers
                            WHERE coalesce(retry_at, wake_at) IS NOT NULL))",
        message: "a wakeup of kind {text} is for {id}, which has ended, is gone, does not wait or is of no \
                  known kind",
        mend: &["DELETE FROM wakeups
             WHERE kind NOT BETWEEN 0 AND 3
                OR (kind = 1 AND id NOT IN (SELECT id FROM progress))
                OR (kind = 0 AND id NOT IN (SELECT key FROM runs WHERE status < 4))
                OR (kind = 2 AND id NOT IN (SELECT id FROM nodes))
                OR (kind = 3 AND id NOT IN (SELECT id FROM handlers
                      WHERE coalesce(retry_at, wake_at) IS NOT NULL))"],
    },
    Invariant {
        code: "run-without-owner",
        breaches: concat!("SELECT r.key, '' FROM ", lost!()),
        message: "run {id} is running, but no node performs it",
        // The node's row is inserted again as that of a dead node: the next turn takes over its
        // attempts.
        mend: &[concat!(
            "INSERT OR IGNORE INTO nodes (id, name, started_at)
             SELECT DISTINCT active.value ->> '$.d.p.o', 'lost', 0 FROM ",
            lost!(),
            "; INSERT OR IGNORE INTO wakeups (due, kind, id)
               SELECT 0, 2, id FROM nodes WHERE name = 'lost'"
        )],
    },
    Invariant {
        code: "queue-of-nothing",
        breaches: "SELECT run, queue FROM queue
                   WHERE run NOT IN (SELECT key FROM runs WHERE status < 4) OR item < -2",
        message: "run {id} is in queue {text}, but has ended or is gone, or has no such part",
        mend: &["DELETE FROM queue
                 WHERE run NOT IN (SELECT key FROM runs WHERE status < 4) OR item < -2"],
    },
    Invariant {
        code: "approval-of-nothing",
        breaches: "SELECT run, '' FROM approvals
                   WHERE run NOT IN (SELECT key FROM runs WHERE status < 4)",
        message: "people are asked by run {id}, which has ended or is gone",
        mend: &["DELETE FROM approvals WHERE run NOT IN (SELECT key FROM runs WHERE status < 4)"],
    },
    Invariant {
        code: "occurrence-without-run",
        breaches: "SELECT l.schedule, l.n FROM ledger l
                   WHERE l.outcome IN (0, 1) AND l.run IS NULL",
        message: "occurrence {text} of schedule {id} has started, but names no run: the schedule goes on; \
                  restore a copy if you need the record",
        mend: &[],
    },
    Invariant {
        code: "progress-of-nothing",
        breaches: "SELECT id, '' FROM progress WHERE id NOT IN (SELECT id FROM schedules)",
        message: "the declaration of schedule {id} is gone: restore a copy that has it",
        mend: &[],
    },
    Invariant {
        code: "run-without-end",
        breaches: "SELECT key, '' FROM runs WHERE status >= 4 AND ended_at IS NULL",
        message: "run {id} has ended, but not at any time",
        mend: &["UPDATE runs SET ended_at = coalesce(started_at, created_at)
                 WHERE status >= 4 AND ended_at IS NULL"],
    },
    Invariant {
        code: "counts",
        breaches: concat!(
            "SELECT 0, '' WHERE EXISTS (",
            counted!(),
            " EXCEPT ",
            counts!(),
            ")
               OR EXISTS (",
            counts!(),
            " EXCEPT ",
            counted!(),
            ")"
        ),
        message: "the counts of schedules are wrong",
        mend: &["DELETE FROM schedule_counts", concat!("INSERT INTO schedule_counts ", counted!())],
    },
    Invariant {
        code: "block-counts",
        breaches: "SELECT 0, '' WHERE EXISTS
                   (SELECT status, id / 1024 AS block, count(*) AS count FROM schedules
                     GROUP BY status, block
                    EXCEPT SELECT status, block, count FROM schedule_blocks)
                   OR (SELECT count(*) FROM schedules) <>
                      (SELECT coalesce(sum(count), 0) FROM schedule_blocks)",
        message: "the counts of schedules by blocks are wrong",
        mend: &["DELETE FROM schedule_blocks;
             INSERT INTO schedule_blocks SELECT status, id / 1024 AS block, count(*) FROM schedules
              GROUP BY status, block"],
    },
    Invariant {
        code: "active-count",
        breaches: "SELECT w.id, w.name FROM workflows w
                   WHERE w.concurrency IS NOT NULL AND w.active <>
                   (SELECT count(*) FROM runs r INDEXED BY runs_open
                    WHERE r.status IN (1, 2, 3) AND r.status < 4 AND r.workflow = w.id
                      AND r.handler IS NULL)",
        message: "workflow {text} counts its active runs wrongly",
        mend: &["UPDATE workflows SET active = (SELECT count(*) FROM runs r INDEXED BY runs_open
              WHERE r.status IN (1, 2, 3) AND r.status < 4 AND r.workflow = workflows.id
                AND r.handler IS NULL)
             WHERE concurrency IS NOT NULL"],
    },
];

impl Core {
    /// Checks everything. If one check fails, it is reported and the others still run.
    pub(crate) fn check(&mut self, now: Timestamp, repair: bool) -> Result<Vec<Finding>, Failure> {
        // Clears the caches, so that everything is read from the file, and no cached copy outlives
        // a repair.
        self.memory.forget();
        let mut findings = schema(&self.connection, repair);
        findings.extend(integrity(&self.connection, repair));
        findings.extend(unreadable(&self.connection));
        // Before the wakeups are checked: a row that is no longer set aside has no wakeup yet.
        findings.extend(attempted("what is set aside", self.check_set_aside(repair)));
        // Before the counts of schedules are checked: mending may change a schedule's status to
        // done.
        findings.extend(attempted("schedules", self.check_schedules(now, repair)));
        for invariant in INVARIANTS.iter().chain(SHARED).chain(&OF_TOPICS) {
            findings.extend(self.check_invariant(invariant, now, repair));
        }
        findings.extend(attempted("runs", self.check_runs(repair)));
        findings.extend(attempted("records of steps", self.check_steps()));
        Ok(findings)
    }

    fn check_invariant(&self, invariant: &Invariant, now: Timestamp, repair: bool) -> Vec<Finding> {
        let found = match breaches(&self.connection, invariant, now) {
            Ok(found) => found,
            Err(failure) => return vec![unchecked(invariant.code, &failure)],
        };
        let is_to_mend = repair && !found.is_empty() && !invariant.mend.is_empty();
        let mended = match is_to_mend.then(|| mend(&self.connection, invariant.mend)).transpose() {
            Ok(mended) => mended.is_some(),
            Err(failure) => {
                let message = format!("{} cannot be mended: {failure}", invariant.code);
                let finding = |message| Finding { code: invariant.code, message, repaired: false };
                return found.into_iter().chain([message]).map(finding).collect();
            }
        };
        let finding = |message| Finding { code: invariant.code, message, repaired: mended };
        found.into_iter().map(finding).collect()
    }
}

/// The findings of a check, or one finding that the check failed.
fn attempted(what: &str, found: Result<Vec<Finding>, Failure>) -> Vec<Finding> {
    found.unwrap_or_else(|failure| vec![unchecked(what, &failure)])
}

/// The finding that something could not be checked, because the file is damaged or a table is
/// missing.
pub(crate) fn unchecked(what: &str, failure: &Failure) -> Finding {
    let message = format!("{what} could not be checked: {failure}");
    Finding { code: "unchecked", message, repaired: false }
}

/// Runs all of these statements or none.
pub(crate) fn mend(connection: &Connection, statements: &[&str]) -> Result<(), Failure> {
    connection.execute_batch("SAVEPOINT mend")?;
    let mended = statements.iter().try_for_each(|sql| connection.execute_batch(sql));
    if mended.is_err() {
        connection.execute_batch("ROLLBACK TO mend")?;
    }
    connection.execute_batch("RELEASE mend")?;
    Ok(mended?)
}

fn breaches(
    connection: &Connection,
    invariant: &Invariant,
    now: Timestamp,
) -> Result<Vec<String>, Failure> {
    let mut statement = connection.prepare(invariant.breaches)?;
    let read = |row: &rusqlite::Row<'_>| {
        let id: i64 = row.get(0)?;
        let text = match row.get::<_, rusqlite::types::Value>(1)? {
            rusqlite::types::Value::Text(text) => text,
            rusqlite::types::Value::Integer(number) => number.to_string(),
            _ => String::new(),
        };
        Ok(invariant.message.replace("{id}", &id.to_string()).replace("{text}", &text))
    };
    let now = [ms(now)];
    let params = &now[..statement.parameter_count()];
    let found = statement.query_map(rusqlite::params_from_iter(params), read)?;
    let mut found = found.collect::<Result<Vec<_>, _>>()?;
    let more = more(found.len(), invariant.code);
    found.truncate(TOLD);
    found.extend(more);
    Ok(found)
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
