//! Conversion of rows into the engine's types.

use engine::incidents::{How, Incident, IncidentEnd};
use engine::ledger::{Entry, Outcome};
use engine::run::{
    AttemptRecord, Ending, Parent, Run, RunError, RunStatus, StepRecord, StepStatus, TriggeredBy,
};
use engine::schedule::{Due, Progress, Schedule, Status};
use engine::turn::{Workflow, WorkflowStatus};
use engine::{IncidentKey, RunId, RunKey, ScheduleId, WorkflowId};
use jiff::{SignedDuration, Timestamp};
use language::definition::DeadlineEnd;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::failure::Failure;
use crate::stored::{Live, code, end_named};

type Read<T> = Result<T, Failure>;

pub(crate) fn damaged(column: usize, what: impl std::fmt::Display) -> Failure {
    Failure::Undecidable { what: None, why: format!("column {column}: {what}") }
}

pub(crate) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Read<T> {
    row.try_get(column).map_err(|error| damaged(column, error))
}

/// A number that is never negative.
pub(crate) fn natural<T: TryFrom<i64>>(row: &Row, column: usize) -> Read<T> {
    let value: i64 = get(row, column)?;
    T::try_from(value).map_err(|_| damaged(column, value))
}

/// As [`natural`], for an integer column.
pub(crate) fn small<T: TryFrom<i32>>(row: &Row, column: usize) -> Read<T> {
    let value: i32 = get(row, column)?;
    T::try_from(value).map_err(|_| damaged(column, value))
}

pub(crate) fn instant(row: &Row, column: usize) -> Read<Timestamp> {
    Timestamp::from_millisecond(get(row, column)?).map_err(|error| damaged(column, error))
}

pub(crate) fn maybe_instant(row: &Row, column: usize) -> Read<Option<Timestamp>> {
    let value: Option<i64> = get(row, column)?;
    let instant = value.map(Timestamp::from_millisecond).transpose();
    instant.map_err(|error| damaged(column, error))
}

pub(crate) fn coded<T: Copy>(row: &Row, column: usize, all: &[T]) -> Read<T> {
    let value: i16 = get(row, column)?;
    let known = usize::try_from(value).ok().and_then(|place| all.get(place));
    known.copied().ok_or_else(|| damaged(column, "unknown code"))
}

/// The number stored for a member of a fixed set.
pub(crate) fn narrow<T: PartialEq + Copy>(all: &[T], value: T) -> i16 {
    i16::try_from(code(all, value)).unwrap_or(-1)
}

pub(crate) fn json<T: DeserializeOwned>(row: &Row, column: usize) -> Read<T> {
    serde_json::from_str(get(row, column)?).map_err(|error| damaged(column, error))
}

pub(crate) fn maybe_json<T: DeserializeOwned>(row: &Row, column: usize) -> Read<Option<T>> {
    let text: Option<&str> = get(row, column)?;
    text.map(serde_json::from_str).transpose().map_err(|error| damaged(column, error))
}

pub(crate) fn raw(row: &Row, column: usize) -> Read<Option<Box<RawValue>>> {
    let text: Option<String> = get(row, column)?;
    text.map(RawValue::from_string).transpose().map_err(|error| damaged(column, error))
}

/// How many columns a schedule has.
pub(crate) const SCHEDULE_COLUMNS: usize = 24;

pub(crate) fn schedule(row: &Row) -> Read<Schedule> {
    Ok(Schedule {
        id: ScheduleId(get(row, 0)?),
        workflow: WorkflowId(get(row, 1)?),
        trigger: get(row, 2)?,
        status: coded(row, 3, &Status::ALL)?,
        declared: json(row, 4)?,
        created_at: instant(row, 5)?,
        updated_at: instant(row, 6)?,
        progress: progress(row)?,
    })
}

