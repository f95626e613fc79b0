//! The model of one schedule.

use std::collections::{BTreeMap, BTreeSet};

use calendar::{CatchUpSpec, Fate, Policy, Rule, Timing, parse_duration};
use engine::schedule::{OverrideAction, Status};
use language::Rules;
use language::schedule::Declared;

use super::{Violation, broken};
use crate::clock::instant;
use crate::watch::ScheduleRow;

/// A schedule with everything that follows from what has happened to it.
pub(crate) struct Kept {
    pub(crate) row: ScheduleRow,
    pub(crate) declared: Declared,
    pub(crate) timing: Timing,
    /// When it was last declared, edited, paused, resumed or recomputed. `None` while a calendar
    /// has changed and a turn may recompute the next time by itself.
    pub(super) told_at: Option<i64>,
    /// The instant from which an interval counts.
    pub(super) anchor: i64,
    /// Everything due up to here has its ledger row.
    pub(super) cursor: i64,
    /// The instant from which an interval after completion counts, while it counts.
    pub(super) counts_from: Option<i64>,
    pub(super) next_n: u64,
    /// Occurrences that succeeded and count towards the repeat limit.
    pub(super) counted: u64,
    pub(crate) overrides: Vec<(i64, OverrideAction)>,
    /// Future nominal times whose occurrence has already happened, because it was moved to an
    /// earlier time.
    pub(super) been: BTreeSet<i64>,
    pub(super) days_off: BTreeSet<i64>,
    pub(super) active: BTreeMap<u64, Going>,
    pub(super) by_hand: BTreeSet<i64>,
    /// The occurrence number, and the time before which it does not start.
    pub(super) queued: BTreeMap<u64, i64>,
    /// Numbers of past occurrences that someone asked for.
    pub(super) made_up: BTreeSet<u64>,
    pub(super) run_count: u64,
    pub(super) error_count: u64,
    /// The next occurrence: nominal and effective time.
    pub(crate) next: Option<(i64, i64)>,
    /// The time under which the schedule is in `Model::due`.
    pub(super) listed: Option<i64>,
    /// Whether a calendar has changed and `next` may still come from the old one.
    pub(super) is_outdated: bool,
    /// Its own retention, if it declares one.
    pub(super) retention: Option<i64>,
}

/// An occurrence that has started and is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Going {
    /// The retry it is at, or waits for.
    pub(super) retry: u32,
    /// Its run; `None` while it waits for a retry.
    pub(super) run: Option<i64>,
    /// While it waits: the earliest and latest time of the retry.
    pub(super) at: (i64, i64),
}

/// Catch-up as it is declared.
pub(super) struct Missed {
    pub(super) policy: Policy,
    pub(super) window: Option<i64>,
    pub(super) limit: usize,
    pub(super) pace: i64,
}

impl Kept {
    pub(super) fn new(row: ScheduleRow, rules: &Rules, now: i64) -> Result<Kept, Violation> {
        let declared = read(&row)?;
        let timing = timing(&declared, rules, now, row.id)?;
        let retention = kept_for(&declared);
        let mut kept = Kept {
            declared,
            timing,
            told_at: Some(now),
            anchor: now,
            cursor: now,
            counts_from: Some(now),
            next_n: 0,
            counted: 0,
            overrides: Vec::new(),
            been: BTreeSet::new(),
            days_off: BTreeSet::new(),
            active: BTreeMap::new(),
            by_hand: BTreeSet::new(),
            queued: BTreeMap::new(),
            made_up: BTreeSet::new(),
            run_count: 0,
            error_count: 0,
            next: None,
            listed: None,
            is_outdated: false,
            retention,
            row,
        };
        kept.late_once();
        Ok(kept)
    }

    /// A `once` rule is due even if it is declared after its time.
    pub(super) fn late_once(&mut self) {
        if let Rule::Once(_) = self.timing.rule()
            && self.group_after(self.cursor).is_empty()
            && let Some(due) = self.timing.next_after(jiff::Timestamp::MIN)
        {
            self.cursor = due.effective.as_millisecond() - 1;
        }
    }

    pub(super) fn anchor_at(&mut self, rules: &Rules, anchor: i64) -> Result<(), Violation> {
        self.anchor = anchor;
        self.timing = timing(&self.declared, rules, anchor, self.row.id)?;
        Ok(())
    }

    pub(super) fn is_idle(&self) -> bool {
        self.active.is_empty() && self.by_hand.is_empty() && self.queued.is_empty()
    }

    pub(super) fn follows_completion(&self) -> bool {
        matches!(self.timing.rule(), Rule::AfterCompletion(_))
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.declared.total_repeats > 0 && self.counted >= self.declared.total_repeats
    }

    /// How many active or queued occurrences would count towards the repeat limit if they succeed.
    pub(super) fn counting(&self) -> u64 {
        let live = self.active.keys().chain(self.queued.keys());
        live.filter(|n| !self.made_up.contains(n)).count() as u64
    }

    /// The occurrence that must be due next.
    pub(super) fn expected_next(&self) -> Option<(i64, i64)> {
        if self.row.status != Status::Active || self.is_exhausted() {
            return None;
        }
        if self.follows_completion() {
            let due = self.timing.next_after(instant(self.counts_from?))?;
            return Some((due.nominal.as_millisecond(), due.effective.as_millisecond()));
        }
        self.group_after(self.cursor).first().copied()
    }

