//! The coming starts, skipped times and retries of a schedule. Lists, pages, feeds, previews and
//! explanations all ask here.

use std::collections::HashSet;

use calendar::Fate;
use jiff::Timestamp;
use language::policy::overlap::Overlap;

use super::upcoming::{DayOff, DayOffFate, just_before};
use super::{Active, Due, Override, OverrideAction, Plan, Schedule, Status, Upcoming};

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

/// The expected outcome of an occurrence.
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
        if self.schedule.follows_completion(self.plan) {
            None
        } else {
            self.upcoming().after(due.effective.max(passed))
        }
    }

    /// Up to `count` occurrences after the instant that the repeat limit allows to start, and those
    /// between them that are skipped by hand. Also whether more may follow.
    fn occurrences(&self, after: Timestamp, count: usize) -> (Vec<(Due, Ahead)>, bool) {
        let left = self.schedule.remaining().and_then(|left| usize::try_from(left).ok());
        let mut left = left.unwrap_or(usize::MAX);
        let (mut found, mut starts, mut next) = (Vec::new(), 0, self.first());
        let retry = self.retry_in_the_way();
        let mut in_the_way = 0;
        while let Some(due) = next {
            if left == 0 || starts == count {
                return (found, left > 0);
            }
            next = self.following(due, left >= FAR, after);
            let mut row = self.row(due);
            if let Some((occurrence, at)) = retry.filter(|(_, at)| due.effective <= *at)
                && row.effective.is_some()
            {
                let reason = format!("occurrence {occurrence} failed and is tried again at {at}");
                let (fate, reason) = (AheadFate::Skipped, Some(reason));
                row = Ahead { effective: None, fate, reason, ..row };
                in_the_way += 1;
                if in_the_way == FAR {
                    next = self.upcoming().after(at);
                }
            }
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

    /// The number of the failed occurrence that is tried again last, and when, if the overlap
    /// policy skips what is due before that.
    fn retry_in_the_way(&self) -> Option<(u64, Timestamp)> {
        let retries = self.schedule.progress.active.iter().filter_map(|active| match active {
            Active::Retrying { occurrence, at, .. } => Some((occurrence.n, *at)),
            Active::Running { .. } | Active::ByHand { .. } => None,
        });
        let skips = self.schedule.declared.overlap == Overlap::Skip;
        retries.max_by_key(|(_, at)| *at).filter(|_| skips)
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

    /// Other occurrences at the time of this one that people moved there or skipped.
    fn landing_with(&self, due: Due) -> Vec<(Due, Ahead)> {
        let row = |(other, over): (Due, &Override)| match over.action {
            OverrideAction::Skip => (other, self.row(other)),
            OverrideAction::Move(_) | OverrideAction::Payload(_) => (other, merged(other.nominal)),
        };
        self.upcoming().landing_with(due).map(row).collect()
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
        let known: HashSet<Timestamp> = found.iter().map(|(due, _)| due.nominal).collect();
        let starts: HashSet<Timestamp> = found.iter().map(|(due, _)| due.effective).collect();
        let (is_known, starts_at) = (|at| known.contains(&at), |at| starts.contains(&at));
        let upcoming = self.upcoming();
        let rows = upcoming.days_off(after, count.saturating_add(1), is_known, starts_at);
        let rows = rows.map(|DayOff { nominal, fate }| match fate {
            DayOffFate::Skipped(reason) => {
                let (fate, reason) = (AheadFate::Skipped, Some(reason.to_string()));
                (nominal, Ahead { nominal, effective: None, fate, reason })
            }
            DayOffFate::Merged(at, _) => (at, merged(nominal)),
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
