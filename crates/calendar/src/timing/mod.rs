//! Timing: a rule with everything that moves or drops its occurrences: bounds, calendar, rolling,
//! working hours, spread.

mod build;
mod pattern;
mod preview;
mod spec;
mod warnings;

use std::cmp::Ordering;

use jiff::{SignedDuration, Timestamp};

pub use build::parse_instant;
pub use pattern::{DailySpec, MonthDay, OneOrMany, PeriodSpec, WeeklySpec};
pub use preview::{Fate, Row};
pub use spec::{Fit, IntervalFrom, TimingContext, TimingSpec};
pub use warnings::Warning;

use crate::calendars::{Calendar, PLANNED};
use crate::civil::{self, Day};
use crate::dst::{self, Dst, Fold};
use crate::duration::format_duration;
use crate::roll::Roll;
use crate::rule::{Interval, Rule};
use crate::spread::spread;
use crate::zone::{Resolved, Zone};

/// How many days off in a row, or occurrences on days off, are looked at before the answer is
/// "never". `0 9 * * SUN` on a Monday-to-Friday calendar is such a rule.
const SEARCH_STEPS: usize = 500;

/// When something is due. Made by [`TimingSpec::build`].
#[derive(Clone, Debug)]
pub struct Timing {
    rule: Rule,
    zone: Zone,
    calendar: Option<Calendar>,
    roll: Roll,
    fit: bool,
    start: Option<Timestamp>,
    end: Option<Timestamp>,
    spread: SignedDuration,
    /// The place inside `spread`, by the schedule's key.
    moved_by: SignedDuration,
}

/// One due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Occurrence {
    /// When it happens: rolled, fitted and spread.
    pub effective: Timestamp,
    /// What the rule says. Of several that land on one instant, the first.
    pub nominal: Timestamp,
}

impl Timing {
    /// The rule behind it.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// The zone it is shown in.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// The calendar it keeps to, if any.
    pub fn calendar(&self) -> Option<&Calendar> {
        self.calendar.as_ref()
    }

    /// What happens on a day off.
    pub fn roll(&self) -> Roll {
        self.roll
    }

    /// The same timing for the schedule `key`: its place inside the spread window is fixed.
    #[must_use]
    pub fn for_schedule(mut self, key: &str) -> Timing {
        self.moved_by = spread(key, self.spread);
        self
    }

