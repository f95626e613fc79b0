//! Searches for occurrences with a calendar, working day by working day, over the days that move to
//! each.

use std::cmp::Ordering;

use jiff::Timestamp;

use super::{Occurrence, Timing, just_before};
use crate::calendars::{Calendar, PLANNED};
use crate::civil::{self, Day};
use crate::dst::{self, Dst, Fold};
use crate::roll::Roll;
use crate::zone::Resolved;

/// How many consecutive days off, or occurrences on days off, a search visits before it answers
/// "never". `0 9 * * SUN` on a Monday-to-Friday calendar is such a rule.
const SEARCH_STEPS: usize = 500;

impl Timing {
    /// The occurrence that follows a run which ended at `after`. Skipping it would end the schedule
    /// for good, and moving it back would put it before that run. In both cases it moves to the
    /// next working day instead.
    pub(super) fn after_completion(
        &self,
        calendar: &Calendar,
        after: Timestamp,
    ) -> Option<Occurrence> {
        let nominal = self.nominal_after(after)?;
        let chosen = self.landing(calendar, nominal, self.roll).filter(|at| *at > after);
        let effective = chosen.or_else(|| self.landing(calendar, nominal, Roll::Next))?;
        Some(Occurrence { nominal, effective })
    }

    /// The instant to which a nominal time is rolled and fitted; `None` if it is skipped.
    pub(super) fn landing(
        &self,
        calendar: &Calendar,
        nominal: Timestamp,
        roll: Roll,
    ) -> Option<Timestamp> {
        let day = calendar_day(calendar, nominal);
        let target = roll.target(day, calendar)?;
        let rolled =
            if target == day { nominal } else { moved(calendar, nominal, target, Fold::First)? };
        if self.fit { calendar.fit(rolled) } else { Some(rolled) }
    }

    /// The last occurrence before an instant. A binary search finds the latest instant whose next
    /// occurrence is still before it, so the result mirrors `next_after` by construction.
    pub(super) fn on_calendar_before(
        &self,
        calendar: &Calendar,
        before: Timestamp,
    ) -> Option<Occurrence> {
        let next_from = |from: Timestamp| {
            let past = Occurrence { effective: from, nominal: Timestamp::MAX };
            let found = self.on_calendar(calendar, from, past, before);
            found.filter(|occurrence| occurrence.effective < before)
        };
        let next = |from: i64| next_from(Timestamp::from_millisecond(from).ok()?);
        // There are no occurrences outside of the planned years.
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
        // There may be several occurrences inside the last millisecond.
        while let Some(later) = next_from(found.effective) {
            found = later;
        }
        Some(found)
    }

    /// The first occurrence greater than `past`, searched for after the instant, on working days up
    /// to that of `until`.
    pub(super) fn on_calendar(
        &self,
        calendar: &Calendar,
        after: Timestamp,
        past: Occurrence,
        until: Timestamp,
    ) -> Option<Occurrence> {
        // A time outside of working hours is fitted to the next opening, so a search from outside
        // of working hours must include all times since the last closing.
        let closed_since =
            if self.fit { calendar.closed_since(after).and_then(civil::timestamp) } else { None };
        let from = closed_since.map_or(after, |closed| just_before(closed).min(after));
        let last = calendar_day(calendar, until);
        let mut day = calendar_day(calendar, from).max(PLANNED.start);
        for _ in 0..SEARCH_STEPS {
            day = calendar.working_at_or_after(day).filter(|day| *day <= last)?;
            let sources = self.roll.sources(day, calendar);
            let mut best: Option<Occurrence> = None;
            // Only days on which the rule has a time are visited.
            let mut source = *sources.start();
            let next_day = loop {
                let begin = just_before(day_start(calendar, source)?);
                // After a fold over midnight, the previous date is shown once more.
                let on_or_after = |next| calendar_day(calendar, next).max(source);
                let next = self.nominal_after(begin).map(on_or_after);
                match next.filter(|next| next <= sources.end()) {
                    None => break next,
                    Some(on) => {
                        let found = self.first_on(calendar, (on, day), from, past);
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

    /// The first time of the rule on the day `source` that, moved to the working day `to`, is an
    /// occurrence greater than `past`. Times that land before `from` need not be visited.
    fn first_on(
        &self,
        calendar: &Calendar,
        (source, to): (Day, Day),
        from: Timestamp,
        past: Occurrence,
    ) -> Option<Occurrence> {
        let begin = day_start(calendar, source)?;
        if source == to {
            return self.first_from(calendar, (source, to), from.max(just_before(begin)), past);
        }
        let same_day = calendar_day(calendar, from) == to;
        let search = |fold: Fold, least: Timestamp| {
            let first = if same_day { moved(calendar, from, source, fold)? } else { least };
            self.first_from(calendar, (source, to), just_before(first.max(least)), past)
        };
        // The second pass of a repeated hour moves to the same times as the first pass.
        let end = day_start(calendar, source + 1)?;
        let repeats = calendar.zone().transitions(begin, end).find(|t| t.after < t.before);
        let again = repeats.and_then(|change| search(Fold::Last, change.at));
        search(Fold::First, begin).into_iter().chain(again).min()
    }

    /// The first occurrence greater than `past`, with its nominal time after `at`, in the order of
    /// nominal times.
    fn first_from(
        &self,
        calendar: &Calendar,
        (source, to): (Day, Day),
        mut at: Timestamp,
        past: Occurrence,
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
            let found = fitted.map(|effective| Occurrence { nominal, effective });
            match found.filter(|found| *found > past) {
                Some(found) => return Some(found),
                None => at = nominal,
            }
        }
        None
    }
}

/// The same time of day on another day, in the calendar's zone, to the nanosecond. A time in a gap
/// moves to the end of the gap; `None` for a date that does not exist.
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

pub(super) fn calendar_day(calendar: &Calendar, at: Timestamp) -> Day {
    civil::day_from_date(calendar.date_of(at))
}

pub(super) fn day_start(calendar: &Calendar, day: Day) -> Option<Timestamp> {
    civil::timestamp(calendar.begin_of(day))
}
