//! Timing: a rule together with everything that moves or drops its occurrences: bounds, calendar,
//! rolling, working hours, spread.

mod build;
mod pattern;
mod preview;
mod search;
mod spec;
mod warnings;

use jiff::{SignedDuration, Timestamp};

pub use build::parse_instant;
pub use pattern::{DailySpec, MonthDay, OneOrMany, PeriodSpec, WeeklySpec};
pub use preview::{Fate, Row};
pub use spec::{Fit, IntervalFrom, TimingContext, TimingSpec};
pub use warnings::Warning;

use crate::calendars::Calendar;
use crate::duration::format_duration;
use crate::roll::Roll;
use crate::rule::{Interval, Rule};
use crate::spread::spread;
use crate::zone::Zone;

/// When something is due. Built by [`TimingSpec::build`].
#[derive(Clone, Debug)]
pub struct Timing {
    rule: Rule,
    zone: Zone,
    /// Whether the rule uses wall times while neither the declaration nor the calendar names a
    /// zone.
    has_assumed_zone: bool,
    calendar: Option<Calendar>,
    roll: Roll,
    fit: bool,
    start: Option<Timestamp>,
    end: Option<Timestamp>,
    spread: SignedDuration,
    /// The offset inside the `spread` window, derived from the schedule's key.
    moved_by: SignedDuration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Occurrence {
    /// The time at which it happens: rolled, fitted and spread.
    pub effective: Timestamp,
    /// The time that the rule gives. [`Timing::next_after`] gives the first of several that land on
    /// one instant.
    pub nominal: Timestamp,
}

impl Timing {
    /// The rule, without calendar, bounds and spread.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// The zone in which times are shown.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// The calendar that it observes, if any.
    pub fn calendar(&self) -> Option<&Calendar> {
        self.calendar.as_ref()
    }

    /// What happens to an occurrence on a day off.
    pub fn roll(&self) -> Roll {
        self.roll
    }

    /// The same timing for the schedule `key`, which determines the offset inside the spread
    /// window.
    #[must_use]
    pub fn for_schedule(mut self, key: &str) -> Timing {
        self.moved_by = spread(key, self.spread);
        self
    }

    /// The offset by which every occurrence is moved inside the spread window.
    pub fn moved_by(&self) -> SignedDuration {
        self.moved_by
    }

    /// The first occurrence that is due strictly after the instant.
    ///
    /// `start` and `end` bound the nominal times, both included.
    pub fn next_after(&self, after: Timestamp) -> Option<Occurrence> {
        let after = after.checked_sub(self.moved_by).unwrap_or(Timestamp::MIN);
        let found = match &self.calendar {
            None => self.nominal_after(after).map(|at| Occurrence { nominal: at, effective: at }),
            Some(calendar) if self.follows_completion() => self.after_completion(calendar, after),
            Some(calendar) => {
                let past = Occurrence { effective: after, nominal: Timestamp::MAX };
                self.on_calendar(calendar, after, past, Timestamp::MAX)
            }
        }?;
        let effective = found.effective.checked_add(self.moved_by).ok()?;
        Some(Occurrence { effective, ..found })
    }

    /// The occurrence after this one, in the order of effective and then of nominal times. Unlike
    /// [`Timing::next_after`], it also finds those that land on the same instant.
    pub fn following(&self, last: Occurrence) -> Option<Occurrence> {
        let Some(calendar) = self.calendar.as_ref().filter(|_| !self.follows_completion()) else {
            return self.next_after(last.effective);
        };
        let plain = last.effective.checked_sub(self.moved_by).ok()?;
        let past = Occurrence { effective: plain, ..last };
        let found = self.on_calendar(calendar, just_before(plain), past, Timestamp::MAX)?;
        let effective = found.effective.checked_add(self.moved_by).ok()?;
        Some(Occurrence { effective, ..found })
    }

    fn follows_completion(&self) -> bool {
        matches!(self.rule, Rule::AfterCompletion(_))
    }

    /// The last occurrence that is due strictly before the instant.
    pub fn previous_before(&self, before: Timestamp) -> Option<Occurrence> {
        let limit = before.checked_sub(self.moved_by).ok()?;
        if self.follows_completion() {
            return None;
        }
        let found = match &self.calendar {
            None => self.nominal_before(limit).map(|at| Occurrence { nominal: at, effective: at }),
            Some(calendar) => self.on_calendar_before(calendar, limit),
        }?;
        let effective = found.effective.checked_add(self.moved_by).ok()?;
        Some(Occurrence { effective, ..found })
    }

    /// Iterates over the occurrences after the instant.
    pub fn after(&self, after: Timestamp) -> impl Iterator<Item = Occurrence> + '_ {
        let next = |last: &Occurrence| self.next_after(last.effective);
        std::iter::successors(self.next_after(after), next)
    }