fn progress(row: &Row) -> Read<Progress> {
    let (active, queued) = maybe_json::<Live>(row, 20)?.unwrap_or_default();
    let next = maybe_instant(row, 9)?.zip(maybe_instant(row, 10)?);
    let last_outcome: Option<i16> = get(row, 19)?;
    Ok(Progress {
        anchor: instant(row, 7)?,
        mark: instant(row, 8)?,
        next: next.map(|(nominal, effective)| Due { nominal, effective }),
        n: natural(row, 11)?,
        current_repeat: natural(row, 13)?,
        current_retry: small(row, 14)?,
        run_count: natural(row, 15)?,
        error_count: natural(row, 16)?,
        last_error: get(row, 17)?,
        last_run_at: maybe_instant(row, 18)?,
        last_outcome: last_outcome.and_then(|code| Ending::ALL.get(code as usize).copied()),
        active,
        queued,
        has_overrides: get(row, 21)?,
        recomputed_at: maybe_instant(row, 22)?,
        incident: get::<Option<i64>>(row, 23)?.map(IncidentKey),
        renewed_at: maybe_instant(row, 12)?,
    })
}

/// How many columns a run has.
pub(crate) const RUN_COLUMNS: usize = 30;

pub(crate) fn run(row: &Row) -> Read<Run> {
    let schedule = get::<Option<i64>>(row, 4)?.map(ScheduleId);
    let retry_of: Option<&str> = get(row, 25)?;
    let timeout: Option<i64> = get(row, 15)?;
    let trace: Option<&str> = get(row, 27)?;
    Ok(Run {
        key: RunKey(get(row, 0)?),
        id: run_id(row, schedule, [1, 5, 6])?,
        workflow: WorkflowId(get(row, 2)?),
        version: small(row, 3)?,
        handler: get(row, 26)?,
        schedule,
        triggered_by: coded(row, 7, &TriggeredBy::ALL)?,
        by: get(row, 8)?,
        nominal: maybe_instant(row, 9)?,
        effective: maybe_instant(row, 10)?,
        status: coded(row, 11, &RunStatus::ALL)?,
        created_at: instant(row, 12)?,
        started_at: maybe_instant(row, 13)?,
        ended_at: maybe_instant(row, 14)?,
        timeout: timeout.map(SignedDuration::from_millis),
        position: json(row, 16)?,
        lacks_place: get(row, 17)?,
        overdue: get(row, 18)?,
        parent: parent(row)?,
        input: raw(row, 22)?.unwrap_or_else(|| RawValue::NULL.to_owned()),
        output: raw(row, 23)?,
        error: maybe_json::<RunError>(row, 24)?,
        retry_of: retry_of.and_then(|id| id.parse().ok()),
        trace: trace.and_then(|trace| trace.parse().ok()),
    })
}

fn parent(row: &Row) -> Read<Option<Parent>> {
    let Some(run) = get::<Option<i64>>(row, 19)?.map(RunKey) else { return Ok(None) };
    let token: Option<i32> = get(row, 20)?;
    let depth: i16 = get(row, 21)?;
    let depth = u8::try_from(depth).map_err(|error| damaged(21, error))?;
    let (token, root) = (token.map(i32::cast_unsigned), RunKey(get(row, 28)?));
    let hops: i16 = get(row, 29)?;
    let hops = u8::try_from(hops).map_err(|error| damaged(29, error))?;
    Ok(Some(Parent { run, token, depth, root, hops }))
}

/// The id of a run, from the columns `uuid`, `n` and `retry` at these indexes.
pub(crate) fn run_id(
    row: &Row,
    schedule: Option<ScheduleId>,
    [uuid, n, retry]: [usize; 3],
) -> Read<RunId> {
    match (get::<Option<uuid::Uuid>>(row, uuid)?, schedule, get::<Option<i64>>(row, n)?) {
        (Some(uuid), _, _) => Ok(RunId::Other(uuid.as_u128())),
        (None, Some(schedule), Some(number)) => {
            let n = u64::try_from(number).map_err(|error| damaged(n, error))?;
            Ok(RunId::Occurrence { schedule, n, retry: small(row, retry)? })
        }
        _ => Err(damaged(uuid, "a run without an id")),
    }
}

