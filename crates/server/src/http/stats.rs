//! Counts of what is stored, for people.

use std::collections::BTreeMap;

use axum::extract::State;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::answer::{self, Answered};
use super::problem::Problem;
use super::query::Query;
use super::shapes;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(stats))
}

/// Counts of what is stored.
#[derive(Debug, Serialize, ToSchema)]
struct StatsObject {
    /// Schedules by status.
    schedules: BTreeMap<&'static str, u64>,
    /// Runs that have not ended, by status.
    runs: BTreeMap<&'static str, u64>,
    /// Approvals that nobody has decided.
    approvals: u64,
    /// Incidents that have not ended.
    incidents: u64,
    workflows: u64,
    /// Workflows that are paused with a reason: a handler failed, or a person gave one.
    paused_workflows: u64,
    /// Wakeups that are due and not claimed yet.
    due: u64,
    /// When the next wakeup is due.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_wakeup_at: Option<Timestamp>,
    /// Rows that cannot be read or decided as they are stored. Nothing happens with them until
    /// `punctual doctor --repair`, or a person, has repaired them. Everything else goes on.
    set_aside: Vec<SetAsideObject>,
    /// The size of the store in bytes.
    store_bytes: u64,
    /// The release of the zone database.
    zone_database: String,
    /// The program's version.
    version: &'static str,
    #[schema(value_type = String, format = DateTime)]
    now: Timestamp,
}

/// A row that was set aside.
#[derive(Debug, Serialize, ToSchema)]
struct SetAsideObject {
    /// `schedule`, `run` or `handler`.
    #[schema(value_type = shapes::SetAsideKind)]
    kind: &'static str,
    id: String,
    /// Why it cannot be read or decided.
    reason: String,
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
}

impl From<store::SetAside> for SetAsideObject {
    fn from(aside: store::SetAside) -> SetAsideObject {
        let kind = aside.kind();
        SetAsideObject { kind, id: aside.id, reason: aside.reason, since: aside.since }
    }
}

/// Gets counts of what is stored.
#[utoipa::path(get, path = "/stats", tag = "node",
    responses((status = 200, body = StatsObject), (status = 503, body = Problem)))]
async fn stats(State(app): State<App>, Query(()): Query<()>) -> Answered {
    let now = app.now();
    let stats = app.store().stats(now).await?;
    let set_aside = app.store().all_set_aside().await?;
    answer::ok(&StatsObject {
        schedules: stats.schedules.iter().map(|(status, count)| (status.name(), *count)).collect(),
        runs: stats.runs.iter().map(|(status, count)| (status.name(), *count)).collect(),
        approvals: stats.approvals,
        incidents: stats.incidents,
        workflows: stats.workflows,
        paused_workflows: stats.paused_workflows,
        due: stats.due,
        next_wakeup_at: stats.next_wakeup,
        set_aside: set_aside.into_iter().map(SetAsideObject::from).collect(),
        store_bytes: stats.bytes,
        zone_database: app.rules().zones().version().to_owned(),
        version: env!("CARGO_PKG_VERSION"),
        now,
    })
}
