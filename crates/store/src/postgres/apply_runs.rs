//! The runs and steps of what a turn decided.

use std::collections::BTreeMap;

use engine::RunId;
use engine::run::{Position, Run, RunStatus, StepStatus, TriggeredBy};
use engine::turn::{RunWrite, Writes};

use super::apply::{column, plain, try_column};
use super::link::{Asked, Param, param};
use super::rows::narrow;
use crate::failure::Failure;
use crate::stored::{json, milliseconds, ms};

pub(super) fn runs(writes: &Writes, stamp: i64, all: &mut Vec<Asked>) -> Result<(), Failure> {
    let (mut new, mut changed, mut ended, mut left) = (vec![], vec![], vec![], vec![]);
    for write in &writes.runs {
        match write {
            RunWrite::Insert(run) if run.status.has_ended() => ended.push(&**run),
            RunWrite::Insert(run) => new.push(&**run),
            RunWrite::Update { after, .. } if after.status.has_ended() => {
                left.push(after.key.0);
                ended.push(&**after);
            }
            RunWrite::Update { after, .. } => changed.push(&**after),
        }
    }
    if !left.is_empty() {
        all.push(Asked::new("DELETE FROM open_runs WHERE key = ANY($1)", vec![param(left)]));
    }
    write_runs(OPEN, &new, stamp, all)?;
    write_runs(ENDED, &ended, stamp, all)?;
    write_runs(CHANGED, &changed, stamp, all)
}

macro_rules! insert_into {
    ($table:literal) => {
        concat!(
            "INSERT INTO ",
            $table,
            " (key, uuid, workflow, version, schedule, n, retry, triggered_by, by, nominal,
               effective, created_at, timeout, input, retry_of, parent, parent_token, depth, status,
               started_at, ended_at, state, owners, lacks_place, overdue, output, error, wake_at, handler, stamp)
             SELECT key, uuid, workflow, version, schedule, n, retry, triggered_by, by, nominal,
               effective, created_at, timeout, input, retry_of, parent, parent_token, depth, status,
               started_at, ended_at, state, owners::bigint[], lacks_place, overdue, output, error,
               wake_at, handler, $30::bigint
             FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::integer[], $5::bigint[],
               $6::bigint[], $7::integer[], $8::smallint[], $9::text[], $10::bigint[],
               $11::bigint[], $12::bigint[], $13::bigint[], $14::text[], $15::text[],
               $16::bigint[], $17::integer[], $18::smallint[], $19::smallint[], $20::bigint[],
               $21::bigint[], $22::text[], $23::text[], $24::boolean[], $25::boolean[],
               $26::text[], $27::text[], $28::bigint[], $29::text[])
             AS u (key, uuid, workflow, version, schedule, n, retry, triggered_by, by, nominal,
               effective, created_at, timeout, input, retry_of, parent, parent_token, depth, status,
               started_at, ended_at, state, owners, lacks_place, overdue, output, error, wake_at,
               handler)"
        )
    };
}

const OPEN: &str = insert_into!("open_runs");
const ENDED: &str = insert_into!("ended_runs");
/// Row by row by its key, whatever the planner believes: of a table that is empty most of the time it
/// believes that reading all of it for each row costs nothing. The rows are there, and locked.
const CHANGED: &str = concat!(
    insert_into!("open_runs"),
    " ON CONFLICT (key) DO UPDATE SET status = excluded.status, started_at = excluded.started_at,
        ended_at = excluded.ended_at, state = excluded.state, owners = excluded.owners,
        lacks_place = excluded.lacks_place, overdue = excluded.overdue, output = excluded.output,
        error = excluded.error, wake_at = excluded.wake_at, stamp = excluded.stamp"
);