    /// Describes the timing in English, with its calendar: `at 09:00 on weekdays, Berlin time; on
    /// days off (DE-BY) skipped`.
    pub fn words(&self) -> String {
        let mut words = match &self.rule {
            Rule::Once(at) => format!("once, at {} ({})", self.zone.rfc3339(*at), self.zone.name()),
            rule => rule.words(),
        };
        if let Rule::Cron(rule) = &self.rule
            && let Some(expression) = rule.cron.expanded()
        {
            words.push_str(&format!(" ({expression})"));
        }
        // A working-day rule never falls on a day off, and names its calendar itself.
        if let (Some(calendar), false) = (&self.calendar, matches!(self.rule, Rule::WorkingDay(_)))
        {
            let moved = match self.roll {
                Roll::Skip => "skipped",
                Roll::Next => "moved to the next working day",
                Roll::Previous => "moved to the working day before",
                Roll::Nearest => "moved to the nearest working day",
                Roll::ModifiedNext => "moved to the next working day of the month, else back",
                Roll::ModifiedPrevious => "moved to the working day before in the month, else on",
            };
            words = format!("{words}; on days off ({}) {moved}", calendar.id());
            if self.fit {
                words.push_str("; into working hours");
            }
        }
        if let Some(start) = self.start {
            words = format!("{words}; not before {}", self.zone.rfc3339(start));
        }
        if let Some(end) = self.end {
            words = format!("{words}; not after {}", self.zone.rfc3339(end));
        }
        if self.spread.is_positive() {
            words = format!("{words}; spread over {}", format_duration(self.spread));
        }
        words
    }

    /// The interval, if nothing moves or bounds it. Its occurrences can be counted by division.
    pub(crate) fn plain_interval(&self) -> Option<Interval> {
        match &self.rule {
            Rule::Interval(interval)
                if self.calendar.is_none()
                    && self.start.is_none()
                    && self.end.is_none()
                    && self.moved_by.is_zero() =>
            {
                Some(*interval)
            }
            _ => None,
        }
    }

    /// The next time of the rule inside the bounds.
    fn nominal_after(&self, after: Timestamp) -> Option<Timestamp> {
        let after = match self.start {
            Some(start) => after.max(just_before(start)),
            None => after,
        };
        self.rule.next_after(after).filter(|at| self.end.is_none_or(|end| *at <= end))
    }

    /// The last time of the rule inside the bounds.
    fn nominal_before(&self, before: Timestamp) -> Option<Timestamp> {
        let before = match self.end {
            Some(end) => before.min(just_after(end)),
            None => before,
        };
        self.rule.previous_before(before).filter(|at| self.start.is_none_or(|start| *at >= start))
    }
}

fn just_before(at: Timestamp) -> Timestamp {
    at.checked_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MIN)
}

fn just_after(at: Timestamp) -> Timestamp {
    at.checked_add(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Zones;

    #[test]
    fn rolling_keeps_the_time_of_day_to_the_millisecond() {
        let zones = Zones::bundled();
        let spec: TimingSpec = serde_json::from_str(
            r#"{"interval": "100ms", "anchor": "2026-01-01T00:00:00Z", "calendar": "US", "roll": "next"}"#,
        )
        .unwrap();
        let monday: Timestamp = "2026-03-09T12:00:00.0005Z".parse().unwrap();
        let timing = spec.build(&TimingContext::new(&zones, monday)).unwrap();
        let next = timing.next_after(monday).unwrap();
        assert_eq!(next.effective.to_string(), "2026-03-09T12:00:00.1Z");
        assert_eq!(next.nominal.to_string(), "2026-03-07T12:00:00.1Z");
        assert_eq!(
            timing.previous_before(next.effective).unwrap().effective.to_string(),
            "2026-03-09T12:00:00Z"
        );
    }

    #[test]
    fn the_spread_comes_on_top_of_the_first_interval() {
        let zones = Zones::bundled();
        let created: Timestamp = "2026-03-02T12:00:00Z".parse().unwrap();
        let spec: TimingSpec =
            serde_json::from_str(r#"{"interval": "1h", "spread": "10m"}"#).unwrap();
        let timing = spec.build(&TimingContext::new(&zones, created)).unwrap().for_schedule("s");
        let first = timing.next_after(created).unwrap();
        assert_eq!(first.nominal, created + SignedDuration::from_hours(1));
        assert_eq!(first.effective, first.nominal + timing.moved_by());
        assert!(timing.moved_by().is_positive());
    }

    #[test]
    fn an_interval_from_completion_goes_on_after_days_off() {
        let zones = Zones::bundled();
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let next = |options: &str, ended: &str| {
            let text =
                format!(r#"{{"interval": "2h", "from": "completion", "calendar": "US"{options}}}"#);
            let spec: TimingSpec = serde_json::from_str(&text).unwrap();
            let timing = spec.build(&TimingContext::new(&zones, at(ended))).unwrap();
            timing.next_after(at(ended)).unwrap().effective
        };
        for (options, ended, expected) in [
            ("", "2026-03-06T10:00:00Z", "2026-03-06T12:00:00Z"),
            ("", "2026-03-07T10:00:00Z", "2026-03-09T12:00:00Z"),
            (r#", "roll": "previous""#, "2026-03-07T10:00:00Z", "2026-03-09T12:00:00Z"),
            (r#", "roll": "next", "fit": "hours""#, "2026-03-06T16:00:00Z", "2026-03-09T09:00:00Z"),
        ] {
            assert_eq!(next(options, ended), at(expected), "{options} {ended}");
        }
    }
}
