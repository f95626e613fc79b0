//! Checks retention: nothing is removed before its time or before it has ended, and what is past
//! its time is removed.

use std::collections::BTreeMap;

use super::{Checked, Model, broken};
use crate::watch::{Changes, LedgerRow, RunRow};

/// History that has not been removed.
#[derive(Default)]
pub(super) struct History {
    /// Runs that have ended.
    runs: BTreeMap<i64, Past>,
    /// When each ledger row was decided, by schedule and number.
    rows: BTreeMap<(i64, u64), i64>,
    walk: Walk,
}

struct Past {
    created_at: i64,
    ended_at: i64,
    schedule: Option<i64>,
    workflow: i64,
}

/// Expiry removes a little at a time, until there is no more.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Walk {
    /// The next pass begins from the beginning.
    #[default]
    Over,
    /// The walk began at this time, and nothing else was committed since.
    Since(i64),
    /// Something else was committed since the walk began.
    Disturbed,
}

impl History {
    pub(super) fn ended(&mut self, run: &RunRow) {
        let (created_at, ended_at) = (run.created_at, run.ended_at.unwrap_or(i64::MAX));
        let (schedule, workflow) = (run.schedule, run.workflow);
        self.runs.insert(run.key, Past { created_at, ended_at, schedule, workflow });
    }

    pub(super) fn has_run(&self, key: i64) -> bool {
        self.runs.contains_key(&key)
    }

    /// Notes that a ledger row was written. Returns whether it existed before.
    pub(super) fn written(&mut self, schedule: i64, row: &LedgerRow) -> bool {
        self.rows.insert((schedule, row.n), row.decided_at).is_some()
    }

    /// Notes that something other than expiry was committed.
    pub(super) fn disturb(&mut self) {
        if self.walk != Walk::Over {
            self.walk = Walk::Disturbed;
        }
    }
}

impl Model {
    /// Takes over what was removed. `more` is what the store reports, if its answer arrived.
    pub(crate) fn expire(
        &mut self,
        now: i64,
        keep: i64,
        more: Option<bool>,
        changes: Changes,
    ) -> Checked {
        let Changes { runs_gone, ledger, .. } = &changes;
        let others = !changes.schedules.is_empty() || !changes.runs.is_empty();
        if others || !changes.workflows.is_empty() || !changes.overrides.is_empty() {
            return broken("expiry", format!("more than history was changed: {changes:?}"));
        }
        for key in runs_gone {
            self.run_goes(now, keep, *key)?;
        }
        for ((schedule, n), row) in ledger {
            if row.is_some() {
                return broken(
                    "expiry",
                    format!("schedule {schedule}: the row of {n} was changed"),
                );
            }
            self.row_goes(now, keep, *schedule, *n)?;
        }
        self.incidents_go(changes.incidents)?;
        self.events_go(now, keep, changes.handled)?;
        let walk = &mut self.history.walk;
        if *walk == Walk::Over {
            *walk = Walk::Since(now);
        }
        match (more, *walk) {
            (Some(false), began) => {
                *walk = Walk::Over;
                if let Walk::Since(began) = began {
                    self.check_expired(began, keep)
                } else {
                    Ok(())
                }
            }
            (Some(true), _) => Ok(()),
            (None, _) => {
                *walk = Walk::Disturbed;
                Ok(())
            }
        }
    }

    fn run_goes(&mut self, now: i64, keep: i64, key: i64) -> Checked {
        let Some(run) = self.history.runs.remove(&key) else {
            return broken("expiry", format!("run {key} was removed, and had not ended"));
        };
        let keep = self.kept_of_run(&run, keep);
        if self.is_needed(key) {
            return broken("expiry", format!("run {key} was removed, and is still needed"));
        }
        if run.ended_at >= now - keep {
            let ended_at = run.ended_at;
            let message =
                format!("run {key} ended at {ended_at}, and was removed {keep} before {now}");
            return broken("expiry", message);
        }
        self.ended.retain(|run| run.key != key);
        Ok(())
    }

    fn row_goes(&mut self, now: i64, keep: i64, schedule: i64, n: u64) -> Checked {
        let Some(decided_at) = self.history.rows.remove(&(schedule, n)) else {
            return broken("expiry", format!("schedule {schedule}: {n} had no row to be removed"));
        };
        let keep = self.kept_of_row(schedule, keep);
        if decided_at >= now - keep {
            let message = format!(
                "schedule {schedule}: {n} was decided at {decided_at}, and its row removed {keep} \
                 before {now}"
            );
            return broken("expiry", message);
        }
        if self.is_going_on(schedule, n) {
            let message = format!("schedule {schedule}: {n} is not over, and its row is gone");
            return broken("expiry", message);
        }
        Ok(())
    }

    /// Checks, once the store reports no more, that everything past its time when expiry began is
    /// gone.
    fn check_expired(&self, began: i64, keep: i64) -> Checked {
        // The store looks at runs in the order of creation, up to the first that is too young. If
        // the clock was set back, some runs wait for those created before.
        let mut latest = i64::MIN;
        let mut is_left = |run: &Past| {
            latest = latest.max(run.created_at);
            run.ended_at.max(latest) < began - self.kept_of_run(run, keep)
        };
        let mut left = self.history.runs.iter().filter(|(_, run)| is_left(run));
        if let Some((key, run)) = left.find(|(key, _)| !self.is_needed(**key)) {
            let ended_at = run.ended_at;
            let keep = self.kept_of_run(run, keep);
            let of = (run.schedule, run.workflow, run.created_at);
            let message = format!("run {key} of {of:?} ended at {ended_at}, and is still there");
            return broken("expiry", format!("{message} {keep} before {began}"));
        }
        let left = self.history.rows.iter().find(|((schedule, n), decided_at)| {
            **decided_at < began - self.kept_of_row(*schedule, keep)
                && !self.is_going_on(*schedule, *n)
        });
        match left {
            Some(((schedule, n), decided_at)) => broken(
                "expiry",
                format!("schedule {schedule}: {n}, decided at {decided_at}, still has its row"),
            ),
            None => Ok(()),
        }
    }

    fn is_going_on(&self, schedule: i64, n: u64) -> bool {
        let kept = self.schedules.get(&schedule);
        kept.is_some_and(|kept| kept.active.contains_key(&n) || kept.queued.contains_key(&n))
    }

    /// How long a run is kept: as its schedule says, or its workflow, or else the node.
    fn kept_of_run(&self, run: &Past, keep: i64) -> i64 {
        let of_schedule = run.schedule.and_then(|id| self.schedules.get(&id)?.retention);
        of_schedule.or_else(|| self.workflows.get(&run.workflow)?.retention).unwrap_or(keep)
    }

    fn kept_of_row(&self, schedule: i64, keep: i64) -> i64 {
        let Some(kept) = self.schedules.get(&schedule) else { return keep };
        let of_workflow = || self.workflows.get(&kept.row.workflow)?.retention;
        kept.retention.or_else(of_workflow).unwrap_or(keep)
    }
}
