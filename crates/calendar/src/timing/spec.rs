//! When something is due, as people declare it.

use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::Timing;
use super::pattern::{self, DailySpec, OneOrMany, PeriodSpec, WeeklySpec};
use crate::calendars::Calendar;
use crate::civil;
use crate::cron::Cron;
use crate::dst::{self, Dst, DstOptions};
use crate::duration::parse_duration;
use crate::holidays::Region;
use crate::problem::{Mistake, Problem};
use crate::roll::Roll;
use crate::rrule::{Recurrence, Rrule};
use crate::rule::{Interval, Rule};
use crate::working_day::Period;
use crate::zone::{Zone, Zones};

/// More rules in one list than this are refused: each costs a search at every question.
const RULE_LIMIT: usize = 100;
/// More exceptions than this belong into a calendar.
const DATE_LIMIT: usize = 1000;

/// One rule, or a list of them, with the options that all rules share.
///
/// ```
/// use calendar::{TimingContext, TimingSpec, Zones};
/// let zones = Zones::bundled();
/// let spec: TimingSpec = serde_json::from_str(
///     r#"{"cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin", "calendar": "DE-BY"}"#,
/// ).unwrap();
/// let created = "2026-12-23T12:00:00Z".parse().unwrap();
/// let timing = spec.build(&TimingContext::new(&zones, created)).unwrap();
/// let next: Vec<String> =
///     timing.after(created).take(2).map(|o| o.effective.to_string()).collect();
/// assert_eq!(next, ["2026-12-24T08:00:00Z", "2026-12-28T08:00:00Z"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TimingSpec {
    /// A cron expression or preset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// A preset such as `daily`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// Elapsed time between occurrences: `5m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(alias = "every")]
    pub interval: Option<String>,
    /// The same in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<u64>,
    /// What the interval is counted from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<IntervalFrom>,
    /// Where an interval begins; when the schedule was made if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    /// One instant, or one wall time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// RFC 5545.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rrule: Option<String>,
    /// First wall time of the RRULE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtstart: Option<String>,
    /// Wall times taken out of the RRULE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exdate: Option<OneOrMany<String>>,
    /// Wall times added to the RRULE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rdate: Option<OneOrMany<String>>,
    /// Every day, or on some weekdays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daily: Option<DailySpec>,
    /// On some weekdays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weekly: Option<WeeklySpec>,
    /// On some days, or a working day, of the month.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monthly: Option<PeriodSpec>,
    /// On a working day of the quarter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quarterly: Option<PeriodSpec>,
    /// On a working day of the year.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yearly: Option<PeriodSpec>,
    /// Several rules: the union.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<TimingSpec>>,

    /// IANA zone; the context's default if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// A calendar by its id, or a region such as `DE-BY`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calendar: Option<String>,
    /// What happens on a day off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roll: Option<Roll>,
    /// Whether the time of day moves into working hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fit: Option<Fit>,
    /// Nothing before this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Nothing after this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Window over which schedules are spread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<String>,
    /// Daylight saving, where the rule's own way is not wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dst: Option<DstOptions>,
}

/// What an interval is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntervalFrom {
    /// A fixed grid: no drift.
    Anchor,
    /// The end of the run before.
    Completion,
}

/// `fit: hours`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fit {
    /// Into working hours.
    Hours,
}

/// What a declaration is read with.
pub struct TimingContext<'a> {
    /// The zone database.
    pub zones: &'a Zones,
    /// When the schedule was made: the anchor of an interval without one.
    pub created: Timestamp,
    /// The zone of a rule that names none.
    pub default_zone: Zone,
    /// Calendars by id. Regions such as `DE-BY` are known without.
    pub find_calendar: &'a dyn Fn(&str) -> Option<Calendar>,
}

impl<'a> TimingContext<'a> {
    /// UTC where no zone is named, and no calendars but the regions.
    pub fn new(zones: &'a Zones, created: Timestamp) -> TimingContext<'a> {
        TimingContext { zones, created, default_zone: Zone::utc(), find_calendar: &|_| None }
    }
}

impl TimingSpec {
    /// A cron expression, and nothing else.
    pub fn from_cron(expression: impl Into<String>) -> TimingSpec {
        TimingSpec { cron: Some(expression.into()), ..TimingSpec::default() }
    }

    /// The timing, or everything that is wrong with the declaration.
    pub fn build(&self, context: &TimingContext<'_>) -> Result<Timing, Vec<Mistake>> {
        let mut builder = Builder { spec: self, context, mistakes: Vec::new() };
        builder.timing().ok_or(builder.mistakes)
    }
}

struct Builder<'a> {
    spec: &'a TimingSpec,
    context: &'a TimingContext<'a>,
    mistakes: Vec<Mistake>,
}

