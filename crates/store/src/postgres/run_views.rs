//! Runs, as they are seen.

use deadpool_postgres::Client;
use engine::RunId;

use crate::failure::Failure;
use crate::view::{Page, RunDetail, RunQuery, RunView};

pub(super) async fn runs(_: &Client, _: RunQuery) -> Result<Page<RunView>, Failure> {
    Err(Failure::Unavailable("not there yet".to_owned()))
}

pub(super) async fn run(_: &Client, _: RunId) -> Result<Option<RunDetail>, Failure> {
    Err(Failure::Unavailable("not there yet".to_owned()))
}
