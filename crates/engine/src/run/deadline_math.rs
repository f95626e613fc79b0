//! Converts durations and written times to instants, using a definition's zone and calendars.

use calendar::{Calendar, Meaning, Zone};
use jiff::civil::{DateTime, Time};
use jiff::{SignedDuration, Timestamp};
use language::Rules;
use language::definition::{Definition, TimeSpan};

/// The context for reading times. Every error is a message for people.
#[derive(Clone, Copy)]
pub(super) struct Instants<'a> {
    pub(super) definition: &'a Definition,
    pub(super) rules: &'a Rules,
    /// The calendar for working time, if it is not the definition's.
    pub(super) calendar: Option<&'a str>,
}

impl Instants<'_> {
    fn zone(&self) -> Result<Zone, String> {
        match (&self.definition.timezone, self.calendar.or(self.definition.calendar.as_deref())) {
            (Some(name), _) => self.rules.zones().get(name).map_err(|problem| problem.message),
            // The calendar of a region has no zone of its own and is built in UTC.
            (None, Some(_)) => {
                Ok(self.calendar().map_or_else(|_| Zone::utc(), |own| own.zone().clone()))
            }
            (None, None) => Ok(Zone::utc()),
        }
    }

    fn calendar(&self) -> Result<Calendar, String> {
        let id = self.calendar.or(self.definition.calendar.as_deref());
        let Some(id) = id else { return Err("working time needs a calendar".to_owned()) };
        let zone = self.definition.timezone.as_deref().unwrap_or("UTC");
        let found = self.rules.find_calendar(id, zone, &self.definition.calendars);
        found.ok_or_else(|| format!("there is no calendar {id}"))
    }

    /// The instant one time span after `from`, or before it if `sign` is negative.
    pub(super) fn after(
        &self,
        from: Timestamp,
        span: TimeSpan,
        sign: i32,
    ) -> Result<Timestamp, String> {
        let never = || "the calendar has not that much working time".to_owned();
        match span {
            TimeSpan::Elapsed(duration) => {
                let end = from.checked_add(duration * sign);
                end.map_err(|_| "that is too far away".to_owned())
            }
            TimeSpan::Working(duration) => {
                self.calendar()?.add_time(from, duration * sign).ok_or_else(never)
            }
            TimeSpan::WorkingDays(days) => {
                self.calendar()?.add_days(from, days * f64::from(sign)).ok_or_else(never)
            }
        }
    }

    /// The instant that keeps as much time after `now` as `at` had after `since`, when its clock
    /// stopped.
    pub(super) fn later(
        &self,
        at: Timestamp,
        since: Timestamp,
        now: Timestamp,
        is_working: bool,
    ) -> Timestamp {
        let left = match (is_working, self.calendar()) {
            (true, Ok(calendar)) => calendar
                .between(since, at)
                .and_then(|between| calendar.add_time(now, between.working)),
            _ => now.checked_add(at.duration_since(since)).ok(),
        };
        left.unwrap_or(at).max(at)
    }

    /// The instant at which this percentage of a time span from `from` has passed.
    pub(super) fn share(
        &self,
        from: Timestamp,
        span: TimeSpan,
        percent: f64,
    ) -> Result<Timestamp, String> {
        let of = |duration: SignedDuration| duration.mul_f64(percent / 100.0);
        let part = match span {
            TimeSpan::Elapsed(duration) => TimeSpan::Elapsed(of(duration)),
            TimeSpan::Working(duration) => TimeSpan::Working(of(duration)),
            TimeSpan::WorkingDays(days) => {
                let day = self.calendar()?.seconds_per_day();
                TimeSpan::Working(SignedDuration::from_secs(day).mul_f64(days * percent / 100.0))
            }
        };
        self.after(from, part, 1)
    }

    /// The next instant after `now` at which the clock shows this time.
    pub(super) fn next_at(&self, now: Timestamp, time: Time) -> Result<Timestamp, String> {
        let zone = self.zone()?;
        let mut date = zone.wall(now).date();
        for _ in 0..3 {
            let instant = self.instant_of(&zone, date.to_datetime(time))?;
            if instant > now {
                return Ok(instant);
            }
            date = date.tomorrow().map_err(|_| "that is too far away".to_owned())?;
        }
        Err("that time does not come".to_owned())
    }

    /// The instant of a wall time. In a gap it is the end of the gap; in a fold, the first of the
    /// two instants.
    fn instant_of(&self, zone: &Zone, wall: DateTime) -> Result<Timestamp, String> {
        match zone.meaning(wall) {
            Some(Meaning::Once(at) | Meaning::Fold { first: at, .. }) => Ok(at),
            Some(Meaning::Gap { end, .. }) => Ok(end),
            None => Err("that is too far away".to_owned()),
        }
    }

    /// Reads a time with zone or offset, a local time, or a time of day.
    pub(super) fn written(&self, text: &str, now: Timestamp) -> Result<Timestamp, String> {
        let text = text.trim();
        if let Ok(instant) = text.parse::<Timestamp>() {
            return Ok(instant);
        }
        if let Ok(wall) = text.parse::<DateTime>() {
            return self.instant_of(&self.zone()?, wall);
        }
        match text.parse::<Time>() {
            Ok(time) => self.next_at(now, time),
            Err(_) => Err(format!(
                "{} is no time; write 2026-03-01T09:00:00+01:00, 2026-03-01T09:00 or 17:00",
                language::definition::cut(text)
            )),
        }
    }

    /// The instant `now` plus the written duration.
    pub(super) fn written_delay(&self, text: &str, now: Timestamp) -> Result<Timestamp, String> {
        let span = TimeSpan::parse(text).map_err(|problem| {
            format!("{} is no duration: {problem}", language::definition::cut(text))
        })?;
        self.after(now, span, 1)
    }
}
