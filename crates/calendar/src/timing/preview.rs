//! Previews: what happens to each nominal time, for people who want to know in advance.

use jiff::Timestamp;

use super::search::{calendar_day, day_start};
use super::{Timing, just_before};
use crate::calendars::{PLANNED, Reason};
use crate::civil;

/// The outcome of a nominal time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The occurrence happens at its nominal time.
    Kept,
    /// The occurrence happens at another time.
    Moved { to: Timestamp, reason: Reason },
    /// The occurrence does not happen.
    Skipped { reason: Reason },
}

/// One line of a preview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The time that the rule gives.
    pub nominal: Timestamp,
    pub fate: Fate,
}

impl Timing {
    /// The nominal times after the instant with their fates, until `count` of them happen. Of the
    /// times on a skipped day, only the first is listed.
    pub fn preview(&self, after: Timestamp, count: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        let (mut at, mut kept) = (after, 0);
        // Consecutive days off are listed, up to a limit.
        for _ in 0..count.saturating_mul(4).saturating_add(400) {
            if kept >= count {
                break;
            }
            let Some(Row { nominal, fate }) = self.next_row(at) else { break };
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

    /// The first nominal time after the instant, with its fate.
    pub fn next_row(&self, after: Timestamp) -> Option<Row> {
        let nominal = self.nominal_after(after)?;
        let planned = |calendar| PLANNED.contains(&calendar_day(calendar, nominal));
        let is_planned = self.calendar.as_ref().is_none_or(planned);
        is_planned.then(|| Row { nominal, fate: self.fate(nominal) })
    }

    /// What happens to a nominal time. The spread does not count as moving.
    pub fn fate(&self, nominal: Timestamp) -> Fate {
        let Some(calendar) = &self.calendar else { return Fate::Kept };
        let day = calendar_day(calendar, nominal);
        let reason = || calendar.plan(day).reason;
        match self.landing(calendar, nominal, self.roll) {
            Some(at) if at == nominal => Fate::Kept,
            Some(to) if !calendar.is_working(day) => Fate::Moved { to, reason: reason() },
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
