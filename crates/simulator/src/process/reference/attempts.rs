//! Checks attempts: how many, when they are retried, how many at a time; timers and items.

use engine::run::{Activity, ActivityStatus, AttemptEnd, Item, StepState, StepStatus};
use engine::turn::Command;
use jiff::{SignedDuration, Timestamp};
use language::definition::{Action, ForEach, StepRetry, Timer};
use serde_json::Value;

use super::deadlines::after;
use super::{OVERLAP, Seen, Story};
use crate::clock::instant;
use crate::model::{Cause, Checked, broken};
use crate::process::rows::AttemptRow;

/// Codes of failures that a retry may fix.
const HEALS: [&str; 2] = ["trouble", "timeout"];

impl Seen<'_> {
    pub(super) fn check_attempts(&self, story: &Story) -> Checked {
        let state = &self.after.state;
        for active in &state.active {
            self.check_active(active)?;
        }
        self.check_history()?;
        let is_performed = |active: &&Activity| {
            active.status.is_performed() || matches!(active.status, ActivityStatus::Queued { .. })
        };
        let performed = state.active.iter().filter(is_performed).count();
        let limit = self.is.definition.max_concurrent_steps;
        if let Some(limit) = limit.filter(|limit| performed > *limit as usize) {
            let message = format!("run {}: {performed} steps at a time", self.after.key);
            return broken("limits", format!("{message}, at most {limit}"));
        }
        for step in self.steps() {
            self.check_timer_row(step)?;
            self.check_given_up(step, story)?;
            if let Action::ForEach(each) = &self.is.definition.steps[step as usize].action {
                self.check_items(step, each)?;
            }
        }
        Ok(())
    }

    /// Checks that a part has ended as its report says.
    pub(super) fn check_reported(&self) -> Checked {
        let (key, id) = (self.after.key, self.after.id());
        let said = match self.cause {
            Cause::Turn(reports) => {
                let parent = self.after.parent.map(|(parent, _)| parent);
                // Of several reports, the first may have ended the attempts of the others; so may a
                // report of the parent.
                let of_parent = reports.iter().any(|report| Some(report.run) == parent);
                let mut own = reports.iter().filter(|report| report.run == key && !of_parent);
                own.next().filter(|_| own.next().is_none()).map(|own| (own.token, &own.end))
            }
            Cause::Command(command) => match &**command {
                Command::EndAttempt { id: of, token, end, .. } if *of == id => Some((*token, end)),
                _ => None,
            },
            Cause::Node => None,
        };
        let before = self.before.filter(|before| !before.is_ending());
        let Some(((token, end), before)) = said.zip(before) else { return Ok(()) };
        let Some(part) = before.state.with_token(token).map(Activity::part) else {
            return Ok(());
        };
        let row = self.is.row(part.step, part.item);
        let fits = match end {
            AttemptEnd::Succeeded { output } => row.is_some_and(|row| {
                let output = serde_json::from_str::<Value>(output.get()).ok();
                row.status == StepStatus::Completed && row.output == output
            }),
            _ => row.is_some_and(|row| row.status != StepStatus::Completed),
        };
        if fits {
            Ok(())
        } else {
            self.broken("reports", part.step, &format!("{end:?}, its row: {row:?}"))
        }
    }

    fn retry(&self, step: u32, item: Item) -> StepRetry {
        let step = &self.is.definition.steps[step as usize];
        match (&step.compensation, item) {
            (Some(undo), Item::Undoing) => undo.retry.clone(),
            _ => step.retry.clone(),
        }
    }

    /// The time of this commit in the run's records: if the clock was set back a little, it is not
    /// before what the run has recorded already.
    fn stamp(&self) -> i64 {
        let Some(before) = self.before else { return self.now };
        let since = before.state.active.iter().filter_map(|active| active.status.since());
        let since = since.map(|at| at.as_millisecond()).chain(before.started_at);
        let known = since.fold(before.created_at, i64::max);
        if known - self.now <= OVERLAP { known.max(self.now) } else { self.now }
    }

    fn check_active(&self, active: &Activity) -> Checked {
        let is_old = self.was_active(active.part()).is_some_and(|was| was.status == active.status);
        if is_old {
            return Ok(());
        }
        match &active.status {
            ActivityStatus::Retrying { at } => {
                let retry = self.retry(active.step, active.item);
                let wait = backoff(&retry, active.attempt);
                let expected = self.now + wait;
                let is_early = at.as_millisecond() - expected;
                if is_early.abs() > 1 || active.attempt >= retry.max {
                    let message = format!("tried again at {at}, expected {}", instant(expected));
                    return self.broken("retry", active.step, &message);
                }
                let ended_at = self.stamp();
                let is_it = |row: &AttemptRow| {
                    (row.step, row.item) == (active.step, active.item)
                        && (row.attempt, row.ended_at) == (active.attempt, ended_at)
                };
                if self.is.earlier.iter().any(is_it) {
                    Ok(())
                } else {
                    self.broken("history", active.step, "tried again, not remembered")
                }
            }
            ActivityStatus::Timer { since, until } => match self.until(active.step, *since) {
                Some(expected) if expected == *until => Ok(()),
                expected => {
                    let message = format!("waits until {until}, expected {expected:?}");
                    self.broken("timer", active.step, &message)
                }
            },
            _ => Ok(()),
        }
    }

    /// Checks that records of earlier attempts stay, and that each attempt followed by another is
    /// among them: the one before a retry, and the last one before the run jumped back.
    fn check_history(&self) -> Checked {
        let earlier = &self.is.earlier;
        let known = self.was.map(|was| was.earlier.as_slice()).unwrap_or_default();
        if let Some(lost) = known.iter().find(|row| earlier.binary_search(row).is_err()) {
            return self.broken(
                "history",
                lost.step,
                &format!("it is not known any more: {lost:?}"),
            );
        }
        for row in self.was.map(|was| was.steps.as_slice()).unwrap_or_default() {
            let is_last = self.is.row(row.step, row.item) == Some(row);
            // Items begin anew with their step; that an item was undone before is not recorded.
            let is_told = row.attempts > 0 && row.item == Item::Whole;
            let of_it = |old: &AttemptRow| {
                (old.step, old.item, old.started_at, old.attempt)
                    == (row.step, row.item, row.started_at, row.attempts)
            };
            // A part that is given up between two attempts has the same number as the attempt
            // before.
            let is_followed = self
                .is
                .row(row.step, row.item)
                .is_some_and(|now| now.attempts != row.attempts || self.after.state.jumps > 0);
            if is_told && !is_last && is_followed && !earlier.iter().any(of_it) {
                return self.broken("history", row.step, &format!("it is lost: {row:?}"));
            }
        }
        Ok(())
    }

    fn until(&self, step: u32, since: Timestamp) -> Option<Timestamp> {
        let definition = &self.is.definition;
        let Action::Timer(Timer::Delay(stretch)) = &definition.steps[step as usize].action else {
            return None;
        };
        after(self.rules, definition, None, since, *stretch, 1)
    }

    /// Checks that a completed timer did not complete before its time.
    fn check_timer_row(&self, step: u32) -> Checked {
        let is_timer = matches!(self.is.definition.steps[step as usize].action, Action::Timer(_));
        let Some(row) = self.new_row(step, Item::Whole).filter(|_| is_timer) else { return Ok(()) };
        if row.status != StepStatus::Completed || row.error.is_some() {
            return Ok(());
        }
        let until = self.until(step, instant(row.started_at));
        if until.is_some_and(|until| until.as_millisecond() <= row.ended_at) {
            Ok(())
        } else {
            self.broken("timer", step, &format!("done before {until:?}: {row:?}"))
        }
    }

    /// Checks that a step is given up when its attempts are used up, not before, and has no more
    /// attempts than that.
    fn check_given_up(&self, step: u32, story: &Story) -> Checked {
        let Some(row) = self.new_row(step, Item::Whole) else { return Ok(()) };
        let retry = self.retry(step, Item::Whole);
        if row.attempts > retry.max + story.resolved {
            return self.broken("retry", step, &format!("{} attempts", row.attempts));
        }
        let over_items =
            matches!(self.is.definition.steps[step as usize].action, Action::ForEach(_));
        let has_failed = matches!(self.state(step), StepState::Failed | StepState::Skipped);
        let code = row.error.as_ref().map(|error| error.code.as_str());
        let heals = code.is_some_and(|code| HEALS.contains(&code));
        if has_failed && heals && !over_items && row.attempts < retry.max {
            self.broken("retry", step, &format!("given up too early: {row:?}"))
        } else {
            Ok(())
        }
    }

    fn check_items(&self, step: u32, each: &ForEach) -> Checked {
        let expected = match &each.items {
            Value::Array(items) => Some(items.len()),
            template => self.filled(template).and_then(|list| Some(list.as_array()?.len())),
        };
        let active = self.after.state.active.iter();
        let going_on = active.filter(|active| active.step == step && active.item.is_nth()).count();
        if let Some(whole) = self.after.state.part(step, Item::Whole)
            && let ActivityStatus::Items { count, begun, ended, .. } = whole.status
        {
            let most = each.max_parallel.unwrap_or(u32::MAX);
            let may = count.min(ended.saturating_add(most));
            let all_there = going_on as u32 + ended == begun && begun == may;
            if Some(count as usize) != expected || !all_there || going_on as u32 > most {
                let message = format!(
                    "{count} items, {begun} begun, {ended} ended, {going_on} going on, \
                     expected {expected:?}, {most} at a time"
                );
                return self.broken("items", step, &message);
            }
        }
        let done = self.new_row(step, Item::Whole).filter(|row| {
            row.status == StepStatus::Completed && row.error.is_none() && row.output.is_some()
        });
        let Some(row) = done else { return Ok(()) };
        let outputs: Option<Vec<Value>> = (0..expected.unwrap_or(0) as u32)
            .map(|index| {
                let item = self.is.row(step, Item::Nth(index))?;
                let is_done = item.status == StepStatus::Completed;
                is_done.then(|| item.output.clone().unwrap_or_default())
            })
            .collect();
        if outputs.map(Value::Array) == row.output {
            Ok(())
        } else {
            self.broken("items", step, &format!("an item is lost: {row:?}"))
        }
    }
}

/// How long to wait after attempt number `attempt`, in milliseconds.
fn backoff(retry: &StepRetry, attempt: u32) -> i64 {
    let factor = retry.factor.powi(attempt.saturating_sub(1) as i32);
    let wait = SignedDuration::from_secs_f64(retry.delay.as_secs_f64() * factor);
    wait.min(retry.max_delay).as_millis() as i64
}
