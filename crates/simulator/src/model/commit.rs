//! Checks one commit against the model.

use std::collections::BTreeMap;

use engine::run::{RunStatus, TriggeredBy};
use engine::schedule::Status;
use engine::turn::Command;

use super::runs::Moved;
use super::{Cause, Checked, Kept, Model, broken};
use crate::watch::{Changes, LedgerRow, RunRow, ScheduleRow};

/// What one commit has done to one schedule.
#[derive(Debug)]
pub(super) struct Touched {
    pub(super) before: Status,
    pub(super) after: Status,
    /// Whether the workflow was paused both before and after.
    pub(super) on_hold: bool,
    /// Whether the workflow was paused before or after.
    pub(super) was_held: bool,
    /// Whether a run was active or an occurrence queued before.
    pub(super) was_busy: bool,
    /// Whether a run has failed for the last time.
    pub(super) gave_up: bool,
    /// Whether any of its runs has ended.
    pub(super) has_ended: bool,
    pub(super) created: Vec<RunRow>,
    pub(super) ledger: Vec<(u64, Option<LedgerRow>)>,
}

/// What one commit has done, by schedule.
pub(super) type TouchedAll = BTreeMap<i64, Touched>;

impl Model {
    /// Takes over what a commit has changed, or returns the violation. `refused` is how many
    /// reports the store refused, if its answer arrived.
    pub(crate) fn commit(
        &mut self,
        cause: &Cause,
        now: i64,
        refused: Option<usize>,
        changes: Changes,
    ) -> Checked {
        self.latest = self.latest.max(now);
        self.history.disturb();
        if let Some(key) = changes.runs_gone.first() {
            return broken("expiry", format!("run {key} is gone, and nobody removes anything"));
        }
        let is_applied = !changes.is_empty();
        let paused_before: Vec<i64> = self.paused_workflows();
        for workflow in changes.workflows {
            self.workflows.insert(workflow.id, workflow);
        }
        let paused = (paused_before, self.paused_workflows());
        self.check_reports(cause, refused, &changes.runs)?;
        let mut touched = TouchedAll::new();
        for (id, overrides) in changes.overrides {
            if let Some(kept) = self.schedules.get_mut(&id) {
                kept.overrides = overrides;
            }
        }
        let mut moved = Vec::new();
        for run in changes.runs {
            moved.push(self.move_run(cause, now, run)?);
        }
        let runs = moved.iter().filter_map(|moved| moved.row.schedule);
        let rows = changes.schedules.iter().map(|(id, _)| *id);
        let ledger = changes.ledger.iter().map(|((id, _), _)| *id);
        for id in runs.chain(rows).chain(ledger).chain(recomputed(cause)) {
            self.touch(&mut touched, id, &paused);
        }
        for (id, row) in changes.schedules {
            self.take_row(cause, now, id, row, &mut touched)?;
        }
        for ((id, n), row) in changes.ledger {
            self.take_history(id, n, row.as_ref())?;
            if let Some(touched) = touched.get_mut(&id) {
                touched.ledger.push((n, row));
            }
        }
        self.settle_runs(now, &moved, &mut touched)?;
        for (id, touched) in &mut touched {
            self.check_schedule(cause, now, *id, touched)?;
        }
        self.check_incidents(changes.incidents, &moved, &touched)?;
        self.check_recomputed(cause)?;
        self.check_processes(cause, now, &moved)?;
        self.check_handling(cause, now, &moved, changes.handled, is_applied)?;
        self.check_concurrency(&moved)?;
        // Nodes pass over what others have locked.
        if self.has_many_nodes { Ok(()) } else { self.check_overtaken(&moved) }
    }

