//! What becomes of each nominal time: for people who want to see it before it happens.

use jiff::Timestamp;

use super::{Timing, calendar_day, day_start, just_before, moved};
use crate::calendars::Reason;
use crate::civil;
use crate::dst::Fold;

/// What becomes of a nominal time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It happens then.
    Kept,
    /// It happens at another time, for this reason.
    Moved {
        /// The effective time.
        to: Timestamp,
        /// Why it is not kept.
        reason: Reason,
    },
    /// It does not happen, for this reason.
    Skipped {
        /// Why.
        reason: Reason,
    },
}

/// One line of a preview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What the rule says.
    pub nominal: Timestamp,
    /// What becomes of it.
    pub fate: Fate,
}

impl Timing {
    /// The nominal times after the instant and what becomes of each, until `count` of them happen.
    /// Of the times on one skipped day only the first is shown.
    pub fn preview(&self, after: Timestamp, count: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        let (mut at, mut kept) = (after, 0);
        // Days off in a row are shown, but not for ever.
        for _ in 0..count.saturating_mul(4).saturating_add(400) {
            if kept >= count {
                break;
            }
            let Some(nominal) = self.nominal_after(at) else { break };
            let fate = self.fate(nominal);
            at = match (&fate, &self.calendar) {
                (Fate::Skipped { .. }, Some(calendar)) => {
                    let tomorrow = day_start(calendar, calendar_day(calendar, nominal) + 1);
                    tomorrow.map_or(nominal, |start| just_before(start).max(nominal))
                }
                _ => nominal,
            };
            kept += usize::from(!matches!(fate, Fate::Skipped { .. }));
            rows.push(Row { nominal, fate });
        }
        rows
    }

    /// What becomes of a nominal time; the spread is not counted as moving.
    pub fn fate(&self, nominal: Timestamp) -> Fate {
        let Some(calendar) = &self.calendar else { return Fate::Kept };
        let day = calendar_day(calendar, nominal);
        let reason = || calendar.plan(day).reason;
        let Some(target) = self.roll.target(day, calendar) else {
            return Fate::Skipped { reason: reason() };
        };
        let rolled = if target == day {
            Some(nominal)
        } else {
            moved(calendar, nominal, target, Fold::First)
        };
        let fitted = rolled.and_then(|at| if self.fit { calendar.fit(at) } else { Some(at) });
        match fitted {
            Some(at) if at == nominal => Fate::Kept,
            Some(to) if target != day => Fate::Moved { to, reason: reason() },
            Some(to) => Fate::Moved { to, reason: outside_hours(nominal, calendar) },
            None => Fate::Skipped { reason: reason() },
        }
    }
}

fn outside_hours(nominal: Timestamp, calendar: &crate::Calendar) -> Reason {
    let time = civil::second_of_day(civil::local_from_datetime(calendar.zone().wall(nominal)));
    let clock = crate::english::clock(time);
    Reason::Exception(format!("{clock} is outside of working hours").into())
}
