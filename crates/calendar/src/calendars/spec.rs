//! Declarations of calendars, from which a [`Calendar`] is built.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Calendar;
use super::build::Builder;
use crate::problem::Mistake;
use crate::zone::Zone;
use crate::zones::Zones;

/// A calendar as declared.
///
/// ```yaml
/// id: us-business
/// timezone: America/New_York
/// hours: { mon-fri: ["09:00-17:00"] }
/// holidays: [ { country: US }, { date: 2026-12-24, name: Company day, hours: ["09:00-12:00"] } ]
/// exceptions: [ { date: 2026-12-19, working: true } ]
/// ```
///
/// Or composed: `union: [a, b]`, `intersection: [a, b]`, `base: a` with `all_but: [b]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalendarSpec {
    /// The id that other declarations refer to.
    #[serde(default)]
    pub id: String,
    /// IANA zone of its dates and hours.
    #[serde(default, alias = "tz", skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// Weekdays (`mon`, `mon-fri`, `sat,sun`) with their intervals. Monday to Friday from nine to
    /// five if left out; an empty mapping means no working hours at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hours: Option<BTreeMap<String, HoursSpec>>,
    /// Days off, or days with other hours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holidays: Vec<HolidaySpec>,
    /// Dates that override everything else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exceptions: Vec<ExceptionSpec>,
    /// The length of `1 working day` in hours; the longest regular day if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hours_per_day: Option<f64>,
    /// Working time is where any of these calendars has working time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub union: Vec<String>,
    /// Working time is where all of these calendars have working time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intersection: Vec<String>,
    /// Working time is where this calendar has working time and none of `all_but` has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Calendars whose working time is removed from `base`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub all_but: Vec<String>,
}

/// The intervals of a day: `"09:00-17:00"`, `["09:00-12:00", "13:00-17:00"]` or `[["09:00",
/// "17:00"]]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected hours such as \"09:00-17:00\", or a list of them")]
pub enum HoursSpec {
    One(String),
    Several(Vec<IntervalSpec>),
}

/// One interval, as text or as a pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected \"09:00-17:00\" or [\"09:00\", \"17:00\"]")]
pub enum IntervalSpec {
    /// One text with both times: `"09:00-17:00"`.
    Text(String),
    /// A list of both times: `["09:00", "17:00"]`.
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
    Date(String),
    /// An entry with fields.
    Detailed(Box<DetailedHoliday>),
}

/// The holidays of a country or an ICS file, or own dates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetailedHoliday {
    /// The region whose public holidays are days off: `US`, `DE-BY`.
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
    /// First date of a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Last date of a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Hours worked on that day all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hours: Option<HoursSpec>,
}

/// An entry of `exceptions`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExceptionSpec {
    /// `2026-12-19`, or `12-19` for every year.
    pub date: String,
    /// Whether the date is a working day.
    pub working: bool,
    /// The working hours; those of a regular day if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hours: Option<HoursSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What a declaration may refer to. The caller reads the files, because this crate does no IO.
pub struct Context<'a> {
    pub zones: &'a Zones,
    /// The zone of a calendar that names none.
    pub default_zone: Option<&'a Zone>,
    /// Returns the text of an ICS file, or why it cannot be read.
    pub read_ics: &'a dyn Fn(&str) -> Result<String, String>,
    /// Finds a calendar that was declared before.
    pub find: &'a dyn Fn(&str) -> Option<Calendar>,
}

impl CalendarSpec {
    /// Builds the calendar, or returns every mistake in the declaration.
    pub fn build(&self, context: &Context<'_>) -> Result<Calendar, Vec<Mistake>> {
        Builder::new(context).calendar(self)
    }
}
