//! Builds a calendar from its declaration. All mistakes are collected and reported; none is
//! corrected silently.

use std::sync::Arc;

use jiff::civil::Date;

use super::Calendar;
use super::hours::{self, Dates, Shift};
use super::spec::{
    CalendarSpec, Context, DetailedHoliday, ExceptionSpec, HolidaySpec, HoursSpec, IntervalSpec,
};
use super::year::{Entry, Own, Reason, Source};
use crate::holidays::Region;
use crate::ics;
use crate::problem::{Mistake, Problem};
use crate::zone::Zone;

/// The most declared dates of a calendar. A longer list belongs into an ICS file, or is an
/// accident.
const ENTRY_LIMIT: usize = 10_000;

pub(super) struct Builder<'a> {
    context: &'a Context<'a>,
    mistakes: Vec<Mistake>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(context: &'a Context<'a>) -> Builder<'a> {
        Builder { context, mistakes: Vec::new() }
    }

    /// Builds the calendar, or returns all mistakes.
    pub(super) fn calendar(mut self, spec: &CalendarSpec) -> Result<Calendar, Vec<Mistake>> {
        let zone = self.zone(spec.timezone.as_deref());
        let day_seconds = self.day_seconds(spec.hours_per_day);
        let source = self.source(spec);
        match (zone, source) {
            (Some(zone), Some(source)) if self.mistakes.is_empty() => {
                self.same_zone(&zone, &source)?;
                Ok(Calendar::new(&spec.id, zone, day_seconds, source))
            }
            _ => Err(self.mistakes),
        }
    }

    fn keep<T>(&mut self, path: impl Into<String>, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|problem| self.mistakes.push(Mistake::new(path, problem))).ok()
    }

    fn zone(&mut self, name: Option<&str>) -> Option<Zone> {
        match (name, self.context.default_zone) {
            (Some(name), _) => self.keep("timezone", self.context.zones.get(name)),
            (None, Some(zone)) => Some(zone.clone()),
            (None, None) => {
                let problem = Problem::whole("calendar-zone", "", "the calendar has no time zone")
                    .suggest("timezone: Europe/Berlin");
                self.keep("timezone", Err(problem))
            }
        }
    }

    fn day_seconds(&mut self, hours: Option<f64>) -> Option<i64> {
        let hours = hours?;
        if hours.is_finite() && hours > 0.0 && hours <= 24.0 {
            return Some((hours * 3600.0).round() as i64);
        }
        let problem = Problem::whole("hours-per-day", &hours.to_string(), "not a length of a day")
            .allow("more than 0, at most 24");
        self.keep("hours_per_day", Err(problem))
    }

    fn source(&mut self, spec: &CalendarSpec) -> Option<Source> {
        let own = spec.hours.is_some() || !spec.holidays.is_empty() || !spec.exceptions.is_empty();
        let kinds =
            [own, !spec.union.is_empty(), !spec.intersection.is_empty(), spec.base.is_some()];
        if kinds.iter().filter(|given| **given).count() > 1 {
            let message = "a calendar has its own hours and holidays, or is composed of others";
            let problem = Problem::whole("calendar-kind", "", message)
                .suggest("declare the hours as a calendar of their own and name it in the union");
            return self.keep("calendar", Err(problem));
        }
        if let Some(base) = &spec.base {
            let all_but = self.others("all_but", &spec.all_but);
            return Some(Source::AllBut(self.other("base", base)?, all_but?));
        }
        if !spec.union.is_empty() {
            return self.others("union", &spec.union).map(Source::Union);
        }
        if !spec.intersection.is_empty() {
            return self.others("intersection", &spec.intersection).map(Source::Intersection);
        }
        self.own(spec).map(Source::Own)
    }

    fn others(&mut self, path: &str, names: &[String]) -> Option<Vec<Calendar>> {
        if names.is_empty() {
            let problem = Problem::whole("calendar-compose", "", "no calendar is named here");
            return self.keep(path, Err(problem));
        }
        let all: Vec<Option<Calendar>> = names
            .iter()
            .enumerate()
            .map(|(at, name)| self.other(&format!("{path}[{at}]"), name))
            .collect();
        all.into_iter().collect()
    }

    fn other(&mut self, path: &str, name: &str) -> Option<Calendar> {
        let found = (self.context.find)(name).ok_or_else(|| {
            Problem::whole("calendar-unknown", name, "no such calendar")
                .suggest("a calendar declared before this one, or a region such as DE-BY")
        });
        self.keep(path, found)
    }

    /// Refuses calendars of different zones, because their days do not begin at the same time.
    fn same_zone(&self, zone: &Zone, source: &Source) -> Result<(), Vec<Mistake>> {
        let parts: Vec<&Calendar> = match source {
            Source::Own(_) => return Ok(()),
            Source::Union(all) | Source::Intersection(all) => all.iter().collect(),
            Source::AllBut(base, others) => std::iter::once(base).chain(others).collect(),
        };
        let Some(other) = parts.iter().find(|part| part.zone().name() != zone.name()) else {
            return Ok(());
        };
        let message = format!(
            "{} is in {}, but the composed calendar is in {}",
            other.id(),
            other.zone().name(),
            zone.name()
        );
        let problem =
            Problem::whole("calendar-zones", other.id(), message).suggest("calendars of one zone");
        Err(vec![Mistake::new("timezone", problem)])
    }

    fn own(&mut self, spec: &CalendarSpec) -> Option<Own> {
        let mut own = Own { week: self.week(spec), regions: Vec::new(), entries: Vec::new() };
        for (at, holiday) in spec.holidays.iter().enumerate() {
            self.holiday(&format!("holidays[{at}]"), holiday, &mut own);
            if own.entries.len() > ENTRY_LIMIT {
                let message = format!("more than {ENTRY_LIMIT} dates");
                return self.keep("holidays", Err(Problem::whole("calendar-size", "", message)));
            }
        }
        for (at, exception) in spec.exceptions.iter().enumerate() {
            let entry = self.exception(&format!("exceptions[{at}]"), exception);
            own.entries.extend(entry);
        }
        if own.entries.len() > ENTRY_LIMIT {
            let message = format!("more than {ENTRY_LIMIT} dates");
            return self.keep("exceptions", Err(Problem::whole("calendar-size", "", message)));
        }
        Some(own)
    }

    /// The hours of the week: Monday to Friday, 09:00 to 17:00, if none are declared.
    fn week(&mut self, spec: &CalendarSpec) -> [Arc<[Shift]>; 7] {
        let mut week: [Arc<[Shift]>; 7] = std::array::from_fn(|_| Arc::from([]));
        let Some(hours) = &spec.hours else {
            let usual: Arc<[Shift]> = [Shift { start: 9 * 3600, end: 17 * 3600 }].into();
            week[1..6].fill(usual);
            return week;
        };
        let mut taken = 0u8;
        for (days, hours) in hours {
            let path = format!("hours.{days}");
            let bits = self.keep(&path, hours::parse_weekdays(days));
            let shifts = self.shifts(&path, hours);
            let (Some(bits), Some(shifts)) = (bits, shifts) else { continue };
            if taken & bits != 0 {
                let problem = Problem::whole("hours", days, "a weekday is declared twice");
                self.keep(&path, Err::<(), _>(problem));
            }
            taken |= bits;
            for (day, slot) in week.iter_mut().enumerate() {
                if bits >> day & 1 == 1 {
                    *slot = shifts.clone();
                }
            }
        }
        week
    }

    fn shifts(&mut self, path: &str, hours: &HoursSpec) -> Option<Arc<[Shift]>> {
        let parse = |interval: &IntervalSpec| match interval {
            IntervalSpec::Text(text) => hours::parse_shift(text),
            IntervalSpec::Pair([from, to]) => {
                let (start, end) = (hours::parse_clock(from)?, hours::parse_clock(to)?);
                hours::shift(start, end, &format!("{from}-{to}"))
            }
        };
        let shifts: Result<Vec<Shift>, Problem> = match hours {
            HoursSpec::One(text) => hours::parse_shift(text).map(|shift| vec![shift]),
            HoursSpec::Several(all) => all.iter().map(parse).collect(),
        };
        let plan = shifts.and_then(hours::day_plan);
        self.keep(path, plan).map(Arc::from)
    }

    fn holiday(&mut self, path: &str, holiday: &HolidaySpec, own: &mut Own) {
        let detailed = match holiday {
            HolidaySpec::Date(date) => {
                own.entries.extend(self.dates(path, Some(date), None, None).map(|dates| Entry {
                    dates,
                    reason: Reason::Holiday("own date".into()),
                    shifts: Some(Arc::from([])),
                }));
                return;
            }
            HolidaySpec::Detailed(detailed) => detailed,
        };
        let DetailedHoliday { country, subdivision, ics, date, from, to, name, hours } =
            &**detailed;
        let dated = date.is_some() || from.is_some() || to.is_some();
        if usize::from(country.is_some()) + usize::from(ics.is_some()) + usize::from(dated) != 1 {
            let problem = Problem::whole("holiday", "", "an entry names one source of dates")
                .allow("country, ics, date, or from and to")
                .suggest("{ country: US } or { date: 2026-12-24, name: Company day }");
            self.keep(path, Err::<(), _>(problem));
        } else if let Some(country) = country {
            let code = match subdivision {
                Some(subdivision) => format!("{country}-{subdivision}"),
                None => country.clone(),
            };
            own.regions.extend(self.keep(path, Region::parse(&code).map_err(Problem::from)));
        } else if let Some(file) = ics {
            own.entries.extend(self.ics(path, file));
        } else {
            let name = name.as_deref().unwrap_or("own date");
            let shifts = match hours {
                Some(hours) => self.shifts(&format!("{path}.hours"), hours),
                None => Some(Arc::from([])),
            };
            let dates = self.dates(path, date.as_deref(), from.as_deref(), to.as_deref());
            own.entries.extend(dates.map(|dates| Entry {
                dates,
                reason: Reason::Holiday(name.into()),
                shifts,
            }));
        }
    }

    fn dates(
        &mut self,
        path: &str,
        date: Option<&str>,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Option<Dates> {
        if let Some(date) = date {
            return self.keep(path, hours::parse_dates(date));
        }
        let (from, to) = (from.unwrap_or(""), to.unwrap_or(""));
        let first = self.keep(format!("{path}.from"), parse_date(from))?;
        let last = self.keep(format!("{path}.to"), parse_date(to))?;
        if first > last {
            let message = "the last date is before the first";
            let problem = Problem::whole("holiday", to, message).suggest(from.to_owned());
            return self.keep(path, Err(problem));
        }
        let day = crate::civil::day_from_date;
        Some(Dates::Span(day(first), day(last)))
    }

    fn ics(&mut self, path: &str, file: &str) -> Vec<Entry> {
        let text = (self.context.read_ics)(file).map_err(|why| {
            Problem::whole("ics-file", file, format!("the file cannot be read: {why}"))
        });
        let events = text.and_then(|text| ics::read(&text));
        let entries =
            self.keep(format!("{path}.ics"), events).into_iter().flatten().map(|event| Entry {
                dates: Dates::Span(event.first, event.last),
                reason: Reason::Holiday(event.name.into()),
                shifts: Some(Arc::from([])),
            });
        entries.collect()
    }

    fn exception(&mut self, path: &str, exception: &ExceptionSpec) -> Option<Entry> {
        let dates = self.keep(path, hours::parse_dates(&exception.date))?;
        let shifts = match (exception.working, &exception.hours) {
            (true, Some(hours)) => Some(self.shifts(&format!("{path}.hours"), hours)?),
            (true, None) => None,
            (false, None) => Some(Arc::from([])),
            (false, Some(_)) => {
                let problem = Problem::whole("exception", "", "a day off has no hours")
                    .suggest("working: true, or leave the hours out");
                return self.keep(path, Err(problem));
            }
        };
        let usual = if exception.working { "working day" } else { "day off" };
        let name = exception.name.as_deref().unwrap_or(usual);
        Some(Entry { dates, reason: Reason::Exception(name.into()), shifts })
    }
}

fn parse_date(text: &str) -> Result<Date, Problem> {
    text.trim().parse().map_err(|_| {
        Problem::whole("date", text, "not a date").allow("YYYY-MM-DD").suggest("2026-12-24")
    })
}
