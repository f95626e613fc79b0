//! Routes that save, publish, show and start workflows.

mod handlers;
mod mutations;
mod object;
mod plan;
mod plan_times;
mod save;

use axum::extract::State;
use axum::http::StatusCode;
use engine::WorkflowId;
use engine::turn::{Answer, Command, IfBusy, NewRun, Starter};
use language::schedule::LARGEST_PAYLOAD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use store::{Cursor, Failure, Idempotency, Total, WorkflowQuery, WorkflowView};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use self::handlers::{ConsumerObject, ProducerObject};
pub(super) use self::mutations::MutationObject;
use self::object::{Around, WorkflowSummary};
pub(super) use self::object::{AuthorVersion, author_version};
pub(crate) use self::object::{TriggerObject, WorkflowObject};
pub(crate) use self::save::{Found, look};
use super::access::Caller;
use super::answer::{self, Answered, Listed};
use super::body::JsonBody;
use super::path::PathId;
use super::problem::{Problem, Wrong};
use super::query::{Paging, Parameters, Query, Values};
use super::runs::RunWithSteps;
use super::{App, runs, topics};

/// A reason is shown in one line.
const LONGEST_REASON: usize = 1_000;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, save::create))
        .routes(routes!(save::validate))
        .routes(routes!(get))
        .routes(routes!(versions))
        .routes(routes!(publish))
        .routes(routes!(archive))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(start))
        .routes(routes!(mutations::mutations))
}

/// The workflow with this id or name.
pub(crate) async fn find_workflow(
    app: &App,
    id_or_name: &str,
    revision: Option<u32>,
) -> Result<WorkflowView, Problem> {
    let found = app.views().workflow(id_or_name, revision).await?;
    found.ok_or_else(|| match revision {
        Some(revision) => Problem::not_found("revision", &format!("{revision} of {id_or_name}")),
        None => Problem::not_found("workflow", id_or_name),
    })
}

/// The id of the workflow with this id or name, if one is given.
pub(crate) async fn find_id(
    app: &App,
    id_or_name: Option<&str>,
) -> Result<Option<WorkflowId>, Problem> {
    let Some(id_or_name) = id_or_name else { return Ok(None) };
    id_of(app, id_or_name).await.map(Some)
}

/// The id of the workflow with this id or name.
async fn id_of(app: &App, id_or_name: &str) -> Result<WorkflowId, Problem> {
    let id = app.store().workflow_id(id_or_name).await?;
    id.ok_or_else(|| Problem::not_found("workflow", id_or_name))
}

/// The workflow with this id or name. `None` if there is none, or if the stored revision cannot be
/// read: for callers that can do without it, or replace it.
pub(crate) async fn workflow_if_readable(
    app: &App,
    id_or_name: &str,
    revision: Option<u32>,
) -> Result<Option<WorkflowView>, Problem> {
    match app.views().workflow(id_or_name, revision).await {
        Err(Failure::Undecidable { .. }) => Ok(None),
        found => Ok(found?),
    }
}

/// A workflow with one of its revisions, its schedules, handlers and topics.
pub(crate) async fn shown(app: &App, view: WorkflowView) -> Result<WorkflowObject, Problem> {
    let id = view.workflow.id;
    let mut around = Around::default();
    // A revision that is not live has no schedules and no handlers.
    if view.workflow.live == Some(view.revision) {
        around.schedules = app.store().triggered(id).await?;
        around.handlers = app.store().handlers(id).await?;
    }
    around.topics = topics::of_workflow(app, id, &view.definition).await?;
    Ok(WorkflowObject::new(view, around, &app.rules(), app.now()))
}

/// The query parameters of the list of workflows.
pub(crate) struct WorkflowListParams {
    pub(crate) search: Option<String>,
    system: bool,
    paging: Paging,
}

impl Parameters for WorkflowListParams {
    fn read(values: &mut Values) -> WorkflowListParams {
        let search = values.text("search");
        WorkflowListParams { search, system: values.flag("system"), paging: values.paging() }
    }
}

impl WorkflowListParams {
    pub(crate) fn query(&self) -> WorkflowQuery {
        let Paging { limit, after } = self.paging.clone();
        let search = self.search.clone();
        WorkflowQuery { search, hides_system: !self.system, limit, after }
    }
}

/// The query parameters of a list without filters.
struct Listing(Paging);

impl Parameters for Listing {
    fn read(values: &mut Values) -> Listing {
        Listing(values.paging())
    }
}

/// Lists workflows, by name.
#[utoipa::path(get, path = "/workflows", tag = "workflows",
    params(("search" = Option<String>, Query, description = "With this in the name"),
        ("system" = Option<bool>, Query, description = "Also Punctual's own, which tells people something"),
        ("limit" = Option<u64>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<WorkflowSummary>), (status = 400, body = Problem)))]
async fn list(State(app): State<App>, Query(params): Query<WorkflowListParams>) -> Answered {
    let page = app.views().workflows(params.query()).await?;
    let items = page.items.iter().map(WorkflowSummary::new).collect();
    answer::ok(&Listed::new(items, page.total, page.next.as_ref()))
}

