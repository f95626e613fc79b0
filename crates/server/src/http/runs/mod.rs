//! Routes that list, show, cancel, retry and resolve runs.

pub(super) mod explain;
mod object;
mod output;
mod steps;
mod waiting;

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use engine::run::{Resolution, Run, RunStatus, TriggeredBy};
use engine::turn::{Answer, Command, CreatedRun, IfBusy, NewRun, Starter};
use engine::{RunId, ScheduleId};
use jiff::Timestamp;
use language::definition::Definition;
use serde::Deserialize;
use store::{
    AlertView, Commanded, Cursor, MutationQuery, MutationView, RunDetail, RunQuery, RunView,
};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use explain::told;
pub(super) use object::{RunObject, RunWithSteps};
pub(crate) use steps::{AttemptObject, PartObject, StepObject};

use super::App;
use super::access::Caller;
use super::answer::{self, Answered, Listed};
use super::body::JsonBody;
use super::path::PathId;
use super::problem::{Problem, Wrong};
use super::query::{Paging, Parameters, Query, Values};
use super::undelivered;
use super::workflows::find_id;
use crate::http::shapes;

/// A reason is shown in one line.
const LONGEST_REASON: usize = 1_000;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get))
        .routes(routes!(explain::explain))
        .routes(routes!(output::output))
        .routes(routes!(cancel))
        .routes(routes!(retry))
        .routes(routes!(resolve))
}

/// The query parameters of the list of runs.
pub(crate) struct RunListParams {
    pub(crate) workflow: Option<String>,
    pub(crate) schedule: Option<ScheduleId>,
    pub(crate) status: Vec<RunStatus>,
    pub(crate) triggered_by: Option<TriggeredBy>,
    since: Option<Timestamp>,
    pub(crate) overdue: Option<bool>,
    pub(crate) parent: Option<String>,
    system: bool,
    paging: Paging,
}

impl Parameters for RunListParams {
    fn read(values: &mut Values) -> RunListParams {
        let by_name = values.text("workflow");
        RunListParams {
            workflow: values.text("workflow_id").or(by_name),
            schedule: values.parsed("schedule_id", "the id of a schedule"),
            status: values.several_of("status", &RunStatus::ALL, RunStatus::name),
            triggered_by: values.one_of("triggered_by", &TriggeredBy::ALL, TriggeredBy::name),
            since: values.instant("since"),
            overdue: values.choice_flag("overdue"),
            parent: values.text("parent"),
            system: values.flag("system"),
            paging: values.paging(),
        }
    }
}

impl RunListParams {
    pub(crate) async fn query(&self, app: &App) -> Result<RunQuery, Problem> {
        let workflow = find_id(app, self.workflow.as_deref()).await?;
        let parent = match &self.parent {
            Some(id) => Some(found(app, id).await?.view.run.key),
            None => None,
        };
        let shows_system =
            workflow.is_some() || parent.is_some() || self.triggered_by.is_some() || self.system;
        let Paging { limit, after } = self.paging.clone();
        Ok(RunQuery {
            hides_system: !shows_system,
            workflow,
            schedule: self.schedule,
            status: self.status.clone(),
            triggered_by: self.triggered_by,
            since: self.since,
            until: None,
            overdue: self.overdue,
            parent,
            limit,
            after,
        })
    }
}

/// Lists runs, latest first.
#[utoipa::path(get, path = "/runs", tag = "runs",
    params(("workflow" = Option<String>, Query, description = "Id or name of a workflow"),
        ("workflow_id" = Option<String>, Query, description = "The same"),
        ("schedule_id" = Option<String>, Query),
        ("status" = Option<String>, Query, description = "One or several, with commas"),
        ("triggered_by" = Option<shapes::TriggeredBy>, Query, description = "Only those that this has started"),
        ("since" = Option<String>, Query, description = "Created from here on"),
        ("overdue" = Option<bool>, Query, description = "Only those not done in the time promised; with `false`, only the others"),
        ("parent" = Option<String>, Query, description = "Started by this run"),
        ("system" = Option<bool>, Query, description = "Also those that Punctual starts itself to tell people something; they are shown as well if workflow, triggered_by or parent asks for them"),
        ("limit" = Option<u64>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<RunObject>), (status = 400, body = Problem),
        (status = 404, body = Problem)))]
async fn list(State(app): State<App>, Query(params): Query<RunListParams>) -> Answered {
    let page = app.views().runs(params.query(&app).await?).await?;
    let versions = object::versions(&app, &page.items).await?;
    let items = page.items.into_iter();
    let items = items.map(|view| RunObject::new(view, &versions)).collect();
    answer::ok(&Listed::new(items, page.total, page.next.as_ref()))
}

