//! Calendars: which days and hours are working time, and why a day is off.

mod build;
mod compose;
pub(crate) mod hours;
mod spec;
mod year;

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::Date;

pub use hours::Shift;
pub use spec::{
    CalendarSpec, Context, DetailedHoliday, ExceptionSpec, HolidaySpec, HoursSpec, IntervalSpec,
};
pub(crate) use year::PLANNED;
pub use year::{DayPlan, Reason};

use crate::civil::{self, DAY_SECONDS, Day};
use crate::holidays::Region;
use crate::zone::Zone;
use hours::Dates;
use year::{Entry, Source, Years};

/// How many days a search for a working day or an opening covers before it answers "none". Nobody
/// waits for the next working day of a calendar without work for ten years.
pub(crate) const SEARCH_DAYS: Day = 3660;

/// Working days, working hours and holidays, in a zone. Clones are cheap.
///
/// ```
/// use calendar::{Calendar, Zones, holidays::Region};
/// let zones = Zones::bundled();
/// let berlin = zones.get("Europe/Berlin").unwrap();
/// let bavaria = Calendar::for_region(&Region::parse("DE-BY").unwrap(), berlin);
/// let day = bavaria.day("2026-01-06".parse().unwrap());
/// assert!(!day.is_working());
/// assert_eq!(day.reason.to_string(), "holiday: Epiphany");
/// ```
#[derive(Clone)]
pub struct Calendar(Arc<Inner>);

struct Inner {
    id: Box<str>,
    zone: Zone,
    /// The length of `1 working day`, in seconds.
    day_seconds: i64,
    source: Source,
    years: Years,
    /// Whether the declaration names the zone. The calendar of a region uses the zone of its user.
    has_own_zone: bool,
}

impl Calendar {
    pub(crate) fn new(id: &str, zone: Zone, day_seconds: Option<i64>, source: Source) -> Calendar {
        Calendar::with_zone(id, zone, true, day_seconds, source)
    }

    fn with_zone(
        id: &str,
        zone: Zone,
        has_own_zone: bool,
        day_seconds: Option<i64>,
        mut source: Source,
    ) -> Calendar {
        if let Source::Own(own) = &mut source {
            own.entries.extend(missing_dates(&zone));
        }
        let day_seconds = day_seconds.unwrap_or_else(|| source.longest_day());
        let years = Years::default();
        Calendar(Arc::new(Inner { id: id.into(), zone, day_seconds, source, years, has_own_zone }))
    }

    /// The usual working week of a country, 09:00 to 17:00, with its public holidays.
    pub fn for_region(region: &Region, zone: Zone) -> Calendar {
        Calendar::with_zone(region.code(), zone, false, None, Source::for_region(region))
    }

    /// The id that declarations refer to.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The zone of its dates and hours.
    pub fn zone(&self) -> &Zone {
        &self.0.zone
    }

    /// Whether the zone belongs to the calendar. A region has none: it uses the zone of the rule.
    pub(crate) fn has_own_zone(&self) -> bool {
        self.0.has_own_zone
    }

    /// The length of one working day in seconds: `hours_per_day`, or the longest regular day.
    pub fn seconds_per_day(&self) -> i64 {
        self.0.day_seconds
    }

    /// The plan of a date: its hours, and the reason.
    pub fn day(&self, date: Date) -> DayPlan {
        self.plan(civil::day_from_date(date))
    }

    /// The date of an instant in this calendar's zone.
    pub fn date_of(&self, instant: Timestamp) -> Date {
        self.zone().wall(instant).date()
    }

    /// The first working day at or after the date, within ten years.
    pub fn working_day_from(&self, date: Date) -> Option<Date> {
        civil::date_from_day(self.working_at_or_after(civil::day_from_date(date))?)
    }

    /// The last working day at or before the date, within ten years.
    pub fn working_day_until(&self, date: Date) -> Option<Date> {
        civil::date_from_day(self.working_at_or_before(civil::day_from_date(date))?)
    }

    /// The date `count` working days away. A start on a day off counts as the next working day, or,
    /// going back, as the previous one. `None` if the calendar has too few working days.
    pub fn add_working_dates(&self, date: Date, count: i32) -> Option<Date> {
        let day = civil::day_from_date(date);
        let day = if count >= 0 {
            let mut day = self.working_at_or_after(day)?;
            for _ in 0..count {
                day = self.working_at_or_after(day + 1)?;
            }
            day
        } else {
            let mut day = self.working_at_or_before(day)?;
            for _ in count..0 {
                day = self.working_at_or_before(day - 1)?;
            }
            day
        };
        civil::date_from_day(day)
    }

