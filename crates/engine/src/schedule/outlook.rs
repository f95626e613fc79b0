//! What comes next. Lists, pages, feeds, previews and explanations all ask here.

use std::collections::HashSet;

use calendar::{Fate, Rule};
use jiff::{SignedDuration, Timestamp};

use super::upcoming::just_before;
use super::{Active, Due, Override, OverrideAction, Plan, Schedule, Status, Upcoming};
use crate::moment::whole_millisecond;

/// A repeat limit further away than this does not shorten what is listed for a later time.
const FAR: usize = 1_000;

/// Everything from which the coming occurrences of a schedule are computed.
#[derive(Clone, Copy)]
pub struct Outlook<'a> {
    pub schedule: &'a Schedule,
    pub plan: &'a Plan,
    pub overrides: &'a [Override],
    /// Whether the workflow is paused: then the schedule starts nothing.
    pub workflow_is_paused: bool,
    pub now: Timestamp,
}

/// An occurrence or a retry that is still to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The time that the rule gives.
    pub nominal: Timestamp,
    /// When it starts; `None` if it does not.
    pub effective: Option<Timestamp>,
    pub fate: AheadFate,
    /// Why the occurrence is moved, skipped, merged into another or tried again.
    pub reason: Option<String>,
}

/// What will become of an occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AheadFate {
    Kept,
    Moved,
    Skipped,
    /// Another occurrence starts at the same time and stands for it.
    Coalesced,
    /// Its run failed and is tried again.
    Retried,
}

impl AheadFate {
    /// The name in the API and on pages.
    pub fn name(self) -> &'static str {
        match self {
            AheadFate::Kept => "kept",
            AheadFate::Moved => "moved",
            AheadFate::Skipped => "skipped",
            AheadFate::Coalesced => "coalesced",
            AheadFate::Retried => "retried",
        }
    }
}

impl<'a> Outlook<'a> {
    /// The next start: an occurrence, or the retry of one.
    pub fn next(&self) -> Option<Ahead> {
        let (occurrences, _) = self.occurrences(self.undecided(), 1);
        let delayed = self.delayed(Timestamp::MIN).map(|(_, row)| row);
        let rows = occurrences.into_iter().map(|(_, row)| row).chain(delayed);
        rows.filter(|row| row.effective.is_some()).min_by_key(|row| row.effective)
    }

    /// The next `count` starts, and the times between them that do not start. An occurrence that is
    /// due and not decided yet is among them.
    pub fn coming(&self, count: usize) -> Vec<Ahead> {
        self.coming_after(self.undecided(), count)
    }

    /// Like [`Outlook::coming`], for starts strictly after this instant.
    pub fn coming_after(&self, after: Timestamp, count: usize) -> Vec<Ahead> {
        if matches!(self.schedule.status, Status::Done | Status::Dead) {
            return Vec::new();
        }
        let (occurrences, is_cut) = self.occurrences(after, count);
        let last = occurrences.last().filter(|_| is_cut).map(|(due, _)| due.effective);
        let mut rows = self.days_off(after, count, &occurrences);
        rows.retain(|(at, _)| last.is_none_or(|last| *at <= last));
        rows.extend(occurrences.into_iter().map(|(due, row)| (due.effective, row)));
        rows.extend(self.delayed(after));
        rows.sort_by_key(|(at, row)| (*at, row.nominal));
        let mut starts = 0;
        let rows = rows.into_iter().map(|(_, row)| row).take_while(|row| {
            starts += usize::from(row.effective.is_some());
            starts <= count
        });
        rows.collect()
    }

    /// The instant after which nothing is decided yet.
    fn undecided(&self) -> Timestamp {
        self.first().map_or(self.now, |due| just_before(due.effective).min(self.now))
    }

