//! Calendars as people declare them, and the way from there to a [`Calendar`].

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::Calendar;
use super::hours::{self, Dates, Shift};
use super::year::{Entry, Own, Reason, Source};
use crate::holidays::Region;
use crate::ics;
use crate::problem::{Mistake, Problem};
use crate::zone::{Zone, Zones};

/// A calendar has at most this many declared dates; a longer list belongs into an ICS file or is
/// an accident.
const ENTRY_LIMIT: usize = 10_000;

/// A calendar as it is written.
///
/// ```yaml
/// id: us-business
/// timezone: America/New_York
/// hours: { mon-fri: ["09:00-17:00"] }
/// holidays: [ { country: US }, { date: 2026-12-24, name: Company day, hours: ["09:00-12:00"] } ]
/// exceptions: [ { date: 2026-12-19, working: true } ]
/// ```
///
/// or composed: `union: [a, b]`, `intersection: [a, b]`, `base: a` with `all_but: [b]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalendarSpec {
    /// The name it is referred to by.
    #[serde(default)]
    pub id: String,
    /// IANA zone of its dates and hours.
    #[serde(default, alias = "tz", skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// Weekdays (`mon`, `mon-fri`, `sat,sun`) to intervals.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hours: BTreeMap<String, HoursSpec>,
    /// Days off, or with other hours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holidays: Vec<HolidaySpec>,
    /// What overrides everything else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exceptions: Vec<ExceptionSpec>,
    /// What `1 working day` means, in hours; the longest regular day if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hours_per_day: Option<f64>,
    /// Worked where any of these works.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub union: Vec<String>,
    /// Worked where all of these work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intersection: Vec<String>,
    /// Worked where this works and none of `all_but` does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// See `base`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub all_but: Vec<String>,
}

/// Intervals of a day: `"09:00-17:00"`, `["09:00-12:00", "13:00-17:00"]` or `[["09:00", "17:00"]]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected hours such as \"09:00-17:00\", or a list of them")]
pub enum HoursSpec {
    /// One interval.
    One(String),
    /// Several.
    Several(Vec<IntervalSpec>),
}

/// One interval, as text or as a pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected \"09:00-17:00\" or [\"09:00\", \"17:00\"]")]
pub enum IntervalSpec {
    /// `"09:00-17:00"`.
    Text(String),
    /// `["09:00", "17:00"]`.
    Pair([String; 2]),
}

/// An entry of `holidays`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a date, or an entry with country (and subdivision), ics, date, or from and \
                 to, and with name and hours"
)]
pub enum HolidaySpec {
    /// A bare date.
    Date(String),
    /// Anything else.
    Detailed(Box<DetailedHoliday>),
}

/// A country's holidays, an ICS file, or own dates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetailedHoliday {
    /// `US`, `DE-BY`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub country: Option<String>,
    /// `BY`, if `country` is only `DE`.
    #[serde(default, alias = "subdiv", skip_serializing_if = "Option::is_none")]
    pub subdivision: Option<String>,
    /// The name of an ICS file; the caller reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ics: Option<String>,
    /// `2026-12-24`, or `12-24` for every year.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// First date of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Last date of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// What the day is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Hours worked all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hours: Option<HoursSpec>,
}

/// An entry of `exceptions`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExceptionSpec {
    /// `2026-12-19`, or `12-19` for every year.
    pub date: String,
    /// Worked or not.
    pub working: bool,
    /// Hours worked; those of a regular day if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hours: Option<HoursSpec>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What a declaration may refer to. Files are read by the caller: this crate does no IO.
pub struct Context<'a> {
    /// The zone database.
    pub zones: &'a Zones,
    /// The zone of a calendar that names none.
    pub default_zone: Option<&'a Zone>,
    /// The text of an ICS file, or why it cannot be had.
    pub read_ics: &'a dyn Fn(&str) -> Result<String, String>,
    /// A calendar that was declared before.
    pub find: &'a dyn Fn(&str) -> Option<Calendar>,
}

impl CalendarSpec {
    /// The calendar, or everything that is wrong with the declaration.
    pub fn build(&self, context: &Context<'_>) -> Result<Calendar, Vec<Mistake>> {
        let mut builder = Builder { context, mistakes: Vec::new() };
        let zone = builder.zone(self.timezone.as_deref());
        let day_seconds = builder.day_seconds(self.hours_per_day);
        let source = builder.source(self);
        match (zone, source) {
            (Some(zone), Some(source)) if builder.mistakes.is_empty() => {
                builder.same_zone(&zone, &source)?;
                Ok(Calendar::new(&self.id, zone, day_seconds, source))
            }
            _ => Err(builder.mistakes),
        }
    }
}

struct Builder<'a> {
    context: &'a Context<'a>,
    mistakes: Vec<Mistake>,
}

impl Builder<'_> {
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
        let own =
            !spec.hours.is_empty() || !spec.holidays.is_empty() || !spec.exceptions.is_empty();
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

    /// Hours of different zones do not line up by the day: refuse rather than guess.
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

    /// Monday to Friday, 09:00 to 17:00, where nothing is said.
    fn week(&mut self, spec: &CalendarSpec) -> [Arc<[Shift]>; 7] {
        let mut week: [Arc<[Shift]>; 7] = std::array::from_fn(|_| Arc::from([]));
        if spec.hours.is_empty() {
            let usual: Arc<[Shift]> = [Shift { start: 9 * 3600, end: 17 * 3600 }].into();
            week[1..6].fill(usual);
            return week;
        }
        let mut taken = 0u8;
        for (days, hours) in &spec.hours {
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
