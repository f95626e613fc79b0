//! The coming starts, skipped times and retries of a schedule. Lists, pages, feeds, previews and
//! explanations all ask here.

use std::collections::HashSet;

use calendar::Fate;
use jiff::Timestamp;
use language::policy::overlap::{self, MadeUp, Verdict};

use super::upcoming::{DayOff, DayOffFate, just_before};
use super::{Active, Due, Override, OverrideAction, Plan, Queued, Schedule, Status, Upcoming};

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
    /// When it starts; `None` if it does not, or if it waits for others that have to end first.
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
    /// It waits in the queue, for its pace or for others to end.
    Queued,
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
            AheadFate::Queued => "queued",
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
        let (occurrences, is_cut) = self.occurrences(after, count);
        let last = occurrences.last().filter(|_| is_cut).map(|(due, _)| due.effective);
        let mut rows = match self.schedule.status {
            Status::Active | Status::Paused => self.days_off(after, count, &occurrences),
            Status::Done | Status::Dead => Vec::new(),
        };
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

    /// Why no occurrence of the rule starts, if the schedule or its workflow is paused.
    fn hold(&self) -> Option<&'static str> {
        match self.schedule.status {
            Status::Paused => Some("the schedule is paused"),
            _ => self.workflow_hold(),
        }
    }

    /// Why nothing starts at all, if the workflow is paused.
    fn workflow_hold(&self) -> Option<&'static str> {
        self.workflow_is_paused.then_some("the workflow is paused")
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
        let until = self.busy_until().filter(|_| self.hold().is_none());
        let (mut waiting, mut in_the_way) = (0, 0);
        while let Some(due) = next {
            if left == 0 || starts == count {
                return (found, left > 0);
            }
            next = self.following(due, left >= FAR, after);
            let mut row = self.row(due);
            if let Some((until, why)) = until.as_ref().filter(|(until, _)| due.effective <= *until)
                && row.effective.is_some()
            {
                row = self.behind(row, why, waiting);
                in_the_way += usize::from(row.effective.is_none());
                if in_the_way == FAR {
                    next = self.upcoming().after(*until);
                }
            }
            let starts_now = usize::from(row.effective.is_some());
            let waits = usize::from(row.fate == AheadFate::Queued);
            waiting += waits;
            left -= starts_now + waits;
            if due.effective > after {
                starts += starts_now;
                found.extend(self.landing_with(due));
                found.push((due, held(row, self.hold())));
            }
        }
        (found, false)
    }

    /// Until when the schedule is certain to be busy, and why: a retry is to come, or occurrences
    /// wait for their pace. When active runs end is not known.
    fn busy_until(&self) -> Option<(Timestamp, String)> {
        let progress = &self.schedule.progress;
        let retries = progress.active.iter().filter_map(|active| match active {
            Active::Retrying { occurrence, at, .. } => Some((
                *at,
                format!("occurrence {} failed and is tried again at {at}", occurrence.n),
            )),
            Active::Running { .. } | Active::ByHand { .. } => None,
        });
        let paced = progress.queued.iter().filter_map(|queued| {
            let (n, at) = (queued.occurrence.n, queued.not_before?);
            Some((at, format!("occurrence {n} waits for its pace until {at}")))
        });
        retries.chain(paced).max_by_key(|(at, _)| *at)
    }

    /// What the overlap policy makes of an occurrence that is due while the schedule is busy.
    /// `waiting` others have joined the queue before it.
    fn behind(&self, row: Ahead, why: &str, waiting: usize) -> Ahead {
        let Schedule { declared, progress, .. } = self.schedule;
        let at = row.effective.unwrap_or(row.nominal);
        let is_retrying =
            |active: &&Active| matches!(active, Active::Retrying { at: retry, .. } if *retry >= at);
        let waits = |queued: &&Queued| queued.not_before.is_none_or(|pace| pace >= at);
        let active = progress.active.iter().filter(is_retrying).count();
        let queued = progress.queued.iter().filter(waits).count() + waiting;
        let made_up = MadeUp { this: false, in_the_way: progress.has_made_up() };
        let verdict =
            overlap::decide(declared.overlap, active, queued, declared.queue_limit(), made_up);
        let (fate, reason) = match verdict {
            Verdict::Skip => (AheadFate::Skipped, why.to_owned()),
            Verdict::Queue => (AheadFate::Queued, format!("waits for its turn: {why}")),
            Verdict::Coalesce => {
                (AheadFate::Coalesced, format!("one is already waiting then: {why}"))
            }
            Verdict::Start | Verdict::Replace | Verdict::Fail => return row,
        };
        Ahead { effective: None, fate, reason: Some(reason), ..row }
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
            Some((queued.not_before?, occurrence, AheadFate::Queued, reason))
        });
        let rows = retries.chain(paced).filter(move |(at, ..)| *at > after);
        rows.map(|(at, occurrence, fate, reason)| {
            let (nominal, effective, reason) = (occurrence.due.nominal, Some(at), Some(reason));
            // A pause of the schedule drops retries and lets a backfill go on.
            (at, held(Ahead { nominal, effective, fate, reason }, self.workflow_hold()))
        })
    }
}

/// The occurrence, skipped if there is a reason why nothing starts.
fn held(row: Ahead, hold: Option<&'static str>) -> Ahead {
    match hold {
        Some(reason) if row.effective.is_some() => Ahead {
            effective: None,
            fate: AheadFate::Skipped,
            reason: Some(reason.to_owned()),
            ..row
        },
        _ => row,
    }
}

fn merged(nominal: Timestamp) -> Ahead {
    let reason = Some("another one starts at the same time and stands for it".to_owned());
    Ahead { nominal, effective: None, fate: AheadFate::Coalesced, reason }
}
