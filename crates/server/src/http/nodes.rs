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
    #[schema(value_type = String)]
    started_at: Timestamp,
    /// When it was last heard of; nothing on an embedded store.
    #[schema(value_type = Option<String>)]
    seen_at: Option<Timestamp>,
    /// Until when others leave its attempts alone; nothing on an embedded store.
    #[schema(value_type = Option<String>)]
    lease_until: Option<Timestamp>,
    /// Attempts at a time.
    capacity: Option<u64>,
    /// Attempts that are its own.
    attempts: u64,
    /// Whether it is the one that answers.
    is_this: bool,
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
