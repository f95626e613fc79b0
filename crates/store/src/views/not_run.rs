//! The list of occurrences that did not run, of all schedules.

use engine::ledger::Outcome;

use crate::codes::NOT_RUN;
use crate::failure::Failure;
use crate::rows::{self, Row as _, columns, declared_name};
use crate::stored::{code, ms};
use crate::view::{self, NotRunQuery, NotRunRow, Page};
use crate::views::{Reader, limit_in_sql, params};

columns! {
    /// A ledger row, and whose it is.
    not_run_columns = ledger_columns, declared: "s.declared", workflow_name: "w.name"
}

/// Reads each outcome in the order of one index, no further than the page.
pub(crate) async fn not_run<R: Reader>(
    reader: &R,
    query: &NotRunQuery,
) -> Result<Page<NotRunRow>, Failure> {
    let limit = limit_in_sql(query.limit);
    let index = R::indexed_by("ledger_unusual");
    // Repeats the index's own condition: SQLite does not see that it follows.
    let of_outcome = |outcome: Outcome| {
        R::branch(&format!(
            "SELECT * FROM ledger {index} WHERE run IS NULL AND outcome {NOT_RUN} AND outcome = {}
               AND decided_at >= $1 AND (decided_at, schedule, n) < ($2, $3, $4)
             ORDER BY decided_at DESC, schedule DESC, n DESC LIMIT {limit}",
            code(&Outcome::ALL, outcome)
        ))
    };
    let branches: Vec<String> = view::not_run(query).into_iter().map(of_outcome).collect();
    if branches.is_empty() {
        return Ok(view::not_run_page(Vec::new(), query));
    }
    let sql = format!(
        "SELECT {} FROM (SELECT * FROM ({}) l
           ORDER BY decided_at DESC, schedule DESC, n DESC LIMIT {limit}) l
         LEFT JOIN schedules s ON s.id = l.schedule LEFT JOIN workflows w ON w.id = s.workflow",
        not_run_columns!(),
        branches.join(" UNION ALL ")
    );
    let since = query.since.map_or(i64::MIN, ms);
    let (at, schedule, n) = view::decided(query.after.as_ref());
    let params = params![since, at, schedule, n];
    let found = reader.all(&sql, &params, |row| {
        let schedule = declared_name(row, not_run_columns::declared)?;
        let names = schedule.zip(row.read(not_run_columns::workflow_name)?);
        Ok(NotRunRow { entry: rows::entry(row)?, names })
    });
    Ok(view::not_run_page(found.await?, query))
}