    /// All occurrences at the first instant after this one that has any: those of the rule first,
    /// then those that were moved onto it by hand, then those that are skipped by hand.
    pub(super) fn group_after(&self, after: i64) -> Vec<(i64, i64)> {
        let mut all = self.ruled_after(after);
        all.extend(self.overrides.iter().filter_map(|(nominal, action)| match action {
            OverrideAction::Move(to) => {
                Some((*nominal, to.as_millisecond())).filter(|(_, to)| *to > after)
            }
            _ => None,
        }));
        let Some(first) = all.iter().map(|(_, effective)| *effective).min() else {
            return Vec::new();
        };
        all.retain(|(_, effective)| *effective == first);
        let skipped = self.overrides.iter().map(|(nominal, _)| (*nominal, first));
        let skipped: Vec<(i64, i64)> = skipped
            .filter(|due| self.is_skipped_by_hand(due.0) && !all.contains(due))
            .filter(|due| self.ruled(due.0) == Some(*due))
            .collect();
        all.extend(skipped);
        all.sort_by_key(|(nominal, _)| self.is_skipped_by_hand(*nominal));
        all
    }

    /// The first occurrence of the rule after this instant that nobody has moved, and one at the
    /// same instant that nobody has skipped either.
    fn ruled_after(&self, after: i64) -> Vec<(i64, i64)> {
        let moved = |nominal: i64| {
            let by_hand = matches!(self.override_of(nominal), Some(OverrideAction::Move(_)));
            self.been.contains(&nominal) || by_hand
        };
        let mut found: Vec<(i64, i64)> = Vec::new();
        let first = self.timing.next_after(instant(after));
        for due in std::iter::successors(first, |last| self.timing.following(*last)) {
            let due = (due.nominal.as_millisecond(), due.effective.as_millisecond());
            if found.first().is_some_and(|first| first.1 < due.1) {
                break;
            }
            if moved(due.0) {
                continue;
            }
            found.push(due);
            if !self.is_skipped_by_hand(due.0) {
                break;
            }
        }
        found
    }

    /// The occurrence of the rule with this nominal time, apart from overrides.
    fn ruled(&self, nominal: i64) -> Option<(i64, i64)> {
        let row = self.timing.next_row(instant(nominal - 1))?;
        let plain = match row.fate {
            Fate::Kept => row.nominal,
            Fate::Moved { to, .. } => to,
            Fate::Skipped { .. } => return None,
        };
        let spread = self.timing.moved_by().as_millis() as i64;
        Some((row.nominal.as_millisecond(), plain.as_millisecond() + spread))
    }

    pub(super) fn is_skipped_by_hand(&self, nominal: i64) -> bool {
        matches!(self.override_of(nominal), Some(OverrideAction::Skip))
    }

    pub(super) fn override_of(&self, nominal: i64) -> Option<&OverrideAction> {
        self.overrides.iter().find(|(at, _)| *at == nominal).map(|(_, action)| action)
    }

    pub(super) fn missed(&self) -> Missed {
        let mut missed = Missed { policy: Policy::Last, window: None, limit: 100, pace: 0 };
        match &self.declared.catch_up {
            None => {}
            Some(CatchUpSpec::Policy(policy)) => missed.policy = *policy,
            Some(CatchUpSpec::Detailed(detailed)) => {
                missed.policy = detailed.policy;
                missed.limit = detailed.limit.map_or(100, |limit| limit as usize);
                missed.window = detailed.window.as_deref().map(milliseconds);
                // Generated schedules only have paces of one run per duration.
                let pace = detailed.pace.as_deref().and_then(|pace| pace.strip_prefix("1/"));
                missed.pace = pace.map_or(0, milliseconds);
            }
        }
        missed
    }

    /// The earliest and the latest delay before this retry: 60, 120, 240, 480, then 600 times a
    /// sixtieth of the base, plus the jitter.
    pub(super) fn retry_delay(&self, retry: u32) -> (i64, i64) {
        let declared = self.declared.retry.delay.as_deref().map(milliseconds);
        let interval = match self.timing.rule() {
            Rule::Interval(interval) => Some(interval.every()),
            Rule::AfterCompletion(every) => Some(*every),
            _ => None,
        };
        let interval = interval.map(|every| every.as_millis() as i64);
        let base = declared.or(interval).unwrap_or(60_000);
        let longest = self.declared.retry.max_delay.as_deref().map(milliseconds);
        let delay = (base << (retry - 1).min(20)).min(longest.unwrap_or(base * 10));
        let jitter = self.declared.retry.jitter.unwrap_or(0.0);
        (delay, delay + (delay as f64 * jitter) as i64 + 1)
    }

    /// By when the driver has to look at the schedule.
    pub(super) fn latest_look(&self) -> Option<i64> {
        let next = self.next.map(|(_, effective)| effective);
        let waits = |going: &Going| going.run.is_none().then_some(going.at.1);
        let retries = self.active.values().filter_map(waits);
        let free = self.active.is_empty() && self.by_hand.is_empty();
        let queued = self.queued.values().next().filter(|_| free).copied();
        next.into_iter().chain(retries).chain(queued).min()
    }
}

pub(super) fn read(row: &ScheduleRow) -> Result<Declared, Violation> {
    match serde_json::from_str(&row.declared) {
        Ok(declared) => Ok(declared),
        Err(error) => broken("declared", format!("schedule {}: {error}", row.id)),
    }
}

fn timing(declared: &Declared, rules: &Rules, anchor: i64, id: i64) -> Result<Timing, Violation> {
    match rules.timing(&declared.timing, instant(anchor)) {
        Ok(timing) if declared.timing.spread.is_some() => Ok(timing.for_schedule(&id.to_string())),
        Ok(timing) => Ok(timing),
        Err(mistakes) => broken("declared", format!("schedule {id}: {mistakes:?}")),
    }
}

/// The schedule's own retention.
pub(super) fn kept_for(declared: &Declared) -> Option<i64> {
    declared.retention.as_deref().map(milliseconds)
}

fn milliseconds(text: &str) -> i64 {
    parse_duration(text).map_or(0, |duration| duration.as_millis() as i64)
}