/// The revision of a workflow that is meant.
pub(crate) struct RevisionParams {
    pub(crate) revision: Option<u32>,
}

impl Parameters for RevisionParams {
    fn read(values: &mut Values) -> RevisionParams {
        let revision = values.number("revision", 1..=u64::from(u32::MAX));
        RevisionParams { revision: revision.and_then(|number| u32::try_from(number).ok()) }
    }
}

/// Gets a workflow with its definition: the live revision, or the newest if none is live.
#[utoipa::path(get, path = "/workflows/{id}", tag = "workflows",
    params(("id" = String, Path, description = "Id or name"),
        ("revision" = Option<u32>, Query, description = "Another revision")),
    responses((status = 200, body = WorkflowObject), (status = 404, body = Problem)))]
async fn get(
    State(app): State<App>,
    PathId(id): PathId,
    Query(RevisionParams { revision }): Query<RevisionParams>,
) -> Answered {
    let view = find_workflow(&app, &id, revision).await?;
    answer::ok(&shown(&app, view).await?)
}

/// Lists the revisions of a workflow, newest first.
#[utoipa::path(get, path = "/workflows/{id}/versions", tag = "workflows",
    params(("id" = String, Path, description = "Id or name"),
        ("limit" = Option<u64>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<WorkflowSummary>), (status = 404, body = Problem)))]
async fn versions(
    State(app): State<App>,
    PathId(id): PathId,
    Query(Listing(paging)): Query<Listing>,
) -> Answered {
    let newest = find_workflow(&app, &id, None).await?.workflow.newest;
    let before = match paging.after {
        Some(Cursor::Number(before)) => u32::try_from(before).unwrap_or(0),
        _ => newest.saturating_add(1),
    };
    let first = before.saturating_sub(u32::try_from(paging.limit).unwrap_or(u32::MAX)).max(1);
    let mut items = Vec::new();
    for revision in (first..before.min(newest.saturating_add(1))).rev() {
        let found = workflow_if_readable(&app, &id, Some(revision)).await?;
        items.extend(found.as_ref().map(WorkflowSummary::new));
    }
    let next = (first > 1).then(|| Cursor::Number(i64::from(first)));
    answer::ok(&Listed::new(items, Total::Exact(u64::from(newest)), next.as_ref()))
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Carries out a command on a workflow, and responds with the workflow.
async fn commanded(
    app: &App,
    caller: &Caller,
    id: WorkflowId,
    command: Command,
    idempotency: Option<Idempotency>,
) -> Answered {
    let commanded = app.command(caller, command, idempotency).await?;
    let view = find_workflow(app, &id.to_string(), None).await?;
    Ok(answer::replayed(answer::ok(&shown(app, view).await?)?, commanded.replayed))
}

/// The workflow, or with `dry_run` what would change.
#[derive(Serialize, ToSchema)]
#[schema(as = PublishedWorkflow)]
#[serde(untagged)]
enum Published {
    Workflow(Box<WorkflowObject>),
    Plan(save::Saved),
}

struct Publishing {
    dry_run: bool,
}

impl Parameters for Publishing {
    fn read(values: &mut Values) -> Publishing {
        Publishing { dry_run: values.flag("dry_run") }
    }
}

/// Publishes a workflow: its newest revision goes live.
#[utoipa::path(post, path = "/workflows/{id}/publish", tag = "workflows",
    params(("id" = String, Path, description = "Id or name"),
        ("dry_run" = Option<bool>, Query, description = "Nothing goes live: the answer says what would change")),
    responses((status = 200, body = Published), (status = 404, body = Problem),
        (status = 422, body = Problem)))]
async fn publish(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId,
    Query(Publishing { dry_run }): Query<Publishing>,
    body: JsonBody,
) -> Answered {
    let Nothing {} = body.read_or_default()?;
    let live = find_workflow(&app, &id, None).await?;
    let known = live.workflow.clone();
    let newest = find_workflow(&app, &id, Some(known.newest)).await?;
    save::refuse_commands(&app, &newest.definition, &newest.source)?;
    if dry_run {
        let plan = save::publish_plan(&app, &live, &newest).await?;
        return answer::ok(&Published::Plan(plan));
    }
    let (asked, workflow) = (app.clone(), known.id);
    let publishing = async move {
        save::put_calendars(&asked, &caller, &newest.definition).await?;
        let command = Command::PublishWorkflow(workflow);
        let commanded = asked.command(&caller, command, body.idempotency).await;
        commanded.map_err(|failure| save::in_triggers(&newest.definition, failure))
    };
    let commanded = app.hub().uninterrupted(publishing).await?;
    let view = find_workflow(&app, &known.id.to_string(), None).await?;
    let published = Published::Workflow(Box::new(shown(&app, view).await?));
    Ok(answer::replayed(answer::ok(&published)?, commanded.replayed))
}

/// Archives a workflow: its schedules are deleted, its history stays.
#[utoipa::path(post, path = "/workflows/{id}/archive", tag = "workflows",
    params(("id" = String, Path, description = "Id or name")),
    responses((status = 200, body = WorkflowObject), (status = 400, body = Problem),
        (status = 404, body = Problem)))]