/// Gets a run with its steps.
#[utoipa::path(get, path = "/runs/{id}", tag = "runs",
    params(("id" = String, Path, description = "The run")),
    responses((status = 200, body = RunWithSteps), (status = 404, body = Problem)))]
async fn get(State(app): State<App>, PathId(id): PathId, Query(()): Query<()>) -> Answered {
    answer::ok(&shown(&app, &id).await?)
}

/// The run with this id, as the API shows it.
pub(super) async fn shown(app: &App, id: &str) -> Result<RunWithSteps, Problem> {
    Ok(RunWithSteps::new(whole(app, id).await?))
}

/// A run with everything that belongs to it.
pub(crate) struct WholeRun {
    pub(crate) view: RunView,
    /// The definition that the run uses.
    pub(crate) definition: Arc<Definition>,
    /// Its steps; for a handler's run, its phases.
    pub(crate) steps: Vec<StepObject>,
    /// The actions that its deadlines have triggered.
    pub(crate) alerts: Vec<AlertView>,
    /// The mutation that a consumer's run has made, or may have made.
    pub(crate) mutation: Option<MutationView>,
    /// Its position among the runs that wait for the same limit, from 1.
    pub(crate) position: Option<u64>,
}

/// Reads the run with this id and everything that belongs to it.
pub(crate) async fn whole(app: &App, id: &str) -> Result<WholeRun, Problem> {
    let RunDetail { view, definition, steps, earlier, position } = found(app, id).await?;
    let mut alerts = app.views().alerts(run_id(id)?).await?;
    undelivered::add_to_alerts(app, &mut alerts).await?;
    let mutation = mutation_of(app, &view.run).await?;
    let steps = steps::shown(&view.run, &definition, steps, earlier);
    Ok(WholeRun { view, definition, steps, alerts, mutation, position })
}

/// The mutation of a consumer's run. Mutations are listed in the order of their runs' keys.
async fn mutation_of(app: &App, run: &Run) -> Result<Option<MutationView>, Problem> {
    if run.handler.is_none() {
        return Ok(None);
    }
    let after = Some(Cursor::Number(run.key.0.saturating_add(1)));
    let query = MutationQuery { workflow: Some(run.workflow), limit: 1, after };
    let latest = app.views().mutations(query).await?.items.pop();
    Ok(latest.filter(|view| view.mutation.run == run.key))
}

pub(crate) async fn found(app: &App, id: &str) -> Result<RunDetail, Problem> {
    let detail = app.views().run(run_id(id)?).await?;
    detail.ok_or_else(|| Problem::not_found("run", id))
}

fn run_id(text: &str) -> Result<RunId, Problem> {
    text.parse().map_err(|()| Problem::not_found("run", text))
}

/// Responds with the run that a command was about.
pub(super) async fn answered(app: &App, commanded: Commanded, is_new: bool) -> Answered {
    let Commanded { answer: Answer::Run(id), created, replayed, .. } = commanded else {
        return Err(Problem::unavailable("The store answers something else."));
    };
    let run = match created {
        Some(created) => as_created(app, *created).await?,
        None => shown(app, &id).await?,
    };
    let response = if is_new { new_run(&id, &run)? } else { answer::ok(&run)? };
    Ok(answer::replayed(response, replayed))
}

/// A run as the command that created it has left it. Only its position must be read, if it may have
/// to wait for other runs of its workflow.
async fn as_created(app: &App, created: CreatedRun) -> Result<RunWithSteps, Problem> {
    let position = match created.is_limited {
        true => app.store().position(Box::new(created.run.clone())).await?,
        false => None,
    };
    let RunDetail { view, definition, steps, earlier, .. } = app.views().created(created);
    let steps = steps::shown(&view.run, &definition, steps, earlier);
    let (alerts, mutation) = (Vec::new(), None);
    Ok(RunWithSteps::new(WholeRun { view, definition, steps, alerts, mutation, position }))
}

/// Responds with a new run: status 201, or 202 if it waits because of a limit.
fn new_run(id: &str, run: &RunWithSteps) -> Result<Response, Problem> {
    let mut response = answer::created(&format!("/api/v1/runs/{id}"), run)?;
    if run.position.is_some() {
        *response.status_mut() = StatusCode::ACCEPTED;
    }
    Ok(response)
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Cancellation {
    /// The reason, shown with the run.
    #[schema(max_length = 1000)]
    reason: Option<String>,
}

/// Cancels a run. Running attempts are asked to end, and killed if they do not.
#[utoipa::path(post, path = "/runs/{id}/cancel", tag = "runs", request_body = Option<Cancellation>,
    params(("id" = String, Path, description = "The run")),
    responses((status = 200, body = RunWithSteps),
        (status = 400, body = Problem, description = "It has ended"),
        (status = 404, body = Problem)))]
