//! The queues of workers.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::answer::{self, Answered};
use super::problem::Problem;
use super::query::Query;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}

#[derive(Serialize, ToSchema)]
struct Queues {
    items: Vec<QueueObject>,
}

#[derive(Serialize, ToSchema)]
struct QueueObject {
    name: String,
    /// How many attempts wait in it for a worker.
    depth: u64,
}

/// Lists the queues in which attempts wait for a worker, by name.
#[utoipa::path(get, path = "/queues", tag = "attempts",
    responses((status = 200, body = Queues), (status = 400, body = Problem)))]
async fn list(State(app): State<App>, Query(()): Query<()>) -> Answered {
    let queues = app.store().queues().await?.into_iter();
    let items = queues.map(|queue| QueueObject { name: queue.name, depth: queue.waiting });
    answer::ok(&Queues { items: items.collect() })
}