impl Builder<'_> {
    fn timing(&mut self) -> Option<Timing> {
        let zone = match &self.spec.timezone {
            Some(name) => self.keep("timezone", self.context.zones.get(name)),
            None => Some(self.context.default_zone.clone()),
        };
        // With an unknown zone the rest is still read, so that all mistakes are told at once.
        let known = zone.is_some();
        let zone = zone.unwrap_or_else(Zone::utc);
        let calendar = self.calendar(&zone);
        let rule = self.rule(&zone, calendar.as_ref());
        let start = self.instant("start", self.spec.start.as_deref(), &zone);
        let end = self.instant("end", self.spec.end.as_deref(), &zone);
        let spread = self.duration("spread", self.spec.spread.as_deref());
        self.no_roll_without_calendar();
        if let (Some(start), Some(end)) = (start, end)
            && end <= start
        {
            let text = self.spec.end.as_deref().unwrap_or("");
            let problem = Problem::whole("bounds", text, "the end is not after the start");
            self.mistakes.push(Mistake::new("end", problem));
        }
        let rule = rule?;
        if !known || !self.mistakes.is_empty() {
            return None;
        }
        let usual = if rule.is_recurring() { Roll::Skip } else { Roll::Next };
        Some(Timing {
            rule,
            zone,
            calendar,
            roll: self.spec.roll.unwrap_or(usual),
            fit: self.spec.fit.is_some(),
            start,
            end,
            spread: spread.unwrap_or(SignedDuration::ZERO),
            moved_by: SignedDuration::ZERO,
        })
    }

    fn keep<T>(&mut self, path: &str, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|problem| self.mistakes.push(Mistake::new(path, problem))).ok()
    }

    fn keep_all<T>(&mut self, path: &str, result: Result<T, Vec<Mistake>>) -> Option<T> {
        let under = |all: Vec<Mistake>| all.into_iter().map(|m| m.under(path)).collect::<Vec<_>>();
        result.map_err(|all| self.mistakes.extend(under(all))).ok()
    }

    fn calendar(&mut self, zone: &Zone) -> Option<Calendar> {
        let id = self.spec.calendar.as_deref()?;
        if let Some(calendar) = (self.context.find_calendar)(id) {
            return Some(calendar);
        }
        let found = Region::parse(id)
            .map(|region| Calendar::for_region(&region, zone.clone()))
            .map_err(Problem::from);
        self.keep("calendar", found)
    }

    fn no_roll_without_calendar(&mut self) {
        for (given, path) in [(self.spec.roll.is_some(), "roll"), (self.spec.fit.is_some(), "fit")]
        {
            if given && self.spec.calendar.is_none() {
                let message = format!("{path} needs a calendar");
                let problem = Problem::whole("no-calendar", "", message).suggest("calendar: DE-BY");
                self.mistakes.push(Mistake::new(path, problem));
            }
        }
    }

    fn rule(&mut self, zone: &Zone, calendar: Option<&Calendar>) -> Option<Rule> {
        let spec = self.spec;
        let given: Vec<&str> = [
            ("cron", spec.cron.is_some()),
            ("preset", spec.preset.is_some()),
            ("interval", spec.interval.is_some()),
            ("interval_seconds", spec.interval_seconds.is_some()),
            ("at", spec.at.is_some()),
            ("rrule", spec.rrule.is_some()),
            ("daily", spec.daily.is_some()),
            ("weekly", spec.weekly.is_some()),
            ("monthly", spec.monthly.is_some()),
            ("quarterly", spec.quarterly.is_some()),
            ("yearly", spec.yearly.is_some()),
            ("rules", spec.rules.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, given)| given.then_some(name))
        .collect();
        self.only_with(&given);
        let rule = match given.as_slice() {
            ["cron"] => self.cron("cron", spec.cron.as_deref()?, zone),
            ["preset"] => self.cron("preset", spec.preset.as_deref()?, zone),
            ["interval" | "interval_seconds"] => self.interval(zone),
            ["at"] => self.once(spec.at.as_deref()?, zone),
            ["rrule"] => self.recurrence(spec.rrule.as_deref()?, zone),
            ["rules"] => self.several(spec.rules.as_deref()?, zone, calendar),
            [name] => {
                let built = self.pattern(name, zone, calendar);
                self.keep_all(name, built)
            }
            several => {
                let message = match several {
                    [] => "no rule is given".to_owned(),
                    several => format!("several rules are given: {}", several.join(", ")),
                };
                let problem = Problem::whole("rule", "", message)
                    .allow("one of cron, interval, at, rrule, daily, weekly, monthly, quarterly, yearly, rules")
                    .suggest("cron: \"0 9 * * MON-FRI\", or rules: [ … ] for several");
                self.keep("rule", Err(problem))
            }
        };
        Some(rule?.with_dst(spec.dst.unwrap_or_default()))
    }

    /// Options that belong to one kind of rule are refused with another, not ignored.
    fn only_with(&mut self, given: &[&str]) {
        let spec = self.spec;
        let interval = ["interval", "interval_seconds"];
        let belongs: [(&str, bool, &[&str]); 5] = [
            ("from", spec.from.is_some(), &interval),
            ("anchor", spec.anchor.is_some(), &interval),
            ("dtstart", spec.dtstart.is_some(), &["rrule"]),
            ("exdate", spec.exdate.is_some(), &["rrule"]),
            ("rdate", spec.rdate.is_some(), &["rrule"]),
        ];
        for (option, present, with) in belongs {
            if present && !given.iter().any(|rule| with.contains(rule)) {
                let message = format!("{option} goes with {}", with.join(" or "));
                let problem = Problem::whole("option", "", message);
                self.mistakes.push(Mistake::new(option, problem));
            }
        }
    }

    fn cron(&mut self, path: &str, text: &str, zone: &Zone) -> Option<Rule> {
        let cron = self.keep(path, Cron::parse(text))?;
        Some(Rule::cron(cron, zone.clone()))
    }

    fn interval(&mut self, zone: &Zone) -> Option<Rule> {
        let (path, every, text) = match (&self.spec.interval, self.spec.interval_seconds) {
            (Some(text), _) => ("interval", self.duration("interval", Some(text))?, text.clone()),
            (None, seconds) => {
                let text = format!("{}s", seconds?);
                let every = self.duration("interval_seconds", Some(&text))?;
                ("interval_seconds", every, text)
            }
        };
        let anchor = self.instant("anchor", self.spec.anchor.as_deref(), zone);
        let anchor = anchor.unwrap_or(self.context.created);
        let Some(interval) = Interval::new(every, anchor) else {
            let problem = Problem::whole("interval-zero", &text, "an interval of nothing")
                .allow("at least 1ms")
                .suggest("5m");
            return self.keep(path, Err(problem));
        };
        Some(match self.spec.from {
            Some(IntervalFrom::Completion) => Rule::AfterCompletion(every),
            _ => Rule::Interval(interval),
        })
    }

    fn once(&mut self, text: &str, zone: &Zone) -> Option<Rule> {
        Some(Rule::Once(self.instant("at", Some(text), zone)?))
    }

    fn recurrence(&mut self, text: &str, zone: &Zone) -> Option<Rule> {
        let rrule = self.keep("rrule", Rrule::parse(text));
        let start = match &self.spec.dtstart {
            Some(text) => self.keep("dtstart", wall(text, zone)),
            None => Some(zone.wall(self.context.created)),
        };
        let excluded = self.walls("exdate", self.spec.exdate.as_ref(), zone)?;
        let included = self.walls("rdate", self.spec.rdate.as_ref(), zone)?;
        let recurrence = Recurrence::new(rrule?, start?, zone.clone());
        Some(Rule::Recurrence(Box::new(recurrence.exclude(excluded).include(included))))
    }

    fn walls(
        &mut self,
        path: &str,
        texts: Option<&OneOrMany<String>>,
        zone: &Zone,
    ) -> Option<Vec<DateTime>> {
        let texts = texts.map(OneOrMany::as_slice).unwrap_or_default();
        if texts.len() > DATE_LIMIT {
            let problem = Problem::whole("dates", "", format!("{} dates", texts.len()))
                .allow(format!("at most {DATE_LIMIT}"))
                .suggest("a calendar with these dates");
            return self.keep(path, Err(problem));
        }
        let all: Vec<Option<DateTime>> = texts
            .iter()
            .enumerate()
            .map(|(at, text)| self.keep(&format!("{path}[{at}]"), wall(text, zone)))
            .collect();
        all.into_iter().collect()
    }

    fn several(
        &mut self,
        specs: &[TimingSpec],
        zone: &Zone,
        calendar: Option<&Calendar>,
    ) -> Option<Rule> {
        if specs.is_empty() || specs.len() > RULE_LIMIT {
            let problem = Problem::whole("rules", "", format!("{} rules", specs.len()))
                .allow(format!("1 to {RULE_LIMIT} rules"));
            return self.keep("rules", Err(problem));
        }
        let find = |id: &str| {
            calendar.filter(|c| c.id() == id).cloned().or_else(|| (self.context.find_calendar)(id))
        };
        let context = TimingContext {
            zones: self.context.zones,
            created: self.context.created,
            default_zone: zone.clone(),
            find_calendar: &find,
        };
        let mut rules = Vec::new();
        let mut mistakes = Vec::new();
        for (at, spec) in specs.iter().enumerate() {
            let path = format!("rules[{at}]");
            let nested = spec.rules.is_some() || spec.has_options();
            let mut builder = Builder { spec, context: &context, mistakes: Vec::new() };
            let rule_zone = match &spec.timezone {
                Some(name) => builder.keep("timezone", context.zones.get(name)),
                None => Some(zone.clone()),
            };
            if nested {
                let message = "a rule in a list has no list and no options of its own";
                let problem = Problem::whole("rules", "", message)
                    .allow("timezone and dst")
                    .suggest("put the option beside the list");
                builder.mistakes.push(Mistake::new("rule", problem));
            } else if let Some(rule_zone) = rule_zone {
                rules.extend(builder.rule(&rule_zone, calendar));
            }
            mistakes.extend(builder.mistakes.into_iter().map(|mistake| mistake.under(&path)));
        }
        self.mistakes.extend(mistakes);
        Some(Rule::Any(rules))
    }

    fn pattern(
        &self,
        name: &str,
        zone: &Zone,
        calendar: Option<&Calendar>,
    ) -> Result<Rule, Vec<Mistake>> {
        let spec = self.spec;
        let unknown = || vec![Mistake::new("rule", Problem::whole("rule", name, "no such rule"))];
        let by_period = |period_spec: &Option<PeriodSpec>, period| {
            let period_spec = period_spec.as_ref().ok_or_else(unknown)?;
            pattern::period(period_spec, period, zone, calendar)
        };
        match name {
            "daily" => pattern::daily(spec.daily.as_ref().ok_or_else(unknown)?, zone),
            "weekly" => pattern::weekly(spec.weekly.as_ref().ok_or_else(unknown)?, zone),
            "monthly" => by_period(&spec.monthly, Period::Month),
            "quarterly" => by_period(&spec.quarterly, Period::Quarter),
            _ => by_period(&spec.yearly, Period::Year),
        }
    }

    fn duration(&mut self, path: &str, text: Option<&str>) -> Option<SignedDuration> {
        self.keep(path, parse_duration(text?))
    }

    fn instant(&mut self, path: &str, text: Option<&str>, zone: &Zone) -> Option<Timestamp> {
        let dst = Dst::FIXED.with(self.spec.dst.unwrap_or_default());
        self.keep(path, parse_instant(text?, zone, dst))
    }
}

