//! Writes the runs, steps and attempts that a turn decided.

use std::collections::{BTreeMap, HashSet};

use engine::RunId;
use engine::run::{Run, RunState, RunStatus, StepRecord, StepStatus, TriggeredBy};
use engine::turn::{RunWrite, Writes};
use tokio_postgres::types::Type;

use crate::failure::Failure;
use crate::postgres::connections::tx_connection::{Query, param};
use crate::postgres::rows::narrow;
use crate::postgres::transaction::apply::{Before, column, plain};
use crate::postgres::transaction::bulk_insert::{BulkInsert, Numbers, Table};
use crate::postgres::transaction::last_steps::{self, LastSteps};
use crate::stored::{json, milliseconds, ms};

/// Removes runs that were not locked. Fails, by dividing by zero, if a stamp shows that someone
/// else has written one of them, so that nothing is written.
const LEFT: &str = "WITH gone AS (
       DELETE FROM open_runs WHERE key = ANY($1) RETURNING key, stamp)
     SELECT 1 / (coalesce(array_agg(stamp ORDER BY key), '{}') = $2)::integer FROM gone";
/// As [`LEFT`], but only locks the runs. A run locked by someone else is not waited for, and makes
/// the statement fail.
const STILL_SO: &str = "WITH same AS (
       SELECT key, stamp FROM open_runs WHERE key = ANY($1) ORDER BY key FOR UPDATE SKIP LOCKED)
     SELECT 1 / (coalesce(array_agg(stamp ORDER BY key), '{}') = $2)::integer FROM same";

/// The statement for these runs with the stamps they must still carry; `None` if there are no runs.
fn guard(sql: &'static str, mut runs: Vec<(i64, i64)>) -> Option<Query> {
    runs.sort_unstable();
    let params = || vec![column(&runs, |run| run.0), column(&runs, |run| run.1)];
    (!runs.is_empty()).then(|| Query::new(sql, params()))
}

pub(crate) fn runs(
    writes: &Writes,
    stamp: i64,
    before: Before<'_>,
    last_steps: &LastSteps<'_>,
    all: &mut Vec<Query>,
) -> Result<(), Failure> {
    let (mut new, mut changed, mut ended, mut left) = (vec![], vec![], vec![], vec![]);
    let (mut left_unlocked, mut changed_unlocked) = (vec![], vec![]);
    for write in &writes.runs {
        match write {
            RunWrite::Insert(run) if run.status.has_ended() => ended.push(&**run),
            RunWrite::Insert(run) => new.push(&**run),
            RunWrite::Update { after, .. } if after.status.has_ended() => {
                match before.unlocked.get(&after.key) {
                    Some(stamp) => left_unlocked.push((after.key.0, *stamp)),
                    None => left.push(after.key.0),
                }
                ended.push(&**after);
            }
            RunWrite::Update { after, .. } => {
                let known = before.unlocked.get(&after.key);
                changed_unlocked.extend(known.map(|stamp| (after.key.0, *stamp)));
                changed.push(&**after);
            }
        }
    }
    if before.must_not_wait {
        all.extend(guard(STILL_SO, left_unlocked.clone()));
    }
    all.extend(guard(LEFT, left_unlocked));
    all.extend(guard(STILL_SO, changed_unlocked));
    if !left.is_empty() {
        all.push(Query::new("DELETE FROM open_runs WHERE key = ANY($1)", vec![param(left)]));
    }
    let none = LastSteps::default();
    write_runs(&new, stamp, &none, BulkInsert::new_rows(&OPEN, new.len(), false), all)?;
    let rows = BulkInsert::new_rows(&ENDED, ended.len(), false);
    write_runs(&ended, stamp, last_steps, rows, all)?;
    write_runs(&changed, stamp, &none, BulkInsert::arrays(CHANGED, &TYPES), all)
}

macro_rules! columns {
    () => {
        "key, uuid, workflow, version, schedule, n, retry, triggered_by, by, nominal, effective,
         created_at, timeout, input, retry_of, parent, parent_token, depth, status, started_at,
         ended_at, state, owners, waits_for_slot, overdue, output, error, wake_at, handler, trace,
         root, hops, stamp, last_steps"
    };
}

macro_rules! insert_into {
    ($table:literal) => {
        concat!(
            "INSERT INTO ",
            $table,
            " (",
            columns!(),
            ") SELECT key, uuid, workflow, version, schedule, n, retry, triggered_by, by, nominal,
               effective, created_at, timeout, input, retry_of, parent, parent_token, depth, status,
               started_at, ended_at, state, owners::bigint[], waits_for_slot, overdue, output, error,
               wake_at, handler, trace, root, hops, stamp, last_steps
             FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::integer[], $5::bigint[],
               $6::bigint[], $7::integer[], $8::smallint[], $9::text[], $10::bigint[],
               $11::bigint[], $12::bigint[], $13::bigint[], $14::text[], $15::text[],
               $16::bigint[], $17::integer[], $18::smallint[], $19::smallint[], $20::bigint[],
               $21::bigint[], $22::text[], $23::text[], $24::boolean[], $25::boolean[],
               $26::text[], $27::text[], $28::bigint[], $29::text[], $30::text[],
               $31::bigint[], $32::smallint[], $33::bigint[], $34::text[])
             AS u (",
            columns!(),
            ")"
        )
    };
}

