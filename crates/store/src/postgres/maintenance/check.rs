//! Checks the invariants of the stored rows.
//!
//! Each check is one statement, which sees one instant while other transactions go on. Before a row
//! is mended it is locked and checked again, a few rows at a time.

use jiff::Timestamp;
use tokio_postgres::Row;

use crate::check_run::more;
use crate::check_shared::shared_invariants;
use crate::failure::Failure;
use crate::postgres::connections::tx_connection::{Param, Query, TxConnection, param};
use crate::postgres::maintenance::check_topics::OF_TOPICS;
use crate::postgres::rows::decode;
use crate::postgres::rows::decode::get;
use crate::postgres::transaction::core::Core;
use crate::stored::ms;
use crate::view::Finding;

/// One invariant: a query for its breaches, and the statements that mend them.
pub(crate) struct Invariant {
    pub(crate) code: &'static str,
    /// Selects for each breach an id, a text, and how many breaches there are in all.
    pub(crate) breaches: &'static str,
    pub(crate) message: &'static str,
    /// The statements of one transaction that mends breaches; empty if a person has to look. The
    /// transaction is repeated until its last statement returns no row.
    pub(crate) mend: &'static [&'static str],
}

/// Wraps a statement that selects an id and a text for each breach.
macro_rules! breaches {
    ($($sql:expr),*) => {
        concat!(
            "SELECT b.id::bigint, b.text::text, count(*) OVER () FROM (", $($sql,)*
            ") AS b (id, text) ORDER BY b.id LIMIT 20"
        )
    };
}

pub(crate) use breaches;

/// The invariants that hold in both stores.
const SHARED: &[Invariant] = &shared_invariants!(breaches, Invariant);

/// When a schedule without open runs must wake: at its next time, if it is active.
macro_rules! wakeup {
    () => {
        "CASE WHEN s.status = 0 THEN p.next_effective END"
    };
}

macro_rules! without_wakeup {
    () => {
        concat!(
            "progress p JOIN schedules s ON s.id = p.id WHERE p.live IS NULL
             AND p.wake_at IS DISTINCT FROM ",
            wakeup!()
        )
    };
}

macro_rules! lost {
    () => {
        "open_runs r CROSS JOIN LATERAL unnest(r.owners) AS o (id) WHERE r.status = 1
         AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = o.id)"
    };
}

macro_rules! counted {
    () => {
        "SELECT workflow, status, count(*) FROM schedules GROUP BY workflow, status
         UNION ALL SELECT 0, status, count(*) FROM schedules GROUP BY status"
    };
}

macro_rules! counted_blocks {
    () => {
        "SELECT status, id / 1024, count(*) FROM schedules GROUP BY status, id / 1024"
    };
}

macro_rules! active {
    () => {
        "(SELECT count(*) FROM open_runs r WHERE r.status IN (1, 2, 3) AND r.workflow = w.id
            AND r.handler IS NULL)"
    };
}

