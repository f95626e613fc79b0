//! Warnings: what people should know about a rule before they rely on it.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use super::Timing;
use crate::calendars::Calendar;
use crate::catch_up::{CatchUp, Policy};
use crate::civil;
use crate::dst::{Fold, Gap, WallTimes};
use crate::duration::format_duration;
use crate::english;
use crate::rule::{CronRule, Rule};

/// How far ahead changes of the clock are checked.
const AHEAD: SignedDuration = SignedDuration::from_hours(2 * 366 * 24);

/// A warning. It does not make a declaration invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// A stable code for programs: `never`, `past`, `no-working-time`, `calendar-zone`, `no-zone`,
    /// `dst-gap`, `dst-fold`, `frequent`, `short-months`, `holidays-unknown`.
    pub code: &'static str,
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Timing {
    /// Warnings about the time after the instant, if the catch-up policy is not known.
    pub fn warnings(&self, from: Timestamp) -> Vec<Warning> {
        self.warnings_with(from, None)
    }

    /// Warnings about the time after the instant, for a schedule with this catch-up policy if it is
    /// known.
    pub fn warnings_with(&self, from: Timestamp, catch_up: Option<&CatchUp>) -> Vec<Warning> {
        let mut warnings = Vec::new();
        warnings.extend(self.calendar.iter().filter_map(|calendar| calendar.never_works(from)));
        warnings.extend(self.calendar_zone());
        let Some(first) = self.next_after(from) else {
            if let Rule::Once(at) = &self.rule
                && *at <= from
            {
                let message = self.past(*at, from, catch_up);
                warnings.push(Warning { code: "past", message });
                return warnings;
            }
            let message = match self.next_after(Timestamp::MIN) {
                Some(_) => "no further occurrence: all lie in the past".to_owned(),
                None => "never fires: no such time was found".to_owned(),
            };
            warnings.push(Warning { code: "never", message });
            return warnings;
        };
        warnings.extend(self.no_zone(first.nominal));
        let second = self.next_after(first.effective);
        if second.is_some_and(|second| {
            second.effective.duration_since(first.effective) < SignedDuration::from_mins(1)
        }) {
            let message = "fires more often than every minute".to_owned();
            warnings.push(Warning { code: "frequent", message });
        }
        self.rule.collect_warnings(from, &mut warnings);
        if let Some(calendar) = &self.calendar {
            let year = calendar.date_of(first.effective).year();
            for (region, known) in calendar.unknown_holidays(year) {
                let (from, to) = (known.start(), known.end());
                let message = format!("not all holidays of {region} are known outside {from}-{to}");
                warnings.push(Warning { code: "holidays-unknown", message });
            }
        }
        warnings
    }

    /// Explains what happens to the only time of a rule, once that time has passed.
    fn past(&self, at: Timestamp, now: Timestamp, catch_up: Option<&CatchUp>) -> String {
        const NOT_AGAIN: &str = "one that has run it does not again";
        let told = match catch_up {
            None => {
                format!("a new schedule runs it at once, unless its catch_up is none; {NOT_AGAIN}")
            }
            Some(CatchUp { policy: Policy::None, .. }) => {
                "a new schedule does not run it, because its catch_up is none".to_owned()
            }
            Some(CatchUp { window: Some(window), .. }) if now.duration_since(at) > *window => {
                let window = format_duration(*window);
                format!("a new schedule does not run it: the window of its catch_up is {window}")
            }
            Some(_) => format!("a new schedule runs it at once; {NOT_AGAIN}"),
        };
        format!("{} lies in the past: {told}", self.zone.rfc3339(at))
    }

    /// Warns of times without a zone, because people expect the calendar of a region to have the
    /// region's zone.
    fn no_zone(&self, first: Timestamp) -> Option<Warning> {
        let id = self.calendar.as_ref().filter(|_| self.has_assumed_zone)?.id();
        let local = civil::local_from_datetime(self.zone.wall(first));
        let clock = english::clock(civil::second_of_day(local));
        let zone = english::zone(&self.zone);
        let message =
            format!("the calendar {id} has no zone of its own: {clock} is {zone}; write timezone");
        Some(Warning { code: "no-zone", message })
    }

    /// Warns if the days of the calendar begin and end at other instants than those of the rule.
    fn calendar_zone(&self) -> Option<Warning> {
        let calendar = self.calendar.as_ref()?;
        let (theirs, ours) = (calendar.zone().name(), self.zone.name());
        let message = format!(
            "the calendar {} has the zone {theirs}, and times are read in {ours}",
            calendar.id()
        );
        (theirs != ours).then_some(Warning { code: "calendar-zone", message })
    }
}

impl Calendar {
    /// A warning if the calendar has no working day within ten years.
    pub fn never_works(&self, from: Timestamp) -> Option<Warning> {
        let works = self.working_day_from(self.date_of(from)).is_some();
        let message = format!("the calendar {} has no working time at all", self.id());
        (!works).then_some(Warning { code: "no-working-time", message })
    }
}

