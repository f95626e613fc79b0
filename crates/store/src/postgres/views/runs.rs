//! Lists of runs: the branches that PostgreSQL's indexes allow.

use deadpool_postgres::Client;
use engine::RunKey;
use engine::run::{RunStatus, StepRecord};

use crate::Answered;
use crate::codes::UNSUCCESSFUL;
use crate::postgres::connections::query::ask;
use crate::postgres::rows::narrow;
use crate::postgres::transaction::last_steps::{self, LAST_STEPS};
use crate::postgres::transaction::reader::STEPS;
use crate::rows::{self, Read, Row as _, run_view_columns};
use crate::view::{RunQuery, RunView};
use crate::views::runs::{Between, OF_WORKFLOW, RunReader, conditions, joined, of_statuses};
use crate::views::{Reader as _, limit_in_sql, params};

impl RunReader for Client {
    fn listed<'a>(
        &'a self,
        query: &'a RunQuery,
        between: Between,
    ) -> Answered<'a, Vec<Read<RunView>>> {
        let conditions = conditions::<Client>(query, between);
        let limit = limit_in_sql(query.limit);
        let branches: Vec<String> =
            branches(query).iter().map(|branch| branch.sql(&conditions.sql, limit)).collect();
        let sql = format!(
            "SELECT {} FROM (SELECT key FROM ({}) k ORDER BY key DESC LIMIT {limit}) k
             JOIN runs r ON r.key = k.key {} ORDER BY r.key DESC",
            run_view_columns!(),
            branches.join(" UNION ALL "),
            joined::<Client>()
        );
        Box::pin(
            async move { self.all(&sql, &conditions.params, |row| Ok(rows::run_view(row))).await },
        )
    }

    fn neighbours(&self, at: i64) -> Answered<'_, (Option<i64>, Option<i64>)> {
        Box::pin(async move {
            let found = self.one(NEIGHBOURS, &params![at], |row| row.tuple()).await?;
            Ok(found.unwrap_or_default())
        })
    }

    fn steps(&self, run: RunKey) -> Answered<'_, Vec<StepRecord>> {
        Box::pin(async move {
            let steps = ask(self, STEPS, &[&run.0]).await?;
            last_steps::readable(&steps, &ask(self, LAST_STEPS, &[&run.0]).await?)
        })
    }
}

/// A part of the runs that is read in order.
struct Branch {
    table: &'static str,
    /// The condition that selects its rows.
    of: String,
    order: &'static str,
    way: Way,
}

/// [`OF_WORKFLOW`] in another form. Where the planner may choose, it takes the index by key alone
/// and scans all runs in search of a workflow that has few. The row comparison leaves it only an
/// index that begins with the workflow.
const IN_ORDER_OF_WORKFLOW: &str = " AND (workflow, key) < ($3, $1) AND (workflow, key) > ($3, $2)";

/// How a branch is read.
#[derive(Clone, Copy)]
enum Way {
    /// In the order of an index.
    InOrder,
    /// All its rows, since they are few and no index has them in order.
    Small,
    /// The latest of each workflow, from one workflow to the next: the index has the workflow
    /// first.
    ByWorkflow,
}

impl Branch {
    fn new(table: &'static str, of: impl Into<String>) -> Branch {
        Branch { table, of: of.into(), order: "key DESC", way: Way::InOrder }
    }

    fn of_status(status: RunStatus, query: &RunQuery) -> Branch {
        let code = narrow(&RunStatus::ALL, status);
        let of = format!("AND status = {code}");
        match (status.has_ended(), query.workflow.is_some()) {
            (true, false) => return Branch::new("ended_runs", of),
            (true, true) if status == RunStatus::Succeeded => return Branch::of_workflow(&of),
            (true, true) => {
                let row = "(workflow, status, key)";
                let of = format!(
                    "AND status {UNSUCCESSFUL} AND {row} < ($3, {code}::smallint, $1)
                     AND {row} > ($3, {code}::smallint, $2)"
                );
                let order = "workflow DESC, status DESC, key DESC";
                return Branch { order, ..Branch::new("ended_runs", of) };
            }
            (false, true) => {
                let of = format!("{of} AND key + 0 < $1 {OF_WORKFLOW}");
                return Branch { order: "key + 0 DESC", ..Branch::new("open_runs", of) };
            }
            (false, false) => {}
        }
        // Running and suspended runs are few. Pending and waiting runs may be nearly all there are.
        let is_small = matches!(status, RunStatus::Running | RunStatus::Suspended);
        let way = if is_small { Way::Small } else { Way::ByWorkflow };
        Branch { way, ..Branch::new("open_runs", of) }
    }

