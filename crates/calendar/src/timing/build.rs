//! Builds a timing from its declaration. All mistakes are collected and reported; none is corrected
//! silently.

use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp};

use super::Timing;
use super::pattern::{self, OneOrMany, PeriodSpec};
use super::spec::{IntervalFrom, TimingContext, TimingSpec};
use crate::calendars::Calendar;
use crate::civil;
use crate::cron::Cron;
use crate::dst::{self, Dst};
use crate::duration::parse_duration;
use crate::holidays::Region;
use crate::problem::{Mistake, Problem};
use crate::roll::Roll;
use crate::rrule::{Recurrence, Rrule};
use crate::rule::{Interval, Rule};
use crate::working_day::Period;
use crate::zone::Zone;

/// The most rules in one list, because each costs a search at every query.
const RULE_LIMIT: usize = 100;
/// The most exceptions; more belong into a calendar.
const DATE_LIMIT: usize = 1000;

pub(super) struct Builder<'a> {
    spec: &'a TimingSpec,
    context: &'a TimingContext<'a>,
    mistakes: Vec<Mistake>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(spec: &'a TimingSpec, context: &'a TimingContext<'a>) -> Builder<'a> {
        Builder { spec, context, mistakes: Vec::new() }
    }

    /// Builds the timing, or returns all mistakes.
    pub(super) fn finish(mut self) -> Result<Timing, Vec<Mistake>> {
        self.timing().ok_or(self.mistakes)
    }

    fn timing(&mut self) -> Option<Timing> {
        let declared = self.spec.calendar.as_deref().and_then(self.context.find_calendar);
        let zone = match (&self.spec.timezone, &self.context.default_zone) {
            (Some(name), _) => self.keep("timezone", self.context.zones.get(name)),
            (None, Some(zone)) => Some(zone.clone()),
            (None, None) => {
                Some(declared.as_ref().map_or_else(Zone::utc, |calendar| calendar.zone().clone()))
            }
        };
        // With an unknown zone, the rest is still parsed, so that all mistakes are reported at
        // once.
        let known = zone.is_some();
        let zone = zone.unwrap_or_else(Zone::utc);
        let calendar = declared.or_else(|| self.region(&zone));
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
        let is_unnamed = self.spec.timezone.is_none() && self.context.default_zone.is_none();
        let has_assumed_zone = is_unnamed
            && calendar.as_ref().is_some_and(|calendar| !calendar.has_own_zone())
            && reads_wall_times(self.spec, &rule);
        let usual = if rule.is_recurring() { Roll::Skip } else { Roll::Next };
        Some(Timing {
            rule,
            zone,
            has_assumed_zone,
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

    /// The calendar of a region, which uses the rule's zone.
    fn region(&mut self, zone: &Zone) -> Option<Calendar> {
        let id = self.spec.calendar.as_deref()?;
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
            _ if self.contradicts_its_kind(&given) => None,
            [] if spec.pattern.is_some() => self.cron("pattern", spec.pattern.as_deref()?, zone),
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

    /// Reports whether `pattern` names another kind than the given rule, or a kind that needs a
    /// rule beside it.
    fn contradicts_its_kind(&mut self, given: &[&str]) -> bool {
        let Some(pattern) = &self.spec.pattern else { return false };
        let kind = pattern.to_ascii_lowercase();
        let rules: &[&str] = match kind.as_str() {
            "cron" => &["cron", "preset"],
            "interval" => &["interval", "interval_seconds"],
            "once" => &["at"],
            "rrule" => &["rrule"],
            other => &[other],
        };
        let problem = match given {
            [] if rules != [kind.as_str()] || kind == "rrule" => {
                let message = format!("{pattern} needs its rule beside it");
                let remedy = match kind.as_str() {
                    "cron" => "expression: \"0 9 * * MON-FRI\"",
                    "interval" => "interval: 5m",
                    "once" => "at: 2026-03-01T09:00",
                    _ => "rrule: FREQ=DAILY",
                };
                Problem::whole("pattern", pattern, message).suggest(remedy)
            }
            [rule] if !rules.contains(rule) => {
                let message = format!("{pattern} is another kind of rule than {rule}");
                Problem::whole("pattern", pattern, message).suggest("leave pattern out")
            }
            _ => return false,
        };
        self.mistakes.push(Mistake::new("pattern", problem));
        true
    }

    /// Refuses options that belong to another kind of rule, instead of ignoring them.
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
        let interval = match anchor {
            Some(anchor) => Interval::new(every, anchor),
            None => Interval::new(every, self.context.created).map(Interval::not_at_once),
        };
        let Some(interval) = interval else {
            return self.keep(path, Err(Interval::too_short(&text)));
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
            default_zone: Some(zone.clone()),
            find_calendar: &find,
        };
        let mut rules = Vec::new();
        let mut mistakes = Vec::new();
        for (at, spec) in specs.iter().enumerate() {
            let path = format!("rules[{at}]");
            let nested = spec.rules.is_some() || spec.has_options();
            let mut builder = Builder::new(spec, &context);
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
            } else if spec.from == Some(IntervalFrom::Completion) {
                let message = "an interval from completion stands alone";
                let problem = Problem::whole("rules", "", message).suggest("from: anchor");
                builder.mistakes.push(Mistake::new("from", problem));
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

/// Whether the rule would mean other instants in another zone and does not name its zone itself.
fn reads_wall_times(spec: &TimingSpec, rule: &Rule) -> bool {
    let of_one = |spec: &TimingSpec, rule: &Rule| match rule {
        Rule::Interval(_) | Rule::AfterCompletion(_) => false,
        Rule::Once(_) => {
            spec.at.as_deref().is_some_and(|at| at.trim().parse::<Timestamp>().is_err())
        }
        Rule::Cron(rule) => rule.cron.names_hours(),
        // A pattern with several times is a list of rules of its own.
        Rule::Recurrence(_) | Rule::WorkingDay(_) | Rule::Any(_) => true,
    };
    match (rule, &spec.rules) {
        (Rule::Any(rules), Some(specs)) => {
            let mut each = specs.iter().zip(rules);
            each.any(|(spec, rule)| spec.timezone.is_none() && of_one(spec, rule))
        }
        _ => of_one(spec, rule),
    }
}

/// Parses an instant (`2026-03-01T09:00:00Z`), or a wall time in the zone (`2026-03-01T09:00`).
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

/// Parses a wall time, also in the compact form of RFC 5545. An instant is converted to the zone's
/// wall clock.
fn wall(text: &str, zone: &Zone) -> Result<DateTime, Problem> {
    let text = text.trim();
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(zone.wall(instant));
    }
    text.parse::<DateTime>().ok().filter(|_| text.len() <= 64).ok_or_else(|| {
        Problem::whole("wall-time", text, "not a date and time").allow("2026-03-01T09:00")
    })
}