impl Rule {
    fn collect_warnings(&self, from: Timestamp, warnings: &mut Vec<Warning>) {
        match self {
            Rule::Cron(rule) => {
                rule.clock_changes(from, warnings);
                rule.short_months(warnings);
            }
            Rule::Any(rules) => rules.iter().for_each(|rule| rule.collect_warnings(from, warnings)),
            _ => {}
        }
    }
}

impl CronRule {
    /// Warns of the next gap and the next fold that affect the rule's times.
    fn clock_changes(&self, from: Timestamp, warnings: &mut Vec<Warning>) {
        let until = from.checked_add(AHEAD).unwrap_or(Timestamp::MAX);
        let city = english::zone(&self.zone);
        let (mut gap_told, mut fold_told) = (self.cron.is_wildcard(), self.cron.is_wildcard());
        for change in self.zone.transitions(from, until) {
            let at = change.at.as_second();
            let (before, after) = (at + i64::from(change.before), at + i64::from(change.after));
            let (low, high) = (before.min(after), before.max(after));
            let Some(hit) = self.cron.at_or_after(low).filter(|hit| *hit < high) else { continue };
            let Some(date) = civil::date_from_day(civil::day_of(hit)) else { continue };
            let clock = english::clock(civil::second_of_day(hit));
            if after > before && !gap_told {
                gap_told = true;
                let then = match self.dst.gap {
                    Gap::Shift => {
                        let end = english::clock(civil::second_of_day(after));
                        format!("runs at {end}, the first instant after the gap")
                    }
                    Gap::Skip => "does not run then".to_owned(),
                };
                let message = format!("{clock} falls in a DST gap on {date} ({city}): {then}");
                warnings.push(Warning { code: "dst-gap", message });
            } else if after < before && !fold_told {
                fold_told = true;
                let then = match self.dst.fold {
                    Fold::First => "runs the first time only",
                    Fold::Last => "runs the second time only",
                    Fold::Both => "runs both times",
                };
                let message = format!("{clock} happens twice on {date} ({city}): {then}");
                warnings.push(Warning { code: "dst-fold", message });
            }
        }
    }