const INVARIANTS: [Invariant; 14] = [
    Invariant {
        code: "schedule-without-progress",
        breaches: breaches!(
            "SELECT s.id, '' FROM schedules s
             WHERE NOT EXISTS (SELECT 1 FROM progress p WHERE p.id = s.id)"
        ),
        message: "schedule {id} does not know how far it has come: restore a copy that does, or delete it \
                  (`punctual schedule delete {id}`) and declare it again",
        mend: &[],
    },
    Invariant {
        code: "versions",
        breaches: breaches!(
            "SELECT s.id, '' FROM schedules s JOIN progress p ON p.id = s.id
             WHERE s.version <> p.version"
        ),
        message: "the two rows of schedule {id} are not of one version",
        mend: &["WITH apart AS MATERIALIZED (
                   SELECT p.id FROM progress p JOIN schedules s ON s.id = p.id
                   WHERE s.version <> p.version LIMIT 500 FOR UPDATE OF p, s),
                 known AS (
                   UPDATE schedules s SET version = s.version + 1 FROM apart a WHERE s.id = a.id
                   RETURNING s.id, s.version)
                 UPDATE progress p SET version = k.version, stamp = 0 FROM known k WHERE p.id = k.id
                 RETURNING p.id"],
    },
    Invariant {
        code: "schedule-without-wakeup",
        breaches: breaches!("SELECT p.id, '' FROM ", without_wakeup!()),
        message: "schedule {id} does not wake when it should",
        // The version is compared, because the declaration may have been read before the lock was
        // obtained.
        mend: &[concat!(
            "WITH wrong AS MATERIALIZED (
               SELECT p.id, ",
            wakeup!(),
            " AS wake_at FROM ",
            without_wakeup!(),
            " AND s.version = p.version LIMIT 500 FOR UPDATE OF p)
             UPDATE progress p SET wake_at = w.wake_at, stamp = 0 FROM wrong w WHERE p.id = w.id
             RETURNING p.id"
        )],
    },
    Invariant {
        code: "wakeup-of-nothing",
        breaches: breaches!(
            "SELECT p.id, '' FROM progress p
             WHERE NOT EXISTS (SELECT 1 FROM schedules s WHERE s.id = p.id)"
        ),
        message: "a wakeup is for schedule {id}, which is gone",
        mend: &["DELETE FROM progress WHERE id IN (
                   SELECT p.id FROM progress p
                   WHERE NOT EXISTS (SELECT 1 FROM schedules s WHERE s.id = p.id) LIMIT 500)
                 RETURNING id"],
    },
    Invariant {
        code: "run-without-owner",
        breaches: breaches!("SELECT r.key, '' FROM ", lost!()),
        message: "run {id} is running, but no node performs it",
        // The node's row is inserted again with a lease that has run out: the next turn takes over
        // its attempts.
        mend: &[
            "LOCK TABLE nodes IN SHARE ROW EXCLUSIVE MODE",
            concat!(
                "INSERT INTO nodes (id, name, started_at, seen_at, lease_until, capacity, attempts)
                 OVERRIDING SYSTEM VALUE SELECT DISTINCT o.id, 'lost', 0, 0, 0, 0, 0 FROM ",
                lost!()
            ),
        ],
    },
    Invariant {
        code: "queue-of-nothing",
        breaches: breaches!(
            "SELECT q.run, q.queue FROM queue q
             WHERE NOT EXISTS (SELECT 1 FROM open_runs r WHERE r.key = q.run) OR q.item < -2"
        ),
        message: "run {id} is in queue {text}, but has ended or is gone, or has no such part",
        mend: &["DELETE FROM queue q
                 WHERE NOT EXISTS (SELECT 1 FROM open_runs r WHERE r.key = q.run) OR q.item < -2"],
    },
    Invariant {
        code: "approval-of-nothing",
        breaches: breaches!(
            "SELECT a.run, '' FROM approvals a
             WHERE NOT EXISTS (SELECT 1 FROM open_runs r WHERE r.key = a.run)"
        ),
        message: "people are asked by run {id}, which has ended or is gone",
        mend: &["DELETE FROM approvals a
                 WHERE NOT EXISTS (SELECT 1 FROM open_runs r WHERE r.key = a.run)"],
    },
    Invariant {
        code: "run-twice",
        breaches: breaches!(
            "SELECT o.key, '' FROM open_runs o
             WHERE EXISTS (SELECT 1 FROM ended_runs e WHERE e.key = o.key)"
        ),
        message: "run {id} has ended, but is kept among those that have not",
        mend: &[
            "DELETE FROM ended_runs e
             WHERE e.status < 4 AND EXISTS (SELECT 1 FROM open_runs o WHERE o.key = e.key)",
            "DELETE FROM open_runs o
             WHERE EXISTS (SELECT 1 FROM ended_runs e WHERE e.key = o.key)",
        ],
    },
    Invariant {
        code: "occurrence-without-run",
        breaches: breaches!(
            "SELECT l.schedule, l.n FROM ledger l WHERE l.outcome IN (0, 1) AND l.run IS NULL"
        ),
        message: "occurrence {text} of schedule {id} has started, but names no run: the schedule goes on; \
                  restore a copy if you need the record",
        mend: &[],
    },
    Invariant {
        code: "run-without-end",
        breaches: breaches!("SELECT key, '' FROM ended_runs WHERE ended_at IS NULL"),
        message: "run {id} has ended, but not at any time",
        mend: &["UPDATE ended_runs SET ended_at = coalesce(started_at, created_at)
                 WHERE ended_at IS NULL"],
    },
    Invariant {
        code: "run-misplaced",
        breaches: breaches!(
            "SELECT key, '' FROM open_runs WHERE status >= 4
             UNION ALL SELECT key, '' FROM ended_runs WHERE status < 4"
        ),
        message: "run {id} is kept among those that have ended and has not, or the other way round: \
                  restore a copy",
        mend: &[],
    },
    Invariant {
        code: "counts",
        breaches: breaches!(
            "WITH counted AS (",
            counted!(),
            "), known AS (SELECT workflow, status, sum(count)::bigint FROM schedule_counts
                          GROUP BY workflow, status HAVING sum(count) <> 0)
             SELECT 0, '' WHERE EXISTS (SELECT * FROM counted EXCEPT SELECT * FROM known)
                OR EXISTS (SELECT * FROM known EXCEPT SELECT * FROM counted)"
        ),
        message: "the counts of schedules are wrong",
        mend: &[
            "LOCK TABLE schedule_counts IN SHARE ROW EXCLUSIVE MODE",
            "DELETE FROM schedule_counts",
            concat!(
                "INSERT INTO schedule_counts (workflow, status, slot, count)
                 SELECT c.workflow, c.status, 0, c.count FROM (",
                counted!(),
                ") AS c (workflow, status, count)"
            ),
        ],
    },
    Invariant {
        code: "block-counts",
        breaches: breaches!(
            "WITH counted AS (",
            counted_blocks!(),
            "), known AS (SELECT status, block, sum(count)::bigint FROM schedule_blocks
                          GROUP BY status, block HAVING sum(count) <> 0)
             SELECT 0, '' WHERE EXISTS (SELECT * FROM counted EXCEPT SELECT * FROM known)
                OR EXISTS (SELECT * FROM known EXCEPT SELECT * FROM counted)"
        ),
        message: "the counts of schedules by blocks are wrong",
        mend: &[
            "LOCK TABLE schedule_blocks IN SHARE ROW EXCLUSIVE MODE",
            "DELETE FROM schedule_blocks",
            concat!(
                "INSERT INTO schedule_blocks (status, block, slot, count)
                 SELECT c.status, c.block, 0, c.count FROM (",
                counted_blocks!(),
                ") AS c (status, block, count)"
            ),
        ],
    },
    Invariant {
        code: "active-count",
        breaches: breaches!(
            "SELECT w.id, w.name FROM workflows w WHERE w.concurrency IS NOT NULL AND w.active <> ",
            active!()
        ),
        message: "workflow {text} counts its active runs wrongly",
        mend: &[
            "SELECT id FROM workflows WHERE concurrency IS NOT NULL ORDER BY id FOR UPDATE",
            concat!(
                "UPDATE workflows w SET active = ",
                active!(),
                " WHERE w.concurrency IS NOT NULL AND w.active <> ",
                active!()
            ),
        ],
    },
];

impl Core {
    /// Checks everything. If one check fails, it is reported and the others still run.
    pub(crate) fn check(&mut self, now: Timestamp, repair: bool) -> Result<Vec<Finding>, Failure> {
        let mut findings = self.check_rows();
        // Before the wakeups are checked: a row that is no longer set aside has no wakeup yet.
        findings.extend(attempted("what is set aside", self.check_set_aside(repair)));
        // Before the invariants, which look for the nodes of runs: mending runs corrects their
        // owners.
        findings.extend(attempted("runs", self.check_runs(repair)));
        findings.extend(attempted("records of steps", self.check_steps()));
        // Before the counts of schedules are checked: mending may change a schedule's status to
        // done.
        findings.extend(attempted("schedules", self.check_schedules(now, repair)));
        for invariant in INVARIANTS.iter().chain(SHARED).chain(&OF_TOPICS) {
            let found = self.check_invariant(invariant, now, repair);
            findings.extend(attempted(invariant.code, found));
        }
        findings.extend(attempted("wakeups", self.check_wakeups(repair)));
        findings.extend(attempted("sequences", self.check_sequences(repair)));
        // Mended rows may be due earlier than this node's cached horizon says.
        self.shared.horizon.forget();
        Ok(findings)
    }

    fn check_invariant(
        &mut self,
        invariant: &Invariant,
        now: Timestamp,
        repair: bool,
    ) -> Result<Vec<Finding>, Failure> {
        let is_timed = invariant.breaches.contains("$1");
        let params = || if is_timed { vec![param(ms(now))] } else { Vec::new() };
        let found = look(&mut self.tx, invariant.breaches, params)?;
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let mut messages = messages(&found, invariant)?;
        let mut repaired = repair && !invariant.mend.is_empty();
        if repaired && let Err(failure) = mend(&mut self.tx, invariant.mend) {
            messages.push(format!("{} cannot be mended: {failure}", invariant.code));
            repaired = false;
        }
        let finding = |message| Finding { code: invariant.code, message, repaired };
        Ok(messages.into_iter().map(finding).collect())
    }
}

/// The findings of a check, or one finding that the check failed.
fn attempted(what: &str, found: Result<Vec<Finding>, Failure>) -> Vec<Finding> {
    found.unwrap_or_else(|failure| vec![unchecked(what, &failure)])
}

/// The finding that something could not be checked, for example because a table is missing.
pub(crate) fn unchecked(what: &str, failure: &Failure) -> Finding {
    let message = format!("{what} could not be checked: {failure}");
    Finding { code: "unchecked", message, repaired: false }
}

/// Runs a query that may take long.
pub(crate) fn look(
    tx: &mut TxConnection,
    sql: &'static str,
    params: impl Fn() -> Vec<Param>,
) -> Result<Vec<Row>, Failure> {
    tx.transact(|tx| {
        let patient = "SELECT set_config('statement_timeout', $1, true)";
        let patient = Query::new(patient, vec![param("0")]);
        tx.begin(vec![patient])?;
        let mut found = tx.commit(vec![Query::new(sql, params())])?;
        Ok(found.pop().unwrap_or_default())
    })
}

fn mend(tx: &mut TxConnection, statements: &[&'static str]) -> Result<(), Failure> {
    loop {
        let left = tx.transact(|tx| {
            tx.begin(vec![])?;
            let queries = statements.iter().map(|sql| Query::new(sql, vec![])).collect();
            let mut found = tx.commit(queries)?;
            Ok(found.pop().unwrap_or_default())
        })?;
        if left.is_empty() {
            return Ok(());
        }
    }
}

fn messages(found: &[Row], invariant: &Invariant) -> Result<Vec<String>, Failure> {
    let mut messages = Vec::with_capacity(found.len());
    let mut all = found.len();
    for row in found {
        let (id, text): (i64, &str) = (get(row, 0)?, get(row, 1)?);
        all = decode::natural(row, 2)?;
        messages.push(invariant.message.replace("{id}", &id.to_string()).replace("{text}", text));
    }
    messages.extend(more(all, invariant.code));
    Ok(messages)
}
