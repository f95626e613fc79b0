//! Notices of changes, as server-sent events.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::IntoResponse as _;
use axum::response::sse::{Event, KeepAlive, Sse};
use engine::turn::Notice;
use futures_util::stream;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::answer::Answered;
use super::problem::Problem;
use super::query::Query;
use crate::notice_log;
use crate::secrets::Secrets;

/// How many streams may be open at a time.
pub(super) const MOST_STREAMS: usize = 64;
/// How often a silent stream sends a comment, so that proxies do not close it.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(listen))
}

/// Streams what happens from now on.
///
/// Events `occurrence`, `run`, `schedule` and `workflow` carry JSON data. `steps`, with `run_id`,
/// is sent when a run has progressed and its status is the same. `output`, with `run_id` and
/// `step_id`, is sent when an attempt on this node writes output, at most twice a second per
/// attempt. `lagged` says how many batches a slow listener has lost.
#[utoipa::path(get, path = "/stream", tag = "node",
    responses((status = 200, content_type = "text/event-stream", body = String),
        (status = 503, body = Problem)))]
async fn listen(State(app): State<App>, Query(()): Query<()>) -> Answered {
    let Ok(permit) = app.streams().try_acquire_owned() else {
        return Err(Problem::unavailable(format!("{MOST_STREAMS} streams are open already.")));
    };
    let listener = Listener {
        notices: app.hub().listen(),
        waiting: VecDeque::from([Event::default().comment("listening")]),
        app,
        _permit: permit,
    };
    let events = stream::unfold(listener, Listener::next);
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE).text("keep-alive");
    Ok(Sse::new(events).keep_alive(keep_alive).into_response())
}

struct Listener {
    notices: Receiver<Arc<[Notice]>>,
    waiting: VecDeque<Event>,
    app: App,
    _permit: OwnedSemaphorePermit,
}

impl Listener {
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Listener)> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some((Ok(event), self));
            }
            let received = tokio::select! {
                received = self.notices.recv() => received,
                () = self.app.stopped() => return None,
            };
            match received {
                Ok(notices) => self
                    .waiting
                    .extend(notices.iter().map(|notice| event(notice, self.app.secrets()))),
                Err(RecvError::Lagged(lost)) => {
                    let data = json!({ "lost": lost }).to_string();
                    self.waiting.push_back(Event::default().event("lagged").data(data));
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

fn event(notice: &Notice, secrets: &Secrets) -> Event {
    let masked = |text: &str| secrets.mask(text).into_owned();
    let (name, data) = match notice {
        Notice::Occurrence { schedule, n, count, outcome } => (
            "occurrence",
            json!({
                "schedule_id": schedule.to_string(),
                "n": n,
                "count": count,
                "outcome": outcome.name(),
            }),
        ),
        Notice::Run { id, workflow, schedule, status } => (
            "run",
            json!({
                "id": id.to_string(),
                "workflow_id": workflow.to_string(),
                "schedule_id": schedule.map(|id| id.to_string()),
                "status": status.name(),
            }),
        ),
        Notice::Steps { run, workflow, schedule } => (
            "steps",
            json!({
                "run_id": run.to_string(),
                "workflow_id": workflow.to_string(),
                "schedule_id": schedule.map(|id| id.to_string()),
            }),
        ),
        Notice::Schedule { id, status } => {
            let status = status.map_or("deleted", |status| status.name());
            ("schedule", json!({ "id": id.to_string(), "status": status }))
        }
        Notice::Turning { schedule, name, workflow, turning } => (
            "turning",
            json!({
                "schedule_id": schedule.to_string(),
                "name": name,
                "workflow_id": workflow.to_string(),
                "turning": notice_log::name(turning),
            }),
        ),
        Notice::Queued { queue, count } => ("queued", json!({ "queue": queue, "count": count })),
        Notice::Incident { key, workflow, schedule, is_open, refused } => (
            "incident",
            json!({
                "id": key.to_string(),
                "workflow_id": workflow.to_string(),
                "schedule_id": schedule.map(|id| id.to_string()),
                "open": is_open,
                "refused": refused.iter().map(|why| masked(why)).collect::<Vec<_>>(),
            }),
        ),
        Notice::Deadline { run, due, .. } => {
            ("deadline", json!({ "run_id": run.to_string(), "deadline": due.to_string() }))
        }
        Notice::Published { topic, count } => {
            ("published", json!({ "topic_id": topic.to_string(), "count": count }))
        }
        Notice::Consumed { topic, count } => {
            ("consumed", json!({ "topic_id": topic.to_string(), "count": count }))
        }
        Notice::Output { run, step } => {
            ("output", json!({ "run_id": run.to_string(), "step_id": step }))
        }
        Notice::HandlersPaused { workflow, name, reason } => (
            "handlers_paused",
            json!({ "workflow_id": workflow.to_string(), "name": name, "reason": masked(reason) }),
        ),
        Notice::Undelivered { run, subject, error } => (
            "undelivered",
            json!({ "run_id": run.to_string(), "subject": masked(subject), "error": masked(error) }),
        ),
        Notice::Workflow { id } => ("workflow", json!({ "id": id.to_string() })),
    };
    Event::default().event(name).data(data.to_string())
}