macro_rules! copy_into {
    ($table:literal) => {
        concat!("COPY ", $table, " (", columns!(), ") FROM STDIN (FORMAT binary)")
    };
}

static TYPES: [Type; 34] = [
    Type::INT8,
    Type::UUID,
    Type::INT8,
    Type::INT4,
    Type::INT8,
    Type::INT8,
    Type::INT4,
    Type::INT2,
    Type::TEXT,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::TEXT,
    Type::TEXT,
    Type::INT8,
    Type::INT4,
    Type::INT2,
    Type::INT2,
    Type::INT8,
    Type::INT8,
    Type::TEXT,
    Type::INT8_ARRAY,
    Type::BOOL,
    Type::BOOL,
    Type::TEXT,
    Type::TEXT,
    Type::INT8,
    Type::TEXT,
    Type::TEXT,
    Type::INT8,
    Type::INT2,
    Type::INT8,
    Type::TEXT,
];
static OPEN: Table =
    Table { types: &TYPES, insert: insert_into!("open_runs"), copy: copy_into!("open_runs") };
static ENDED: Table =
    Table { types: &TYPES, insert: insert_into!("ended_runs"), copy: copy_into!("ended_runs") };
/// An upsert, so that PostgreSQL finds each row by its key. The table is empty most of the time, so
/// the planner would estimate that a full scan for each row costs nothing. The rows exist and are
/// locked.
const CHANGED: &str = concat!(
    insert_into!("open_runs"),
    " ON CONFLICT (key) DO UPDATE SET status = excluded.status, started_at = excluded.started_at,
        ended_at = excluded.ended_at, state = excluded.state, owners = excluded.owners,
        waits_for_slot = excluded.waits_for_slot, overdue = excluded.overdue, output = excluded.output,
        error = excluded.error, wake_at = excluded.wake_at, stamp = excluded.stamp"
);

/// Writes all of these runs into `rows`.
fn write_runs(
    runs: &[&Run],
    stamp: i64,
    last_steps: &LastSteps<'_>,
    mut rows: BulkInsert,
    all: &mut Vec<Query>,
) -> Result<(), Failure> {
    if runs.is_empty() {
        return Ok(());
    }
    for run in runs {
        put_run(run, stamp, &mut rows)?;
        let last_steps = last_steps.get(&run.key).map(|records| last_steps::written(records));
        rows.put(last_steps.transpose()?)?;
    }
    all.push(rows.queries());
    Ok(())
}

fn put_run(run: &Run, stamp: i64, row: &mut BulkInsert) -> Result<(), Failure> {
    let (uuid, n, retry) = match run.id {
        RunId::Occurrence { n, retry, .. } => (None, Some(n.cast_signed()), retry.cast_signed()),
        RunId::Other(uuid) => (Some(uuid::Uuid::from_u128(uuid)), None, 0),
    };
    row.put(run.key.0)?;
    row.put(uuid)?;
    row.put(run.workflow.0)?;
    row.put(run.version.cast_signed())?;
    row.put(run.schedule.map(|id| id.0))?;
    row.put(n)?;
    row.put(retry)?;
    row.put(narrow(&TriggeredBy::ALL, run.triggered_by))?;
    row.put(run.by.as_deref().map(plain))?;
    row.put(run.nominal.map(ms))?;
    row.put(run.effective.map(ms))?;
    row.put(ms(run.created_at))?;
    row.put(run.timeout.map(milliseconds))?;
    row.put(run.input.get())?;
    row.put(run.retry_of.as_ref().map(ToString::to_string))?;
    row.put(run.parent.map(|parent| parent.run.0))?;
    row.put(run.parent.and_then(|parent| parent.token).map(u32::cast_signed))?;
    row.put(run.parent.map(|parent| i16::from(parent.depth)))?;
    put_position(run, row)?;
    row.put(run.handler.as_deref())?;
    row.put(run.trace.map(|trace| trace.to_string()))?;
    row.put(run.parent.map(|parent| parent.root.0))?;
    row.put(run.parent.map(|parent| i16::from(parent.hops)))?;
    row.put(stamp)
}

/// Adds the columns that change during a run.
fn put_position(run: &Run, row: &mut BulkInsert) -> Result<(), Failure> {
    row.put(narrow(&RunStatus::ALL, run.status))?;
    row.put(run.started_at.map(ms))?;
    row.put(run.ended_at.map(ms))?;
    row.put(json(&run.state)?)?;
    row.put(owners(&run.state))?;
    row.put(run.waits_for_slot)?;
    row.put(run.overdue)?;
    row.put(run.output.as_ref().map(|output| output.get()))?;
    row.put(run.error.as_ref().map(json).transpose()?)?;
    row.put(run.wake_at().map(ms))
}

