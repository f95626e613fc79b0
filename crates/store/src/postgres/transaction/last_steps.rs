//! Records of the steps that a run ended with, kept in the run's own row. Most runs have one step
//! and end with it, so they write one row instead of two.

use std::collections::BTreeMap;

use engine::RunKey;
use engine::run::{Item, RunError, StepRecord, StepStatus};
use engine::turn::{ById, RunWrite, Writes};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio_postgres::Row;

use crate::failure::Failure;
use crate::postgres::rows::{get, narrow};
use crate::rows::{self, Column};
use crate::set_aside::if_readable;
use crate::stored::{json, ms};

/// Runs that end with more steps than this keep the records as rows of their own.
const MOST: usize = 8;

/// The step records that each run ended with.
pub(crate) type LastSteps<'a> = ById<RunKey, Vec<&'a StepRecord>>;

/// For each run that ends: the step records written in the same transaction, if none of the steps
/// was reached before.
pub(crate) fn of(writes: &Writes) -> LastSteps<'_> {
    let ended = writes.runs.iter().filter_map(|write| {
        let (RunWrite::Insert(run) | RunWrite::Update { after: run, .. }) = write;
        (run.status.has_ended() && run.state.jumps == 0).then_some(run.key)
    });
    let mut last: LastSteps<'_> = ended.map(|key| (key, Vec::new())).collect();
    for (key, record) in &writes.steps {
        let Some(records) = last.get_mut(key) else { continue };
        let is_same = |known: &&&StepRecord| (known.step, known.item) == (record.step, record.item);
        let is_known = records.iter().find(is_same).is_some();
        if is_known || record.attempts > 1 || records.len() == MOST {
            last.remove(key);
        } else {
            records.push(record);
        }
    }
    last.retain(|_, records| !records.is_empty());
    last
}

#[derive(Serialize)]
struct Written<'a>(
    u32,
    i32,
    i16,
    u32,
    i64,
    i64,
    // Empty or one element: an output that is null differs from no output.
    Option<[&'a RawValue; 1]>,
    Option<&'a RunError>,
    Option<&'a str>,
    bool,
);

#[derive(Deserialize)]
struct Read(
    u32,
    i32,
    u16,
    u32,
    i64,
    i64,
    Option<[Box<RawValue>; 1]>,
    Option<RunError>,
    Option<String>,
    bool,
);

/// The records as JSON text.
pub(crate) fn written(records: &[&StepRecord]) -> Result<String, Failure> {
    let written = |record: &&StepRecord| {
        json(&Written(
            record.step,
            record.item.number(),
            narrow(&StepStatus::ALL, record.status),
            record.attempts,
            ms(record.started_at),
            ms(record.ended_at),
            record.output.as_deref().map(|output| [output]),
            record.error.as_ref(),
            record.reason.as_deref(),
            record.overdue,
        ))
    };
    let written = records.iter().map(written).collect::<Result<Vec<_>, _>>()?;
    Ok(format!("[{}]", written.join(",")))
}

fn read(text: &str) -> Result<Vec<StepRecord>, Failure> {
    let damaged = |why: String| Column::new(0, "ended_runs.last_steps").damaged(why);
    let read: Vec<Read> = serde_json::from_str(text).map_err(|error| damaged(error.to_string()))?;
    let instant =
        |at: i64| Timestamp::from_millisecond(at).map_err(|error| damaged(error.to_string()));
    let record =
        |Read(step, item, status, attempts, started, ended, output, error, reason, late)| {
            let status = StepStatus::ALL.get(usize::from(status)).copied();
            Ok(StepRecord {
                step,
                item: Item::try_from(item).map_err(|unknown| damaged(unknown.to_string()))?,
                status: status.ok_or_else(|| damaged("an unknown status".to_owned()))?,
                attempts,
                started_at: instant(started)?,
                ended_at: instant(ended)?,
                output: output.map(|[output]| output),
                error,
                reason,
                overdue: late,
            })
        };
    read.into_iter().map(record).collect()
}

/// The steps the text has a record of; empty if it cannot be read.
pub(crate) fn recorded(text: &str) -> Vec<u32> {
    let records = read(text).unwrap_or_default().into_iter();
    records.filter(|record| record.item == Item::Whole).map(|record| record.step).collect()
}

/// The steps that a run ended with, beside those in `steps`.
pub(crate) const LAST_STEPS: &str =
    "SELECT last_steps FROM ended_runs WHERE key = $1 AND last_steps IS NOT NULL";

/// The records of both, in the order of steps.
pub(crate) fn all(steps: &[Row], last: &[Row]) -> Result<Vec<StepRecord>, Failure> {
    merged(steps.iter().map(rows::step), last.iter().map(of_row))
}

/// As [`all`], without those that cannot be read.
pub(crate) fn readable(steps: &[Row], last: &[Row]) -> Result<Vec<StepRecord>, Failure> {
    let steps = steps.iter().filter_map(|row| if_readable(rows::step(row)).transpose());
    merged(steps, last.iter().filter_map(|row| if_readable(of_row(row)).transpose()))
}

fn of_row(row: &Row) -> Result<Vec<StepRecord>, Failure> {
    read(get(row, Column::POSITIONS[0])?)
}

fn merged(
    steps: impl Iterator<Item = Result<StepRecord, Failure>>,
    last: impl Iterator<Item = Result<Vec<StepRecord>, Failure>>,
) -> Result<Vec<StepRecord>, Failure> {
    let keyed = |record: StepRecord| ((record.step, record.item), record);
    let mut records: BTreeMap<_, _> =
        steps.map(|record| record.map(keyed)).collect::<Result<_, Failure>>()?;
    // If a step has both, the record in the run's row is the later one.
    for last in last {
        records.extend(last?.into_iter().map(keyed));
    }
    Ok(records.into_values().collect())
}
