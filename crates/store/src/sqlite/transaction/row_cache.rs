//! A cache of the runs that the last turns began, and of their schedules. Most reports come with
//! the next turn, and rows that were just written need not be read again. What is due is read here
//! with one query.
//!
//! Only the one writer changes schedules and runs, and it takes them out of the cache to do so. So
//! every cached row is as it is stored.

use engine::run::{self, ActivityStatus, Run, RunStatus};
use engine::schedule::{Active, Schedule};
use engine::turn::{ById, RunWrite, ScheduleWrite, Wakeup, Writes};
use engine::{RunKey, ScheduleId};
use rusqlite::Connection;

use crate::failure::Failure;
use crate::rows::{self, schedule_columns};
use crate::set_aside::if_readable;
use crate::sqlite::connections::query;
use crate::stored::json;

/// If more are cached, all are dropped: a run that takes long is read again when it ends.
const KEPT: usize = 4_096;
/// A schedule or run with more bytes of payload than this is not cached.
const LARGEST: usize = 4 * 1024;

/// Fewer schedules than this are read one by one.
const WORTH_READING_AHEAD: usize = 4;

/// Schedules and runs as they are stored.
#[derive(Default)]
pub(crate) struct RowCache {
    schedules: ById<ScheduleId, Box<Schedule>>,
    runs: ById<RunKey, Box<Run>>,
    /// Due schedules that the turn is about to decide.
    ahead: ById<ScheduleId, Box<Schedule>>,
}

const SCHEDULES_BY_ID: &str = concat!(
    "SELECT ",
    schedule_columns!(),
    " FROM json_each(?1) due
     CROSS JOIN schedules s ON s.id = due.value CROSS JOIN progress p ON p.id = s.id"
);

impl RowCache {
    /// Reads the schedules that are due with one query. One that cannot be read is left to the
    /// turn, which fails about it.
    pub(crate) fn read_ahead(
        &mut self,
        connection: &Connection,
        due: &[(i64, Wakeup)],
    ) -> Result<(), Failure> {
        let due = due.iter().filter_map(|(_, wakeup)| match wakeup {
            Wakeup::Schedule(id) if !self.schedules.contains_key(id) => Some(id.0),
            _ => None,
        });
        let due: Vec<i64> = due.collect();
        if due.len() < WORTH_READING_AHEAD {
            return Ok(());
        }
        self.ahead.reserve(due.len());
        let found = query::all(connection, SCHEDULES_BY_ID, [json(&due)?], |row| {
            Ok(if_readable(rows::schedule(row))?.map(Box::new))
        })?;
        self.ahead.extend(found.into_iter().flatten().map(|schedule| (schedule.id, schedule)));
        Ok(())
    }

    /// Forgets schedules that were read ahead and that nothing was decided about.
    pub(crate) fn end_reading_ahead(&mut self) {
        self.ahead.clear();
    }

    /// Caches what has just been written and will be needed for a report.
    pub(crate) fn keep(&mut self, writes: Writes) {
        if self.schedules.len() > KEPT || self.runs.len() > KEPT {
            self.forget();
        }
        for write in writes.schedules {
            if let ScheduleWrite::Update { after, .. } = write
                && is_running(&after)
            {
                self.schedules.insert(after.id, after);
            }
        }
        for write in writes.runs {
            let (RunWrite::Insert(run) | RunWrite::Update { after: run, .. }) = write;
            if is_plain(&run) {
                self.runs.insert(run.key, run);
            }
        }
    }

    pub(crate) fn take_schedule(&mut self, id: ScheduleId) -> Option<Box<Schedule>> {
        self.schedules.remove(&id).or_else(|| self.ahead.remove(&id))
    }

    pub(crate) fn take_run(&mut self, key: RunKey) -> Option<Box<Run>> {
        self.runs.remove(&key)
    }

    pub(crate) fn forget(&mut self) {
        self.schedules.clear();
        self.runs.clear();
        self.ahead.clear();
    }
}

/// Whether a report will come for every active run, and all times are whole milliseconds, as they
/// are stored.
fn is_running(schedule: &Schedule) -> bool {
    let progress = &schedule.progress;
    let payload = schedule.declared.payload.as_ref().map_or(0, |payload| payload.get().len());
    !progress.active.is_empty()
        && progress.active.iter().all(|active| matches!(active, Active::Running { .. }))
        && progress.queued.is_empty()
        && payload <= LARGEST
}

/// Whether every active part is being performed, and all times are whole milliseconds, as they are
/// stored.
fn is_plain(run: &Run) -> bool {
    let is_performed =
        |active: &run::Activity| matches!(active.status, ActivityStatus::Performed { .. });
    let position = &run.state;
    let whole = run.timeout.is_none_or(|timeout| timeout.subsec_nanos() % 1_000_000 == 0);
    let size = run.input.get().len() + run.output.as_ref().map_or(0, |output| output.get().len());
    run.status == RunStatus::Running
        && whole
        && run.error.is_none()
        && size <= LARGEST
        && position.active.iter().all(is_performed)
        && position.watches.is_empty()
        && position.ending.is_none()
}
