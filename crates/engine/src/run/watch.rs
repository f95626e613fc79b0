//! Deadlines: the instants of their actions, and what happens at each of them.

use jiff::Timestamp;
use jiff::civil::Time;
use language::Rules;
use language::definition::{Deadline, DeadlineEnd, Definition, From, Limit, TimeSpan, When};

use super::deadline_math::Instants;
use super::decide::Decider;
use super::input::{Alert, Retryability, RunHistory};
use super::state::{StepState, Watch};
use super::{Ending, Run, StepStatus};
use crate::turn::Damaged;

/// Starts the deadline of a run that counts from the time at which the run could begin: its
/// creation.
pub fn watch_new_run(run: &mut Run, definition: &Definition, rules: &Rules) {
    if let Some(deadline) = &definition.deadline
        && deadline.from == From::Enabled
    {
        let watch = watch(definition, rules, deadline, None, run.created_at);
        run.state.watches.extend(watch);
    }
}

/// The instants of a deadline that counts from `from`. A deadline that cannot be computed, because
/// its calendar is gone, is not watched: publishing has checked it, and it must not stop the work.
fn watch(
    definition: &Definition,
    rules: &Rules,
    deadline: &Deadline,
    step: Option<u32>,
    from: Timestamp,
) -> Option<Watch> {
    let instants = Instants { definition, rules, calendar: deadline.calendar.as_deref() };
    let (due, span) = match &deadline.limit {
        Limit::Within(span) => (instants.after(from, *span, 1).ok()?, *span),
        Limit::At(hour, minute) => {
            let time = Time::new(hour.cast_signed(), minute.cast_signed(), 0, 0).ok()?;
            let due = instants.next_at(from, time).ok()?;
            (due, TimeSpan::Elapsed(due.duration_since(from)))
        }
    };
    let instant = |when: When| match when {
        When::Share(percent) => instants.share(from, span, percent),
        When::Before(span) => instants.after(due, span, -1).map(|at| at.max(from)),
        When::Deadline => Ok(due),
        When::After(span) => instants.after(due, span, 1),
    };
    let mut coming: Vec<(i64, u32)> = (0_u32..)
        .zip(&deadline.actions)
        .filter_map(|(index, action)| Some((instant(action.when).ok()?.as_millisecond(), index)))
        .collect();
    coming.sort_unstable_by(|a, b| b.cmp(a));
    Some(Watch { step, from, due, coming, overdue: false, held_since: None })
}

fn deadline_of(definition: &Definition, step: Option<u32>) -> Option<&Deadline> {
    match step {
        None => definition.deadline.as_ref(),
        Some(step) => definition.steps.get(step as usize)?.deadline.as_ref(),
    }
}

