//! Whether what is stored holds together.

use jiff::Timestamp;
use rusqlite::Connection;

use super::check_topics::OF_TOPICS;
use super::core::Core;
use crate::check_run::{TOLD, more};
use crate::failure::Failure;
use crate::view::Finding;

/// One invariant: what breaks it, and how it is mended.
pub(super) struct Invariant {
    pub(super) code: &'static str,
    /// Rows with an id and a text for each breach.
    pub(super) breaches: &'static str,
    pub(super) message: &'static str,
    /// Mends all breaches; nothing if a person has to look.
    pub(super) mend: Option<&'static str>,
}

/// Attempts of nodes that nobody knows.
macro_rules! lost {
    () => {
        "runs r INDEXED BY runs_open, json_each(r.state, '$.a') active
         WHERE r.status < 4 AND r.status = 1 AND active.value ->> '$.d.p.o' IS NOT NULL
           AND active.value ->> '$.d.p.o' NOT IN (SELECT id FROM nodes)"
    };
}

const INVARIANTS: [Invariant; 11] = [
    Invariant {
        code: "schedule-without-progress",
        breaches: "SELECT id, '' FROM schedules WHERE id NOT IN (SELECT id FROM progress)",
        message: "schedule {id} has no progress",
        mend: None,
    },
    Invariant {
        code: "schedule-without-wakeup",
        breaches: "SELECT p.id, '' FROM progress p JOIN schedules s ON s.id = p.id
                   LEFT JOIN (SELECT id, min(due) AS due FROM wakeups WHERE kind = 1 GROUP BY id) w
                     ON w.id = p.id
                   WHERE s.status = 0 AND p.next_effective IS NOT NULL
                     AND (w.due IS NULL OR w.due > p.next_effective)",
        message: "schedule {id} has a next time, but nothing wakes it",
        mend: Some(
            "INSERT OR IGNORE INTO wakeups (due, kind, id)
             SELECT p.next_effective, 1, p.id FROM progress p JOIN schedules s ON s.id = p.id
             LEFT JOIN (SELECT id, min(due) AS due FROM wakeups WHERE kind = 1 GROUP BY id) w
               ON w.id = p.id
             WHERE s.status = 0 AND p.next_effective IS NOT NULL
               AND (w.due IS NULL OR w.due > p.next_effective)",
        ),
    },
    Invariant {
        code: "schedule-without-next-time",
        breaches: "SELECT p.id, '' FROM progress p JOIN schedules s ON s.id = p.id
                   WHERE s.status = 0 AND p.next_effective IS NULL AND p.live IS NULL",
        message: "schedule {id} is active, but has no next time and nothing is going on",
        mend: None,
    },
    Invariant {
        code: "wakeup-of-nothing",
        breaches: "SELECT id, kind FROM wakeups
                   WHERE (kind = 1 AND id NOT IN (SELECT id FROM progress))
                      OR (kind = 0 AND id NOT IN (SELECT key FROM runs WHERE status < 4))
                      OR (kind = 3 AND id NOT IN (SELECT id FROM handlers
                            WHERE coalesce(retry_at, wake_at) IS NOT NULL))",
        message: "a wakeup is for {id}, which has ended, is gone or does not wait",
        mend: Some(
            "DELETE FROM wakeups
             WHERE (kind = 1 AND id NOT IN (SELECT id FROM progress))
                OR (kind = 0 AND id NOT IN (SELECT key FROM runs WHERE status < 4))
                OR (kind = 3 AND id NOT IN (SELECT id FROM handlers
                      WHERE coalesce(retry_at, wake_at) IS NOT NULL))",
        ),
    },
    Invariant {
        code: "run-without-owner",
        breaches: concat!("SELECT r.key, '' FROM ", lost!()),
        message: "run {id} is running, but no node performs it",
        // The node is there again, and gone: what it performed is taken over with the next turn.
        mend: Some(concat!(
            "INSERT OR IGNORE INTO nodes (id, name, started_at)
             SELECT DISTINCT active.value ->> '$.d.p.o', 'lost', 0 FROM ",
            lost!(),
            "; INSERT OR IGNORE INTO wakeups (due, kind, id)
               SELECT 0, 2, id FROM nodes WHERE name = 'lost'"
        )),
    },
    Invariant {
        code: "queue-of-nothing",
        breaches: "SELECT run, queue FROM queue
                   WHERE run NOT IN (SELECT key FROM runs WHERE status < 4)",
        message: "run {id} is in queue {text}, but has ended or is gone",
        mend: Some("DELETE FROM queue WHERE run NOT IN (SELECT key FROM runs WHERE status < 4)"),
    },
    Invariant {
        code: "approval-of-nothing",
        breaches: "SELECT run, '' FROM approvals
                   WHERE run NOT IN (SELECT key FROM runs WHERE status < 4)",
        message: "people are asked by run {id}, which has ended or is gone",
        mend: Some(
            "DELETE FROM approvals WHERE run NOT IN (SELECT key FROM runs WHERE status < 4)",
        ),
    },
    Invariant {
        code: "occurrence-without-run",
        breaches: "SELECT l.schedule, l.n FROM ledger l
                   WHERE l.outcome IN (0, 1) AND l.run IS NULL",
        message: "an occurrence of schedule {id} has started, but has no run: number {text}",
        mend: None,
    },
    Invariant {
        code: "counts",
        breaches: "SELECT 0, '' WHERE (SELECT count(*) FROM schedules) <>
                   (SELECT coalesce(sum(count), 0) FROM schedule_counts WHERE workflow = 0)",
        message: "the counts of schedules are wrong",
        mend: Some(
            "DELETE FROM schedule_counts;
             INSERT INTO schedule_counts SELECT workflow, status, count(*) FROM schedules
              GROUP BY workflow, status;
             INSERT INTO schedule_counts SELECT 0, status, count(*) FROM schedules GROUP BY status",
        ),
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
        mend: Some(
            "DELETE FROM schedule_blocks;
             INSERT INTO schedule_blocks SELECT status, id / 1024 AS block, count(*) FROM schedules
              GROUP BY status, block",
        ),
    },
    Invariant {
        code: "active-count",
        breaches: "SELECT w.id, w.name FROM workflows w
                   WHERE w.concurrency IS NOT NULL AND w.active <>
                   (SELECT count(*) FROM runs r INDEXED BY runs_open
                    WHERE r.status IN (1, 2, 3) AND r.status < 4 AND r.workflow = w.id
                      AND r.handler IS NULL)",
        message: "workflow {text} counts its active runs wrongly",
        mend: Some(
            "UPDATE workflows SET active = (SELECT count(*) FROM runs r INDEXED BY runs_open
              WHERE r.status IN (1, 2, 3) AND r.status < 4 AND r.workflow = workflows.id
                AND r.handler IS NULL)
             WHERE concurrency IS NOT NULL",
        ),
    },
];