    /// How far the schedule's key moves every occurrence inside the spread window.
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
            Some(calendar) if matches!(self.rule, Rule::AfterCompletion(_)) => {
                self.after_completion(calendar, after)
            }
            Some(calendar) => self.on_calendar(calendar, after, Timestamp::MAX),
        }?;
        let effective = found.effective.checked_add(self.moved_by).ok()?;
        Some(Occurrence { effective, ..found })
    }

    /// The last occurrence that is due strictly before the instant.
    pub fn previous_before(&self, before: Timestamp) -> Option<Occurrence> {
        let limit = before.checked_sub(self.moved_by).ok()?;
        if matches!(self.rule, Rule::AfterCompletion(_)) {
            return None;
        }
        let found = match &self.calendar {
            None => self.nominal_before(limit).map(|at| Occurrence { nominal: at, effective: at }),
            Some(calendar) => self.on_calendar_before(calendar, limit),
        }?;
        let effective = found.effective.checked_add(self.moved_by).ok()?;
        Some(Occurrence { effective, ..found })
    }

    /// `after` is when the run before has ended. Skipping would end the schedule for good, and going
    /// back would come before that run: both go on to the next working day instead.
    fn after_completion(&self, calendar: &Calendar, after: Timestamp) -> Option<Occurrence> {
        let nominal = self.nominal_after(after)?;
        let chosen = self.landing(calendar, nominal, self.roll).filter(|at| *at > after);
        let effective = chosen.or_else(|| self.landing(calendar, nominal, Roll::Next))?;
        Some(Occurrence { nominal, effective })
    }

    /// Where a nominal time lands, rolled and fitted; `None` if it is skipped.
    fn landing(&self, calendar: &Calendar, nominal: Timestamp, roll: Roll) -> Option<Timestamp> {
        let day = calendar_day(calendar, nominal);
        let target = roll.target(day, calendar)?;
        let rolled =
            if target == day { nominal } else { moved(calendar, nominal, target, Fold::First)? };
        if self.fit { calendar.fit(rolled) } else { Some(rolled) }
    }

    /// Going back through a calendar is looking for the latest instant whose next occurrence is
    /// still before: one question a bit, and it mirrors `next_after` by construction.
    fn on_calendar_before(&self, calendar: &Calendar, before: Timestamp) -> Option<Occurrence> {
        let next_from = |from: Timestamp| {
            let found = self.on_calendar(calendar, from, before);
            found.filter(|occurrence| occurrence.effective < before)
        };
        let next = |from: i64| next_from(Timestamp::from_millisecond(from).ok()?);
        // Nothing happens beyond the planned years.
        let end = civil::timestamp(civil::local(PLANNED.end + 1, 0)).unwrap_or(before);
        let top = before.min(end).as_millisecond();
        let mut reach: i64 = 60_000;
        let mut found = loop {
            match next(top.saturating_sub(reach)) {
                Some(found) => break found,
                None if reach > 100 * 366 * 86_400_000 => return None,
                None => reach *= 16,
            }
        };
        let (mut low, mut high) = (found.effective.as_millisecond(), top);
        while low < high {
            let middle = low + (high - low) / 2;
            match next(middle) {
                Some(later) => {
                    found = later;
                    low = later.effective.as_millisecond().max(middle + 1);
                }
                None => high = middle,
            }
        }
        // Inside the last millisecond.
        while let Some(later) = next_from(found.effective) {
            found = later;
        }
        Some(found)
    }

    /// The occurrences after the instant, one by one.
    pub fn after(&self, after: Timestamp) -> impl Iterator<Item = Occurrence> + '_ {
        let next = |last: &Occurrence| self.next_after(last.effective);
        std::iter::successors(self.next_after(after), next)
    }

    /// In English, with the calendar: `at 09:00 on weekdays, Berlin time; on days off (DE-BY)
    /// skipped`.
    pub fn words(&self) -> String {
        let mut words = match &self.rule {
            Rule::Once(at) => format!("once, at {} ({})", self.zone.rfc3339(*at), self.zone.name()),
            rule => rule.words(),
        };
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

    /// The interval, if nothing moves or bounds it: then occurrences can be counted by division.
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

    /// The rule's next time inside the bounds.
    fn nominal_after(&self, after: Timestamp) -> Option<Timestamp> {
        let after = match self.start {
            Some(start) => after.max(just_before(start)),
            None => after,
        };
        self.rule.next_after(after).filter(|at| self.end.is_none_or(|end| *at <= end))
    }

    /// The rule's last time inside the bounds.
    fn nominal_before(&self, before: Timestamp) -> Option<Timestamp> {
        let before = match self.end {
            Some(end) => before.min(just_after(end)),
            None => before,
        };
        self.rule.previous_before(before).filter(|at| self.start.is_none_or(|start| *at >= start))
    }

    /// The first occurrence after the instant, looked for on working days up to that of `until`.
    fn on_calendar(
        &self,
        calendar: &Calendar,
        after: Timestamp,
        until: Timestamp,
    ) -> Option<Occurrence> {
        // Whatever falls into a closed time fits to its end, so a search from inside a closed time
        // has to look at all of it.
        let closed_since =
            if self.fit { calendar.closed_since(after).and_then(civil::timestamp) } else { None };
        let from = closed_since.map_or(after, |closed| just_before(closed).min(after));
        let last = calendar_day(calendar, until);
        let mut day = calendar_day(calendar, from).max(PLANNED.start);
        for _ in 0..SEARCH_STEPS {
            day = calendar.working_at_or_after(day).filter(|day| *day <= last)?;
            let sources = self.roll.sources(day, calendar);
            let mut best: Option<Occurrence> = None;
            // Only days on which the rule has something are looked at.
            let mut source = *sources.start();
            let next_day = loop {
                let begin = just_before(day_start(calendar, source)?);
                // After a fold over midnight the date before is shown once more.
                let on_or_after = |next| calendar_day(calendar, next).max(source);
                let next = self.nominal_after(begin).map(on_or_after);
                match next.filter(|next| next <= sources.end()) {
                    None => break next,
                    Some(on) => {
                        let found = self.first_on(calendar, (on, day), from, after);
                        best = best.into_iter().chain(found).min();
                        source = on + 1;
                    }
                }
            };
            if best.is_some() {
                return best;
            }
            let target = calendar.working_at_or_before(next_day?).unwrap_or(day);
            day = target.max(day + 1);
        }
        None
    }

    /// The first occurrence of the rule on the day `source` that, moved to the working day `to`,
    /// is due after the instant. Nothing that lands before `from` needs to be looked at.
    fn first_on(
        &self,
        calendar: &Calendar,
        (source, to): (Day, Day),
        from: Timestamp,
        after: Timestamp,
    ) -> Option<Occurrence> {
        let begin = day_start(calendar, source)?;
        if source == to {
            return self.first_from(calendar, (source, to), from.max(just_before(begin)), after);
        }
        let same_day = calendar_day(calendar, from) == to;
        let search = |fold: Fold, least: Timestamp| {
            let place = if same_day { moved(calendar, from, source, fold)? } else { least };
            self.first_from(calendar, (source, to), just_before(place.max(least)), after)
        };
        // A repeated hour is moved to times that the hour itself was moved to already.
        let end = day_start(calendar, source + 1)?;
        let repeats = calendar.zone().transitions(begin, end).find(|t| t.after < t.before);
        let again = repeats.and_then(|change| search(Fold::Last, change.at));
        search(Fold::First, begin).into_iter().chain(again).min()
    }

    /// The first occurrence after `at`, in the order of nominal times.
    fn first_from(
        &self,
        calendar: &Calendar,
        (source, to): (Day, Day),
        mut at: Timestamp,
        after: Timestamp,
    ) -> Option<Occurrence> {
        for _ in 0..SEARCH_STEPS {
            let nominal = self.nominal_after(at)?;
            match calendar_day(calendar, nominal).cmp(&source) {
                Ordering::Less => {
                    at = nominal;
                    continue;
                }
                Ordering::Equal => {}
                Ordering::Greater => return None,
            }
            let rolled = if source == to {
                Some(nominal)
            } else {
                moved(calendar, nominal, to, Fold::First)
            };
            let fitted = if self.fit { calendar.fit(rolled?) } else { rolled };
            match fitted.filter(|effective| *effective > after) {
                Some(effective) => return Some(Occurrence { nominal, effective }),
                None => at = nominal,
            }
        }
        None
    }
}

