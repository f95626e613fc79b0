//! What comes next: the rule's occurrences with what was overridden by hand.

use calendar::{Occurrence, Rule};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Plan, Progress};
use crate::moment::whole_millisecond;

/// One due time, in whole milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Due {
    /// What the rule says.
    #[serde(with = "crate::moment::milliseconds")]
    pub nominal: Timestamp,
    /// When it happens.
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
    /// Whether it moved its occurrence to a time that is decided: it must not come again.
    pub(crate) fn has_been(&self, mark: Timestamp) -> bool {
        matches!(self.action, OverrideAction::Move(to) if to <= mark)
    }
}

/// What someone wants of one occurrence.
#[derive(Clone, Debug)]
pub struct Override {
    /// Which one, by what the rule says.
    pub nominal: Timestamp,
    /// What becomes of it.
    pub action: OverrideAction,
    /// Who said so.
    pub by: String,
}

/// See [`Override`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverrideAction {
    /// It does not run.
    Skip,
    /// It runs at another time.
    Move(Timestamp),
    /// It runs with another payload.
    Payload(Box<RawValue>),
}

/// The occurrences of a plan, with overrides.
pub struct Upcoming<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// What was overridden.
    pub overrides: &'a [Override],
}

impl<'a> Upcoming<'a> {
    /// The first one due strictly after the instant.
    pub fn after(&self, after: Timestamp) -> Option<Due> {
        let ruled = self.ruled_after(after);
        let moved = self.overrides.iter().filter_map(|over| match over.action {
            OverrideAction::Move(to) if to > after => {
                Some(Due { nominal: over.nominal, effective: to })
            }
            _ => None,
        });
        // Of those at one instant the rule's own stands for the others, or else the first by nominal
        // time: see `landing_with`.
        let moved = moved.min_by_key(|due| (due.effective, due.nominal));
        ruled.into_iter().chain(moved).min_by_key(|due| due.effective)
    }

    fn ruled_after(&self, after: Timestamp) -> Option<Due> {
        let mut due: Due = self.plan.timing.next_after(after)?.into();
        // Each one passed over is an override: no more turns than there are overrides.
        while self.is_moved(due.nominal) {
            due = self.plan.timing.next_after(due.effective)?.into();
        }
        Some(due)
    }

    pub(super) fn is_moved(&self, nominal: Timestamp) -> bool {
        let moves = |over: &&Override| matches!(over.action, OverrideAction::Move(_));
        self.overrides.iter().filter(moves).any(|over| over.nominal == nominal)
    }

    /// What was said about this occurrence.
    pub fn of(&self, nominal: Timestamp) -> Option<&'a Override> {
        self.overrides.iter().find(|over| over.nominal == nominal)
    }

    /// Others that were moved onto the same instant.
    pub(super) fn landing_with(&self, due: Due) -> impl Iterator<Item = Due> + 'a {
        self.overrides.iter().filter_map(move |over| match over.action {
            OverrideAction::Move(to) if to == due.effective && over.nominal != due.nominal => {
                Some(Due { nominal: over.nominal, effective: to })
            }
            _ => None,
        })
    }
}

/// The first occurrence of a new schedule.
pub(super) fn first(plan: &Plan, progress: &Progress) -> Option<Due> {
    Upcoming { plan, overrides: &[] }.after(progress.mark)
}

/// What is due once is due even when it is declared late.
pub(super) fn overdue_once(plan: &Plan) -> Option<Due> {
    match plan.timing.rule() {
        Rule::Once(_) => plan.timing.next_after(Timestamp::MIN).map(Due::from),
        _ => None,
    }
}

/// The last instant from which `at` is still to come.
pub(super) fn just_before(at: Timestamp) -> Timestamp {
    at.checked_sub(SignedDuration::from_millis(1)).unwrap_or(Timestamp::MIN)
}
