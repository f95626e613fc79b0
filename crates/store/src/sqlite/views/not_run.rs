//! The list of occurrences that did not run, of all schedules.

use engine::ledger::Outcome;
use rusqlite::{Connection, Row};

use crate::failure::Failure;
use crate::sqlite::rows::decode;
use crate::sqlite::rows::decode::{code, ms};
use crate::view::{self, Page, UnusualQuery, UnusualRow};

/// Reads each outcome in the order of one index, no further than the page.
pub(crate) fn unusual(
    connection: &Connection,
    query: &UnusualQuery,
) -> Result<Page<UnusualRow>, Failure> {
    // Repeats the index's own condition: SQLite does not see that it follows.
    let sql = format!(
        "SELECT {}, s.declared ->> 'name', w.name
         FROM ledger l INDEXED BY ledger_unusual
         LEFT JOIN schedules s ON s.id = l.schedule LEFT JOIN workflows w ON w.id = s.workflow
         WHERE l.run IS NULL AND l.outcome > 2 AND l.outcome = ?1 AND l.decided_at >= ?2
           AND (l.decided_at, l.schedule, l.n) < (?3, ?4, ?5)
         ORDER BY l.decided_at DESC, l.schedule DESC, l.n DESC LIMIT ?6",
        decode::LEDGER
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let since = query.since.map_or(i64::MIN, ms);
    let (at, schedule, n) = view::decided(query.after.as_ref());
    let mut found = Vec::new();
    for outcome in view::unusual(query) {
        let outcome = code(&Outcome::ALL, outcome);
        let limit = i64::try_from(query.limit + 1).unwrap_or(i64::MAX);
        let rows = statement.query_map([outcome, since, at, schedule, n, limit], read)?;
        found.extend(rows.collect::<Result<Vec<_>, _>>()?);
    }
    Ok(view::unusual_page(found, query))
}

fn read(row: &Row<'_>) -> rusqlite::Result<UnusualRow> {
    let names = row.get::<_, Option<String>>(10)?.zip(row.get(11)?);
    Ok(UnusualRow { entry: decode::entry(row)?, names })
}