impl Core {
    pub(super) fn check(&mut self, _: Timestamp, repair: bool) -> Result<Vec<Finding>, Failure> {
        let mut findings = integrity(&self.connection)?;
        for invariant in INVARIANTS.iter().chain(&OF_TOPICS) {
            let breaches = breaches(&self.connection, invariant)?;
            let mended = match invariant.mend.filter(|_| repair && !breaches.is_empty()) {
                Some(mend) => {
                    self.memory.forget();
                    self.connection.execute_batch(mend)?;
                    true
                }
                None => false,
            };
            let finding = |message| Finding { code: invariant.code, message, repaired: mended };
            findings.extend(breaches.into_iter().map(finding));
        }
        findings.extend(self.check_runs(repair)?);
        Ok(findings)
    }
}

/// What SQLite itself finds.
fn integrity(connection: &Connection) -> Result<Vec<Finding>, Failure> {
    let mut statement = connection.prepare("PRAGMA quick_check(20)")?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
    let lines = lines.collect::<Result<Vec<_>, _>>()?;
    let wrong = lines.into_iter().filter(|line| line != "ok");
    Ok(wrong.map(|message| Finding { code: "file", message, repaired: false }).collect())
}

fn breaches(connection: &Connection, invariant: &Invariant) -> Result<Vec<String>, Failure> {
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
    let mut found = statement.query_map([], read)?.collect::<Result<Vec<_>, _>>()?;
    let more = more(found.len(), invariant.code);
    found.truncate(TOLD);
    found.extend(more);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use crate::sqlite::{Sqlite, SqliteOptions};
    use crate::{Store as _, TurnRequest};
    use engine::turn::Places;
    use engine::{Moment, NodeId};
    use futures_util::FutureExt as _;

    /// A partial index is used only where the query repeats its condition; else it does not prepare.
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
            places: Places::new(1),
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
