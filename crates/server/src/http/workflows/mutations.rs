//! The mutations that a workflow's consumers have made in the outside world.

use axum::extract::State;
use engine::handlers::Mutation;
use jiff::Timestamp;
use serde::Serialize;
use store::{MutationQuery, MutationView};
use utoipa::ToSchema;

use super::{Listing, find_workflow};
use crate::http::App;
use crate::http::answer::{self, Answered, Listed};
use crate::http::path::PathId;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::shapes;

/// A mutation of the outside world by a consumer's run.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct MutationObject {
    run_id: String,
    /// The consumer.
    handler: String,
    /// `in_flight`, `applied`, `failed`, `unknown` or `skipped`.
    #[schema(value_type = shapes::MutationStatus)]
    status: &'static str,
    /// When it began, or may have begun.
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// When it reached this status.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// Who or what reported the status.
    said_by: Option<String>,
    /// A remark on the status.
    note: Option<String>,
}

impl From<MutationView> for MutationObject {
    fn from(MutationView { mutation, run }: MutationView) -> MutationObject {
        let Mutation { handler, status, started_at, updated_at, said_by, note, .. } = mutation;
        MutationObject {
            run_id: run.to_string(),
            handler,
            status: status.name(),
            started_at,
            updated_at,
            said_by,
            note,
        }
    }
}

/// Lists the mutations by a workflow's consumers, latest first: at most one per run.
#[utoipa::path(get, path = "/workflows/{id}/mutations", tag = "workflows",
    params(("id" = String, Path, description = "Id or name"),
        ("limit" = Option<u64>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<MutationObject>), (status = 404, body = Problem)))]
pub(super) async fn mutations(
    State(app): State<App>,
    PathId(id): PathId,
    Query(Listing(paging)): Query<Listing>,
) -> Answered {
    let workflow = Some(find_workflow(&app, &id, None).await?.workflow.id);
    let query = MutationQuery { workflow, limit: paging.limit, after: paging.after };
    let page = app.views().mutations(query).await?;
    let items: Vec<MutationObject> = page.items.into_iter().map(Into::into).collect();
    answer::ok(&Listed::new(items, page.total, page.next.as_ref()))
}