async fn archive(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId,
    Query(()): Query<()>,
    body: JsonBody,
) -> Answered {
    let Nothing {} = body.read_or_default()?;
    let id = find_workflow(&app, &id, None).await?.workflow.id;
    commanded(&app, &caller, id, Command::ArchiveWorkflow(id), body.idempotency).await
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Pausing {
    /// The reason, shown to people.
    #[schema(max_length = 1000)]
    reason: Option<String>,
}

/// Pauses a workflow: nothing starts any more, except by hand.
#[utoipa::path(post, path = "/workflows/{id}/pause", tag = "workflows",
    request_body = Option<Pausing>,
    params(("id" = String, Path, description = "Id or name")),
    responses((status = 200, body = WorkflowObject), (status = 400, body = Problem),
        (status = 404, body = Problem)))]
async fn pause(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId,
    Query(()): Query<()>,
    body: JsonBody,
) -> Answered {
    set_paused(&app, &caller, &id, true, body).await
}

/// Resumes a workflow: its triggers and handlers start runs again.
#[utoipa::path(post, path = "/workflows/{id}/resume", tag = "workflows",
    params(("id" = String, Path, description = "Id or name")),
    responses((status = 200, body = WorkflowObject), (status = 400, body = Problem),
        (status = 404, body = Problem)))]
async fn resume(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId,
    Query(()): Query<()>,
    body: JsonBody,
) -> Answered {
    set_paused(&app, &caller, &id, false, body).await
}

async fn set_paused(
    app: &App,
    caller: &Caller,
    id: &str,
    paused: bool,
    body: JsonBody,
) -> Answered {
    let Pausing { reason } = if paused {
        body.read_or_default()?
    } else {
        body.read_or_default().map(|Nothing {}| Pausing::default())?
    };
    if reason.as_ref().is_some_and(|reason| reason.len() > LONGEST_REASON) {
        let wrong = Wrong::new("reason", "limit", "is too long");
        return Err(Problem::invalid([wrong.allow(format!("{LONGEST_REASON} bytes"))]));
    }
    let id = find_workflow(app, id, None).await?.workflow.id;
    let command = Command::PauseWorkflow { id, paused, reason };
    commanded(app, caller, id, command, body.idempotency).await
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WorkflowStart)]
struct ByHand {
    /// The producer or consumer to run, instead of the steps.
    handler: Option<String>,
    /// The payload of the run: any JSON.
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    payload: Option<Box<RawValue>>,
    /// What to do if a limit is reached: `wait` until the run may begin, or `refuse`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    if_busy: IfBusy,
}

/// A handler that will run as soon as its workflow is free.
#[derive(Serialize, ToSchema)]
#[schema(as = HandlerCalled)]
struct Called {
    /// The handler's name.
    called: String,
}

/// Starts a run by hand: of the steps, or of one of the handlers.
/// Runs of the steps may run side by side, up to the workflow's `concurrency`; beyond it, the run
/// waits for its turn. Handlers of a workflow run one at a time. If a workflow has only handlers,
/// all its producers run; if it has no producers, its consumers look for events.
#[utoipa::path(post, path = "/workflows/{id}/runs", tag = "workflows",
    request_body = Option<ByHand>,
    params(("id" = String, Path, description = "Id or name"),
        ("Idempotency-Key" = Option<String>, Header, description = "Asking twice does once"),
        ("traceparent" = Option<String>, Header, description = "The run is in this trace")),
    responses((status = 201, body = RunWithSteps),
        (status = 202, body = RunWithSteps, description = "Over a limit: the run waits at `position`. Of a consumer: `called`, its name; it looks as soon as its workflow is free"),
        (status = 404, body = Problem),
        (status = 409, body = Problem, description = "With `if_busy: refuse`: the active run is run_id"),
        (status = 422, body = Problem)))]
async fn start(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId,
    Query(()): Query<()>,
    body: JsonBody,
) -> Answered {
    let ByHand { handler, payload, if_busy } = body.read_or_default()?;
    if payload.as_ref().is_some_and(|payload| payload.get().len() > LARGEST_PAYLOAD) {
        let wrong = Wrong::new("payload", "limit", "is too large");
        return Err(Problem::invalid([wrong.allow(format!("{} KiB", LARGEST_PAYLOAD / 1024))]));
    }
    let workflow = id_of(&app, &id).await?;
    let (by, trace) = (caller.name.to_string(), body.trace);
    let run = NewRun { id: app.new_run_id(), payload, by: Starter::Caller(by), trace, if_busy };
    let command = match handler {
        Some(handler) => Command::StartHandler { id: workflow, handler, run },
        None => Command::StartWorkflow { id: workflow, run },
    };
    let commanded = app.command(&caller, command, body.idempotency).await?;
    match &commanded.answer {
        Answer::Called(called) => {
            let called = Called { called: called.clone() };
            let response = answer::json(StatusCode::ACCEPTED, &called)?;
            Ok(answer::replayed(response, commanded.replayed))
        }
        _ => runs::answered(&app, commanded, true).await,
    }
}