    fn upcoming(&self) -> Upcoming<'a> {
        Upcoming { plan: self.plan, overrides: self.overrides }
    }

    /// Why nothing starts, if the schedule or its workflow is paused.
    fn hold(&self) -> Option<&'static str> {
        match self.schedule.status {
            Status::Paused => Some("the schedule is paused"),
            _ if self.workflow_is_paused => Some("the workflow is paused"),
            _ => None,
        }
    }

    /// The first occurrence that is not decided yet. A paused schedule goes on from now.
    fn first(&self) -> Option<Due> {
        match self.schedule.status {
            Status::Paused if self.schedule.follows_completion(self.plan) => None,
            Status::Paused => self.upcoming().after(self.now),
            Status::Active => self.schedule.progress.next,
            Status::Done | Status::Dead => None,
        }
    }

    /// The occurrence after this one. Those missed while no node was running are left out: the
    /// catch-up policy decides about them.
    fn following(&self, due: Due, is_limit_far: bool, after: Timestamp) -> Option<Due> {
        let passed = if is_limit_far { after.max(self.now) } else { self.now };
        match self.schedule.follows_completion(self.plan) {
            true => None,
            false => self.upcoming().after(due.effective.max(passed)),
        }
    }

    /// Up to `count` occurrences after the instant that the repeat limit allows to start, and those
    /// between them that are skipped by hand. Also whether more may follow.
    fn occurrences(&self, after: Timestamp, count: usize) -> (Vec<(Due, Ahead)>, bool) {
        let left = self.schedule.remaining().and_then(|left| usize::try_from(left).ok());
        let mut left = left.unwrap_or(usize::MAX);
        let (mut found, mut starts, mut next) = (Vec::new(), 0, self.first());
        while let Some(due) = next {
            if left == 0 || starts == count {
                return (found, left > 0);
            }
            next = self.following(due, left >= FAR, after);
            let row = self.row(due);
            let starts_now = usize::from(row.effective.is_some());
            left -= starts_now;
            if due.effective > after {
                starts += starts_now;
                found.extend(self.landing_with(due));
                found.push((due, self.unless_held(row)));
            }
        }
        (found, false)
    }

    /// What becomes of an occurrence, apart from a pause.
    fn row(&self, due: Due) -> Ahead {
        let row = |effective, fate, reason| Ahead { nominal: due.nominal, effective, fate, reason };
        let effective = Some(due.effective);
        let over = self.upcoming().of(due.nominal);
        let (fate, reason) = match (self.plan.timing.fate(due.nominal), over) {
            (_, Some(Override { action: OverrideAction::Skip, by, .. })) => {
                return row(None, AheadFate::Skipped, Some(format!("skipped by {by}")));
            }
            (_, Some(Override { action: OverrideAction::Move(_), by, .. })) => {
                return row(effective, AheadFate::Moved, Some(format!("moved by {by}")));
            }
            (Fate::Moved { reason, .. }, _) => (AheadFate::Moved, Some(reason.to_string())),
            _ => (AheadFate::Kept, None),
        };
        let given = over.map(|over| format!("with a payload given by {}", over.by));
        let reasons: Vec<String> = [reason, given].into_iter().flatten().collect();
        row(effective, fate, (!reasons.is_empty()).then(|| reasons.join(", ")))
    }

    /// Occurrences that people moved onto the time of this one.
    fn landing_with(&self, due: Due) -> impl Iterator<Item = (Due, Ahead)> {
        self.upcoming().landing_with(due).map(move |other| (other, merged(other.nominal)))
    }

    fn unless_held(&self, row: Ahead) -> Ahead {
        match self.hold() {
            Some(reason) if row.effective.is_some() => Ahead {
                effective: None,
                fate: AheadFate::Skipped,
                reason: Some(reason.to_owned()),
                ..row
            },
            _ => row,
        }
    }

    /// Times of the rule on days off: skipped by the calendar, or moved onto another occurrence.
    fn days_off(
        &self,
        after: Timestamp,
        count: usize,
        found: &[(Due, Ahead)],
    ) -> Vec<(Timestamp, Ahead)> {
        let timing = &self.plan.timing;
        let never_off = matches!(timing.rule(), Rule::WorkingDay(_) | Rule::AfterCompletion(_));
        if timing.calendar().is_none() || never_off {
            return Vec::new();
        }
        let known: HashSet<Timestamp> = found.iter().map(|(due, _)| due.nominal).collect();
        let starts: HashSet<Timestamp> = found.iter().map(|(due, _)| due.effective).collect();
        let spread = |at: Timestamp| plus(at, timing.moved_by());
        let rows = timing.preview(after, count.saturating_add(1)).into_iter().filter_map(|row| {
            let nominal = whole_millisecond(row.nominal);
            if nominal <= after || known.contains(&nominal) || self.upcoming().is_moved(nominal) {
                return None;
            }
            match row.fate {
                Fate::Skipped { reason } => {
                    let reason = Some(reason.to_string());
                    let fate = AheadFate::Skipped;
                    Some((nominal, Ahead { nominal, effective: None, fate, reason }))
                }
                Fate::Moved { to, .. } if starts.contains(&spread(to)) => {
                    Some((spread(to), merged(nominal)))
                }
                Fate::Kept if starts.contains(&spread(nominal)) => {
                    Some((spread(nominal), merged(nominal)))
                }
                _ => None,
            }
        });
        rows.collect()
    }

    /// Starts that do not follow from the rule any more: retries of failed runs, and occurrences
    /// that wait for the pace of a catch-up or backfill.
    fn delayed(&self, after: Timestamp) -> impl Iterator<Item = (Timestamp, Ahead)> {
        let progress = &self.schedule.progress;
        let retries = progress.active.iter().filter_map(|active| match active {
            Active::Retrying { occurrence, retry, at } => {
                let reason = format!("retry {retry} of occurrence {}", occurrence.n);
                Some((*at, occurrence, AheadFate::Retried, reason))
            }
            Active::Running { .. } | Active::ByHand { .. } => None,
        });
        let paced = progress.queued.iter().filter_map(|queued| {
            let occurrence = &queued.occurrence;
            let reason = format!("occurrence {} waits for its pace", occurrence.n);
            Some((queued.not_before?, occurrence, AheadFate::Moved, reason))
        });
        let rows = retries.chain(paced).filter(move |(at, ..)| *at > after);
        rows.map(|(at, occurrence, fate, reason)| {
            let (nominal, effective, reason) = (occurrence.due.nominal, Some(at), Some(reason));
            (at, self.unless_held(Ahead { nominal, effective, fate, reason }))
        })
    }
}

fn merged(nominal: Timestamp) -> Ahead {
    let reason = Some("another one starts at the same time and stands for it".to_owned());
    Ahead { nominal, effective: None, fate: AheadFate::Coalesced, reason }
}

fn plus(at: Timestamp, by: SignedDuration) -> Timestamp {
    whole_millisecond(at.checked_add(by).unwrap_or(at))
}
