//! The coming occurrences: those of the rule, with overrides applied.

use calendar::{Fate, Occurrence, Reason, Rule};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Plan, Progress};
use crate::moment::whole_millisecond;

/// Longer than a calendar moves an occurrence.
const FARTHEST_MOVE: SignedDuration = SignedDuration::from_hours(366 * 24);
const MILLISECOND: SignedDuration = SignedDuration::from_millis(1);

/// One due time, in whole milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Due {
    /// The time that the rule gives.
    #[serde(with = "crate::moment::milliseconds")]
    pub nominal: Timestamp,
    /// When the occurrence happens.
    #[serde(with = "crate::moment::milliseconds")]
    pub effective: Timestamp,
}

impl From<Occurrence> for Due {
    fn from(occurrence: Occurrence) -> Due {
        Due {
            nominal: whole_millisecond(occurrence.nominal),
            effective: whole_millisecond(occurrence.effective),
        }
    }
}

impl Override {
    /// Whether the override moved its occurrence to a time that is already decided. The occurrence
    /// must not come again.
    pub(crate) fn has_been(&self, mark: Timestamp) -> bool {
        matches!(self.action, OverrideAction::Move(to) if to <= mark)
    }
}

/// A person's decision about one occurrence.
#[derive(Clone, Debug)]
pub struct Override {
    /// The nominal time of the occurrence.
    pub nominal: Timestamp,
    pub action: OverrideAction,
    pub by: String,
}

/// The change that an override makes to its occurrence.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverrideAction {
    Skip,
    Move(Timestamp),
    Payload(Box<RawValue>),
}

/// A time of the rule at which nothing starts, because of the calendar.
pub(super) struct DayOff {
    pub(super) nominal: Timestamp,
    pub(super) fate: DayOffFate,
}

pub(super) enum DayOffFate {
    /// The calendar skips it.
    Skipped(Reason),
    /// Another occurrence starts at this instant and stands for it. If the calendar moved this one
    /// there, the reason says why; otherwise it moved the other.
    Merged(Timestamp, Option<Reason>),
}

/// The occurrences of a plan, with overrides.
pub struct Upcoming<'a> {
    pub plan: &'a Plan,
    pub overrides: &'a [Override],
}

impl<'a> Upcoming<'a> {
    /// The first occurrence due strictly after the instant. Of several at one instant it is the one
    /// that stands for the others: not one skipped by hand, if there is another; then the first of
    /// the rule, then the first that was moved there. See `landing_with`.
    pub fn after(&self, after: Timestamp) -> Option<Due> {
        let ruled = self.ruled_after(after);
        let moved = self.overrides.iter().filter_map(|over| match over.action {
            OverrideAction::Move(to) if to > after => {
                Some(Due { nominal: over.nominal, effective: to })
            }
            _ => None,
        });
        let moved = moved.min_by_key(|due| (due.effective, due.nominal));
        let all = ruled.into_iter().chain(moved);
        all.min_by_key(|due| (due.effective, self.is_skipped(due.nominal)))
    }

    fn ruled_after(&self, after: Timestamp) -> Option<Due> {
        let mut skipped: Option<Due> = None;
        let mut next = self.plan.timing.next_after(after);
        // Each iteration passes over an overridden occurrence, so there are at most as many as
        // overrides.
        while let Some(occurrence) = next {
            let due = Due::from(occurrence);
            if skipped.is_some_and(|skipped| skipped.effective < due.effective) {
                break;
            }
            match self.of(due.nominal).map(|over| &over.action) {
                Some(OverrideAction::Move(_)) => {}
                Some(OverrideAction::Skip) => skipped = skipped.or(Some(due)),
                Some(OverrideAction::Payload(_)) | None => return Some(due),
            }
            next = self.plan.timing.following(occurrence);
        }
        skipped
    }

    /// When the occurrence with this nominal time happens by the rule, apart from overrides. `None`
    /// if it is no time of the rule, or the calendar skips it.
    pub(crate) fn ruled(&self, nominal: Timestamp) -> Option<Due> {
        let timing = &self.plan.timing;
        let row = timing.next_row(just_before(nominal))?;
        let plain = match row.fate {
            Fate::Kept => row.nominal,
            Fate::Moved { to, .. } => to,
            Fate::Skipped { .. } => return None,
        };
        let effective = plain.checked_add(timing.moved_by()).ok()?;
        let due = Due::from(Occurrence { effective, nominal: row.nominal });
        (due.nominal == nominal).then_some(due)
    }