impl<F: RunHistory> Decider<'_, F> {
    pub(super) fn watch_started_run(&mut self) {
        if let Some(deadline) = &self.definition.deadline
            && deadline.from == From::Started
        {
            let watch = watch(self.definition, self.rules, deadline, None, self.stamp);
            self.run.state.watches.extend(watch);
        }
    }

    pub(super) fn watch_enabled_step(&mut self, step: u32) {
        self.watch_step(step, From::Enabled);
    }

    pub(super) fn watch_started_step(&mut self, step: u32) {
        self.watch_step(step, From::Started);
    }

    fn watch_step(&mut self, step: u32, from: From) {
        let definition = self.definition;
        let deadline = definition.steps.get(step as usize).and_then(|s| s.deadline.as_ref());
        let is_watched = self.run.state.watches.iter().any(|watch| watch.step == Some(step));
        let Some(deadline) = deadline.filter(|deadline| deadline.from == from && !is_watched)
        else {
            return;
        };
        let watch = watch(definition, self.rules, deadline, Some(step), self.stamp);
        self.run.state.watches.extend(watch);
    }

    /// Stops watching the deadline of a step that has ended.
    pub(super) fn unwatch(&mut self, step: u32) {
        self.run.state.watches.retain(|watch| watch.step != Some(step));
    }

    /// Stops the clocks of pausable deadlines while the run waits for a person to resolve a step or
    /// its workflow is paused. Afterwards they continue with as much time as was left.
    pub(super) fn hold_or_release(&mut self, is_held: bool) {
        let (definition, rules, now) = (self.definition, self.rules, self.now);
        for watch in &mut self.run.state.watches {
            // The definition for cancelling a run whose own cannot be read has no deadlines.
            let Some(deadline) = deadline_of(definition, watch.step) else { continue };
            match watch.held_since.and_then(|at| Timestamp::from_millisecond(at).ok()) {
                None if is_held && deadline.pausable && !watch.overdue => {
                    watch.held_since = Some(now.as_millisecond());
                }
                Some(since) if !is_held => {
                    let instants =
                        Instants { definition, rules, calendar: deadline.calendar.as_deref() };
                    let is_working = match deadline.limit {
                        Limit::Within(span) => span.needs_calendar(),
                        Limit::At(..) => false,
                    };
                    let later = |at: Timestamp| instants.later(at, since, now, is_working);
                    watch.due = later(watch.due);
                    for (at, _) in &mut watch.coming {
                        let instant = Timestamp::from_millisecond(*at).unwrap_or(now);
                        *at = later(instant).as_millisecond();
                    }
                    watch.coming.sort_unstable_by(|a, b| b.cmp(a));
                    watch.held_since = None;
                }
                _ => {}
            }
        }
    }

    pub(super) fn has_due_watch(&self) -> bool {
        let mut watches = self.run.state.watches.iter();
        watches.any(|watch| watch.wake_at().is_some_and(|at| at <= self.now))
    }

    /// Carries out every deadline action that is due, earliest first.
    pub(super) fn look_at_watches(&mut self) -> Result<(), F::Error> {
        let now = self.now.as_millisecond();
        loop {
            let watches = self.run.state.watches.iter().enumerate();
            let next = watches
                .filter_map(|(at, watch)| Some((watch.wake_at()?.as_millisecond(), at)))
                .filter(|(due, _)| *due <= now)
                .min();
            let Some((_, at)) = next else { return Ok(()) };
            self.happens(at)?;
            if self.is_ending() || self.run.status.has_ended() {
                return Ok(());
            }
        }
    }

    /// Carries out the next instant of this deadline.
    fn happens(&mut self, at: usize) -> Result<(), F::Error> {
        let watch = &mut self.run.state.watches[at];
        let (step, due) = (watch.step, watch.due);
        let next = watch.coming.last().copied();
        let is_due_first = next.is_none_or(|(at, _)| at >= due.as_millisecond());
        if !watch.overdue && is_due_first && due <= self.now {
            watch.overdue = true;
            // A run is overdue if one of its steps is.
            self.run.overdue = true;
            return Ok(());
        }
        let missing = || Damaged("a deadline was woken without a coming instant".to_owned());
        let (instant, action) = watch.coming.pop().ok_or_else(missing)?;
        let at = Timestamp::from_millisecond(instant).unwrap_or(self.now);
        self.decision.alerts.push(Alert { step, action, at, due });
        let deadline = deadline_of(self.definition, step);
        let end = deadline.and_then(|deadline| deadline.actions.get(action as usize)?.end);
        match end {
            Some(end) => self.end_late(step, end),
            None => Ok(()),
        }
    }

    /// Ends a run or step that is late, as the deadline says.
    fn end_late(&mut self, step: Option<u32>, end: DeadlineEnd) -> Result<(), F::Error> {
        let message = "it was not done in the time it was promised";
        let late = match step {
            Some(step) => self.error(step, "deadline", message),
            None => super::RunError {
                code: "deadline".to_owned(),
                message: message.to_owned(),
                step: None,
            },
        };
        let Some(step) = step else {
            let ending = match end {
                DeadlineEnd::Fail => Ending::Failed,
                DeadlineEnd::Complete => Ending::Succeeded,
                DeadlineEnd::Cancel | DeadlineEnd::Skip => Ending::Cancelled,
            };
            self.end_from_outside(ending, late, Retryability::Permanent);
            return Ok(());
        };
        let at = self.index_of_step(step)?;
        match end {
            DeadlineEnd::Cancel => {
                self.end_from_outside(Ending::Cancelled, late, Retryability::Permanent)
            }
            DeadlineEnd::Complete => {
                self.abandon(at, StepStatus::Completed, Some(late));
                self.step_completed(step);
            }
            DeadlineEnd::Skip => {
                self.abandon(at, StepStatus::Skipped, Some(late));
                self.unwatch(step);
                self.set_state(step, StepState::Skipped);
            }
            DeadlineEnd::Fail => {
                let active = self.give_up(at);
                return self.step_failed(&active, late, Retryability::Permanent, None);
            }
        }
        Ok(())
    }
}
