//! When and how long: calendars, durations, spans and deadlines.

pub(super) mod calendars;
mod deadline;
pub(super) mod deadlines;
pub(crate) mod duration;
mod time_span;
mod until;

pub(super) use calendars::Calendars;
pub use deadline::{Deadline, DeadlineAction, DeadlineEnd, From, Limit, When};
pub use time_span::TimeSpan;
pub(super) use time_span::read as read_time_span;
pub use until::Until;