async fn cancel(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId,
    Query(()): Query<()>,
    body: JsonBody,
) -> Answered {
    let given: Cancellation = body.read_or_default()?;
    let reason = match given.reason.as_deref().map(str::trim) {
        None | Some("") => format!("cancelled by {}", caller.name),
        Some(reason) if reason.len() > LONGEST_REASON => {
            let wrong = Wrong::new("reason", "limit", "is too long");
            return Err(Problem::invalid([wrong.allow(format!("{LONGEST_REASON} bytes"))]));
        }
        Some(reason) => {
            format!("cancelled by {}: {}", caller.name, app.secrets().mask(reason))
        }
    };
    let command = Command::CancelRun { id: run_id(&id)?, reason };
    let commanded = app.command(&caller, command, body.idempotency).await?;
    answered(&app, commanded, false).await
}

#[derive(Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum From {
    /// From the first step.
    Start,
    /// From the step that failed; completed steps are not repeated.
    #[default]
    Failed,
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Retrial {
    /// Where to begin.
    #[serde(default)]
    from: From,
}

/// Retries a run that has ended, as a new run.
#[utoipa::path(post, path = "/runs/{id}/retry", tag = "runs", request_body = Option<Retrial>,
    params(("id" = String, Path, description = "The run"),
        ("traceparent" = Option<String>, Header, description = "The new run is in this trace")),
    responses((status = 201, body = RunWithSteps),
        (status = 202, body = RunWithSteps, description = "Over the workflow's limit: it waits at `position`"),
        (status = 400, body = Problem, description = "It has not ended"),
        (status = 404, body = Problem)))]
async fn retry(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId,
    Query(()): Query<()>,
    body: JsonBody,
) -> Answered {
    let Retrial { from } = body.read_or_default()?;
    let (new, by, trace) = (app.new_run_id(), caller.name.to_string(), body.trace);
    let run =
        NewRun { id: new, payload: None, by: Starter::Caller(by), trace, if_busy: IfBusy::Wait };
    let from_start = matches!(from, From::Start);
    let command = Command::RetryRun { id: run_id(&id)?, from_start, run };
    let commanded = app.command(&caller, command, body.idempotency).await?;
    answered(&app, commanded, true).await
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Resolved {
    /// `applied`: it did its work, go on. `did_not_happen`: try it again. `failed`: give up.
    /// `skip`: go on without it.
    #[schema(value_type = shapes::AttemptResolution)]
    resolution: Resolution,
    /// Which step is meant, if several are unresolved.
    step: Option<String>,
    /// Who decides this; the caller, if left out. The name of the caller's token is added.
    #[schema(min_length = 1, max_length = 256)]
    by: Option<String>,
    /// How they know; stored with their name.
    #[schema(max_length = 1000)]
    note: Option<String>,
}

/// The name of whoever decides, followed by their note.
fn noted(app: &App, by: String, note: Option<&str>) -> Result<String, Problem> {
    match note.map(str::trim) {
        None | Some("") => Ok(by),
        Some(note) if note.len() > LONGEST_REASON => {
            let wrong = Wrong::new("note", "limit", "is too long");
            Err(Problem::invalid([wrong.allow(format!("{LONGEST_REASON} bytes"))]))
        }
        Some(note) => Ok(format!("{by}: {}", app.secrets().mask(note))),
    }
}

/// Resolves an attempt whose outcome is unknown.
#[utoipa::path(post, path = "/runs/{id}/resolve", tag = "runs", request_body = Resolved,
    params(("id" = String, Path, description = "The run")),
    responses((status = 200, body = RunWithSteps),
        (status = 400, body = Problem, description = "It is not suspended"),
        (status = 404, body = Problem), (status = 422, body = Problem)))]
async fn resolve(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId,
    Query(()): Query<()>,
    body: JsonBody,
) -> Answered {
    let Resolved { resolution, step, by, note } = body.read()?;
    let by = caller.said_by(by.as_deref())?;
    let by = noted(&app, by, note.as_deref())?;
    let run = run_id(&id)?;
    let command = match step {
        Some(step) => Command::ResolveStep { id: run, step, resolution, by },
        None => Command::ResolveRun { id: run, resolution, by },
    };
    let commanded = app.command(&caller, command, body.idempotency).await?;
    answered(&app, commanded, false).await
}
