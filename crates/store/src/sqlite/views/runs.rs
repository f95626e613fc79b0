//! Lists of runs: the branches that SQLite's indexes allow.

use std::collections::BTreeSet;

use engine::run::{RunStatus, StepRecord};
use engine::{RunKey, WorkflowId};
use rusqlite::Connection;

use crate::Answered;
use crate::codes::{OPEN, UNSUCCESSFUL, sql};
use crate::failure::Failure;
use crate::rows::{self, Read, Row as _, run_view_columns};
use crate::sqlite::connections::query;
use crate::sqlite::transaction::reader;
use crate::stored::code;
use crate::view::{RunQuery, RunView};
use crate::views::runs::{Between, OF_WORKFLOW, RunReader, conditions, joined, of_statuses};
use crate::views::{Param, params};

impl RunReader for Connection {
    fn listed<'a>(
        &'a self,
        query: &'a RunQuery,
        between: Between,
    ) -> Answered<'a, Vec<Read<RunView>>> {
        Box::pin(std::future::ready(listed(self, query, between)))
    }

    fn neighbours(&self, at: i64) -> Answered<'_, (Option<i64>, Option<i64>)> {
        Box::pin(std::future::ready(neighbours(self, at)))
    }

    fn steps(&self, run: RunKey) -> Answered<'_, Vec<StepRecord>> {
        Box::pin(std::future::ready(reader::readable_step_records(self, run)))
    }
}

/// A part of the runs that is read in order.
struct Branch {
    index: &'static str,
    /// The condition that selects its rows. It repeats the index's own condition word for word:
    /// SQLite does not see that it follows.
    of: String,
    order: &'static str,
}

impl Branch {
    fn new(index: &'static str, of: impl Into<String>) -> Branch {
        Branch { index, of: of.into(), order: "key DESC" }
    }

    fn of_status(status: RunStatus, query: &RunQuery) -> Branch {
        let number = code(&RunStatus::ALL, status);
        let of_workflow = query.workflow.is_some();
        match status {
            RunStatus::Succeeded => Branch::new(of_any(query), sql!("AND status = {succeeded}")),
            _ if status.has_ended() => {
                let of = format!("AND status {UNSUCCESSFUL} AND status = {number}");
                let all = "runs_not_well";
                Branch::new(if of_workflow { "runs_not_well_by_workflow" } else { all }, of)
            }
            _ => Branch::new("runs_open", format!("AND status {OPEN} AND status = {number}")),
        }
    }
}

const NO_INDEX: &str = "";

fn of_any(query: &RunQuery) -> &'static str {
    if query.workflow.is_some() { "runs_by_workflow" } else { NO_INDEX }
}

fn branches(query: &RunQuery) -> Vec<Branch> {
    let of = of_statuses(query);
    if query.schedule.is_some() {
        // The first runs of a schedule's occurrences are in the order of their numbers, which is
        // that of their keys. Its retries, and runs started by hand, are found by another index.
        let first = format!("AND n IS NOT NULL AND retry = 0 {of}");
        return vec![
            Branch { order: "n DESC", ..Branch::new("runs_by_occurrence", first) },
            Branch::new("runs_besides", format!("AND (n IS NULL OR retry > 0) {of}")),
        ];
    }
    if query.parent.is_some() {
        return vec![Branch::new("runs_by_parent", of)];
    }
    if query.overdue == Some(true) {
        return vec![Branch::new("runs_overdue", of)];
    }
    if query.status.is_empty() {
        return vec![Branch::new(of_any(query), of)];
    }
    query.status.iter().map(|status| Branch::of_status(*status, query)).collect()
}

