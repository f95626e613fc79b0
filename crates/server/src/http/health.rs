//! Health, readiness and metrics of the node.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use engine::run::RunStatus;
use engine::schedule::Status;
use engine::topics::EventState;
use prometheus_client::encoding::text::encode;
use std::fmt::Write as _;
use std::time::Duration;
use store::{Connections, Failure, QueueView, Stats, TopicQuery, TopicView};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::answer::Answered;
use super::problem::Problem;

/// A store that takes longer to answer counts as not reachable.
const QUICK: Duration = Duration::from_secs(5);
/// How long the figures wait for those of the store: less than a scrape may take.
const FOR_METRICS: Duration = Duration::from_secs(2);
/// How many topics have metrics: each is a series of its own, and more would cost those who store
/// metrics too much.
const TOPICS_TOLD: usize = 200;
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(healthz)).routes(routes!(readyz)).routes(routes!(metrics))
}

/// Tells that the process is alive.
#[utoipa::path(get, path = "/healthz", tag = "node", responses((status = 200, body = String)))]
async fn healthz() -> &'static str {
    "ok"
}

/// Tells whether the node is ready: the store answers, commits succeed, and due wakeups are driven.
#[utoipa::path(get, path = "/readyz", tag = "node",
    responses((status = 200, body = String), (status = 503, body = Problem)))]
async fn readyz(State(app): State<App>) -> Result<&'static str, Problem> {
    if let Some(why) = app.hub().why_not_ready() {
        return Err(Problem::unavailable(why));
    }
    let stats = stats(&app).await?;
    match app.hub().why_late(&stats) {
        Some(why) => Err(Problem::unavailable(why)),
        None => Ok("ok"),
    }
}

/// Gets metrics in the OpenMetrics format.
#[utoipa::path(get, path = "/metrics", tag = "node",
    responses((status = 200, body = String, content_type = "application/openmetrics-text"), (status = 401, body = Problem),
        (status = 503, body = Problem)))]
async fn metrics(State(app): State<App>) -> Answered {
    let stored = tokio::time::timeout(FOR_METRICS, Stored::read(&app)).await;
    // A node whose store is silent still tells how it is.
    let stored = stored.ok().and_then(|read| {
        read.inspect_err(|failure| tracing::warn!(%failure, "no figures from the store")).ok()
    });
    let mut text = String::new();
    let unwritten = |_| Problem::unavailable("The figures cannot be written.");
    encode(&mut text, app.registry()).map_err(unwritten)?;
    let hub = app.hub();
    let stats = stored.as_ref().map(|stored| &stored.stats);
    let is_late = stats.is_some_and(|stats| hub.why_late(stats).is_some());
    let is_ready = stats.is_some() && !is_late && hub.why_not_ready().is_none();
    let mut rest = single("punctual_node_ready", "Whether this node drives what is due", is_ready);
    rest += &single("punctual_store_answers", "Whether the store answers", stored.is_some());
    rest += &ages(&app, stats);
    rest += &connections(app.store().connections());
    rest += &stored.map(|stored| stored.gauges()).unwrap_or_default();
    let end = text.rfind("# EOF").unwrap_or(text.len());
    text.insert_str(end, &rest);
    Ok(with_type(OPEN_METRICS, text))
}

/// The figures that are read from the store.
struct Stored {
    stats: Stats,
    nodes: usize,
    queues: Vec<QueueView>,
    topics: Vec<TopicView>,
}

impl Stored {
    async fn read(app: &App) -> Result<Stored, Failure> {
        let store = app.store();
        let query = TopicQuery { limit: TOPICS_TOLD, ..TopicQuery::default() };
        Ok(Stored {
            stats: store.stats(app.now()).await?,
            nodes: store.nodes().await?.len(),
            queues: store.queues().await?,
            topics: store.topics(query).await?.items,
        })
    }

    fn gauges(&self) -> String {
        let Stored { stats, nodes, queues, topics } = self;
        gauges(stats, *nodes as u64) + &depths(queues) + &topic_gauges(topics)
    }
}

fn with_type(content_type: &'static str, text: String) -> Response {
    ([(CONTENT_TYPE, content_type)], text).into_response()
}

async fn stats(app: &App) -> Result<Stats, Problem> {
    let answered = tokio::time::timeout(QUICK, app.store().stats(app.now())).await;
    let slow = || Failure::Unavailable("it does not answer in time".to_owned());
    answered.unwrap_or_else(|_| Err(slow())).map_err(|failure| Problem::unavailable(told(&failure)))
}

