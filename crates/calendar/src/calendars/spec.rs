//! Calendars as people declare them, and the way from there to a [`Calendar`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Calendar;
use super::build::Builder;
use crate::problem::Mistake;
use crate::zone::Zone;
use crate::zones::Zones;

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
    /// Weekdays (`mon`, `mon-fri`, `sat,sun`) to intervals. Monday to Friday from nine to five if left out; an empty
    /// mapping means no working hours at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hours: Option<BTreeMap<String, HoursSpec>>,
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
        Builder::new(context).calendar(self)
    }
}
