//! Schedules, their progress and their ledger.

use engine::ScheduleId;
use engine::ledger::Entry;
use engine::run::Ending;
use engine::schedule::{Due, LastPlan, Override, Progress, Schedule};
use language::definition::DeclaredBy;
use language::schedule::Declared;

use jiff::Timestamp;
use serde::Deserialize;

use crate::rows::{Column, Read, Row, columns};
use crate::set_aside::if_readable;
use crate::stored::Live;

columns! {
    /// What was declared, and how far the schedule has come.
    schedule_columns =
        s schedules: id, workflow, trigger, status, declared, created_at, updated_at;
        p progress: anchor, mark, next_nominal, next_effective, n, renewed_at, current_repeat,
            current_retry, run_count, error_count, last_error, last_run_at, last_outcome, live,
            has_overrides, recomputed_at, incident;
}

pub(crate) fn schedule(row: &impl Row) -> Read<Schedule> {
    use schedule_columns as column;
    Ok(Schedule {
        id: row.read(column::id)?,
        workflow: row.read(column::workflow)?,
        declared_by: row.read::<Option<String>>(column::trigger)?.map(DeclaredBy::from),
        status: row.read(column::status)?,
        declared: Box::new(declared(row, column::declared)?),
        created_at: row.read(column::created_at)?,
        updated_at: row.read(column::updated_at)?,
        progress: progress(row)?,
        last_plan: LastPlan::default(),
    })
}

fn declared(row: &impl Row, column: Column) -> Read<Declared> {
    let text = row.maybe_text(column)?.ok_or_else(|| column.damaged("NULL"))?;
    declaration(text).map_err(|why| column.damaged(why))
}

/// Reads a stored declaration. Most of its fields may be left out, so that other JSON would pass
/// for one; but each has a name.
pub(crate) fn declaration(text: &str) -> Result<Declared, String> {
    let declared: Declared = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if declared.name.is_empty() {
        return Err("no name: the declaration of a schedule is expected, which has one".to_owned());
    }
    Ok(declared)
}

/// The name in a declaration, if it can be read.
pub(crate) fn declared_name(row: &impl Row, declared: Column) -> Read<Option<String>> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let named = if_readable(row.maybe_json::<Named>(declared))?;
    Ok(named.flatten().map(|named| named.name))
}

fn progress(row: &impl Row) -> Read<Progress> {
    use schedule_columns as column;
    let (active, queued) = row.maybe_json::<Live>(column::live)?.unwrap_or_default();
    let nominal: Option<_> = row.read(column::next_nominal)?;
    let next = nominal.zip(row.read(column::next_effective)?);
    let last_outcome: Option<i64> = row.read(column::last_outcome)?;
    let last_outcome = last_outcome.and_then(|code| usize::try_from(code).ok());
    Ok(Progress {
        anchor: row.read(column::anchor)?,
        mark: row.read(column::mark)?,
        next: next.map(|(nominal, effective)| Due { nominal, effective }),
        n: row.read(column::n)?,
        current_repeat: row.read(column::current_repeat)?,
        current_retry: row.read(column::current_retry)?,
        run_count: row.read(column::run_count)?,
        error_count: row.read(column::error_count)?,
        last_error: row.read(column::last_error)?,
        last_run_at: row.read(column::last_run_at)?,
        last_outcome: last_outcome.and_then(|code| Ending::ALL.get(code).copied()),
        active,
        queued,
        has_overrides: row.read(column::has_overrides)?,
        recomputed_at: row.read(column::recomputed_at)?,
        incident: row.read(column::incident)?,
        renewed_at: row.read(column::renewed_at)?,
    })
}

columns! {
    override_columns = o overrides: schedule, nominal, action, by;
}

pub(crate) fn occurrence_override(row: &impl Row) -> Read<Override> {
    use override_columns as column;
    Ok(Override {
        nominal: row.read(column::nominal)?,
        action: row.json(column::action)?,
        by: row.read(column::by)?,
    })
}

/// The schedule and the nominal time of an override, whether or not its action can be read.
pub(crate) fn overridden(row: &impl Row) -> Read<(ScheduleId, Timestamp)> {
    use override_columns as column;
    Ok((row.read(column::schedule)?, row.read(column::nominal)?))
}

columns! {
    ledger_columns = l ledger: schedule, n, count, nominal, last_nominal, effective, decided_at,
        outcome, reason, run;
}

pub(crate) fn entry(row: &impl Row) -> Read<Entry> {
    use ledger_columns as column;
    Ok(Entry {
        schedule: row.read(column::schedule)?,
        n: row.read(column::n)?,
        count: row.read(column::count)?,
        nominal: row.read(column::nominal)?,
        last_nominal: row.read(column::last_nominal)?,
        effective: row.read(column::effective)?,
        decided_at: row.read(column::decided_at)?,
        outcome: row.read(column::outcome)?,
        reason: row.read(column::reason)?,
        run: row.read(column::run)?,
    })
}
