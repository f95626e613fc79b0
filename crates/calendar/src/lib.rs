//! When?
#![forbid(unsafe_code)]

mod calendars;
mod catch_up;
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
mod spread;
mod timing;
mod working_day;
mod worktime;
mod zone;

pub use calendars::{
    Calendar, CalendarSpec, Context, DayPlan, ExceptionSpec, HolidaySpec, HoursSpec, Reason, Shift,
};
pub use catch_up::{CatchUp, CatchUpSpec, CaughtUp, Count, DetailedCatchUp, Policy};
pub use cron::Cron;
pub use dst::{Dst, DstOptions, Fold, Gap};
pub use duration::{format_duration, parse_duration};
pub use ics::{IcsDays, IcsEvent, IcsTime, read_ics, write_ics};
pub use problem::{Mistake, Problem, nearest};
pub use roll::Roll;
pub use rrule::{Recurrence, Rrule};
pub use rule::{Interval, Rule};
pub use spread::spread;
pub use timing::{
    DailySpec, Fate, Fit, IntervalFrom, MonthDay, Occurrence, OneOrMany, PeriodSpec, Row, Timing,
    TimingContext, TimingSpec, Warning, WeeklySpec, parse_instant,
};
pub use worktime::Between;
pub use zone::{BundledZones, Meaning, Transition, Zone, ZoneSource, Zones};
