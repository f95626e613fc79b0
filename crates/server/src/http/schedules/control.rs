//! Controls a schedule: pause, resume, enable, disable, revive, trigger, delete.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use engine::ScheduleId;
use engine::turn::{Answer, Command, IfBusy, NewRun, Starter, Verb};
use language::schedule::LARGEST_PAYLOAD;
use serde::Deserialize;
use serde_json::value::RawValue;
use store::{Commanded, Idempotency};
use utoipa::ToSchema;

use super::list::object;
use super::object::ScheduleObject;
use crate::http::App;
use crate::http::access::Caller;
use crate::http::answer::{self, Answered};
use crate::http::body::JsonBody;
use crate::http::path::SchedulePath;
use crate::http::problem::{Problem, Wrong};
use crate::http::query::Query;
use crate::http::runs;

/// How many schedules one request may delete.
const LARGEST: usize = 10_000;

/// An empty body.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Resumption {
    /// Whether missed occurrences are made up for.
    #[serde(default)]
    catch_up: bool,
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ScheduleTrigger)]
struct ByHand {
    /// The run's payload; the schedule's own payload if left out.
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    payload: Option<Box<RawValue>>,
    /// `wait`: the run begins beside active ones, or when the workflow's `concurrency` allows.
    /// `refuse`: 409 if the schedule is active (unless its overlap is `allow`), or if the workflow
    /// has as many runs as it may.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    if_busy: IfBusy,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Deletion {
    /// Ids of schedules; unknown ones are ignored.
    #[schema(max_items = 10000)]
    schedule_ids: Vec<IdText>,
}

/// An id as text or number.
#[derive(Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected the id of a schedule")]
pub(super) enum IdText {
    Text(String),
    Number(i64),
}

impl IdText {
    /// The id as it was written.
    pub(super) fn text(&self) -> String {
        match self {
            IdText::Text(text) => text.clone(),
            IdText::Number(number) => number.to_string(),
        }
    }

    /// The id, if it can be an id of a schedule.
    pub(super) fn schedule(&self) -> Option<ScheduleId> {
        match self {
            IdText::Text(text) => text.parse().ok(),
            IdText::Number(number) => Some(ScheduleId(*number)),
        }
    }
}

/// A route that controls a schedule and responds with it.
macro_rules! verb {
    ($name:ident, $path:literal, $doc:literal, $verb:expr) => {
        #[doc = $doc]
        #[utoipa::path(post, path = $path, tag = "schedules",
            params(("id" = String, Path, description = "The schedule"),
                ("Idempotency-Key" = Option<String>, Header, description = "Asking twice does once")),
            responses((status = 200, body = ScheduleObject),
                (status = 400, body = Problem, description = "Not in this status"),
                (status = 401, body = Problem), (status = 404, body = Problem),
                (status = 409, body = Problem), (status = 503, body = Problem)))]
        pub(super) async fn $name(
            State(app): State<App>,
            caller: Caller,
            SchedulePath(id): SchedulePath,
            Query(()): Query<()>,
            body: JsonBody,
        ) -> Answered {
            let Nothing {} = body.read_or_default()?;
            control(&app, &caller, id, $verb, body.idempotency).await
        }
    };
}

verb!(pause, "/schedules/{id}/pause", "Nothing new starts until it is resumed.", Verb::Pause);
verb!(revive, "/schedules/{id}/revive", "A new life after done or dead.", Verb::Revive);
verb!(enable, "/schedules/{id}/enable", "Goes on: resume, of a trigger.", Verb::Enable);
verb!(disable, "/schedules/{id}/disable", "Stands still: pause, of a trigger.", Verb::Disable);

/// Resumes a schedule. Missed occurrences are made up for only with `catch_up`.
#[utoipa::path(post, path = "/schedules/{id}/resume", tag = "schedules",
    params(("id" = String, Path, description = "The schedule"),
        ("Idempotency-Key" = Option<String>, Header, description = "Asking twice does once")),
    request_body = Option<Resumption>,
    responses((status = 200, body = ScheduleObject),
        (status = 400, body = Problem, description = "Not in this status"),
        (status = 401, body = Problem), (status = 404, body = Problem),
        (status = 422, body = Problem), (status = 503, body = Problem)))]
pub(super) async fn resume(
    State(app): State<App>,
    caller: Caller,
    SchedulePath(id): SchedulePath,
    Query(()): Query<()>,
    body: JsonBody,
) -> Answered {
    let Resumption { catch_up } = body.read_or_default()?;
    control(&app, &caller, id, Verb::Resume { catch_up }, body.idempotency).await
}

