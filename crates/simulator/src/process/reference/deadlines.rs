//! Checks deadlines: each action happens once, at its instant, and none after the work has ended.

use std::collections::BTreeSet;

use engine::run::{Item, StepState};
use jiff::Timestamp;
use language::Rules;
use language::definition::{Deadline, Definition, From, Limit, TimeSpan, When};

use super::{Seen, Story};
use crate::clock::instant;
use crate::model::{Checked, broken};

/// What must happen because of one deadline.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    /// When the work could begin.
    enabled_at: i64,
    due: i64,
    /// When each action must happen, by its index.
    at: Vec<i64>,
    happened: BTreeSet<u32>,
}

impl Expected {
    /// An action that should have happened by now, and has not.
    pub(super) fn late(&self, now: i64) -> Option<(usize, i64)> {
        let late = |(action, at): &(usize, &i64)| {
            **at <= now && !self.happened.contains(&(*action as u32))
        };
        self.at.iter().enumerate().find(late).map(|(action, at)| (action, *at))
    }
}

/// A stretch after an instant, or before it if `sign` is negative.
pub(super) fn after(
    rules: &Rules,
    definition: &Definition,
    calendar: Option<&str>,
    from: Timestamp,
    stretch: TimeSpan,
    sign: i32,
) -> Option<Timestamp> {
    let zone = definition.timezone.as_deref().unwrap_or("UTC");
    let calendar = || {
        let id = calendar.or(definition.calendar.as_deref())?;
        rules.find_calendar(id, zone, &definition.calendars)
    };
    match stretch {
        TimeSpan::Elapsed(time) => from.checked_add(time * sign).ok(),
        TimeSpan::Working(time) => calendar()?.add_time(from, time * sign),
        TimeSpan::WorkingDays(days) => calendar()?.add_days(from, days * f64::from(sign)),
    }
}

impl Seen<'_> {
    fn expected(&self, deadline: &Deadline, enabled_at: i64, from: i64) -> Option<Expected> {
        let (definition, calendar) = (&self.is.definition, deadline.calendar.as_deref());
        let from = instant(from);
        let away =
            |from, stretch, sign| after(self.rules, definition, calendar, from, stretch, sign);
        let Limit::Within(within) = deadline.limit else { return None };
        let due = away(from, within, 1)?;
        let share = |percent: f64| {
            let of = |time: jiff::SignedDuration| time.mul_f64(percent / 100.0);
            match within {
                TimeSpan::Elapsed(time) => away(from, TimeSpan::Elapsed(of(time)), 1),
                TimeSpan::Working(time) => away(from, TimeSpan::Working(of(time)), 1),
                TimeSpan::WorkingDays(days) => {
                    away(from, TimeSpan::WorkingDays(days * percent / 100.0), 1)
                }
            }
        };
        let at = deadline.actions.iter().map(|action| {
            let at = match action.when {
                When::Share(percent) => share(percent)?,
                When::Before(stretch) => away(due, stretch, -1)?.max(from),
                When::Deadline => due,
                When::After(stretch) => away(due, stretch, 1)?,
            };
            Some(at.as_millisecond())
        });
        let at = at.collect::<Option<Vec<i64>>>()?;
        let (due, happened) = (due.as_millisecond(), BTreeSet::new());
        Some(Expected { enabled_at, due, at, happened })
    }

    pub(super) fn check_deadlines(&self, story: &mut Story) -> Checked {
        let known = self.was.map(|was| was.alerts.as_slice()).unwrap_or_default();
        for alert in self.is.alerts.iter().filter(|alert| !known.contains(alert)) {
            let (step, action) = (alert.step, alert.action);
            let expected = match story.expected.get_mut(&step) {
                Some(expected) => Some(expected),
                // The work was enabled and overdue in the same commit.
                None => self.enabled_now(step).map(|new| story.expected.entry(step).or_insert(new)),
            };
            let what = format!("run {}, {alert:?}: {expected:?}", self.after.key);
            let Some(expected) = expected else { return broken("deadline", what) };
            let is_due = expected.at.get(action as usize) == Some(&alert.at);
            let is_now = alert.happened_at == self.now && alert.at <= self.now;
            if !expected.happened.insert(action) || !is_due || !is_now {
                return broken("deadline", what);
            }
        }
        let gone = known.iter().find(|alert| !self.is.alerts.contains(alert));
        if let Some(alert) = gone {
            let message = format!("run {}: {alert:?} is no more", self.after.key);
            return broken("deadline", message);
        }
        let is_late = |story: &Story| story.expected.values().any(|one| one.due <= self.now);
        let was_late = is_late(story);
        let knew_some = !story.expected.is_empty();
        self.expect(story);
        // The clock may have been set back since.
        let is_new = self.is.overdue && self.was.is_none_or(|was| !was.overdue);
        let knows_some = knew_some && !story.expected.is_empty();
        if is_new && knows_some && !was_late && !is_late(story) {
            let expected = &story.expected;
            broken("deadline", format!("run {} is not overdue: {expected:?}", self.after.key))
        } else {
            Ok(())
        }
    }

    fn deadline(&self, step: Option<u32>) -> Option<&Deadline> {
        match step {
            None => self.is.definition.deadline.as_ref(),
            Some(step) => self.is.definition.steps[step as usize].deadline.as_ref(),
        }
    }

    fn enabled_now(&self, step: Option<u32>) -> Option<Expected> {
        self.expected(self.deadline(step)?, self.now, self.now)
    }

    /// Updates which deadlines count after this commit.
    fn expect(&self, story: &mut Story) {
        if self.after.is_ending() {
            story.expected.clear();
            return;
        }
        for step in self.steps() {
            let active = self.after.state.part(step, Item::Whole);
            let active = active.filter(|_| self.state(step) == StepState::Active);
            let Some(active) = active else {
                story.expected.remove(&Some(step));
                continue;
            };
            let enabled_at = active.enabled_at.as_millisecond();
            let known = story.expected.get(&Some(step));
            if known.is_some_and(|known| known.enabled_at == enabled_at) {
                continue;
            }
            story.expected.remove(&Some(step));
            let Some(deadline) = self.deadline(Some(step)) else { continue };
            let from = match deadline.from {
                From::Enabled => Some(enabled_at),
                From::Started => active.status.since().map(|since| since.as_millisecond()),
            };
            let expected = from.and_then(|from| self.expected(deadline, enabled_at, from));
            story.expected.extend(expected.map(|expected| (Some(step), expected)));
        }
        let Some(deadline) = self.deadline(None) else { return };
        let from = match deadline.from {
            From::Enabled => Some(self.after.created_at),
            From::Started => self.after.started_at,
        };
        if let Some(from) = from.filter(|_| !story.expected.contains_key(&None)) {
            let expected = self.expected(deadline, from, from);
            story.expected.extend(expected.map(|expected| (None, expected)));
        }
    }
}