/// The same time of day on another day, in the calendar's zone, to the nanosecond. What falls into a
/// gap there comes at its end; `None` on a date that does not exist.
fn moved(calendar: &Calendar, nominal: Timestamp, to: Day, fold: Fold) -> Option<Timestamp> {
    let zone = calendar.zone();
    let time = civil::second_of_day(civil::local_from_datetime(zone.wall(nominal)));
    let local = civil::local(to, time);
    let at = dst::instant_of(local, zone, Dst { fold, ..Dst::FIXED }).and_then(civil::timestamp)?;
    if matches!(zone.resolve(local), Resolved::Gap { .. }) {
        return Some(at);
    }
    let whole = civil::timestamp(civil::floor_second(nominal))?;
    at.checked_add(nominal.duration_since(whole)).ok()
}

fn calendar_day(calendar: &Calendar, at: Timestamp) -> Day {
    civil::day_from_date(calendar.date_of(at))
}

/// The first instant of a date. A date that does not exist begins where the next one does.
fn day_start(calendar: &Calendar, day: Day) -> Option<Timestamp> {
    civil::timestamp(match calendar.zone().resolve(civil::local(day, 0)) {
        Resolved::Once(at) => at,
        Resolved::Fold { first, .. } => first,
        Resolved::Gap { end, .. } => end,
    })
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
            r#"{"interval": "1ms", "anchor": "2026-01-01T00:00:00Z", "calendar": "US", "roll": "next"}"#,
        )
        .unwrap();
        let monday: Timestamp = "2026-03-09T12:00:00.0005Z".parse().unwrap();
        let timing = spec.build(&TimingContext::new(&zones, monday)).unwrap();
        let next = timing.next_after(monday).unwrap();
        assert_eq!(next.effective.to_string(), "2026-03-09T12:00:00.001Z");
        assert_eq!(next.nominal.to_string(), "2026-03-07T12:00:00.001Z");
        assert_eq!(
            timing.previous_before(next.effective).unwrap().effective.to_string(),
            "2026-03-09T12:00:00Z"
        );
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
