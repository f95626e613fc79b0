//! Checks runs: legal changes of status, current tokens, and no repetition of a step that must not
//! be repeated.

use engine::RunId;
use engine::run::RunStatus::{
    self, Cancelled, Failed, Pending, Running, Succeeded, Suspended, TimedOut, Waiting,
};
use engine::run::{Activity, ActivityStatus, Claimant, Item, Part, StepState};
use engine::turn::Command;

use super::{Cause, Checked, Model, Reported, Violation, broken};
use crate::process::reference::family::{check_family, check_retried};
use crate::watch::RunRow;
use crate::work::Begun;

/// At most this many attempts of a run may begin in one commit.
const TOKENS: u32 = 1_500;

/// What one commit has done to one run.
#[derive(Debug)]
pub(super) struct Moved {
    pub(super) row: RunRow,
    pub(super) before: Option<RunRow>,
    pub(super) is_new: bool,
    /// Whether the run got capacity in this commit.
    pub(super) has_begun: bool,
}

/// Which statuses a run may reach from each in one commit. Who may move it is in the engine's own
/// documentation.
fn is_legal(from: RunStatus, to: RunStatus) -> bool {
    match from {
        Pending => !matches!(to, Suspended | TimedOut),
        Running | Waiting | Suspended => to != Pending,
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
            None if self.has_ended(key) => {
                return broken("states", format!("run {key} has ended, and was changed: {row:?}"));
            }
            None => {
                self.greatest_run = self.greatest_run.max(key);
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
        let is_new = before.is_none();
        Ok(Moved { row, before, is_new, has_begun })
    }

    fn has_ended(&self, key: i64) -> bool {
        if self.has_many_nodes { self.history.has_run(key) } else { key <= self.greatest_run }
    }

    /// Checks that each report of a current attempt is taken, and every other is refused.
    pub(super) fn check_reports(
        &mut self,
        cause: &Cause,
        refused: Option<usize>,
        changed: &[RunRow],
    ) -> Checked {
        match cause {
            Cause::Command(command) => {
                if let Command::ResolveRun { id, .. } | Command::ResolveStep { id, .. } = &**command
                {
                    self.resolved(id);
                }
                return Ok(());
            }
            Cause::Node => return Ok(()),
            Cause::Turn(_) => {}
        }
        let Cause::Turn(reports) = cause else { return Ok(()) };
        let mut taken: Vec<(i64, u32)> = Vec::new();
        // Of several reports of one run, the first may have ended the attempts of the others.
        let (mut expected, mut uncertain) = (0, 0);
        for Reported { run: key, token, .. } in reports {
            let (key, token) = (*key, *token);
            let run = self.runs.get(&key);
            let part = run.and_then(|run| run.performed(token));
            let Some(part) = part.filter(|_| !taken.contains(&(key, token))) else {
                expected += 1;
                continue;
            };
            uncertain += usize::from(taken.iter().any(|(run, _)| *run == key));
            taken.push((key, token));
            let after = changed.iter().find(|row| row.key == key);
            if after.is_none_or(|row| row.performed(token).is_some()) {
                let message = format!("run {key}: the report of attempt {token} was lost");
                return broken("reports", message);
            }
            self.unsettled.remove(&(key, part));
        }
        let all = expected..=expected + uncertain;
        match refused.filter(|refused| !all.contains(refused)) {
            Some(refused) => broken(
                "tokens",
                format!("{refused} reports were refused, {all:?} had an old token: {reports:?}"),
            ),
            None => Ok(()),
        }
    }

    /// A person has resolved the outcome of the attempt.
    fn resolved(&mut self, id: &RunId) {
        let key = self.runs.values().find(|row| row.id() == *id).map(|row| row.key);
        if let Some(key) = key {
            self.unsettled.retain(|(run, _)| *run != key);
        }
    }

    /// Checks attempts that were handed out: each is the current one of its run, and a step that
    /// must not be repeated is not.
    pub(crate) fn check_begun(&mut self, begun: &[Begun]) -> Checked {
        for attempt in begun {
            let Begun { run, part, token, idempotent } = *attempt;
            let known = self.runs.get(&run);
            if known.is_none_or(|row| row.performed(token) != Some(part)) {
                return broken(
                    "performed",
                    format!("{attempt:?} is not what is stored: {known:?}"),
                );
            }
            if !idempotent && !self.unsettled.insert((run, part)) {
                let message = format!("run {run}: {part:?} must not be repeated, and was");
                return broken("performed", message);
            }
        }
        Ok(())
    }
}

impl Model {
    /// Checks processes against the reference.
    pub(super) fn check_processes(&mut self, cause: &Cause, now: i64, moved: &[Moved]) -> Checked {
        for Moved { row, before, .. } in moved {
            self.check_claimed(cause, before.as_ref(), row)?;
            self.reference.check(cause, now, &self.rules, before.as_ref(), row)?;
            if let (None, Cause::Command(command)) = (before, cause)
                && let Command::RetryRun { id, from_start, .. } = &**command
                && let Some(old) = self.ended.iter().find(|old| old.id() == *id)
            {
                check_retried(old, row, *from_start)?;
            }
        }
        let changed = moved.iter().map(|moved| (moved.before.as_ref(), &moved.row));
        check_family(&self.runs, changed)
    }

    /// Checks that a step a worker has claimed, and that must not be repeated, was not performed
    /// before.
    fn check_claimed(&mut self, cause: &Cause, before: Option<&RunRow>, after: &RunRow) -> Checked {
        let Some(detail) = &after.detail else { return Ok(()) };
        let key = after.key;
        if let (Cause::Command(command), Some(before)) = (cause, before)
            && let Command::EndAttempt { id, token, .. } = &**command
            && *id == after.id()
            && let Some(active) = before.state.with_token(*token)
        {
            self.unsettled.remove(&(key, active.part()));
        }
        // A step that is over, or begins again, no longer counts as unsettled.
        let tokens = |row: &RunRow| -> Vec<Option<u32>> {
            row.state.active.iter().map(|active| active.status.token()).collect()
        };
        let has_jumped = before.is_some_and(|row| after.state.jumps > row.state.jumps);
        let known = before.map(tokens).unwrap_or_default();
        self.unsettled.retain(|(run, part)| {
            let active = after.state.part(part.step, part.item);
            *run != key
                || active
                    .is_some_and(|active| !has_jumped || known.contains(&active.status.token()))
        });
        for active in &after.state.active {
            let is_new = !known.contains(&active.status.token());
            let once = !detail.definition.steps[active.step as usize].idempotent;
            if matches!(active.status, ActivityStatus::Claimed { .. })
                && is_new
                && once
                && active.item != Item::Undoing
                && !self.unsettled.insert((key, active.part()))
            {
                let message = format!("run {key}: {active:?} must not be repeated, and was");
                return broken("performed", message);
            }
        }
        Ok(())
    }

    /// Whether a run does not end, and waits for nothing that is to come.
    pub(crate) fn is_stuck(&self, key: i64, now: i64) -> bool {
        self.runs.get(&key).is_some_and(|run| !self.waits_for_something(run, now))
    }

    fn waits_for_something(&self, run: &RunRow, now: i64) -> bool {
        if run.status == Pending {
            let others = self.runs.values().filter(|other| other.workflow == run.workflow);
            let mut begun = others.filter(|other| other.status != Pending);
            return begun.any(|other| self.waits_for_something(other, now));
        }
        run.state.active.iter().any(|active| match active.status {
            ActivityStatus::Timer { until, .. } => until.as_millisecond() > now,
            ActivityStatus::Child { run, .. } => !self.is_stuck(run.0, now),
            ActivityStatus::Awaiting { .. } => true,
            _ => false,
        })
    }
}

fn check_new(now: i64, latest: i64, row: &RunRow) -> Checked {
    // A process may begin with a timer, or end at once by a condition.
    let may_be = match row.detail {
        Some(_) => !matches!(row.status, Suspended | TimedOut),
        None if row.whole.is_some() => !matches!(row.status, Suspended | TimedOut),
        // The parent may cancel it at once.
        None if row.parent.is_some() => matches!(row.status, Pending | Running | Cancelled),
        None => matches!(row.status, Pending | Running),
    };
    if !may_be {
        return broken("states", format!("run {} is born {}", row.key, row.status.name()));
    }
    if row.created_at != now {
        let message = format!("run {} says {}, the clock {now}", row.key, row.created_at);
        return broken("early", message);
    }
    // An occurrence that had to wait may start after the clock was set back.
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
    let (was, is) = (before.state.token, after.state.token);
    if is < was || is > was + TOKENS {
        return broken("tokens", format!("run {key}: token {is} after {was}"));
    }
    let resolves = |command: &Command| {
        matches!(
            command,
            Command::ResolveRun { .. } | Command::ResolveStep { .. } | Command::CancelRun { .. }
        )
    };
    let by_a_person = match cause {
        Cause::Command(command) => resolves(command),
        // By the overlap policy `cancel`, or by the `reconcile` phase of a handler.
        Cause::Turn(reports) => to == Cancelled || looked(before, reports),
        Cause::Node => false,
    };
    let alerts = |row: &RunRow| row.detail.as_ref().map_or(0, |detail| detail.alerts.len());
    let is_given_up = after.is_ending()
        || after.state.jumps > before.state.jumps
        || alerts(after) > alerts(before);
    // An item ends with its step.
    let is_over =
        |part: &Part| part.item.is_nth() && after.state.states.of(part.step) != StepState::Active;
    let is_left = |part: &Part| after.unknown().any(|known| known == *part) || is_over(part);
    let lost = before.unknown().find(|part| !is_left(part));
    match lost.filter(|_| !by_a_person && !is_given_up) {
        Some(part) => {
            let what = "was performed, and nobody said what became of it";
            broken("states", format!("run {key}: {part:?} {what}"))
        }
        None => Ok(()),
    }
}

/// Whether a `reconcile` phase has found out what became of a mutation.
fn looked(before: &RunRow, reports: &[Reported]) -> bool {
    let own = reports.iter().filter(|report| report.run == before.key);
    let mut parts = own.filter_map(|report| before.performed(report.token));
    parts.any(|part| part.item == Item::Reconciling)
}

impl RunRow {
    /// The part that the attempt with this token is of, if a node performs it.
    pub(crate) fn performed(&self, token: u32) -> Option<Part> {
        let is_it = |active: &&Activity| match active.status {
            ActivityStatus::Performed { token: t, .. } => t == token,
            _ => false,
        };
        let found = self.state.active.iter().find(is_it).filter(|_| !self.status.has_ended());
        found.map(Activity::part)
    }

    /// The tokens of the attempts that nodes perform.
    pub(crate) fn current(&self) -> Vec<u32> {
        let performed = |active: &Activity| match active.status {
            ActivityStatus::Performed { token, .. } => Some(token),
            _ => None,
        };
        self.state.active.iter().filter_map(performed).collect()
    }

    /// The tokens of the attempts that workers have claimed.
    pub(crate) fn claimed(&self) -> Vec<(u32, Claimant)> {
        let claimed = |active: &Activity| match &active.status {
            ActivityStatus::Claimed { token, claimant, .. } => Some((*token, (**claimant).clone())),
            _ => None,
        };
        self.state.active.iter().filter_map(claimed).collect()
    }

    /// Parts whose outcome is unknown.
    fn unknown(&self) -> impl Iterator<Item = Part> {
        let is_unknown =
            |active: &&Activity| matches!(active.status, ActivityStatus::Unknown { .. });
        self.state.active.iter().filter(is_unknown).map(Activity::part)
    }

    /// Whether the run has ended, or is going to.
    pub(crate) fn is_ending(&self) -> bool {
        self.status.has_ended() || self.state.ending.is_some()
    }

    /// Whether its attempts have been cancelled and are still ending.
    pub(crate) fn is_stopping(&self) -> bool {
        self.state.ending.as_ref().is_some_and(|ending| ending.until.is_some())
    }

    /// The public id of the run.
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