    /// Checks that schedules which a command recomputed are no longer outdated.
    fn check_recomputed(&self, cause: &Cause) -> Checked {
        let is_known = |id: &i64| self.schedules.contains_key(id);
        for id in recomputed(cause).filter(is_known) {
            let kept = &self.schedules[&id];
            let is_old = kept.is_outdated && !kept.follows_completion();
            if is_old && !kept.is_due_next(kept.row.next) {
                let (next, expected) = (kept.row.next, kept.expected_next());
                let message =
                    format!("schedule {id}: next is {next:?}, it was computed: {expected:?}");
                return broken("calendar", message);
            }
        }
        Ok(())
    }

    /// Checks that a removed ledger row does not come back, unless its schedule is gone as well.
    fn take_history(&mut self, id: i64, n: u64, row: Option<&LedgerRow>) -> Checked {
        let Some(row) = row else { return Ok(()) };
        let was_there = self.history.written(id, row);
        match self.schedules.get(&id) {
            Some(kept) if n < kept.next_n && !was_there => {
                broken("expiry", format!("schedule {id}: the row of {n} was removed, and is back"))
            }
            _ => Ok(()),
        }
    }

    fn paused_workflows(&self) -> Vec<i64> {
        self.workflows.values().filter(|row| row.paused).map(|row| row.id).collect()
    }

    /// Notes that a commit touches a schedule. `paused` are the workflows that were paused before,
    /// and those that are now.
    fn touch(&self, all: &mut TouchedAll, id: i64, paused: &(Vec<i64>, Vec<i64>)) {
        let kept = self.schedules.get(&id);
        let before = kept.map_or(Status::Active, |kept| kept.row.status);
        let workflow = kept.map(|kept| kept.row.workflow);
        let is_in = |paused: &[i64]| workflow.is_some_and(|workflow| paused.contains(&workflow));
        let (was, is) = (is_in(&paused.0), is_in(&paused.1));
        all.entry(id).or_insert_with(|| Touched {
            before,
            after: before,
            on_hold: was && is,
            was_held: was || is,
            was_busy: kept.is_some_and(|kept| !kept.is_idle()),
            gave_up: false,
            has_ended: false,
            created: Vec::new(),
            ledger: Vec::new(),
        });
    }

    fn take_row(
        &mut self,
        cause: &Cause,
        now: i64,
        id: i64,
        row: Option<ScheduleRow>,
        touched: &mut TouchedAll,
    ) -> Checked {
        let Some(row) = row else {
            if !matches!(cause, Cause::Command(_)) {
                return broken("states", format!("schedule {id} is gone without a command"));
            }
            if let Some(kept) = self.schedules.remove(&id) {
                self.due.retain(|(_, listed)| *listed != id);
                drop(kept);
            }
            touched.remove(&id);
            return Ok(());
        };
        if let Some(touched) = touched.get_mut(&id) {
            touched.after = row.status;
        }
        if !self.schedules.contains_key(&id) {
            if id <= self.greatest_schedule && !self.has_many_nodes {
                return broken("expiry", format!("schedule {id} has an id that was given before"));
            }
            self.greatest_schedule = self.greatest_schedule.max(id);
            let kept = Kept::new(row, &self.rules, now)?;
            self.schedules.insert(id, kept);
            return Ok(());
        }
        self.adopt(cause, now, row)
    }

    /// Settles runs that have ended, and notes new ones. A new run that has ended already is
    /// settled when it is taken in.
    fn settle_runs(&mut self, now: i64, moved: &[Moved], touched: &mut TouchedAll) -> Checked {
        for moved in moved.iter().filter(|moved| moved.row.status.has_ended()) {
            if let Some(id) = moved.row.schedule
                && let Some(touched) = touched.get_mut(&id)
                && let Some(kept) = self.schedules.get_mut(&id)
            {
                touched.has_ended = true;
                if !moved.is_new {
                    kept.settle(now, &moved.row, touched)?;
                }
            }
        }
        for moved in moved.iter().filter(|moved| moved.is_new) {
            if let Some(id) = moved.row.schedule
                && let Some(touched) = touched.get_mut(&id)
            {
                touched.created.push(moved.row.clone());
            }
        }
        Ok(())
    }