    /// Regions whose holidays are not fully known in the year, with the years for which they are.
    pub fn unknown_holidays(&self, year: i16) -> Vec<(String, RangeInclusive<i16>)> {
        let mut regions = Vec::new();
        self.0.source.regions(&mut regions);
        let unknown = regions.into_iter().filter_map(|region| {
            let known = region.known_years()?;
            (!known.contains(&year)).then(|| (region.code().to_owned(), known))
        });
        unknown.collect()
    }

    pub(crate) fn source(&self) -> &Source {
        &self.0.source
    }

    pub(crate) fn plan(&self, day: Day) -> DayPlan {
        self.with_plan(day, DayPlan::clone)
    }

    /// Reads the plan of a day without copying it.
    pub(crate) fn with_plan<T>(&self, day: Day, look: impl FnOnce(&DayPlan) -> T) -> T {
        self.0.years.with_plan(&self.0.source, day, look)
    }

    pub(crate) fn is_working(&self, day: Day) -> bool {
        self.0.years.is_working(&self.0.source, day)
    }

    /// The first working day of the range, within the planned years.
    pub(crate) fn first_working(&self, days: Range<Day>) -> Option<Day> {
        self.0.years.first_working(&self.0.source, planned(days))
    }

    /// The last working day of the range, within the planned years.
    pub(crate) fn last_working(&self, days: Range<Day>) -> Option<Day> {
        self.0.years.last_working(&self.0.source, planned(days))
    }

    /// The nth working day of a range inside one year, counted from 1, or from the end if negative.
    pub(crate) fn nth_working(&self, days: Range<Day>, nth: i32) -> Option<Day> {
        if planned(days.clone()) != days || nth == 0 {
            return None;
        }
        self.0.years.nth_working(&self.0.source, days, nth.unsigned_abs() - 1, nth < 0)
    }

    pub(crate) fn working_at_or_after(&self, day: Day) -> Option<Day> {
        self.first_working(day..day.saturating_add(SEARCH_DAYS))
    }

    pub(crate) fn working_at_or_before(&self, day: Day) -> Option<Day> {
        self.last_working(day.saturating_sub(SEARCH_DAYS)..day.saturating_add(1))
    }
}

/// The part of a range that lies in the planned years.
pub(crate) fn planned(days: Range<Day>) -> Range<Day> {
    days.start.max(PLANNED.start)..days.end.min(PLANNED.end)
}

/// Dates that the zone's clock skips, such as 2011-12-30 in Apia. They are days off.
fn missing_dates(zone: &Zone) -> impl Iterator<Item = Entry> {
    let mut missing = Vec::new();
    let mut segment = zone.segment(i64::from(PLANNED.start) * DAY_SECONDS);
    while segment.end < i64::from(PLANNED.end) * DAY_SECONDS {
        if i64::from(segment.after - segment.offset) >= DAY_SECONDS {
            missing.push(civil::day_of(segment.end + i64::from(segment.offset)));
        }
        segment = zone.segment(segment.end);
    }
    let reason = Reason::Exception(format!("no such date in {}", zone.name()).into());
    missing.into_iter().map(move |day| Entry {
        dates: Dates::Span(day, day),
        reason: reason.clone(),
        shifts: Some(Arc::from([])),
    })
}

impl fmt::Debug for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calendar({})", self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zones::Zones;

    #[test]
    fn a_date_that_does_not_exist_is_not_worked() {
        let region = Region::parse("NZ").unwrap();
        let apia = Calendar::for_region(&region, Zones::bundled().get("Pacific/Apia").unwrap());
        let friday = apia.day("2011-12-30".parse().unwrap());
        assert!(!friday.is_working());
        assert_eq!(friday.reason.to_string(), "exception: no such date in Pacific/Apia");
        assert!(apia.day("2011-12-29".parse().unwrap()).is_working());
        let day = apia.day("9999-01-01".parse().unwrap());
        assert_eq!(day.reason.to_string(), "exception: not planned, outside of 1900 to 2299");
    }
}