    /// The times of the rule after the instant that the calendar skips, and those that it merges
    /// into another occurrence, until `count` times of the rule happen. `is_occurrence` says which
    /// nominal times are occurrences themselves, `starts_at` at which instants one starts.
    pub(super) fn days_off(
        &self,
        after: Timestamp,
        count: usize,
        is_occurrence: impl Fn(Timestamp) -> bool,
        starts_at: impl Fn(Timestamp) -> bool,
    ) -> impl Iterator<Item = DayOff> {
        let timing = &self.plan.timing;
        let never_off = matches!(timing.rule(), Rule::WorkingDay(_) | Rule::AfterCompletion(_));
        let rows = match timing.calendar() {
            Some(_) if !never_off => timing.preview(after, count),
            _ => Vec::new(),
        };
        rows.into_iter().filter_map(move |row| {
            let nominal = whole_millisecond(row.nominal);
            // An occurrence that a person moved does not come at its nominal time.
            if nominal <= after || is_occurrence(nominal) || self.is_moved(nominal) {
                return None;
            }
            let (to, reason) = match row.fate {
                Fate::Skipped { reason } => {
                    return Some(DayOff { nominal, fate: DayOffFate::Skipped(reason) });
                }
                Fate::Moved { to, reason } => (to, Some(reason)),
                Fate::Kept => (row.nominal, None),
            };
            let at = whole_millisecond(to.checked_add(timing.moved_by()).unwrap_or(to));
            // Those that a person skipped are among `landing_with`.
            (starts_at(at) && !self.is_skipped(nominal))
                .then_some(DayOff { nominal, fate: DayOffFate::Merged(at, reason) })
        })
    }

    pub(super) fn is_moved(&self, nominal: Timestamp) -> bool {
        let moves = |over: &&Override| matches!(over.action, OverrideAction::Move(_));
        self.overrides.iter().filter(moves).any(|over| over.nominal == nominal)
    }

    fn is_skipped(&self, nominal: Timestamp) -> bool {
        self.of(nominal).is_some_and(|over| matches!(over.action, OverrideAction::Skip))
    }

    /// The override of this occurrence, if any.
    pub fn of(&self, nominal: Timestamp) -> Option<&'a Override> {
        self.overrides.iter().find(|over| over.nominal == nominal)
    }

    /// Other occurrences of the same instant that people moved there or skipped, each with its
    /// override.
    pub(super) fn landing_with(&self, due: Due) -> impl Iterator<Item = (Due, &'a Override)> {
        let others = self.overrides.iter().filter(move |over| over.nominal != due.nominal);
        others.filter_map(move |over| {
            let lands = match over.action {
                OverrideAction::Move(to) => to == due.effective,
                OverrideAction::Skip if self.may_land(over.nominal, due.effective) => {
                    self.ruled(over.nominal).is_some_and(|ruled| ruled.effective == due.effective)
                }
                OverrideAction::Skip | OverrideAction::Payload(_) => false,
            };
            lands.then_some((Due { nominal: over.nominal, effective: due.effective }, over))
        })
    }

    /// Whether an occurrence might happen at this instant: a quick look before a search.
    fn may_land(&self, nominal: Timestamp, at: Timestamp) -> bool {
        let timing = &self.plan.timing;
        let distance = at.duration_since(nominal).saturating_sub(timing.moved_by()).abs();
        distance < MILLISECOND || timing.calendar().is_some() && distance < FARTHEST_MOVE
    }
}

/// The first occurrence of a new schedule.
pub(super) fn first(plan: &Plan, progress: &Progress) -> Option<Due> {
    Upcoming { plan, overrides: &[] }.after(progress.mark)
}

/// The occurrence of a rule with a single time, even if that time has passed.
pub(super) fn overdue_once(plan: &Plan) -> Option<Due> {
    match plan.timing.rule() {
        Rule::Once(_) => plan.timing.next_after(Timestamp::MIN).map(Due::from),
        _ => None,
    }
}

/// The latest instant before `at`, in whole milliseconds.
pub(crate) fn just_before(at: Timestamp) -> Timestamp {
    at.checked_sub(MILLISECOND).unwrap_or(Timestamp::MIN)
}