    fn check_schedule(
        &mut self,
        cause: &Cause,
        now: i64,
        id: i64,
        touched: &mut Touched,
    ) -> Checked {
        let awake_since = self.awake_since;
        let Some(kept) = self.schedules.get_mut(&id) else { return Ok(()) };
        self.occurrences += kept.take_ledger(cause, now, awake_since, touched)?;
        kept.take_created(cause, now, touched)?;
        kept.count_from_completion(now);
        kept.expect_next();
        kept.check_row(cause, touched)?;
        let look = kept.latest_look();
        if kept.listed != look {
            if let Some(listed) = kept.listed {
                self.due.remove(&(listed, id));
            }
            kept.listed = look;
            self.due.extend(look.map(|look| (look, id)));
        }
        Ok(())
    }

    /// Checks that no more runs are active than the workflow's limit, unless the limit was lowered.
    fn check_concurrency(&self, moved: &[Moved]) -> Checked {
        let begun = moved.iter().filter(|moved| moved.has_begun);
        for moved in begun.filter(|moved| moved.row.handler.is_none()) {
            let workflow = moved.row.workflow;
            let limit = self.workflows.get(&workflow).and_then(|row| row.concurrency);
            let begun = self.begun.get(&workflow).copied().unwrap_or(0);
            if let Some(limit) = limit.filter(|limit| begun > *limit) {
                let message = format!(
                    "workflow {workflow}: {begun} runs are active, the limit is {limit}, and run {} \
                     has begun",
                    moved.row.key
                );
                return broken("concurrency", message);
            }
        }
        Ok(())
    }

    /// Checks that a run which takes the last place of its workflow leaves no older one behind, and
    /// that a pause holds a run if it should.
    fn check_overtaken(&self, moved: &[Moved]) -> Checked {
        let begun = moved.iter().filter(|moved| moved.has_begun && moved.row.handler.is_none());
        for run in begun.map(|moved| &moved.row) {
            if self.is_held(run) {
                let message = format!("run {} begins, and its workflow is paused", run.key);
                return broken("slots", message);
            }
            let limit = self.workflows.get(&run.workflow).and_then(|row| row.concurrency);
            let begun = self.begun.get(&run.workflow).copied().unwrap_or(0);
            if limit.is_none_or(|limit| begun < limit) {
                continue;
            }
            let mut older = self.runs.range(..run.key).map(|(_, other)| other);
            let older = older.find(|other| {
                let is_pending = other.status == RunStatus::Pending && other.handler.is_none();
                is_pending && other.workflow == run.workflow && !self.is_held(other)
            });
            if let Some(older) = older {
                let message = format!("run {} begins before run {}", run.key, older.key);
                return broken("slots", message);
            }
        }
        Ok(())
    }

    /// Whether a pending run waits for its workflow to be resumed.
    pub(crate) fn is_held(&self, run: &RunRow) -> bool {
        TriggeredBy::HELD_BY_PAUSE.contains(&run.triggered_by)
            && self.workflows.get(&run.workflow).is_some_and(|row| row.paused)
    }

    pub(super) fn count_begun(&mut self, before: Option<&RunRow>, after: &RunRow) -> bool {
        let is_begun = |status: RunStatus| status != RunStatus::Pending && !status.has_ended();
        let (was, is) = (before.is_some_and(|run| is_begun(run.status)), is_begun(after.status));
        // Handlers' runs do not count: they run one at a time.
        if after.handler.is_some() {
            return !was && is;
        }
        let begun = self.begun.entry(after.workflow).or_default();
        match (was, is) {
            (false, true) => *begun += 1,
            (true, false) => *begun = begun.saturating_sub(1),
            _ => {}
        }
        !was && is
    }
}

/// The schedules whose next times a command has recomputed.
fn recomputed(cause: &Cause) -> impl Iterator<Item = i64> {
    let ids = match cause {
        Cause::Command(command) => match &**command {
            Command::Recompute(ids) => ids.as_slice(),
            _ => &[],
        },
        _ => &[],
    };
    ids.iter().map(|id| id.0)
}
