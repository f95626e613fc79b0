//! When?
#![forbid(unsafe_code)]

mod calendars;
mod civil;
mod cron;
mod dst;
mod duration;
mod english;
pub mod holidays;
mod ics;
mod problem;
mod rrule;
mod spread;
mod worktime;
mod zone;

pub use calendars::{Calendar, CalendarSpec, Context, DayPlan, ExceptionSpec, HolidaySpec, HoursSpec, Reason, Shift};
pub use cron::Cron;
pub use dst::{Dst, DstOptions, Fold, Gap};
pub use duration::{format_duration, parse_duration};
pub use ics::{IcsEvent, IcsTime, write_ics};
pub use problem::{Mistake, Problem, nearest};
pub use rrule::{Recurrence, Rrule};
pub use spread::spread;
pub use worktime::Between;
pub use zone::{Meaning, Transition, Zone, ZoneSource, Zones};
