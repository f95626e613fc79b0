//! Runs: legal moves, current tokens, and no step twice that must not be.

use engine::RunId;
use engine::run::RunStatus::{
    self, Cancelled, Failed, Pending, Running, Succeeded, Suspended, TimedOut, Waiting,
};
use engine::turn::Command;

use super::{Cause, Checked, Model, Violation, broken};
use crate::watch::RunRow;
use crate::work::Begun;

/// What one commit has done to one run.
#[derive(Debug)]
pub(super) struct Moved {
    pub(super) row: RunRow,
    pub(super) is_new: bool,
    /// From waiting for a place to having one.
    pub(super) has_begun: bool,
}

/// Where a run may go from each status in one commit. Who may: the engine's own documentation.
fn is_legal(from: RunStatus, to: RunStatus) -> bool {
    match from {
        Pending => matches!(to, Pending | Running | Cancelled),
        Running => to != Pending,
        Waiting => matches!(to, Waiting | Running | Cancelled | TimedOut),
        Suspended => to != Pending,
        Succeeded | Failed | Cancelled | TimedOut => false,
    }
}

impl Model {
    /// Takes over a run that was created or changed.
    pub(super) fn move_run(
        &mut self,
        cause: &Cause,
        now: i64,
        row: RunRow,
    ) -> Result<Moved, Violation> {
        let key = row.key;
        let before = self.runs.remove(&key);
        match &before {
            Some(before) => check_move(cause, before, &row)?,
            None if key <= self.greatest_run => {
                return broken("states", format!("run {key} has ended, and was changed: {row:?}"));
            }
            None => {
                self.greatest_run = key;
                self.runs_created += 1;
                check_new(now, self.latest, &row)?;
            }
        }
        let has_begun = self.count_begun(before.as_ref(), &row);
        if row.status.has_ended() {
            self.unsettled.retain(|(run, _)| *run != key);
            self.remember_ended(row.clone());
        } else {
            self.runs.insert(key, row.clone());
        }
        Ok(Moved { row, is_new: before.is_none(), has_begun })
    }

    /// Each report of a current attempt is taken, every other is refused.
    pub(super) fn check_reports(
        &mut self,
        cause: &Cause,
        refused: Option<usize>,
        changed: &[RunRow],
    ) -> Checked {
        match cause {
            Cause::Command(command) => {
                if let Command::ResolveRun { id, .. } = &**command {
                    self.resolved(id);
                }
                return Ok(());
            }
            Cause::Node => return Ok(()),
            Cause::Turn(_) => {}
        }
        let Cause::Turn(reports) = cause else { return Ok(()) };
        let mut taken: Vec<i64> = Vec::new();
        let mut expected = 0;
        for report in reports {
            let known = self.runs.get(&report.run).filter(|run| {
                run.status == Running && run.owner.is_some() && run.token == report.token
            });
            let Some(run) = known.filter(|_| !taken.contains(&report.run)) else {
                expected += 1;
                continue;
            };
            taken.push(report.run);
            let after = changed.iter().find(|row| row.key == report.run);
            let is_settled =
                after.is_some_and(|row| row.token != report.token || row.status != Running);
            if !is_settled {
                let message =
                    format!("run {}: the report of attempt {} was lost", run.key, run.token);
                return broken("reports", message);
            }
            let step = run.step;
            self.unsettled.remove(&(report.run, step));
        }
        match refused.filter(|refused| *refused != expected) {
            Some(refused) => broken(
                "tokens",
                format!("{refused} reports were refused, {expected} had an old token: {reports:?}"),
            ),
            None => Ok(()),
        }
    }

    /// A person has said what became of the attempt.
    fn resolved(&mut self, id: &RunId) {
        let key = self.runs.values().find(|row| row.id() == *id).map(|row| row.key);
        if let Some(key) = key {
            self.unsettled.retain(|(run, _)| *run != key);
        }
    }

    /// Attempts that were handed out: each is the current one of its run, and a step that must not be
    /// repeated is not.
    pub(crate) fn check_begun(&mut self, begun: &[Begun]) -> Checked {
        for attempt in begun {
            let Begun { run, step, token, idempotent } = *attempt;
            let known = self.runs.get(&run);
            if known.is_none_or(|row| row.token != token || row.status != Running) {
                return broken(
                    "performed",
                    format!("{attempt:?} is not what is stored: {known:?}"),
                );
            }
            if !idempotent && !self.unsettled.insert((run, step)) {
                let message = format!("run {run}: step {step} must not be repeated, and was");
                return broken("performed", message);
            }
        }
        Ok(())
    }
}

fn check_new(now: i64, latest: i64, row: &RunRow) -> Checked {
    if !matches!(row.status, Pending | Running) {
        return broken("states", format!("run {} is born {}", row.key, row.status.name()));
    }
    if row.created_at != now {
        let message = format!("run {} says {}, the clock {now}", row.key, row.created_at);
        return broken("early", message);
    }
    // What was due and had to wait may start after the clock was set back.
    if row.effective.is_some_and(|effective| effective > latest) {
        let message =
            format!("run {} is for {:?}, it was never later than {latest}", row.key, row.effective);
        return broken("early", message);
    }
    Ok(())
}

fn check_move(cause: &Cause, before: &RunRow, after: &RunRow) -> Checked {
    let key = after.key;
    let (from, to) = (before.status, after.status);
    if !is_legal(from, to) {
        return broken("states", format!("run {key} went from {} to {}", from.name(), to.name()));
    }
    if after.token < before.token || after.token > before.token + 2 {
        let message = format!("run {key}: token {} after {}", after.token, before.token);
        return broken("tokens", message);
    }
    let resolves = |command: &Command| {
        matches!(command, Command::ResolveRun { .. } | Command::CancelRun { .. })
    };
    let by_a_person = match cause {
        Cause::Command(command) => resolves(command),
        // Under the overlap policy `cancel`.
        Cause::Turn(_) => to == Cancelled,
        Cause::Node => false,
    };
    if from == Suspended && to != Suspended && !by_a_person {
        let message = format!("run {key} was suspended, and nobody said what became of it");
        return broken("states", message);
    }
    Ok(())
}

impl RunRow {
    /// What it is called.
    pub(crate) fn id(&self) -> RunId {
        match (self.uuid, self.schedule, self.n) {
            (Some(uuid), _, _) => RunId::Other(u128::from_be_bytes(uuid)),
            (None, Some(schedule), Some(n)) => {
                RunId::Occurrence { schedule: engine::ScheduleId(schedule), n, retry: self.retry }
            }
            _ => RunId::Other(0),
        }
    }
}