/// The nodes that perform attempts of the run.
fn owners(position: &RunState) -> Option<Numbers> {
    let owners = position.owners();
    (!owners.is_empty()).then(|| Numbers(owners.iter().map(|node| node.0).collect()))
}

static STEPS: Table = Table {
    types: &[
        Type::INT8,
        Type::INT4,
        Type::INT4,
        Type::INT2,
        Type::INT4,
        Type::INT8,
        Type::INT8,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::BOOL,
    ],
    insert: "INSERT INTO steps (run, step, item, status, attempts, started_at, ended_at, output,
               error, reason, overdue)
             SELECT * FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::smallint[],
               $5::integer[], $6::bigint[], $7::bigint[], $8::text[], $9::text[], $10::text[],
               $11::boolean[])
             ON CONFLICT (run, step, item) DO UPDATE SET status = excluded.status,
               attempts = excluded.attempts, started_at = excluded.started_at,
               ended_at = excluded.ended_at, output = excluded.output, error = excluded.error,
               reason = excluded.reason, overdue = excluded.overdue",
    copy: "COPY steps (run, step, item, status, attempts, started_at, ended_at, output, error,
             reason, overdue) FROM STDIN (FORMAT binary)",
};

pub(crate) fn steps(
    writes: &Writes,
    last_steps: &LastSteps<'_>,
    may_be_there: bool,
    all: &mut Vec<Query>,
) -> Result<(), Failure> {
    // If a turn writes a part twice, the last version counts.
    let latest: BTreeMap<_, _> = writes
        .steps
        .iter()
        .filter(|(run, _)| !last_steps.contains_key(run))
        .map(|(run, step)| ((run.0, step.step, step.item), step))
        .collect();
    // Only a later attempt, or a run that jumped back, writes a step a second time.
    let returned: HashSet<i64> = writes
        .runs
        .iter()
        .map(|write| match write {
            RunWrite::Insert(run) | RunWrite::Update { after: run, .. } => run,
        })
        .filter(|run| run.state.jumps > 0)
        .map(|run| run.key.0)
        .collect();
    let (again, new): (Vec<_>, Vec<_>) =
        latest.into_iter().partition(|((run, _, _), r)| r.attempts > 1 || returned.contains(run));
    for (rows, may_be_there) in [(new, may_be_there), (again, true)] {
        if rows.is_empty() {
            continue;
        }
        let mut out = BulkInsert::new_rows(&STEPS, rows.len(), may_be_there);
        for ((run, step, item), record) in rows {
            out.put(run)?;
            out.put(step.cast_signed())?;
            out.put(item.number())?;
            put_record(record, &mut out)?;
        }
        all.push(out.queries());
    }
    Ok(())
}

static ATTEMPTS: &[Type] = &[
    Type::INT8,
    Type::INT4,
    Type::INT4,
    Type::INT8,
    Type::INT4,
    Type::INT2,
    Type::INT8,
    Type::TEXT,
];
const INSERT_ATTEMPTS: &str = "INSERT INTO attempts
       (run, step, item, started_at, attempt, status, ended_at, error)
     SELECT * FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::bigint[], $5::integer[],
       $6::smallint[], $7::bigint[], $8::text[])
     ON CONFLICT DO NOTHING";

pub(crate) fn attempts(writes: &Writes, all: &mut Vec<Query>) -> Result<(), Failure> {
    if writes.attempts.is_empty() {
        return Ok(());
    }
    let mut out = BulkInsert::arrays(INSERT_ATTEMPTS, ATTEMPTS);
    for (run, attempt) in &writes.attempts {
        out.put(run.0)?;
        out.put(attempt.step.cast_signed())?;
        out.put(attempt.item.number())?;
        out.put(ms(attempt.started_at))?;
        out.put(attempt.attempt.cast_signed())?;
        out.put(narrow(&StepStatus::ALL, attempt.status))?;
        out.put(ms(attempt.ended_at))?;
        out.put(attempt.error.as_ref().map(json).transpose()?)?;
    }
    all.push(out.queries());
    Ok(())
}

fn put_record(record: &StepRecord, row: &mut BulkInsert) -> Result<(), Failure> {
    row.put(narrow(&StepStatus::ALL, record.status))?;
    row.put(record.attempts.cast_signed())?;
    row.put(ms(record.started_at))?;
    row.put(ms(record.ended_at))?;
    row.put(record.output.as_ref().map(|output| output.get()))?;
    row.put(record.error.as_ref().map(json).transpose()?)?;
    row.put(record.reason.as_deref().map(plain))?;
    row.put(record.overdue)
}
