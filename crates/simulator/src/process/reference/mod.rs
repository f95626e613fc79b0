//! Checks what must become of a process, commit by commit.

mod attempts;
mod deadlines;
mod ending;
mod expressions;
pub(crate) mod family;
mod flow;
mod plan;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use engine::run::{Activity, ActivityStatus, Claimant, Item, Part, StepState, StepStatus};
use engine::turn::Command;
use language::Rules;

use self::deadlines::Expected;
use self::plan::Plan;
use super::rows::{Detail, StepRow};
use crate::model::{Cause, Checked, broken};
use crate::watch::RunRow;

/// The memory of the model about processes.
#[derive(Default)]
pub(crate) struct Reference {
    plans: HashMap<(i64, u32), Rc<Plan>>,
    stories: BTreeMap<i64, Story>,
    commits: u64,
}

/// What has happened in a run so far.
#[derive(Debug, Default)]
struct Story {
    /// The commit in which each step last completed.
    done: BTreeMap<u32, u64>,
    /// Steps whose undoing has begun.
    undone: BTreeSet<u32>,
    /// Deadlines that count: of steps, and of the run.
    expected: BTreeMap<Option<u32>, Expected>,
    /// How often a person has resolved an unknown outcome.
    resolved: u32,
    /// How long attempts were being performed, in milliseconds.
    performed: i64,
    /// When the run last changed.
    seen_at: i64,
}

/// If the clock is set back by no more than this many milliseconds, a run's records still never go
/// back in time.
const OVERLAP: i64 = 5_000;

/// One commit, as far as one run is concerned.
struct Seen<'a> {
    cause: &'a Cause,
    now: i64,
    commit: u64,
    rules: &'a Rules,
    plan: &'a Plan,
    before: Option<&'a RunRow>,
    after: &'a RunRow,
    was: Option<&'a Detail>,
    is: &'a Detail,
}

impl Reference {
    /// Checks what a commit has done to a run.
    pub(crate) fn check(
        &mut self,
        cause: &Cause,
        now: i64,
        rules: &Rules,
        before: Option<&RunRow>,
        after: &RunRow,
    ) -> Checked {
        let Some(is) = after.detail.as_deref() else { return Ok(()) };
        self.commits += 1;
        let of = (after.workflow, after.version);
        let plan = self.plans.entry(of).or_insert_with(|| Rc::new(Plan::of(&is.definition)));
        let plan = plan.clone();
        let story = self.stories.entry(after.key).or_default();
        let was = before.and_then(|before| before.detail.as_deref());
        let commit = self.commits;
        let seen = Seen { cause, now, commit, rules, plan: &plan, before, after, was, is };
        seen.check_said(story)?;
        seen.check_reported()?;
        seen.check_shape()?;
        seen.check_flow()?;
        seen.check_attempts(story)?;
        seen.check_deadlines(story)?;
        seen.check_undoing(story)?;
        seen.check_time(story)?;
        if after.status.has_ended() {
            seen.check_ended(story)?;
            self.stories.remove(&after.key);
        }
        Ok(())
    }

    /// Checks that no deadline's action is overdue.
    pub(crate) fn check_quiet(&self, now: i64, run: &RunRow) -> Checked {
        let Some(story) = self.stories.get(&run.key) else { return Ok(()) };
        let late = story.expected.iter().find_map(|(step, all)| Some((step, all.late(now)?)));
        match late {
            Some((step, (action, at))) => {
                let message = format!("action {action} was to happen at {at}, it is {now}");
                broken("deadline", format!("run {}, step {step:?}: {message}", run.key))
            }
            None => Ok(()),
        }
    }
}

