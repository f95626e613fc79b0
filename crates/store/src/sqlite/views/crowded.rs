//! A test that pages of runs and ledger rows take as many steps of SQLite among many rows as among
//! few.

use engine::WorkflowId;
use engine::ledger::Outcome;
use engine::run::RunStatus;
use jiff::Timestamp;
use rusqlite::Connection;

use crate::failure::Failure;
use crate::sqlite::connections::query::answer;
use crate::sqlite::views::counted::{Question, steps};
use crate::view::{Cursor, NotRunQuery, RunQuery};
use crate::views::{figures, not_run, runs};

/// A store with `size` ended runs, ten each minute, of which one failed, and a ledger row for each
/// minute, of an occurrence that did not run. After the ended runs come as many open ones. One run
/// in a thousand has timed out, and all failed runs of the eighth workflow are among the first.
fn crowd(size: u64) -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch(include_str!("../schema/0001.sql")).unwrap();
    let numbers =
        format!("WITH RECURSIVE k(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM k WHERE i < {size})");
    let run = |key: &str, status: &str| {
        format!(
            "{numbers} INSERT INTO runs (key, uuid, workflow, version, retry, triggered_by, status,
               created_at, state, waits_for_slot, overdue, input)
             SELECT {key}, CAST(printf('%016d', {key}) AS BLOB), 1 + i % 8, 1, 0, 0, {status},
               ({key}) * 6000, '{{}}', 0, {key} = 3, 'null' FROM k;"
        )
    };
    let ended = "CASE WHEN i = 7 THEN 5 WHEN i % 1000 = 3 THEN 7
                      WHEN i % 10 = 5 AND i % 8 <> 7 THEN 5 ELSE 4 END";
    connection
        .execute_batch(&format!(
            "{numbers} INSERT INTO workflows (id, name, status, paused, newest, active, created_at,
               updated_at) SELECT i, 'w' || i, 1, 0, 1, 0, 0, 0 FROM k WHERE i < 9;
             {} {}
             {numbers} INSERT INTO ledger (schedule, n, count, nominal, last_nominal, effective,
               decided_at, outcome, reason, run)
             SELECT i, 0, 1, 0, 0, 0, i * 60000, iif(i % 1000 = 1, 5, 3), '', NULL FROM k;
             {numbers} INSERT INTO tallies SELECT i, 3, 1 FROM k",
            run("i", ended),
            run(&format!("{size} + i"), "iif(i % 1000 = 3, 1, 2)"),
        ))
        .unwrap();
    connection
}

fn at(seconds: i64) -> Option<Timestamp> {
    Timestamp::from_second(seconds).ok()
}

fn runs(connection: &Connection, query: RunQuery) -> Result<usize, Failure> {
    Ok(answer(runs::runs(connection, &RunQuery { limit: 5, ..query }))?.items.len())
}

fn of(status: &[RunStatus]) -> RunQuery {
    RunQuery { status: status.to_vec(), ..RunQuery::default() }
}

const EIGHTH: Option<WorkflowId> = Some(WorkflowId(8));

const QUESTIONS: [(&str, Question); 14] = [
    ("the latest", |c| runs(c, RunQuery::default())),
    ("what ended badly", |c| runs(c, of(&[RunStatus::Failed, RunStatus::TimedOut]))),
    ("nothing was cancelled", |c| Ok(5 + runs(c, of(&[RunStatus::Cancelled]))?)),
    ("what waits", |c| runs(c, of(&[RunStatus::Waiting]))),
    ("what runs or waits", |c| runs(c, of(&[RunStatus::Running, RunStatus::Pending]))),
    ("nothing is suspended", |c| Ok(5 + runs(c, of(&[RunStatus::Suspended]))?)),
    ("what waits of a workflow", |c| {
        runs(c, RunQuery { workflow: Some(WorkflowId(3)), ..of(&[RunStatus::Waiting]) })
    }),
    ("what failed of a workflow, long ago", |c| {
        runs(c, RunQuery { workflow: EIGHTH, ..of(&[RunStatus::Failed]) })
    }),
    ("what was late", |c| runs(c, RunQuery { overdue: Some(true), ..RunQuery::default() })),
    ("created in a minute of long ago", |c| {
        runs(c, RunQuery { since: at(60), until: at(90), ..RunQuery::default() })
    }),
    ("the last runs", |c| {
        let workflows: Vec<WorkflowId> = (1..9).map(WorkflowId).collect();
        Ok(answer(runs::last_runs(c, &workflows))?.len())
    }),
    ("what did not run", |c| {
        let query = |outcome, after| NotRunQuery { outcome, limit: 5, after, since: at(60) };
        let after = Some(Cursor::Decided(at(30_000).unwrap_or_default(), engine::ScheduleId(1), 0));
        let missed = answer(not_run::not_run(c, &query(Some(Outcome::Missed), None)))?.items.len();
        let later = answer(not_run::not_run(c, &query(None, after)))?.items.len();
        Ok(answer(not_run::not_run(c, &query(None, None)))?.items.len() + later + missed.min(1))
    }),
    ("nothing was dropped", |c| {
        let outcome = Some(Outcome::Dropped);
        let query = NotRunQuery { outcome, limit: 5, ..NotRunQuery::default() };
        Ok(5 + answer(not_run::not_run(c, &query))?.items.len())
    }),
    ("tallies of an hour", |c| {
        let (from, to) = (at(6_000).unwrap_or_default(), at(9_600).unwrap_or_default());
        Ok(answer(figures::tallies(c, from, to))?.len())
    }),
];

#[test]
fn a_crowd_costs_nothing() {
    let (few, many) = (steps(crowd(10_000), &QUESTIONS), steps(crowd(60_000), &QUESTIONS));
    for ((name, found, few), (_, also, many)) in few.into_iter().zip(many) {
        assert!(found > 0, "{name}");
        assert_eq!(found.min(5), also.min(5), "{name}");
        // A binary search takes a few more steps among more rows.
        assert!(many < few + 200, "{name}: {few} steps among few, {many} among many");
    }
}
