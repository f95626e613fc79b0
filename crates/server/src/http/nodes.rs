//! The nodes that share the store.

use axum::extract::State;
use jiff::Timestamp;
use serde::Serialize;
use store::{NodeView, Total};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::answer::{self, Answered, Listed};
use super::problem::Problem;
use super::query::Query;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}

/// A life of a node.
#[derive(Debug, Serialize, ToSchema)]
struct NodeObject {
    /// Another one for each life.
    id: String,
    name: String,
    /// When this life began.
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// When it was last heard of; nothing on an embedded store.
    #[schema(value_type = Option<String>, format = DateTime)]
    seen_at: Option<Timestamp>,
    /// Until when others leave its attempts alone; nothing on an embedded store.
    #[schema(value_type = Option<String>, format = DateTime)]
    lease_until: Option<Timestamp>,
    /// Attempts at a time.
    capacity: Option<u64>,
    /// Attempts that are its own.
    attempts: u64,
    /// What this life has found after downtime.
    recovered: RecoveredObject,
    /// Whether it is the one that answers.
    is_this: bool,
}

/// What was found after downtime, and what became of it.
#[derive(Debug, Serialize, ToSchema)]
struct RecoveredObject {
    /// Occurrences that were due meanwhile and do not run.
    missed: u64,
    /// Occurrences that were due meanwhile and run, or wait to.
    made_up: u64,
    /// Occurrences that were due meanwhile and were merged into others.
    coalesced: u64,
    /// Attempts of nodes that are gone.
    taken_over: u64,
}

impl NodeObject {
    fn new(view: NodeView, app: &App) -> NodeObject {
        let is_this = view.id == app.hub().node();
        // An embedded store has one node, which knows for itself.
        let own = is_this.then(|| app.hub().metrics.capacity());
        NodeObject {
            id: view.id.to_string(),
            name: view.name,
            started_at: view.started_at,
            seen_at: view.seen_at,
            lease_until: view.lease_until,
            capacity: own.or(view.capacity),
            attempts: view.attempts,
            recovered: RecoveredObject {
                missed: view.recovered.missed,
                made_up: view.recovered.made_up,
                coalesced: view.recovered.coalesced,
                taken_over: view.recovered.taken_over,
            },
            is_this,
        }
    }
}

/// Nodes, by id: all of those that share the store, and have not ended.
#[utoipa::path(get, path = "/nodes", tag = "node",
    responses((status = 200, body = Listed<NodeObject>), (status = 503, body = Problem)))]
async fn list(State(app): State<App>, Query(()): Query<()>) -> Answered {
    let nodes = app.store().nodes().await?;
    let total = Total::Exact(nodes.len() as u64);
    let items = nodes.into_iter().map(|view| NodeObject::new(view, &app)).collect();
    answer::ok(&Listed::new(items, total, None))
}