/// The failure as a sentence.
fn told(failure: &Failure) -> String {
    let said = failure.to_string();
    let mut letters = said.chars();
    letters
        .next()
        .map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

/// Gauges that are read from the store.
fn gauges(stats: &Stats, nodes: u64) -> String {
    let mut text = String::new();
    let schedules = Status::ALL.map(|status| (status.name(), of(&stats.schedules, status)));
    labelled(&mut text, "punctual_schedules", "Schedules by status", &schedules);
    let open = RunStatus::ALL.iter().filter(|status| !status.has_ended());
    let runs: Vec<_> = open.map(|status| (status.name(), of(&stats.runs, *status))).collect();
    labelled(&mut text, "punctual_runs_open", "Runs that have not ended, by status", &runs);
    for (name, help, value) in [
        ("punctual_due_backlog", "Wakeups that are due and not claimed", stats.due),
        ("punctual_approvals_open", "Questions to people without an answer", stats.approvals),
        ("punctual_incidents_open", "Incidents that have not ended", stats.incidents),
        ("punctual_workflows", "Workflows", stats.workflows),
        ("punctual_workflows_paused", "Workflows paused with a reason", stats.paused_workflows),
        ("punctual_nodes", "Nodes that share the store", nodes),
        ("punctual_store_bytes", "Size of the store", stats.bytes),
    ] {
        text += &single(name, help, value);
    }
    text
}

/// A gauge with one value.
fn single(name: &str, help: &str, value: impl Into<u64>) -> String {
    format!("# HELP {name} {help}.\n# TYPE {name} gauge\n{name} {}\n", value.into())
}

/// Gauges of how long the conditions behind readiness have lasted; zero when there are none, or as
/// far as the store has to tell and does not.
fn ages(app: &App, stats: Option<&Stats>) -> String {
    let (now, readiness) = (app.now(), &app.hub().readiness);
    let due = stats.filter(|stats| stats.due > 0).and_then(|stats| stats.next_wakeup);
    let late = due.map_or(0.0, |due| now.duration_since(due).as_secs_f64().max(0.0));
    let mut text = String::new();
    for (name, help, value) in [
        ("punctual_due_oldest_seconds", "How long the oldest wakeup has been due", late),
        (
            "punctual_turn_in_flight_seconds",
            "How long the oldest turn has not come back from the store",
            readiness.turns.age(now).as_secs_f64(),
        ),
        (
            "punctual_command_in_flight_seconds",
            "How long the oldest command has not come back from the store",
            readiness.commands.age(now).as_secs_f64(),
        ),
    ] {
        let _ = writeln!(
            text,
            "# HELP {name} {help}.\n# TYPE {name} gauge\n# UNIT {name} seconds\n{name} {value}"
        );
    }
    text
}

/// Gauges of the connections for queries; an embedded store has none.
fn connections(pool: Option<Connections>) -> String {
    let Some(Connections { used, idle, waiting }) = pool else { return String::new() };
    let mut text = String::new();
    let help = "Connections that questions are asked through, and questions that wait for one";
    let values = [("used", used), ("idle", idle), ("waiting", waiting)];
    labelled(&mut text, "punctual_store_connections", help, &values);
    text
}

/// Gauges of queue depths. Empty queues are left out.
fn depths(queues: &[QueueView]) -> String {
    let name = "punctual_queue_depth";
    let mut text = format!("# HELP {name} Attempts that wait for a worker.\n# TYPE {name} gauge\n");
    for QueueView { name: queue, waiting } in queues {
        let _ = writeln!(text, "{name}{{queue=\"{queue}\"}} {waiting}");
    }
    text
}

/// Gauges of the first topics by name. A shared topic has no workflow.
fn topic_gauges(topics: &[TopicView]) -> String {
    let name = "punctual_topic_events";
    let mut text = format!(
        "# HELP {name} Events by state, of the first {TOPICS_TOLD} topics.\n# TYPE {name} gauge\n"
    );
    for TopicView { topic, workflow, .. } in topics {
        let (of, workflow) = (&topic.name, workflow.as_deref().unwrap_or_default());
        for state in EventState::ALL {
            let (count, state) = (topic.counts.of(state), state.name());
            let labels = format!("topic=\"{of}\",workflow=\"{workflow}\",state=\"{state}\"");
            let _ = writeln!(text, "{name}{{{labels}}} {count}");
        }
    }
    text
}

fn of<T: Copy + PartialEq>(counts: &[(T, u64)], wanted: T) -> u64 {
    counts.iter().filter(|(status, _)| *status == wanted).map(|(_, count)| count).sum()
}

fn labelled(text: &mut String, name: &str, help: &str, values: &[(&str, u64)]) {
    let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} gauge");
    for (status, value) in values {
        let _ = writeln!(text, "{name}{{status=\"{status}\"}} {value}");
    }
}
