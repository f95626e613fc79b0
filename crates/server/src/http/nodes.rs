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

/// One start of a node.
#[derive(Debug, Serialize, ToSchema)]
struct NodeObject {
    /// The node's id, a new one for each start.
    id: String,
    name: String,
    /// When this start joined the store.
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// When it was last seen; null on an embedded store.
    #[schema(value_type = Option<String>, format = DateTime)]
    seen_at: Option<Timestamp>,
    /// Until when other nodes leave its attempts alone; null on an embedded store.
    #[schema(value_type = Option<String>, format = DateTime)]
    lease_until: Option<Timestamp>,
    /// How many attempts it performs at a time.
    capacity: Option<u64>,
    /// How many attempts it holds.
    attempts: u64,
    /// What this start has recovered after downtime.
    recovered: RecoveredObject,
    /// Whether it is the node that answers this request.
    is_this: bool,
}

/// What was recovered after downtime.
#[derive(Debug, Serialize, ToSchema)]
struct RecoveredObject {
    /// Occurrences that were due meanwhile and do not run.
    missed: u64,
    /// Occurrences that were due meanwhile and run, or wait to run.
    made_up: u64,
    /// Occurrences that were due meanwhile and were merged into others.
    coalesced: u64,
    /// Attempts of dead nodes that were taken over.
    taken_over: u64,
}

impl NodeObject {
    fn new(view: NodeView, app: &App) -> NodeObject {
        let is_this = view.id == app.hub().node();
        // An embedded store has one node, which knows its capacity itself.
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

/// Lists the nodes that share the store and have not ended, by id.
#[utoipa::path(get, path = "/nodes", tag = "node",
    responses((status = 200, body = Listed<NodeObject>), (status = 503, body = Problem)))]
async fn list(State(app): State<App>, Query(()): Query<()>) -> Answered {
    let nodes = app.store().nodes().await?;
    let total = Total::Exact(nodes.len() as u64);
    let items = nodes.into_iter().map(|view| NodeObject::new(view, &app)).collect();
    answer::ok(&Listed::new(items, total, None))
}
