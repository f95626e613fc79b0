//! Conversion of rows into the engine's types.

use engine::incidents::{How, Incident, IncidentEnd};
use engine::ledger::{Entry, Outcome};
use engine::run::{
    AttemptRecord, Ending, Item, Parent, Run, RunError, RunStatus, StepRecord, StepStatus,
    TriggeredBy,
};
use engine::schedule::{Due, Progress, Schedule, Status};
use engine::turn::{Workflow, WorkflowStatus};
use engine::{IncidentKey, RunId, RunKey, ScheduleId, WorkflowId};
use jiff::{SignedDuration, Timestamp};
use language::definition::DeadlineEnd;
use rusqlite::Row;
use rusqlite::types::Type;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::stored::{Live, end_named};
pub(crate) use crate::stored::{code, ms};

type Read<T> = Result<T, rusqlite::Error>;

fn damaged(column: usize, kind: Type, what: impl ToString) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, kind, what.to_string().into())
}

pub(crate) fn instant(row: &Row<'_>, column: usize) -> Read<Timestamp> {
    let value = row.get(column)?;
    Timestamp::from_millisecond(value).map_err(|error| damaged(column, Type::Integer, error))
}

pub(crate) fn maybe_instant(row: &Row<'_>, column: usize) -> Read<Option<Timestamp>> {
    let value: Option<i64> = row.get(column)?;
    let instant = value.map(Timestamp::from_millisecond).transpose();
    instant.map_err(|error| damaged(column, Type::Integer, error))
}

pub(crate) fn coded<T: Copy>(row: &Row<'_>, column: usize, all: &[T]) -> Read<T> {
    let value: usize = row.get(column)?;
    all.get(value).copied().ok_or_else(|| damaged(column, Type::Integer, "unknown code"))
}

/// The part of a step with the number in this column.
pub(crate) fn item(row: &Row<'_>, column: usize) -> Read<Item> {
    Item::try_from(row.get::<_, i32>(column)?)
        .map_err(|unknown| damaged(column, Type::Integer, unknown))
}

pub(crate) fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Read<T> {
    let text = row.get_ref(column)?.as_str().map_err(|e| damaged(column, Type::Text, e))?;
    serde_json::from_str(text).map_err(|error| damaged(column, Type::Text, error))
}

pub(crate) fn maybe_json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Read<Option<T>> {
    match row.get_ref(column)? {
        rusqlite::types::ValueRef::Null => Ok(None),
        _ => json(row, column).map(Some),
    }
}

pub(crate) fn raw(row: &Row<'_>, column: usize) -> Read<Option<Box<RawValue>>> {
    let text: Option<String> = row.get(column)?;
    let raw = text.map(RawValue::from_string).transpose();
    raw.map_err(|error| damaged(column, Type::Text, error))
}

pub(crate) const SCHEDULE: &str = "s.id, s.workflow, s.trigger, s.status, s.declared, s.created_at, \
     s.updated_at, p.anchor, p.mark, p.next_nominal, p.next_effective, p.n, p.renewed_at, \
     p.current_repeat, p.current_retry, p.run_count, p.error_count, p.last_error, p.last_run_at, \
     p.last_outcome, p.live, p.has_overrides, p.recomputed_at, p.incident";
/// How many columns a schedule has.
pub(crate) const SCHEDULE_COLUMNS: usize = 24;

pub(crate) fn schedule(row: &Row<'_>) -> Read<Schedule> {
    Ok(Schedule {
        id: ScheduleId(row.get(0)?),
        workflow: WorkflowId(row.get(1)?),
        trigger: row.get(2)?,
        status: coded(row, 3, &Status::ALL)?,
        declared: json(row, 4)?,
        created_at: instant(row, 5)?,
        updated_at: instant(row, 6)?,
        progress: progress(row)?,
    })
}