/// Starts a run by hand, whatever the schedule's status.
/// The next occurrence stays as it is, and so do waiting ones; the run begins beside active ones.
#[utoipa::path(post, path = "/schedules/{id}/trigger", tag = "schedules",
    params(("id" = String, Path, description = "The schedule"),
        ("Idempotency-Key" = Option<String>, Header, description = "Asking twice does once"),
        ("traceparent" = Option<String>, Header, description = "The run is in this trace")),
    request_body = Option<ByHand>,
    responses((status = 200, body = ScheduleObject, description = "With the run as run_id"),
        (status = 202, body = ScheduleObject, description = "Over the workflow's limit: it waits at `position`"),
        (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 404, body = Problem),
        (status = 409, body = Problem, description = "With `if_busy: refuse`: the active run is run_id"),
        (status = 422, body = Problem), (status = 503, body = Problem)))]
pub(super) async fn trigger(
    State(app): State<App>,
    caller: Caller,
    SchedulePath(id): SchedulePath,
    Query(()): Query<()>,
    body: JsonBody,
) -> Answered {
    let ByHand { payload, if_busy } = body.read_or_default()?;
    check_payload(payload.as_deref())?;
    let (by, trace) = (caller.name.to_string(), body.trace);
    let run = NewRun { id: app.new_run_id(), payload, by: Starter::Caller(by), trace, if_busy };
    let command = Command::StartSchedule { id, run };
    let Commanded { answer, replayed, .. } =
        app.command(&caller, command, body.idempotency).await?;
    let object = object(&app, id).await?;
    let Answer::Run(run) = answer else {
        return Err(Problem::unavailable("The store answers something else."));
    };
    let position = runs::found(&app, &run).await?.position;
    let status = if position.is_some() { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok(answer::replayed(answer::json(status, &object.with_run(run, position))?, replayed))
}

/// Refuses a payload larger than a declared one may be.
pub(super) fn check_payload(payload: Option<&RawValue>) -> Result<(), Problem> {
    if payload.is_some_and(|payload| payload.get().len() > LARGEST_PAYLOAD) {
        let wrong = Wrong::new("payload", "size", "the payload is too large");
        let allowed = format!("up to {} KiB", LARGEST_PAYLOAD / 1024);
        return Err(Problem::invalid([wrong.allow(allowed)]));
    }
    Ok(())
}

async fn control(
    app: &App,
    caller: &Caller,
    id: ScheduleId,
    verb: Verb,
    idempotency: Option<Idempotency>,
) -> Answered {
    let command = Command::ControlSchedule { id, verb };
    let commanded = app.command(caller, command, idempotency).await?;
    let response = answer::ok(&object(app, id).await?)?;
    Ok(answer::replayed(response, commanded.replayed))
}

/// Deletes a schedule. Its history stays until retention removes it.
#[utoipa::path(delete, path = "/schedules/{id}", tag = "schedules",
    params(("id" = String, Path, description = "The schedule")),
    responses((status = 204), (status = 401, body = Problem), (status = 404, body = Problem),
        (status = 409, body = Problem, description = "A definition declares it")))]
pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    SchedulePath(id): SchedulePath,
    Query(()): Query<()>,
) -> Result<Response, Problem> {
    match app.command(&caller, Command::DeleteSchedules(vec![id]), None).await?.answer {
        Answer::Count(0) => Err(Problem::not_found("schedule", &id.to_string())),
        _ => Ok(answer::no_content()),
    }
}

/// Deletes many schedules. Unknown ids are ignored.
#[utoipa::path(post, path = "/schedules/batch-delete", tag = "schedules",
    params(("Idempotency-Key" = Option<String>, Header, description = "Asking twice does once")),
    request_body = Deletion,
    responses((status = 204), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 409, body = Problem, description = "A definition declares one of them"),
        (status = 422, body = Problem), (status = 503, body = Problem)))]
pub(super) async fn batch_delete(
    State(app): State<App>,
    caller: Caller,
    Query(()): Query<()>,
    body: JsonBody,
) -> Result<Response, Problem> {
    let Deletion { schedule_ids } = body.read()?;
    if schedule_ids.len() > LARGEST {
        let message = format!("{} schedules at once", schedule_ids.len());
        let wrong = Wrong::new("schedule_ids", "limit", message);
        return Err(Problem::invalid([wrong.allow(format!("up to {LARGEST}"))]));
    }
    let ids = schedule_ids.iter().filter_map(IdText::schedule).collect();
    let commanded = app.command(&caller, Command::DeleteSchedules(ids), body.idempotency).await?;
    Ok(answer::replayed(answer::no_content(), commanded.replayed))
}
