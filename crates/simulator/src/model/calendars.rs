//! Calendars that change. From the commit on, everything is decided by the new calendar; the stored
//! next time is the old one until it is recomputed.

use std::sync::Arc;

use engine::schedule::OverrideAction;
use language::Rules;

use super::{Checked, Kept, Model, broken};

impl Model {
    /// A calendar was declared, or declared again.
    pub(crate) fn take_calendars(&mut self, rules: Arc<Rules>) -> Checked {
        self.rules = rules;
        let uses = |kept: &&mut Kept| kept.declared.timing.calendar.is_some();
        for kept in self.schedules.values_mut().filter(uses) {
            kept.anchor_at(&self.rules, kept.anchor)?;
            kept.is_outdated = true;
            // Days off, and where occurrences move, now follow the new calendar.
            kept.days_off.clear();
            let overrides = &kept.overrides;
            let by_hand = |nominal: &i64| {
                let moves = |(at, action): &(i64, OverrideAction)| {
                    at == nominal && matches!(action, OverrideAction::Move(_))
                };
                overrides.iter().any(moves)
            };
            kept.been.retain(by_hand);
        }
        Ok(())
    }

    /// Checks that no schedule is outdated, after recomputing has reported that all are done.
    pub(crate) fn check_up_to_date(&self) -> Checked {
        for (id, kept) in &self.schedules {
            let is_old = kept.is_outdated && !kept.follows_completion();
            if is_old && !kept.is_due_next(kept.next) {
                let (next, expected) = (kept.next, kept.expected_next());
                let message =
                    format!("schedule {id}: next is {next:?}, by the new calendar {expected:?}");
                return broken("calendar", message);
            }
        }
        Ok(())
    }
}

impl Kept {
    /// Whether `next` is right. Of several occurrences at one instant any may be named.
    pub(super) fn is_due_next(&self, next: Option<(i64, i64)>) -> bool {
        let expected = self.expected_next();
        let same = |next: (i64, i64)| self.group_after(self.cursor).contains(&next);
        next == expected || expected.is_some() && next.is_some_and(same)
    }

    /// Sets what must be due next from now on. An old time stays until it is recomputed.
    pub(super) fn expect_next(&mut self) {
        if self.is_outdated && self.row.next == self.next && !self.is_due_next(self.next) {
            return;
        }
        self.is_outdated = false;
        self.next = self.expected_next();
    }
}
