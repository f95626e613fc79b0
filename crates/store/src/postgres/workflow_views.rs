//! Workflows, nodes and figures, as they are seen.

use deadpool_postgres::Client;
use jiff::Timestamp;

use crate::failure::Failure;
use crate::view::{NodeView, Page, Stats, WorkflowQuery, WorkflowView};

pub(super) async fn workflows(_: &Client, _: WorkflowQuery) -> Result<Page<WorkflowView>, Failure> {
    Err(Failure::Unavailable("not there yet".to_owned()))
}

pub(super) async fn workflow(
    _: &Client,
    _: String,
    _: Option<u32>,
) -> Result<Option<WorkflowView>, Failure> {
    Err(Failure::Unavailable("not there yet".to_owned()))
}

pub(super) async fn nodes(_: &Client) -> Result<Vec<NodeView>, Failure> {
    Err(Failure::Unavailable("not there yet".to_owned()))
}

pub(super) async fn stats(_: &Client, _: Timestamp) -> Result<Stats, Failure> {
    Err(Failure::Unavailable("not there yet".to_owned()))
}