fn progress(row: &Row<'_>) -> Read<Progress> {
    let (active, queued) = maybe_json::<Live>(row, 20)?.unwrap_or_default();
    let next = maybe_instant(row, 9)?.zip(maybe_instant(row, 10)?);
    let last_outcome: Option<usize> = row.get(19)?;
    Ok(Progress {
        anchor: instant(row, 7)?,
        mark: instant(row, 8)?,
        next: next.map(|(nominal, effective)| Due { nominal, effective }),
        n: row.get(11)?,
        current_repeat: row.get(13)?,
        current_retry: row.get(14)?,
        run_count: row.get(15)?,
        error_count: row.get(16)?,
        last_error: row.get(17)?,
        last_run_at: maybe_instant(row, 18)?,
        last_outcome: last_outcome.and_then(|code| Ending::ALL.get(code).copied()),
        active,
        queued,
        has_overrides: row.get(21)?,
        recomputed_at: maybe_instant(row, 22)?,
        incident: row.get::<_, Option<i64>>(23)?.map(IncidentKey),
        renewed_at: maybe_instant(row, 12)?,
    })
}

pub(crate) const RUN: &str = "r.key, r.uuid, r.workflow, r.version, r.schedule, r.n, r.retry, \
     r.triggered_by, r.by, r.nominal, r.effective, r.status, r.created_at, r.started_at, r.ended_at, \
     r.timeout, r.state, r.lacks_place, r.overdue, r.parent, r.parent_token, r.depth, r.input, \
     r.output, r.error, r.retry_of, r.handler, r.trace, r.root, r.hops";
/// How many columns a run has.
pub(crate) const RUN_COLUMNS: usize = 30;

pub(crate) fn run(row: &Row<'_>) -> Read<Run> {
    let schedule = row.get::<_, Option<i64>>(4)?.map(ScheduleId);
    let retry_of: Option<String> = row.get(25)?;
    let timeout: Option<i64> = row.get(15)?;
    let trace: Option<String> = row.get(27)?;
    Ok(Run {
        key: RunKey(row.get(0)?),
        id: run_id(row, schedule, [1, 5, 6])?,
        workflow: WorkflowId(row.get(2)?),
        version: row.get(3)?,
        handler: row.get(26)?,
        schedule,
        triggered_by: coded(row, 7, &TriggeredBy::ALL)?,
        by: row.get(8)?,
        nominal: maybe_instant(row, 9)?,
        effective: maybe_instant(row, 10)?,
        status: coded(row, 11, &RunStatus::ALL)?,
        created_at: instant(row, 12)?,
        started_at: maybe_instant(row, 13)?,
        ended_at: maybe_instant(row, 14)?,
        timeout: timeout.map(SignedDuration::from_millis),
        position: json(row, 16)?,
        lacks_place: row.get(17)?,
        overdue: row.get(18)?,
        parent: parent(row)?,
        input: raw(row, 22)?.unwrap_or_else(|| RawValue::NULL.to_owned()),
        output: raw(row, 23)?,
        error: maybe_json::<RunError>(row, 24)?,
        retry_of: retry_of.and_then(|id| id.parse().ok()),
        trace: trace.and_then(|trace| trace.parse().ok()),
    })
}

fn parent(row: &Row<'_>) -> Read<Option<Parent>> {
    let Some(run) = row.get::<_, Option<i64>>(19)?.map(RunKey) else { return Ok(None) };
    let (token, depth, hops) = (row.get(20)?, row.get(21)?, row.get(29)?);
    Ok(Some(Parent { run, token, depth, root: RunKey(row.get(28)?), hops }))
}

/// The id of a run, from the columns `uuid`, `n` and `retry` at these indexes.
pub(crate) fn run_id(
    row: &Row<'_>,
    schedule: Option<ScheduleId>,
    [uuid, n, retry]: [usize; 3],
) -> Read<RunId> {
    match (row.get::<_, Option<[u8; 16]>>(uuid)?, schedule, row.get::<_, Option<u64>>(n)?) {
        (Some(uuid), _, _) => Ok(RunId::Other(u128::from_be_bytes(uuid))),
        (None, Some(schedule), Some(n)) => {
            Ok(RunId::Occurrence { schedule, n, retry: row.get(retry)? })
        }
        _ => Err(damaged(uuid, Type::Null, "a run without an id")),
    }
}

/// How a deadline ended a run or step.
pub(crate) fn end(row: &Row<'_>, column: usize) -> Read<Option<DeadlineEnd>> {
    let name: Option<String> = row.get(column)?;
    let unknown = || damaged(column, Type::Text, "unknown end");
    name.map(|name| end_named(&name).ok_or_else(unknown)).transpose()
}

