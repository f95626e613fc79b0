//! Schedules and their ledgers, as they are seen.

use deadpool_postgres::Client;
use engine::ScheduleId;
use engine::schedule::Override;

use crate::failure::Failure;
use crate::view::{LedgerQuery, LedgerRow, Page, ScheduleQuery, ScheduleView};

pub(super) async fn schedules(_: &Client, _: ScheduleQuery) -> Result<Page<ScheduleView>, Failure> {
    Err(Failure::Unavailable("not there yet".to_owned()))
}

pub(super) async fn schedule(_: &Client, _: ScheduleId) -> Result<Option<ScheduleView>, Failure> {
    Err(Failure::Unavailable("not there yet".to_owned()))
}

pub(super) async fn by_id(_: &Client, _: Vec<ScheduleId>) -> Result<Vec<ScheduleView>, Failure> {
    Err(Failure::Unavailable("not there yet".to_owned()))
}

pub(super) async fn coming(_: &Client, _: usize) -> Result<Vec<ScheduleView>, Failure> {
    Err(Failure::Unavailable("not there yet".to_owned()))
}

pub(super) async fn ledger(_: &Client, _: LedgerQuery) -> Result<Page<LedgerRow>, Failure> {
    Err(Failure::Unavailable("not there yet".to_owned()))
}

pub(super) async fn overrides(_: &Client, _: ScheduleId) -> Result<Vec<Override>, Failure> {
    Err(Failure::Unavailable("not there yet".to_owned()))
}
