//! Loads the runs and schedules of reports: locks them in order, and reads only those this node has
//! not cached.

use engine::turn::Wakeup;
use engine::{RunKey, ScheduleId};
use tokio_postgres::Row;

use crate::failure::Failure;
use crate::postgres::Shared;
use crate::postgres::connections::tx_connection::{Query, TxConnection, param};
use crate::postgres::transaction::load::{
    self, LOCK_RUNS, LOCK_SCHEDULES, LOCKED_RUNS, SCHEDULES_AGAIN,
};
use crate::postgres::transaction::loaded::Loaded;
use crate::postgres::transaction::row_cache::Remembered;
use crate::rows::{self, Row as _, run_columns, schedule_columns};

/// The state between sending the queries and keeping their answers.
pub(crate) struct ReportLoader {
    known: Remembered,
    /// Runs that are not locked.
    unlocked: Vec<i64>,
    /// The indexes of the answers with locks, schedules and runs, if they were queried.
    locks_at: Option<usize>,
    schedules_at: Option<usize>,
    runs_at: Option<usize>,
    is_asked: bool,
}

impl ReportLoader {
    /// Loads what this node has cached from its cache. A cached run that is not locked may be
    /// stale: only a write of it notices. So this is for reports that write what they are about.
    pub(crate) fn cached(shared: &Shared, schedules: &[i64], runs: &[i64]) -> ReportLoader {
        ReportLoader::with(shared.row_cache.take(schedules, runs))
    }

    /// Locks and reads every row.
    pub(crate) fn uncached() -> ReportLoader {
        ReportLoader::with(Remembered::default())
    }

    fn with(known: Remembered) -> ReportLoader {
        ReportLoader {
            known,
            unlocked: Vec::new(),
            locks_at: None,
            schedules_at: None,
            runs_at: None,
            is_asked: false,
        }
    }

    /// Locks all of them, schedules first, and reads those that are not cached: in statements of
    /// their own, which see what was committed while a lock was waited for.
    pub(crate) fn ask(&mut self, schedules: Vec<i64>, runs: Vec<i64>) -> Vec<Query> {
        if runs.is_empty() && schedules.is_empty() {
            return Vec::new();
        }
        self.is_asked = true;
        let is_new = |id: &i64| !self.known.schedules.contains_key(&ScheduleId(*id));
        let new_schedules: Vec<i64> = schedules.iter().copied().filter(is_new).collect();
        let is_new = |key: &i64| !self.known.runs.contains_key(&RunKey(*key));
        let new_runs: Vec<i64> = runs.iter().copied().filter(is_new).collect();
        let (unlocked, locked): (Vec<i64>, Vec<i64>) =
            runs.into_iter().partition(|key| self.needs_no_lock(*key));
        self.unlocked = unlocked;
        let mut queries = vec![Query::new(LOCK_SCHEDULES, vec![param(schedules)])];
        if !locked.is_empty() {
            self.locks_at = Some(queries.len());
            queries.push(Query::new(LOCK_RUNS, vec![param(locked)]));
        }
        if !new_schedules.is_empty() {
            self.schedules_at = Some(queries.len());
            queries.push(Query::new(SCHEDULES_AGAIN, vec![param(new_schedules)]));
        }
        if !new_runs.is_empty() {
            self.runs_at = Some(queries.len());
            queries.push(Query::new(LOCKED_RUNS, vec![param(new_runs)]));
        }
        queries
    }

    /// Whether the run needs no lock: whoever decides the run of an occurrence holds its schedule's
    /// lock, which is enough. Whether the row is still as this node wrote it shows when it is
    /// written. A run of a limited workflow does need one: its workflow is locked exclusively, and
    /// then no run may be waited for.
    fn needs_no_lock(&self, key: i64) -> bool {
        let Some(known) = self.known.runs.get(&RunKey(key)) else { return false };
        let schedule = known.run.schedule.filter(|_| !known.is_limited);
        schedule.is_some_and(|schedule| self.known.schedules.contains_key(&schedule))
    }

    /// Keeps what was locked. Rows that others have written meanwhile are read after all.
    pub(crate) fn keep(
        mut self,
        tx: &mut TxConnection,
        loaded: &mut Loaded,
        found: &[Vec<Row>],
    ) -> Result<(), Failure> {
        if !self.is_asked {
            return Ok(());
        }
        let (mut schedules, mut runs) = (Vec::new(), Vec::new());
        for row in &found[0] {
            let (id, stamp): (ScheduleId, i64) = row.tuple()?;
            loaded.locked.insert(id);
            match self.known.schedules.remove(&id) {
                Some((known, schedule)) if known == stamp => {
                    loaded.schedules.insert(id, schedule);
                }
                Some(_) => schedules.push(id.0),
                None => {}
            }
        }
        if let Some(at) = self.locks_at {
            self.keep_locked(loaded, &found[at], &mut runs)?;
        }
        if let Some(at) = self.schedules_at {
            keep_schedules(loaded, &found[at])?;
        }
        if let Some(at) = self.runs_at {
            keep_runs(loaded, &found[at])?;
        }
        if !schedules.is_empty() {
            keep_schedules(loaded, &tx.one(SCHEDULES_AGAIN, vec![param(schedules)])?)?;
        }
        if !runs.is_empty() {
            keep_runs(loaded, &tx.one(LOCKED_RUNS, vec![param(runs)])?)?;
        }
        self.keep_unlocked(tx, loaded)
    }

    /// Keeps the runs that are locked. `changed` collects those that others have written.
    fn keep_locked(
        &mut self,
        loaded: &mut Loaded,
        found: &[Row],
        changed: &mut Vec<i64>,
    ) -> Result<(), Failure> {
        for row in found {
            let (key, stamp): (RunKey, i64) = row.tuple()?;
            loaded.locked_runs.insert(key);
            match self.known.runs.remove(&key) {
                Some(known) if known.stamp == stamp => {
                    loaded.runs.insert(key, known.run);
                }
                Some(_) => changed.push(key.0),
                None => {}
            }
        }
        Ok(())
    }

    /// Keeps the runs that their schedule's lock protects. If the schedule is gone, the run is
    /// locked itself.
    fn keep_unlocked(mut self, tx: &mut TxConnection, loaded: &mut Loaded) -> Result<(), Failure> {
        let mut alone = Vec::new();
        for key in std::mem::take(&mut self.unlocked) {
            let Some(known) = self.known.runs.remove(&RunKey(key)) else { continue };
            if !known.run.schedule.is_some_and(|schedule| loaded.locked.contains(&schedule)) {
                alone.push(key);
                continue;
            }
            loaded.locked_runs.insert(known.run.key);
            loaded.unlocked.insert(known.run.key, known.stamp);
            loaded.runs.insert(known.run.key, known.run);
        }
        load::runs(tx, loaded, alone)
    }
}

fn keep_schedules(loaded: &mut Loaded, found: &[Row]) -> Result<(), Failure> {
    for row in found {
        let what = Wakeup::Schedule(row.read(schedule_columns::id)?);
        let Some(schedule) = loaded.readable(what, rows::schedule(row))? else { continue };
        let schedule = Box::new(schedule);
        if loaded.locked.contains(&schedule.id) {
            loaded.schedules.insert(schedule.id, schedule);
        }
    }
    Ok(())
}

fn keep_runs(loaded: &mut Loaded, found: &[Row]) -> Result<(), Failure> {
    for row in found {
        let key = row.read(run_columns::key)?;
        if loaded.locked_runs.contains(&key) {
            load::keep_run(loaded, key, row)?;
        }
    }
    Ok(())
}