/// The last run created before an instant and the first one after it, as far as keys are in the
/// order of creation.
fn neighbours(connection: &Connection, at: i64) -> Result<(Option<i64>, Option<i64>), Failure> {
    let sql = "SELECT (SELECT min(key) FROM runs), (SELECT max(key) FROM runs)";
    let (Some(first), Some(last)): (Option<i64>, Option<i64>) =
        query::only(connection, sql, [], |row| row.tuple())?
    else {
        return Ok((None, None));
    };
    let sql = "SELECT key, created_at FROM runs NOT INDEXED
               WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    let (mut low, mut high) = (first.saturating_sub(1), last.saturating_add(1));
    let (mut older, mut younger) = (None, None);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let found: Option<(i64, i64)> =
            query::first(&mut statement, [middle, high], |row| row.tuple())?;
        match found {
            Some((key, created_at)) if created_at < at => (low, older) = (key, Some(key)),
            found => {
                high = middle;
                younger = found.map(|(key, _)| key).or(younger);
            }
        }
    }
    Ok((older, younger))
}

fn listed(
    connection: &Connection,
    query: &RunQuery,
    between: Between,
) -> Result<Vec<Read<RunView>>, Failure> {
    let mut keys = Vec::new();
    for branch in branches(query) {
        keys.extend(match branch.index {
            "runs_open" if query.workflow.is_none() => open(connection, query, between, &branch)?,
            _ => Listing::new(query, between, &branch).keys(connection)?,
        });
    }
    keys.sort_unstable_by(|a: &i64, b| b.cmp(a));
    keys.truncate(query.limit + 1);
    let sql = format!(
        "SELECT {} FROM json_each($1) u CROSS JOIN runs r ON r.key = u.value {} ORDER BY u.key",
        run_view_columns!(),
        joined::<Connection>()
    );
    query::all_named(connection, &sql, &params![keys.as_slice()], |row| Ok(rows::run_view(row)))
}

/// The query of one branch of a list.
struct Listing {
    sql: String,
    params: Vec<Param<'static>>,
}

impl Listing {
    fn new(query: &RunQuery, between: Between, branch: &Branch) -> Listing {
        let conditions = conditions::<Connection>(query, between);
        let Branch { index, of, order } = branch;
        let of_workflow = if query.workflow.is_some() { OF_WORKFLOW } else { "" };
        let indexed = match *index {
            NO_INDEX => "NOT INDEXED".to_owned(),
            index => format!("INDEXED BY {index}"),
        };
        let limit = query.limit + 1;
        let sql = format!(
            "SELECT key FROM runs {indexed} WHERE {} {of_workflow} {of}
             ORDER BY {order} LIMIT {limit}",
            conditions.sql
        );
        Listing { sql, params: conditions.params }
    }

    fn keys(&self, connection: &Connection) -> Result<Vec<i64>, Failure> {
        query::all_named(connection, &self.sql, &self.params, |row| row.single())
    }
}

/// Open runs of one status are in the order of their workflows: reads the latest of each, from one
/// workflow to the next, and no further than the page.
fn open(
    connection: &Connection,
    query: &RunQuery,
    between: Between,
    branch: &Branch,
) -> Result<Vec<i64>, Failure> {
    let next = format!(
        "SELECT workflow FROM runs INDEXED BY runs_open WHERE workflow > ?1 {}
         ORDER BY workflow LIMIT 1",
        branch.of
    );
    let mut next = connection.prepare_cached(&next)?;
    let of_one = RunQuery { workflow: Some(WorkflowId(0)), ..query.clone() };
    let mut listing = Listing::new(&of_one, between, branch);
    let (mut latest, mut workflow) = (BTreeSet::new(), i64::MIN);
    while let Some(found) = query::first(&mut next, [workflow], |row| row.single())? {
        workflow = found;
        listing.params[2] = workflow.into();
        latest.extend(listing.keys(connection)?);
        while latest.len() > query.limit + 1 {
            latest.pop_first();
        }
        if let Some(earliest) = latest.first().filter(|_| latest.len() > query.limit) {
            listing.params[1] = (*earliest).into();
        }
    }
    Ok(latest.into_iter().collect())
}