/// How a deadline ended a run or step.
pub(crate) fn end(row: &Row, column: usize) -> Read<Option<DeadlineEnd>> {
    let name: Option<&str> = get(row, column)?;
    name.map(|name| end_named(name).ok_or_else(|| damaged(column, "unknown end"))).transpose()
}

/// How many columns a ledger row has.
pub(crate) const LEDGER_COLUMNS: usize = 10;

pub(crate) fn entry(row: &Row) -> Read<Entry> {
    Ok(Entry {
        schedule: ScheduleId(get(row, 0)?),
        n: natural(row, 1)?,
        count: natural(row, 2)?,
        nominal: instant(row, 3)?,
        last_nominal: instant(row, 4)?,
        effective: instant(row, 5)?,
        decided_at: instant(row, 6)?,
        outcome: coded(row, 7, &Outcome::ALL)?,
        reason: get::<String>(row, 8)?.into(),
        run: get::<Option<i64>>(row, 9)?.map(RunKey),
    })
}

/// How many columns a workflow has.
pub(crate) const WORKFLOW_COLUMNS: usize = 15;

pub(crate) fn workflow(row: &Row) -> Read<Workflow> {
    let number = |column| -> Read<Option<u32>> {
        let value: Option<i32> = get(row, column)?;
        value.map(u32::try_from).transpose().map_err(|error| damaged(column, error))
    };
    Ok(Workflow {
        id: WorkflowId(get(row, 0)?),
        name: get(row, 1)?,
        status: coded(row, 2, &WorkflowStatus::ALL)?,
        paused: get(row, 3)?,
        paused_reason: get(row, 11)?,
        paused_by: get::<Option<i64>>(row, 12)?.map(RunKey),
        handling: get::<Option<i64>>(row, 13)?.map(RunKey),
        newest: small(row, 4)?,
        live: number(5)?,
        concurrency: number(6)?,
        active: small(row, 7)?,
        retention: get::<Option<i64>>(row, 8)?.map(SignedDuration::from_millis),
        incident: get::<Option<i64>>(row, 14)?.map(IncidentKey),
        created_at: instant(row, 9)?,
        updated_at: instant(row, 10)?,
    })
}

/// How many columns an incident has.
pub(crate) const INCIDENT_COLUMNS: usize = 12;

pub(crate) fn incident(row: &Row) -> Read<Incident> {
    let end = match maybe_instant(row, 9)? {
        None => None,
        Some(at) => Some(IncidentEnd {
            how: coded(row, 8, &How::ALL)?,
            at,
            run: get(row, 10)?,
            told: maybe_json(row, 11)?.unwrap_or_default(),
        }),
    };
    Ok(Incident {
        key: IncidentKey(get(row, 0)?),
        workflow: WorkflowId(get(row, 1)?),
        schedule: get::<Option<i64>>(row, 2)?.map(ScheduleId),
        run: get(row, 3)?,
        nominal: maybe_instant(row, 4)?,
        error: get(row, 5)?,
        began_at: instant(row, 6)?,
        told: json(row, 7)?,
        end,
    })
}

pub(crate) fn attempt(row: &Row) -> Read<AttemptRecord> {
    Ok(AttemptRecord {
        step: small(row, 0)?,
        item: small(row, 1)?,
        attempt: small(row, 2)?,
        status: coded(row, 3, &StepStatus::ALL)?,
        started_at: instant(row, 4)?,
        ended_at: instant(row, 5)?,
        error: maybe_json(row, 6)?,
    })
}

pub(crate) fn step(row: &Row) -> Read<StepRecord> {
    Ok(StepRecord {
        step: small(row, 0)?,
        item: small(row, 1)?,
        status: coded(row, 2, &StepStatus::ALL)?,
        attempts: small(row, 3)?,
        started_at: instant(row, 4)?,
        ended_at: instant(row, 5)?,
        output: raw(row, 6)?,
        error: maybe_json(row, 7)?,
        reason: get(row, 8)?,
        overdue: get(row, 9)?,
    })
}