impl TimingSpec {
    fn has_options(&self) -> bool {
        self.calendar.is_some()
            || self.roll.is_some()
            || self.fit.is_some()
            || self.start.is_some()
            || self.end.is_some()
            || self.spread.is_some()
    }
}

/// A full instant (`2026-03-01T09:00:00Z`), or a wall time in the zone (`2026-03-01T09:00`).
pub fn parse_instant(text: &str, zone: &Zone, dst: Dst) -> Result<Timestamp, Problem> {
    let text = text.trim();
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(instant);
    }
    let wall = text.parse::<DateTime>().ok().filter(|_| text.len() <= 64).ok_or_else(|| {
        Problem::whole("instant", text, "not a time")
            .allow("2026-03-01T09:00 in the rule's zone, or 2026-03-01T09:00:00Z")
    })?;
    let local = civil::local_from_datetime(wall);
    let found = dst::instant_of(local, zone, dst).and_then(civil::timestamp);
    found.ok_or_else(|| {
        let message = format!("this time does not exist in {}", zone.name());
        Problem::whole("instant-gap", text, message).suggest("another time, or dst: { gap: shift }")
    })
}

/// A wall time, also in the compact form of RFC 5545; a full instant is taken to the zone's clock.
fn wall(text: &str, zone: &Zone) -> Result<DateTime, Problem> {
    let text = text.trim();
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(zone.wall(instant));
    }
    text.parse::<DateTime>().ok().filter(|_| text.len() <= 64).ok_or_else(|| {
        Problem::whole("wall-time", text, "not a date and time").allow("2026-03-01T09:00")
    })
}
