//! However many rows there are, queries read few of PostgreSQL's rows.

use std::time::Duration;

use engine::WorkflowId;
use engine::run::RunStatus;
use engine::turn::Command;
use store::RunQuery;

use crate::postgres::Schema;
use crate::world::World;

/// Forty workflows with a thousand runs each, and one whose three runs are older than all of them.
const CROWD: &str = "
    INSERT INTO workflows (id, name, status, paused, newest, active, created_at, updated_at)
      SELECT i, 'w' || i, 1, false, 1, 0, 0, 0 FROM generate_series(1000, 1040) i;
    INSERT INTO ended_runs (key, uuid, workflow, version, retry, triggered_by, status, created_at,
        started_at, ended_at, state, waits_for_slot, overdue, input)
      SELECT i, gen_random_uuid(), CASE WHEN i < 4 THEN 1040 ELSE 1000 + i % 40 END, 1, 0, 1,
        CASE WHEN i = 2 OR i % 100 = 0 THEN 5 ELSE 4 END, i, i, i, '{}', false, false, 'null'
      FROM generate_series(1::bigint, 40000) i;
    ANALYZE ended_runs; ANALYZE workflows";

/// How many rows were read, and how many index scans there were.
const READ: &str = "SELECT coalesce(sum(i.idx_tup_read), 0)::bigint + max(t.seq_tup_read)
    FROM pg_stat_user_indexes i JOIN pg_stat_user_tables t USING (relid)
    WHERE i.schemaname = current_schema() AND i.relname = 'ended_runs'";
const LOOKED: &str = "SELECT coalesce(sum(idx_scan), 0)::bigint FROM pg_stat_user_indexes
    WHERE schemaname = current_schema() AND relname = 'ended_runs'";

/// PostgreSQL plans a statement anew for its first five executions; there are two connections.
const TIMES: i64 = 16;
const QUESTIONS: i64 = 4;
/// How many schedules are due each time, the fewest that are written together; and how many times.
const DUE: i64 = 100;
const ROUNDS: i64 = 8;

#[tokio::test]
async fn what_others_ran_is_not_read() {
    let schema = Schema::new();
    let world = World::new(Box::new(schema.clone())).await;
    schema.execute(CROWD).await;
    let few = WorkflowId(1040);
    let of = |status: &[RunStatus]| RunQuery {
        workflow: Some(few),
        status: status.to_vec(),
        limit: 5,
        ..RunQuery::default()
    };
    let before = (schema.number(READ).await, schema.number(LOOKED).await);
    for _ in 0..TIMES {
        for (status, found) in
            [(&[][..], 3), (&[RunStatus::Failed], 1), (&[RunStatus::Succeeded], 2)]
        {
            let page = world.store().runs(of(status)).await.unwrap();
            assert_eq!(page.items.len(), found, "{status:?}");
        }
        assert_eq!(world.store().last_runs(vec![few]).await.unwrap().len(), 1);
    }
    // A connection reports its statistics when it closes.
    drop(world);
    let told = async {
        while schema.number(LOOKED).await < before.1 + TIMES * QUESTIONS {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), told).await.unwrap();
    let read = schema.number(READ).await - before.0;
    assert!(read < TIMES * QUESTIONS * 20, "{read} rows");
}

/// Many more schedules than any other test has, never due.
const LATER: &str = "
    INSERT INTO progress (id, anchor, mark, n, current_repeat, current_retry, run_count,
        error_count, has_overrides, version)
      SELECT i, 0, 0, 0, 0, 0, 0, 0, false, 0 FROM generate_series(100000, 140000) i";
const PROGRESS_READ: &str = "SELECT coalesce(sum(i.idx_tup_read), 0)::bigint + max(t.seq_tup_read)
    FROM pg_stat_user_indexes i JOIN pg_stat_user_tables t USING (relid)
    WHERE i.schemaname = current_schema() AND i.relname = 'progress'";
const PROGRESS_WRITTEN: &str = "SELECT n_tup_upd FROM pg_stat_user_tables
    WHERE schemaname = current_schema() AND relname = 'progress'";

/// The plan for writing a large turn was chosen when the table was small: it stays right when the
/// table grows.
#[tokio::test]
async fn what_does_not_move_is_not_read() {
    let schema = Schema::new();
    let world = World::new(Box::new(schema.clone())).await;
    let workflow = world.workflow("w").await;
    let new = (0..DUE).map(|_| world.new_schedule(workflow, r#"{"name": "s", "interval": "5m"}"#));
    world.command(0, Command::CreateSchedules(new.collect())).await;
    // Each connection has plans of its own, and keeps them after some executions.
    for at in 1..=ROUNDS {
        world.settle(5 * at).await;
    }
    schema.execute(LATER).await;
    let before = schema.number(PROGRESS_READ).await;
    for at in ROUNDS + 1..=2 * ROUNDS {
        world.settle(5 * at).await;
    }
    drop(world);
    // Each occurrence is written when it begins and when it ends.
    let written = 2 * DUE * 2 * ROUNDS;
    let told = async {
        while schema.number(PROGRESS_WRITTEN).await < written {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), told).await.unwrap();
    let read = schema.number(PROGRESS_READ).await - before;
    // A scan of the whole table in each round would read more.
    assert!(read < 40_000 * ROUNDS, "{read} rows");
}
