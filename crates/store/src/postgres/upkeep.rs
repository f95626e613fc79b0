//! Calendars, the zone database's release, and copies.

use std::path::PathBuf;

use deadpool_postgres::Client;
use engine::{Moment, ScheduleId};

use super::core::Core;
use crate::failure::Failure;
use crate::view::CalendarView;

pub(super) async fn calendars(_: &Client) -> Result<Vec<CalendarView>, Failure> {
    Err(Failure::Unavailable("not there yet".to_owned()))
}

pub(super) async fn backup(_: PathBuf) -> Result<u64, Failure> {
    Err(Failure::Unavailable("not there yet".to_owned()))
}

impl Core {
    pub(super) fn put_calendar(
        &mut self,
        _: &str,
        _: &str,
        _: Moment,
    ) -> Result<Vec<ScheduleId>, Failure> {
        Err(Failure::Unavailable("not there yet".to_owned()))
    }
    pub(super) fn delete_calendar(&mut self, _: &str) -> Result<bool, Failure> {
        Err(Failure::Unavailable("not there yet".to_owned()))
    }
    pub(super) fn outdated(
        &mut self,
        _: &str,
        _: ScheduleId,
        _: usize,
    ) -> Result<Vec<ScheduleId>, Failure> {
        Err(Failure::Unavailable("not there yet".to_owned()))
    }
}