    fn short_months(&self, warnings: &mut Vec<Warning>) {
        if let Some(day) = self.cron.only_late_day() {
            let message = format!("months without a {} are skipped", english::ordinal(day));
            warnings.push(Warning { code: "short-months", message });
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use crate::{
        Calendar, CalendarSpec, CatchUpSpec, Context, Timing, TimingContext, TimingSpec, Zone,
        Zones,
    };

    fn calendar(spec: &str, zones: &Zones) -> Calendar {
        let spec: CalendarSpec = serde_json::from_str(spec).unwrap();
        let read_ics = |_: &str| Err("no files".to_owned());
        let context = Context { zones, default_zone: None, read_ics: &read_ics, find: &|_| None };
        spec.build(&context).unwrap()
    }

    fn timing(spec: &str, default: Option<&str>, own: &Calendar, zones: &Zones) -> Timing {
        let spec: TimingSpec = serde_json::from_str(spec).unwrap();
        let context = TimingContext {
            zones,
            created: monday(),
            default_zone: default.map(|name| zones.get(name).unwrap()),
            find_calendar: &|id| (id == own.id()).then(|| own.clone()),
        };
        spec.build(&context).unwrap()
    }

    fn monday() -> Timestamp {
        "2026-03-02T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_rule_without_a_zone_has_the_zone_of_its_calendar() {
        let zones = Zones::bundled();
        let own = calendar(r#"{"id": "ny", "timezone": "America/New_York"}"#, &zones);
        let cases = [
            (r#"{"cron": "0 9 * * *", "calendar": "ny"}"#, None, "America/New_York", "14:00", 0),
            (
                r#"{"cron": "0 9 * * *", "calendar": "ny"}"#,
                Some("Europe/Berlin"),
                "Europe/Berlin",
                "08:00",
                1,
            ),
            (
                r#"{"cron": "0 9 * * *", "calendar": "ny", "timezone": "UTC"}"#,
                None,
                "UTC",
                "09:00",
                1,
            ),
            (r#"{"cron": "0 9 * * *", "calendar": "US"}"#, None, "UTC", "09:00", 0),
            (r#"{"cron": "0 9 * * *"}"#, None, "UTC", "09:00", 0),
            (
                r#"{"rules": [{"cron": "0 9 * * *"}], "calendar": "ny"}"#,
                None,
                "America/New_York",
                "14:00",
                0,
            ),
        ];
        for (spec, default, zone, clock, warned) in cases {
            let timing = timing(spec, default, &own, &zones);
            assert_eq!(timing.zone().name(), zone, "{spec}");
            let next = timing.next_after(monday()).unwrap().effective;
            assert_eq!(next.to_string(), format!("2026-03-02T{clock}:00Z"), "{spec} {default:?}");
            let told = timing.warnings(monday());
            let told: Vec<_> = told.iter().filter(|told| told.code == "calendar-zone").collect();
            assert_eq!(told.len(), warned, "{spec} {told:?}");
        }
    }

    #[test]
    fn a_region_has_no_zone_and_times_that_nobody_gave_one_are_told() {
        let zones = Zones::bundled();
        let own = calendar(r#"{"id": "own", "timezone": "UTC"}"#, &zones);
        let nine = "the calendar JP has no zone of its own: 09:00 is UTC; write timezone";
        for (spec, expected) in [
            (r#"{"cron": "0 9 * * *", "calendar": "JP"}"#, Some(nine)),
            (r#"{"cron": "*/5 9-17 * * *", "calendar": "JP"}"#, Some(nine)),
            (r#"{"at": "2026-03-03T09:00", "calendar": "JP"}"#, Some(nine)),
            (r#"{"daily": {"at": ["09:00", "10:30"]}, "calendar": "JP"}"#, Some(nine)),
            (r#"{"monthly": {"working_day": 1, "at": "09:00"}, "calendar": "JP"}"#, Some(nine)),
            (r#"{"rules": [{"cron": "0 9 * * *"}], "calendar": "JP"}"#, Some(nine)),
            (
                r#"{"rules": [{"cron": "0 9 * * *", "timezone": "Asia/Tokyo"}], "calendar": "JP"}"#,
                None,
            ),
            (r#"{"cron": "0 9 * * *", "calendar": "JP", "timezone": "UTC"}"#, None),
            (r#"{"cron": "0 * * * *", "calendar": "JP"}"#, None),
            (r#"{"interval": "2h", "calendar": "JP"}"#, None),
            (r#"{"at": "2026-03-03T09:00:00Z", "calendar": "JP"}"#, None),
            (r#"{"cron": "0 9 * * *", "calendar": "own"}"#, None),
            (r#"{"cron": "0 9 * * *"}"#, None),
        ] {
            let told = timing(spec, None, &own, &zones).warnings(monday());
            let told = told.iter().find(|told| told.code == "no-zone");
            assert_eq!(told.map(|told| &*told.message), expected, "{spec}");
        }
        let named = timing(r#"{"cron": "0 9 * * *", "calendar": "JP"}"#, Some("UTC"), &own, &zones);
        assert!(named.warnings(monday()).iter().all(|told| told.code != "no-zone"));
    }

    #[test]
    fn empty_hours_are_no_hours_and_a_calendar_that_never_works_is_told() {
        let zones = Zones::bundled();
        let spec = r#"{"id": "none", "timezone": "UTC", "hours": {}}"#;
        let none = calendar(spec, &zones);
        assert!(!none.is_open("2026-03-02T12:00:00Z".parse().unwrap()));
        assert_eq!(none.never_works(monday()).unwrap().code, "no-working-time");
        let timing = timing(r#"{"cron": "0 9 * * *", "calendar": "none"}"#, None, &none, &zones);
        let codes: Vec<_> = timing.warnings(monday()).iter().map(|told| told.code).collect();
        assert_eq!(codes, ["no-working-time", "never"]);
        let stored: CalendarSpec = serde_json::from_str(spec).unwrap();
        let again = serde_json::to_string(&stored).unwrap();
        assert!(again.contains(r#""hours":{}"#), "{again}");
        let usual = calendar(r#"{"id": "usual", "timezone": "UTC"}"#, &zones);
        assert!(usual.is_open("2026-03-02T12:00:00Z".parse().unwrap()));
        assert_eq!(usual.never_works(monday()), None);
        assert_eq!(Zone::utc().name(), usual.zone().name());
    }

    #[test]
    fn a_time_in_the_past_and_the_expansion_of_a_preset_are_told() {
        let zones = Zones::bundled();
        let none = calendar(r#"{"id": "usual", "timezone": "UTC"}"#, &zones);
        let past = timing(r#"{"at": "2020-01-01T09:00"}"#, None, &none, &zones);
        let told = past.warnings(monday());
        assert_eq!((told.len(), told[0].code), (1, "past"), "{told:?}");
        for (catch_up, expected) in [
            (r#""last""#, "runs it at once; one that has run it does not again"),
            (r#""none""#, "does not run it, because its catch_up is none"),
            (r#"{"policy": "last", "window": "1d"}"#, "the window of its catch_up is 1d"),
            (r#"{"policy": "all", "window": "4000d"}"#, "runs it at once; one that has run"),
        ] {
            let spec: CatchUpSpec = serde_json::from_str(catch_up).unwrap();
            let told = past.warnings_with(monday(), Some(&spec.build().unwrap()));
            assert!(told[0].message.contains(expected), "{catch_up}: {told:?}");
        }
        assert!(told[0].message.contains("at once, unless its catch_up is none"), "{told:?}");
        for (preset, expansion) in [("daily", "(0 0 * * *)"), ("@hourly", "(0 * * * *)")] {
            let spec = format!(r#"{{"cron": "{preset}"}}"#);
            let words = timing(&spec, None, &none, &zones).words();
            assert!(words.contains(expansion), "{preset}: {words}");
        }
        let plain = timing(r#"{"cron": "0 0 * * *"}"#, None, &none, &zones).words();
        assert!(!plain.contains('('), "{plain}");
    }
}
