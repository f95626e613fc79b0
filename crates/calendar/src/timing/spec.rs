//! Declarations of when something is due.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Timing;
use super::build::Builder;
use super::pattern::{DailySpec, OneOrMany, PeriodSpec, WeeklySpec};
use crate::calendars::Calendar;
use crate::choice::by_name;
use crate::dst::DstOptions;
use crate::problem::Mistake;
use crate::roll::Roll;
use crate::zone::Zone;
use crate::zones::Zones;

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
    /// A cron expression or preset. May also be written as `expression`, beside `pattern: CRON`.
    #[serde(alias = "expression", skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// A preset such as `daily`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// Elapsed time between occurrences: `5m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(alias = "every")]
    pub interval: Option<String>,
    /// The interval in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<IntervalFrom>,
    /// The start of the interval; the schedule's creation if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    /// A single instant, or a single wall time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// An RFC 5545 recurrence rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rrule: Option<String>,
    /// First wall time of the RRULE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtstart: Option<String>,
    /// Wall times removed from the RRULE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exdate: Option<OneOrMany<String>>,
    /// Wall times added to the RRULE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rdate: Option<OneOrMany<String>>,
    /// Every day, or on some weekdays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daily: Option<DailySpec>,
    /// The weekdays on which the rule is due.
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
    /// Several rules, whose occurrences are combined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<TimingSpec>>,
    /// The kind of rule, which may be written beside the rule: `CRON`, `INTERVAL`, …; alone it is a
    /// preset: `DAILY`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The author's expectation of a `pattern`, in words. It has no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,

    /// IANA zone; if left out, the context's default, else the calendar's, else UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// A calendar by its id, or a region such as `DE-BY`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calendar: Option<String>,
    /// What happens to an occurrence on a day off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roll: Option<Roll>,
    /// Whether the time of day moves into working hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fit: Option<Fit>,
    /// No occurrence before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// No occurrence after this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// The window over which schedules are spread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<String>,
    /// Handling of daylight saving, if the rule's default is not wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dst: Option<DstOptions>,
}

/// The instant from which an interval is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum IntervalFrom {
    /// A fixed grid without drift.
    Anchor,
    /// The end of the last run.
    Completion,
}

impl TryFrom<String> for IntervalFrom {
    type Error = String;

    fn try_from(written: String) -> Result<IntervalFrom, String> {
        let name = |from| match from {
            IntervalFrom::Anchor => "anchor",
            IntervalFrom::Completion => "completion",
        };
        by_name(&written, &[IntervalFrom::Anchor, IntervalFrom::Completion], name)
    }
}

/// The value of `fit`: occurrences move into working hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum Fit {
    /// Times move into working hours.
    Hours,
}

impl TryFrom<String> for Fit {
    type Error = String;

    fn try_from(written: String) -> Result<Fit, String> {
        by_name(&written, &[Fit::Hours], |Fit::Hours| "hours")
    }
}

/// The zones and calendars with which a declaration is built.
pub struct TimingContext<'a> {
    pub zones: &'a Zones,
    /// When the schedule was created: the default anchor of an interval.
    pub created: Timestamp,
    /// The zone of a rule that names none; if left out, that of its calendar, else UTC.
    pub default_zone: Option<Zone>,
    /// Finds calendars by id. Regions such as `DE-BY` need not be included.
    pub find_calendar: &'a dyn Fn(&str) -> Option<Calendar>,
}

impl<'a> TimingContext<'a> {
    /// A context with UTC as the default zone, and no calendars but the regions, which have no zone
    /// of their own.
    pub fn new(zones: &'a Zones, created: Timestamp) -> TimingContext<'a> {
        TimingContext { zones, created, default_zone: None, find_calendar: &|_| None }
    }
}

impl TimingSpec {
    /// A declaration with only a cron expression.
    pub fn from_cron(expression: impl Into<String>) -> TimingSpec {
        TimingSpec { cron: Some(expression.into()), ..TimingSpec::default() }
    }

    /// Builds the timing, or returns every mistake in the declaration.
    pub fn build(&self, context: &TimingContext<'_>) -> Result<Timing, Vec<Mistake>> {
        Builder::new(self, context).finish()
    }

    /// Whether it has options other than a rule. Such options belong beside a list of rules, not
    /// inside it.
    pub(super) fn has_options(&self) -> bool {
        self.calendar.is_some()
            || self.roll.is_some()
            || self.fit.is_some()
            || self.start.is_some()
            || self.end.is_some()
            || self.spread.is_some()
    }
}