fn write_runs(
    sql: &'static str,
    runs: &[&Run],
    stamp: i64,
    all: &mut Vec<Asked>,
) -> Result<(), Failure> {
    if runs.is_empty() {
        return Ok(());
    }
    let occurrence = |run: &Run| match run.id {
        RunId::Occurrence { n, retry, .. } => (None, Some(n.cast_signed()), retry.cast_signed()),
        RunId::Other(uuid) => (Some(uuid::Uuid::from_u128(uuid)), None, 0),
    };
    let mut params = vec![
        column(runs, |r| r.key.0),
        column(runs, |r| occurrence(r).0),
        column(runs, |r| r.workflow.0),
        column(runs, |r| r.version.cast_signed()),
        column(runs, |r| r.schedule.map(|id| id.0)),
        column(runs, |r| occurrence(r).1),
        column(runs, |r| occurrence(r).2),
        column(runs, |r| narrow(&TriggeredBy::ALL, r.triggered_by)),
        column(runs, |r| r.by.as_deref().map(plain)),
        column(runs, |r| r.nominal.map(ms)),
        column(runs, |r| r.effective.map(ms)),
        column(runs, |r| ms(r.created_at)),
        column(runs, |r| r.timeout.map(milliseconds)),
        column(runs, |r| r.input.get().to_owned()),
        column(runs, |r| r.retry_of.as_ref().map(ToString::to_string)),
        column(runs, |r| r.parent.map(|parent| parent.run.0)),
        column(runs, |r| r.parent.and_then(|parent| parent.token).map(u32::cast_signed)),
        column(runs, |r| r.parent.map(|parent| i16::from(parent.depth))),
    ];
    params.extend(position_columns(runs)?);
    params.extend([column(runs, |r| r.handler.clone()), param(stamp)]);
    all.push(Asked::new(sql, params));
    Ok(())
}

/// What changes of a run.
fn position_columns(runs: &[&Run]) -> Result<Vec<Param>, Failure> {
    Ok(vec![
        column(runs, |r| narrow(&RunStatus::ALL, r.status)),
        column(runs, |r| r.started_at.map(ms)),
        column(runs, |r| r.ended_at.map(ms)),
        try_column(runs, |r| json(&r.position))?,
        column(runs, |r| owners(&r.position)),
        column(runs, |r| r.lacks_place),
        column(runs, |r| r.overdue),
        column(runs, |r| r.output.as_ref().map(|output| output.get().to_owned())),
        try_column(runs, |r| r.error.as_ref().map(json).transpose())?,
        column(runs, |r| r.wake_at().map(ms)),
    ])
}

/// The nodes that perform something, as the database writes a list of numbers.
fn owners(position: &Position) -> Option<String> {
    let owners = position.owners();
    if owners.is_empty() {
        return None;
    }
    let ids: Vec<String> = owners.iter().map(ToString::to_string).collect();
    Some(format!("{{{}}}", ids.join(",")))
}

pub(super) fn steps(writes: &Writes, all: &mut Vec<Asked>) -> Result<(), Failure> {
    // A part that is written twice in one turn counts as it was last.
    let latest: BTreeMap<_, _> =
        writes.steps.iter().map(|(run, step)| ((run.0, step.step, step.item), step)).collect();
    if latest.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = latest.into_iter().collect();
    let sql = "INSERT INTO steps (run, step, item, status, attempts, started_at, ended_at, output,
                 error, reason, overdue)
               SELECT * FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::smallint[],
                 $5::integer[], $6::bigint[], $7::bigint[], $8::text[], $9::text[], $10::text[],
                 $11::boolean[])
               ON CONFLICT (run, step, item) DO UPDATE SET status = excluded.status,
                 attempts = excluded.attempts, started_at = excluded.started_at,
                 ended_at = excluded.ended_at, output = excluded.output, error = excluded.error,
                 reason = excluded.reason, overdue = excluded.overdue";
    let params = vec![
        column(&rows, |((run, _, _), _)| *run),
        column(&rows, |((_, step, _), _)| step.cast_signed()),
        column(&rows, |((_, _, item), _)| *item),
        column(&rows, |(_, s)| narrow(&StepStatus::ALL, s.status)),
        column(&rows, |(_, s)| s.attempts.cast_signed()),
        column(&rows, |(_, s)| ms(s.started_at)),
        column(&rows, |(_, s)| ms(s.ended_at)),
        column(&rows, |(_, s)| s.output.as_ref().map(|output| output.get().to_owned())),
        try_column(&rows, |(_, s)| s.error.as_ref().map(json).transpose())?,
        column(&rows, |(_, s)| s.reason.as_deref().map(plain)),
        column(&rows, |(_, s)| s.overdue),
    ];
    all.push(Asked::new(sql, params));
    Ok(())
}
