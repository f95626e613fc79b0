//! Checks the invariants of the stored rows.
//!
//! Each check is one statement, which sees one instant while other transactions go on. Before a row
//! is mended it is locked and checked again, a few rows at a time.

use std::sync::{Arc, LazyLock};

use engine::{RunId, WorkflowId};
use jiff::Timestamp;
use language::Rules;
use tokio_postgres::Row;

use crate::failure::Failure;
use crate::invariants;
use crate::invariants::{
    Checks, Database, Fragments, Listed, Lock, RowKind, RunBreach, ScheduleBreach, Statements, Step,
};
use crate::postgres::connections::tx_connection::{Param, Query, TxConnection, param};
use crate::postgres::maintenance::{check_runs, check_schedules};
use crate::postgres::transaction::core::Core;
use crate::rows::{Column, Positional, Row as _};
use crate::view::Finding;

/// How many rows are read or mended at a time; queries say the same number.
pub(crate) const AT_ONCE: usize = 500;

const FRAGMENTS: Fragments = Fragments {
    open_runs: "open_runs",
    open_runs_by_status: "open_runs",
    ended_runs: "ended_runs",
    performed: "(SELECT r.key AS run, o.id AS node
         FROM open_runs AS r CROSS JOIN LATERAL unnest(r.owners) AS o (id)
         WHERE r.status = {running})",
    // The lease of the node has run out.
    insert_lost_nodes: "INSERT INTO nodes
                          (id, name, started_at, seen_at, lease_until, capacity, attempts)
                        OVERRIDING SYSTEM VALUE
                        SELECT l.id, 'lost', 0, 0, 0, 0, 0 FROM {lost_nodes} AS l",
    reserved_events: "(SELECT * FROM events WHERE state = {event_reserved})",
    event_topic: "e.topic + 0",
    event_state: "e.state + 0",
    sleeping_handlers: "(SELECT * FROM handlers
                         WHERE due IS DISTINCT FROM coalesce(retry_at, wake_at))",
    wake_handlers: "UPDATE handlers SET due = coalesce(retry_at, wake_at)
                    WHERE due IS DISTINCT FROM coalesce(retry_at, wake_at)",
    slot_column: ", slot",
    slot: ", 0",
};

pub(crate) static INVARIANTS: LazyLock<Vec<Statements>> =
    LazyLock::new(|| invariants::statements(Database::Postgres, &FRAGMENTS));

/// The statement that locks something. Rows are locked in the order that `lock_order` describes.
fn lock(lock: Lock) -> &'static str {
    match lock {
        Lock::Workflows => {
            "SELECT w.id FROM workflows AS w ORDER BY w.concurrency IS NOT NULL
               OR EXISTS (SELECT 1 FROM handlers AS h WHERE h.workflow = w.id), w.id
             FOR UPDATE OF w"
        }
        Lock::LimitedWorkflows => {
            "SELECT id FROM workflows WHERE concurrency IS NOT NULL ORDER BY id FOR UPDATE"
        }
        Lock::WorkflowsOfHandlers => {
            "SELECT id FROM workflows WHERE id IN (SELECT workflow FROM handlers)
             ORDER BY id FOR UPDATE"
        }
        Lock::Topics => "SELECT id FROM topics ORDER BY id FOR UPDATE",
        Lock::Nodes => "LOCK TABLE nodes IN SHARE ROW EXCLUSIVE MODE",
        Lock::ScheduleCounts => "LOCK TABLE schedule_counts IN SHARE ROW EXCLUSIVE MODE",
        Lock::ScheduleBlocks => "LOCK TABLE schedule_blocks IN SHARE ROW EXCLUSIVE MODE",
    }
}

impl Core {
    /// Checks everything but the schema.
    pub(crate) fn check(&mut self, now: Timestamp, repair: bool) -> Result<Vec<Finding>, Failure> {
        let findings = invariants::check(self, now, repair);
        // Mended rows may be due earlier than the wakeup that this node has cached.
        self.shared.wakeup_cache.forget();
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
        let found = look(&mut self.tx, sql, || params.iter().copied().map(param).collect())?;
        found.iter().map(|row| row.tuple()).collect()
    }

    /// Repeats the transaction until its last statement returns no row: a statement that returns
    /// the rows it has mended mends some of them each time.
    fn mend(&mut self, steps: &'static [Step]) -> Result<(), Failure> {
        let query = |step: &'static Step| match step {
            Step::Lock(what) => Query::new(lock(*what), vec![]),
            Step::Run(sql) => Query::new(sql, vec![]),
        };
        loop {
            let left = self.tx.transact(|tx| {
                tx.begin(vec![])?;
                let mut found = tx.commit(steps.iter().map(query).collect())?;
                Ok(found.pop().unwrap_or_default())
            })?;
            if left.is_empty() {
                return Ok(());
            }
        }
    }

    fn read_all(&mut self, kind: RowKind, found: &mut Listed) -> Result<(), Failure> {
        page_through(&mut self.tx, kind.source().some, |row| {
            kind.check(row, row.len(), found);
            row.read(Column::new(row.len() - 2, "key"))
        })
    }

    fn check_set_aside(&mut self, repair: bool) -> Result<Vec<Finding>, Failure> {
        self.set_aside_findings(repair)
    }

    fn check_runs(&mut self, repair: bool) -> Result<Vec<(i64, RunBreach)>, Failure> {
        check_runs::check(&mut self.tx, repair)
    }

    fn lost_steps(&mut self) -> Result<Vec<(RunId, Vec<u32>)>, Failure> {
        check_runs::without_steps(&mut self.tx)
    }

    fn check_schedules(
        &mut self,
        now: Timestamp,
        repair: bool,
    ) -> Result<Vec<(i64, ScheduleBreach)>, Failure> {
        let rules = self.shared.rules();
        check_schedules::check(&mut self.tx, rules, now, repair)
    }

    fn rules(&self) -> Arc<Rules> {
        self.shared.rules()
    }

    fn publish_again(&mut self, workflow: WorkflowId, now: Timestamp) -> Result<(), Failure> {
        self.command(&invariants::publish_again(workflow, now)).map(drop)
    }
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

/// Calls `each`, which returns the key of the row, with every row of a query that selects the next
/// [`AT_ONCE`] rows after the key `$1`.
pub(crate) fn page_through(
    tx: &mut TxConnection,
    sql: &'static str,
    mut each: impl FnMut(&Row) -> Result<i64, Failure>,
) -> Result<(), Failure> {
    let mut after = i64::MIN;
    loop {
        let some = look(tx, sql, || vec![param(after)])?;
        for row in &some {
            after = each(row)?;
        }
        if some.len() < AT_ONCE {
            return Ok(());
        }
    }
}
