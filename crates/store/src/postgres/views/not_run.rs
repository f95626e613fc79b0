//! The list of occurrences that did not run, of all schedules.

use deadpool_postgres::Client;
use engine::ledger::Outcome;
use tokio_postgres::Row;

use crate::failure::Failure;
use crate::postgres::connections::query::ask;
use crate::postgres::rows::columns::of_ledger;
use crate::postgres::rows::decode;
use crate::postgres::rows::decode::{LEDGER_COLUMNS, get, narrow};
use crate::stored::ms;
use crate::view::{self, Page, UnusualQuery, UnusualRow};

/// Reads each outcome in the order of one index, no further than the page.
pub(crate) async fn unusual(
    client: &Client,
    query: UnusualQuery,
) -> Result<Page<UnusualRow>, Failure> {
    // The limit is written into the SQL, so that the planner sees it, and rounded up, so that there
    // are few distinct statements.
    let limit = query.limit.saturating_add(1).checked_next_power_of_two().unwrap_or(query.limit);
    let of_outcome = |outcome: Outcome| {
        format!(
            "(SELECT * FROM ledger WHERE run IS NULL AND outcome > 2 AND outcome = {}
                AND decided_at >= $1 AND (decided_at, schedule, n) < ($2, $3, $4)
              ORDER BY decided_at DESC, schedule DESC, n DESC LIMIT {limit})",
            narrow(&Outcome::ALL, outcome)
        )
    };
    let branches: Vec<String> = view::unusual(&query).into_iter().map(of_outcome).collect();
    if branches.is_empty() {
        return Ok(view::unusual_page(Vec::new(), &query));
    }
    let sql = format!(
        concat!(
            "SELECT ",
            of_ledger!(),
            ", s.declared, w.name FROM (SELECT * FROM ({}) l
               ORDER BY decided_at DESC, schedule DESC, n DESC LIMIT {}) l
             LEFT JOIN schedules s ON s.id = l.schedule LEFT JOIN workflows w ON w.id = s.workflow"
        ),
        branches.join(" UNION ALL "),
        limit
    );
    let since = query.since.map_or(i64::MIN, ms);
    let (at, schedule, n) = view::decided(query.after.as_ref());
    let found = ask(client, &sql, &[&since, &at, &schedule, &n]).await?;
    let found = found.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    Ok(view::unusual_page(found, &query))
}

fn read(row: &Row) -> Result<UnusualRow, Failure> {
    let workflow: Option<String> = get(row, LEDGER_COLUMNS + 1)?;
    let names = match workflow {
        None => None,
        Some(workflow) => {
            let declared: language::schedule::Declared = decode::json(row, LEDGER_COLUMNS)?;
            Some((declared.name, workflow))
        }
    };
    Ok(UnusualRow { entry: decode::entry(row)?, names })
}
