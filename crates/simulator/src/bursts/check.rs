//! Checks in the database file what must have become of bursts.

use rusqlite::Connection;

use super::world::Burst;
use crate::model::{Checked, Violation, broken};
use crate::simulation::unexpected;

/// Each rule: the checker's name, a description, and a query for rows that must not exist.
const RULES: [(&str, &str, &str); 7] = [
    (
        "ended",
        "a run that has not succeeded",
        "SELECT key || ' has status ' || status FROM runs WHERE status <> 4 LIMIT 1",
    ),
    (
        "steps",
        "a run of does-nothing whose steps have not each completed once",
        "SELECT r.key FROM runs r JOIN workflows w ON w.id = r.workflow
         LEFT JOIN steps s ON s.run = r.key AND s.attempts = 1 AND s.status = 0
         WHERE w.name = 'does-nothing' GROUP BY r.key HAVING count(s.run) <> 4 LIMIT 1",
    ),
    (
        "ledger",
        "a schedule whose occurrences have gaps, or come twice",
        "SELECT schedule || ': ' || count(*) || ' rows up to ' || max(n) FROM ledger
         GROUP BY schedule HAVING count(*) <> max(n) + 1 OR sum(count) <> max(n) + 1 LIMIT 1",
    ),
    (
        "ledger",
        "an occurrence that was not started",
        "SELECT schedule || ' n' || n || ' has outcome ' || outcome FROM ledger
         WHERE outcome <> 0 LIMIT 1",
    ),
    (
        "runs",
        "an occurrence without its one run",
        "SELECT l.schedule || ' n' || l.n || ' has ' || count(r.key) FROM ledger l
         LEFT JOIN runs r ON r.schedule = l.schedule AND r.n = l.n AND r.key = l.run
         GROUP BY l.schedule, l.n HAVING count(r.key) <> 1 LIMIT 1",
    ),
    (
        "runs",
        "a run of no occurrence",
        "SELECT r.key FROM runs r LEFT JOIN ledger l ON l.schedule = r.schedule AND l.n = r.n
         WHERE r.schedule IS NOT NULL AND l.n IS NULL LIMIT 1",
    ),
    (
        "events",
        "an event that nobody has taken",
        "SELECT message_id || ' is in state ' || state FROM events WHERE state <> 2 LIMIT 1",
    ),
];

/// Checks everything. Returns how many runs there are.
pub(super) fn all(connection: &Connection, bursts: &[Burst]) -> Result<u64, Violation> {
    for (checker, what, sql) in RULES {
        let mut statement = connection.prepare(sql).map_err(unexpected)?;
        let mut rows = statement.query([]).map_err(unexpected)?;
        if let Some(row) = rows.next().map_err(unexpected)? {
            let found: rusqlite::types::Value = row.get(0).map_err(unexpected)?;
            return broken(checker, format!("{what}: {found:?}"));
        }
    }
    for burst in bursts {
        complete(connection, burst)?;
    }
    let sql = "SELECT count(*) FROM runs";
    connection.query_row(sql, [], |row| row.get(0)).map_err(unexpected)
}

/// Checks that there are as many schedules as were created, each decided as often as it was due,
/// and a run for each start by hand.
fn complete(connection: &Connection, burst: &Burst) -> Checked {
    let Some((name, schedules, repeats)) = burst.due() else { return started(connection, burst) };
    let sql = "SELECT count(DISTINCT s.id), count(l.n) FROM schedules s
               LEFT JOIN ledger l ON l.schedule = s.id WHERE s.declared ->> '$.name' = ?1";
    let found: (usize, usize) = connection
        .query_row(sql, [name], |row| Ok((row.get(0)?, row.get(1)?)))
        .map_err(unexpected)?;
    if found != (schedules, schedules * repeats) {
        let wanted = (schedules, schedules * repeats);
        return broken("ledger", format!("{name}: {found:?} schedules and rows, not {wanted:?}"));
    }
    Ok(())
}

fn started(connection: &Connection, burst: &Burst) -> Checked {
    let Burst::Events { workflow, .. } = burst else { return Ok(()) };
    let sql = "SELECT count(*) FROM runs r JOIN workflows w ON w.id = r.workflow
               WHERE w.name = ?1 AND r.schedule IS NULL";
    let count: usize =
        connection.query_row(sql, [workflow.name()], |row| row.get(0)).map_err(unexpected)?;
    match count {
        1 => Ok(()),
        count => broken("runs", format!("{workflow:?} was started once, and has {count} runs")),
    }
}