pub(crate) const LEDGER: &str = "l.schedule, l.n, l.count, l.nominal, l.last_nominal, l.effective, \
     l.decided_at, l.outcome, l.reason, l.run";

pub(crate) fn entry(row: &Row<'_>) -> Read<Entry> {
    Ok(Entry {
        schedule: ScheduleId(row.get(0)?),
        n: row.get(1)?,
        count: row.get(2)?,
        nominal: instant(row, 3)?,
        last_nominal: instant(row, 4)?,
        effective: instant(row, 5)?,
        decided_at: instant(row, 6)?,
        outcome: coded(row, 7, &Outcome::ALL)?,
        reason: row.get::<_, String>(8)?.into(),
        run: row.get::<_, Option<i64>>(9)?.map(RunKey),
    })
}

pub(crate) const WORKFLOW: &str = "w.id, w.name, w.status, w.paused, w.newest, w.live, \
     w.concurrency, w.active, w.retention, w.created_at, w.updated_at, w.paused_reason, \
     w.paused_by, w.handling, w.incident";

pub(crate) fn workflow(row: &Row<'_>) -> Read<Workflow> {
    Ok(Workflow {
        id: WorkflowId(row.get(0)?),
        name: row.get(1)?,
        status: coded(row, 2, &WorkflowStatus::ALL)?,
        paused: row.get(3)?,
        paused_reason: row.get(11)?,
        paused_by: row.get::<_, Option<i64>>(12)?.map(RunKey),
        handling: row.get::<_, Option<i64>>(13)?.map(RunKey),
        newest: row.get(4)?,
        live: row.get(5)?,
        concurrency: row.get(6)?,
        active: row.get(7)?,
        retention: row.get::<_, Option<i64>>(8)?.map(SignedDuration::from_millis),
        incident: row.get::<_, Option<i64>>(14)?.map(IncidentKey),
        created_at: instant(row, 9)?,
        updated_at: instant(row, 10)?,
    })
}

pub(crate) const INCIDENT: &str = "i.key, i.workflow, i.schedule, i.run, i.nominal, i.error, i.began_at, \
     i.told, i.ending, i.ended_at, i.ended_by, i.ended_told";
/// How many columns an incident has.
pub(crate) const INCIDENT_COLUMNS: usize = 12;

pub(crate) fn incident(row: &Row<'_>) -> Read<Incident> {
    let end = match maybe_instant(row, 9)? {
        None => None,
        Some(at) => Some(IncidentEnd {
            how: coded(row, 8, &How::ALL)?,
            at,
            run: row.get(10)?,
            told: maybe_json(row, 11)?.unwrap_or_default(),
        }),
    };
    Ok(Incident {
        key: IncidentKey(row.get(0)?),
        workflow: WorkflowId(row.get(1)?),
        schedule: row.get::<_, Option<i64>>(2)?.map(ScheduleId),
        run: row.get(3)?,
        nominal: maybe_instant(row, 4)?,
        error: row.get(5)?,
        began_at: instant(row, 6)?,
        told: json(row, 7)?,
        end,
    })
}

pub(crate) const ATTEMPT: &str = "step, item, attempt, status, started_at, ended_at, error";

pub(crate) fn attempt(row: &Row<'_>) -> Read<AttemptRecord> {
    Ok(AttemptRecord {
        step: row.get(0)?,
        item: item(row, 1)?,
        attempt: row.get(2)?,
        status: coded(row, 3, &StepStatus::ALL)?,
        started_at: instant(row, 4)?,
        ended_at: instant(row, 5)?,
        error: maybe_json(row, 6)?,
    })
}

pub(crate) const STEP: &str = "step, item, status, attempts, started_at, ended_at, output, error, \
     reason, overdue";

pub(crate) fn step(row: &Row<'_>) -> Read<StepRecord> {
    Ok(StepRecord {
        step: row.get(0)?,
        item: item(row, 1)?,
        status: coded(row, 2, &StepStatus::ALL)?,
        attempts: row.get(3)?,
        started_at: instant(row, 4)?,
        ended_at: instant(row, 5)?,
        output: raw(row, 6)?,
        error: maybe_json(row, 7)?,
        reason: row.get(8)?,
        overdue: row.get(9)?,
    })
}
