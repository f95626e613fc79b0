//! Runs, their steps and earlier attempts.

use engine::run::{AttemptRecord, Parent, Part, Run, StepRecord};
use engine::{RunId, RunKey, ScheduleId};

use crate::rows::{Column, Read, Row, columns};

columns! {
    run_columns = r runs: key, uuid, workflow, version, schedule, n, retry, triggered_by, by,
        nominal, effective, status, created_at, started_at, ended_at, timeout, state,
        waits_for_slot, overdue, parent, parent_token, depth, input, output, error, retry_of,
        handler, trace, root, hops;
}

/// The id of a run, even if the rest of its row cannot be read.
pub(crate) fn run_id(row: &impl Row) -> Read<RunId> {
    use run_columns as column;
    let [key, schedule, uuid] = [column::key, column::schedule, column::uuid];
    RunIdColumns { key, schedule, uuid, n: column::n, retry: column::retry }.read(row)
}

pub(crate) fn run(row: &impl Row) -> Read<Run> {
    use run_columns as column;
    Ok(Run {
        key: row.read(column::key)?,
        id: run_id(row)?,
        workflow: row.read(column::workflow)?,
        version: row.read(column::version)?,
        handler: row.read(column::handler)?,
        schedule: row.read(column::schedule)?,
        triggered_by: row.read(column::triggered_by)?,
        by: row.read(column::by)?,
        nominal: row.read(column::nominal)?,
        effective: row.read(column::effective)?,
        status: row.read(column::status)?,
        created_at: row.read(column::created_at)?,
        started_at: row.read(column::started_at)?,
        ended_at: row.read(column::ended_at)?,
        timeout: row.read(column::timeout)?,
        state: row.json(column::state)?,
        waits_for_slot: row.read(column::waits_for_slot)?,
        overdue: row.read(column::overdue)?,
        parent: parent(row)?,
        input: row.read(column::input)?,
        output: row.read(column::output)?,
        error: row.maybe_json(column::error)?,
        retry_of: row.maybe_text(column::retry_of)?.and_then(|id| id.parse().ok()),
        trace: row.maybe_text(column::trace)?.and_then(|trace| trace.parse().ok()),
    })
}

fn parent(row: &impl Row) -> Read<Option<Parent>> {
    use run_columns as column;
    let Some(run) = row.read::<Option<RunKey>>(column::parent)? else { return Ok(None) };
    let token: Option<i64> = row.read(column::parent_token)?;
    Ok(Some(Parent {
        run,
        // PostgreSQL stores the token's 32 bits with a sign.
        token: token.map(|token| token as u32),
        depth: row.read(column::depth)?,
        root: row.read(column::root)?,
        hops: row.read(column::hops)?,
    }))
}

columns! {
    run_id_columns = r runs: key, schedule, uuid, n, retry;
}

/// The columns that make a run's id.
#[derive(Clone, Copy)]
pub(crate) struct RunIdColumns {
    key: Column,
    schedule: Column,
    uuid: Column,
    n: Column,
    retry: Column,
}

impl RunIdColumns {
    /// The columns of `run_id_columns!`, of which this is the first.
    pub(crate) const fn from(key: Column) -> RunIdColumns {
        RunIdColumns {
            key,
            schedule: Column::new(key.index + 1, "runs.schedule"),
            uuid: Column::new(key.index + 2, "runs.uuid"),
            n: Column::new(key.index + 3, "runs.n"),
            retry: Column::new(key.index + 4, "runs.retry"),
        }
    }

    /// The id of a run that may not be there, because its row was joined to another one.
    pub(crate) fn maybe(self, row: &impl Row) -> Read<Option<RunId>> {
        match row.read::<Option<RunKey>>(self.key)? {
            None => Ok(None),
            Some(_) => self.read(row).map(Some),
        }
    }

    #[inline]
    pub(crate) fn read(self, row: &impl Row) -> Read<RunId> {
        if let Some(uuid) = row.maybe_uuid(self.uuid)? {
            return Ok(RunId::Other(uuid));
        }
        let schedule: Option<ScheduleId> = row.read(self.schedule)?;
        match (schedule, row.read(self.n)?) {
            (Some(schedule), Some(n)) => {
                Ok(RunId::Occurrence { schedule, n, retry: row.read(self.retry)? })
            }
            _ => Err(self.uuid.damaged("a run without an id")),
        }
    }
}

columns! {
    attempt_columns = a attempts: step, item, attempt, status, started_at, ended_at, error;
}

pub(crate) fn attempt(row: &impl Row) -> Read<AttemptRecord> {
    use attempt_columns as column;
    Ok(AttemptRecord {
        step: row.read(column::step)?,
        item: row.read(column::item)?,
        attempt: row.read(column::attempt)?,
        status: row.read(column::status)?,
        started_at: row.read(column::started_at)?,
        ended_at: row.read(column::ended_at)?,
        error: row.maybe_json(column::error)?,
    })
}

columns! {
    step_columns = t steps: step, item, status, attempts, started_at, ended_at, output, error,
        reason, overdue;
}

pub(crate) fn step(row: &impl Row) -> Read<StepRecord> {
    use step_columns as column;
    Ok(StepRecord {
        step: row.read(column::step)?,
        item: row.read(column::item)?,
        status: row.read(column::status)?,
        attempts: row.read(column::attempts)?,
        started_at: row.read(column::started_at)?,
        ended_at: row.read(column::ended_at)?,
        output: row.read(column::output)?,
        error: row.maybe_json(column::error)?,
        reason: row.read(column::reason)?,
        overdue: row.read(column::overdue)?,
    })
}

/// A part of a run, from the columns `run`, `step` and `item`.
pub(crate) fn run_part(row: &impl Row) -> Read<(RunKey, Part)> {
    let (run, step, item) = row.tuple()?;
    Ok((run, Part { step, item }))
}