    /// The ended runs of a workflow.
    fn of_workflow(of: &str) -> Branch {
        let of = format!("{of} {IN_ORDER_OF_WORKFLOW}");
        Branch { order: "workflow DESC, key DESC", ..Branch::new("ended_runs", of) }
    }

    fn sql(&self, conditions: &str, limit: usize) -> String {
        let Branch { table, of, order, way } = self;
        match way {
            Way::InOrder => format!(
                "(SELECT key FROM {table} WHERE {conditions} {of} ORDER BY {order} LIMIT {limit})"
            ),
            Way::Small => format!(
                "(SELECT key FROM (SELECT key FROM {table} WHERE {conditions} {of} OFFSET 0) f
                  ORDER BY {order} LIMIT {limit})"
            ),
            Way::ByWorkflow => format!(
                "(WITH RECURSIVE w AS (
                    (SELECT workflow FROM {table} WHERE true {of} ORDER BY workflow LIMIT 1)
                    UNION ALL
                    SELECT n.workflow FROM w CROSS JOIN LATERAL (
                      SELECT workflow FROM {table} o WHERE o.workflow > w.workflow {of}
                      ORDER BY o.workflow LIMIT 1) n)
                  SELECT l.key FROM w CROSS JOIN LATERAL (
                    SELECT key FROM {table} o
                    WHERE {conditions} {of} AND o.workflow = w.workflow AND key + 0 < $1
                    ORDER BY key + 0 DESC LIMIT {limit}) l
                  ORDER BY l.key DESC LIMIT {limit})"
            ),
        }
    }
}

fn branches(query: &RunQuery) -> Vec<Branch> {
    if query.schedule.is_some() {
        return of_schedule(query);
    }
    if query.parent.is_some() || query.overdue == Some(true) {
        let of = unindexed(query);
        return vec![
            Branch { way: Way::Small, ..Branch::new("open_runs", of.clone()) },
            Branch::new("ended_runs", of),
        ];
    }
    let of_status = |status: &RunStatus| Branch::of_status(*status, query);
    match (query.status.is_empty(), query.workflow.is_some()) {
        (false, _) => query.status.iter().map(of_status).collect(),
        (true, false) => vec![Branch::new("open_runs", ""), Branch::new("ended_runs", "")],
        // Open runs are found by workflow and status together.
        (true, true) => {
            let open = RunStatus::ALL.iter().filter(|status| !status.has_ended());
            open.map(of_status).chain([Branch::of_workflow("")]).collect()
        }
    }
}

/// The condition for the query's statuses and workflow, where neither has an index of its own.
fn unindexed(query: &RunQuery) -> String {
    let of_workflow = if query.workflow.is_some() { OF_WORKFLOW } else { "" };
    format!("{} {of_workflow}", of_statuses(query))
}

/// The first runs of a schedule's occurrences are in the order of their numbers, which is that of
/// their keys. Its retries, and runs started by hand, are found by another index.
fn of_schedule(query: &RunQuery) -> Vec<Branch> {
    let of = unindexed(query);
    let occurrences = format!("AND n IS NOT NULL AND retry = 0 {of}");
    let besides = format!("AND (n IS NULL OR retry > 0) {of}");
    vec![
        Branch { way: Way::Small, ..Branch::new("open_runs", of) },
        Branch { order: "n DESC", ..Branch::new("ended_runs", occurrences) },
        Branch::new("ended_runs", besides),
    ]
}

/// The last run created before an instant and the first one after it, as far as keys are in the
/// order of creation: a binary search in one query.
const NEIGHBOURS: &str = "WITH RECURSIVE s (low, high, older, younger) AS (
       SELECT (SELECT min(key) FROM ended_runs) - 1, (SELECT max(key) FROM ended_runs) + 1,
         NULL::bigint, NULL::bigint
       UNION ALL
       SELECT CASE WHEN r.created_at < $1 THEN r.key ELSE s.low END,
         CASE WHEN r.created_at < $1 THEN s.high ELSE s.low + (s.high - s.low) / 2 END,
         CASE WHEN r.created_at < $1 THEN r.key ELSE s.older END,
         CASE WHEN r.created_at >= $1 THEN r.key ELSE s.younger END
       FROM s LEFT JOIN LATERAL (
         SELECT key, created_at FROM ended_runs
         WHERE key >= s.low + (s.high - s.low) / 2 AND key < s.high ORDER BY key LIMIT 1) r ON true
       WHERE s.high - s.low > 1)
     SELECT older, younger FROM s ORDER BY high - low LIMIT 1";
