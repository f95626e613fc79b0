//! **When?** Rules, zones, daylight saving, calendars and working time, as pure arithmetic.
//!
//! A [`TimingSpec`] is a declaration: a cron expression, an interval, an RRULE, a working day, or a
//! list of these, with a zone, a calendar, and the handling of days off. [`TimingSpec::build`]
//! turns it into a [`Timing`], or reports every mistake in it. A timing returns its
//! [next](Timing::next_after) and [previous](Timing::previous_before) occurrences, describes itself
//! [in words](Timing::words), and [warns](Timing::warnings) of surprises.
//!
//! ```
//! use calendar::{TimingContext, TimingSpec, Zones};
//!
//! let zones = Zones::bundled();
//! let now = "2026-03-27T12:00:00Z".parse().unwrap();
//! let context = TimingContext::new(&zones, now);
//! let spec = TimingSpec {
//!     cron: Some("30 2 * * *".into()),
//!     timezone: Some("Europe/Berlin".into()),
//!     ..TimingSpec::default()
//! };
//! let timing = spec.build(&context).unwrap();
//! assert_eq!(timing.words(), "at 02:30 every day, Berlin time");
//!
//! // The clock jumps from 02:00 to 03:00 on the 29th: it runs at the first instant after.
//! let due = timing.after(now).take(2);
//! let times: Vec<String> = due.map(|due| due.effective.to_string()).collect();
//! assert_eq!(times, ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z"]);
//!
//! // A mistake has a place and a remedy.
//! let mistakes = TimingSpec::from_cron("0 25 * * *").build(&context).unwrap_err();
//! assert!(mistakes[0].to_string().contains("try: 0 23 * * *"));
//! ```
//!
//! # The pieces
//!
//! | for | see |
//! |---|---|
//! | one rule without a calendar | [`Rule`], [`Cron`], [`Interval`], [`Recurrence`] |
//! | zones and what a wall time means | [`Zones`], [`Zone`], [`Meaning`], [`Dst`] |
//! | working days, hours and holidays | [`Calendar`], [`CalendarSpec`], [`holidays::Region`] |
//! | working time | [`Calendar::add_time`], [`Calendar::add_days`], [`Calendar::between`] |
//! | missed occurrences | [`CatchUp`] |
//! | mistakes | [`Problem`], [`Mistake`] |
//!
//! # What holds everywhere
//!
//! - The crate is pure: no clock, no files, no global state. `now` is a parameter; zone files and
//!   ICS files are passed in as bytes and text; caches belong to the values they speed up.
//! - `next_after(t)` is strictly greater than `t`, and searching backward mirrors searching
//!   forward.
//! - Every search is bounded, and answers "never" beyond its bound.
//! - Instants are [`jiff::Timestamp`], dates and wall times [`jiff::civil`] types.
//! - Years outside of -9998 to 9998 have no occurrences; calendars are planned for 1900 to 2299.
#![forbid(unsafe_code)]

mod amount;
mod calendars;
mod catch_up;
mod choice;
mod civil;
mod cron;
mod dst;
mod duration;
mod english;
pub mod holidays;
mod ics;
mod problem;
mod roll;
mod rrule;
mod rule;
mod serde_words;
mod spread;
mod timing;
mod working_day;
mod worktime;
mod zone;
mod zones;

pub use amount::Amount;
pub use calendars::{
    Calendar, CalendarSpec, Context, DayPlan, DetailedHoliday, ExceptionSpec, HolidaySpec,
    HoursSpec, IntervalSpec, Reason, Shift,
};
pub use catch_up::{
    CatchUp, CatchUpSpec, CaughtUp, Count, DetailedCatchUp, MOST_CAUGHT_UP, Policy,
};
pub use choice::by_name;
pub use cron::Cron;
pub use dst::{Dst, DstOptions, Fold, Gap};
pub use duration::{format_duration, parse_duration};
pub use ics::{IcsDays, IcsEvent, IcsTime, read_ics, write_ics};
pub use problem::{Mistake, Problem, nearest};
pub use roll::Roll;
pub use rrule::{Recurrence, Rrule};
pub use rule::{Interval, Rule};
pub use serde_words::without_type_names;
pub use spread::spread;
pub use timing::{
    DailySpec, Fate, Fit, IntervalFrom, MonthDay, Occurrence, OneOrMany, PeriodSpec, Row, Timing,
    TimingContext, TimingSpec, Warning, WeeklySpec, parse_instant,
};
pub use worktime::Between;
pub use zone::{Meaning, Transition, Zone};
pub use zones::{BundledZones, ZoneSource, Zones};
