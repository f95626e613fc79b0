//! Reads and writes iCalendar files (RFC 5545), as far as calendars need it.

mod read;
mod write;

pub(crate) use read::read;
pub use read::{IcsDays, read_ics};
pub use write::{IcsEvent, IcsTime, write_ics};