impl Seen<'_> {
    fn broken(&self, checker: &'static str, step: u32, message: &str) -> Checked {
        let id = self.is.definition.steps.get(step as usize).map(|step| step.id.as_str());
        let (key, id) = (self.after.key, id.unwrap_or("?"));
        broken(checker, format!("run {key}, step {id}: {message}"))
    }

    fn state(&self, step: u32) -> StepState {
        self.after.state.states.of(step)
    }

    fn old_state(&self, step: u32) -> StepState {
        self.before.map_or(StepState::Pending, |before| before.state.states.of(step))
    }

    fn steps(&self) -> std::ops::Range<u32> {
        0..self.is.definition.steps.len() as u32
    }

    /// A row that this commit has written.
    fn new_row(&self, step: u32, item: Item) -> Option<&StepRow> {
        let row = self.is.row(step, item)?;
        (self.was.and_then(|was| was.row(step, item)) != Some(row)).then_some(row)
    }

    /// Whether the run has jumped after an error.
    fn has_jumped(&self) -> bool {
        let before = self.before.map_or(0, |before| before.state.jumps);
        self.after.state.jumps > before
    }

    fn was_active(&self, part: Part) -> Option<&Activity> {
        self.before?.state.part(part.step, part.item)
    }

    /// Checks that a report that changes a run came from the worker that claimed the attempt.
    fn check_claimant(&self, token: u32, said_by: &Claimant) -> Checked {
        let active = self.before.and_then(|before| before.state.with_token(token));
        match active.map(|active| &active.status) {
            Some(ActivityStatus::Claimed { claimant, .. }) if **claimant != *said_by => {
                let message = format!(
                    "run {}: attempt {token} of {claimant:?}, by {said_by:?}",
                    self.after.key
                );
                broken("claimants", message)
            }
            _ => Ok(()),
        }
    }

    /// Checks that a report or a decision counts only if its author may give it.
    fn check_said(&self, story: &mut Story) -> Checked {
        let Cause::Command(command) = self.cause else { return Ok(()) };
        let (key, id) = (self.after.key, self.after.id());
        match &**command {
            Command::EndAttempt { id: of, token, claimant, .. } if *of == id => {
                self.check_claimant(*token, claimant)?;
                let knows = |row: &RunRow| row.state.with_token(*token).is_some();
                if !self.before.is_some_and(knows) {
                    let message = format!("run {key}: old token {token} was accepted");
                    return broken("tokens", message);
                }
                if knows(self.after) {
                    broken("reports", format!("run {key}: the end of {token} was lost"))
                } else {
                    Ok(())
                }
            }
            Command::Heartbeat { id: of, token, claimant, .. } if *of == id => {
                self.check_claimant(*token, claimant)?;
                let lives = |row: &RunRow| row.state.with_token(*token).is_some();
                if self.before.is_some_and(lives) {
                    Ok(())
                } else {
                    broken("tokens", format!("run {key}: old token {token} lives"))
                }
            }
            Command::DecideApproval { id: of, step, by, .. } if *of == id => {
                self.check_decided(step, by)
            }
            Command::ResolveRun { id: of, .. } | Command::ResolveStep { id: of, .. }
                if *of == id =>
            {
                story.resolved += 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn check_decided(&self, id: &str, by: &str) -> Checked {
        let step = self.steps().find(|step| self.is.definition.steps[*step as usize].id == id);
        let Some(step) = step else { return Ok(()) };
        let asked = self.was_active(Part { step, item: Item::Whole }).map(|active| &active.status);
        match asked {
            Some(ActivityStatus::Asked { assignees, .. })
                if assignees.is_empty() || assignees.iter().any(|who| who == by) =>
            {
                Ok(())
            }
            _ => self.broken("approvals", step, &format!("{by} decided, asked: {asked:?}")),
        }
    }

    /// Checks that states, rows, queues and approvals agree.
    fn check_shape(&self) -> Checked {
        for step in self.steps() {
            let row = self.is.row(step, Item::Whole).map(|row| row.status);
            let fits = match self.state(step) {
                StepState::Completed => row == Some(StepStatus::Completed),
                StepState::Failed => row == Some(StepStatus::Failed),
                StepState::Skipped | StepState::Bypassed => row == Some(StepStatus::Skipped),
                StepState::Active => self.after.state.part(step, Item::Whole).is_some(),
                StepState::Pending | StepState::Cancelled => true,
            };
            if !fits {
                let message = format!("{:?}, and its row says {row:?}", self.state(step));
                return self.broken("shape", step, &message);
            }
        }
        let active = &self.after.state.active;
        if let Some(active) = active
            .iter()
            .filter(|active| active.item == Item::Whole || !self.after.is_ending())
            .find(|active| {
                active.item != Item::Undoing && self.state(active.step) != StepState::Active
            })
        {
            return self.broken("shape", active.step, &format!("not active: {active:?}"));
        }
        let mut queued: Vec<(u32, i32)> = active
            .iter()
            .filter(|active| matches!(active.status, ActivityStatus::Queued { .. }))
            .map(|active| (active.step, active.item.number()))
            .collect();
        queued.sort_unstable();
        let mut asked: Vec<u32> = active
            .iter()
            .filter(|active| matches!(active.status, ActivityStatus::Asked { .. }))
            .map(|active| active.step)
            .collect();
        asked.sort_unstable();
        if queued != self.is.queue || asked != self.is.approvals {
            let (queue, approvals) = (&self.is.queue, &self.is.approvals);
            let message = format!("{queued:?} {asked:?} wait, stored: {queue:?} {approvals:?}");
            return broken("waiting", format!("run {}: {message}", self.after.key));
        }
        Ok(())
    }
}
