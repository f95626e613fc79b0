//! Incidents: failures without a later success, and who was notified.

use axum::extract::State;
use engine::incidents::{How, Told, ToldOutcome};
use engine::{RunId, ScheduleId};
use jiff::Timestamp;
use serde::Serialize;
use store::{IncidentQuery, IncidentView};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::answer::{self, Answered, Listed};
use super::problem::Problem;
use super::query::{Paging, Parameters, Query, Values};
use super::undelivered::{self, Undelivered};
use super::workflows::find_id;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}

/// The query parameters of the list of incidents.
pub(crate) struct IncidentListParams {
    pub(crate) open: Option<bool>,
    workflow: Option<String>,
    schedule: Option<ScheduleId>,
    run: Option<RunId>,
    paging: Paging,
}

impl Parameters for IncidentListParams {
    fn read(values: &mut Values) -> IncidentListParams {
        IncidentListParams {
            open: values.choice_flag("open"),
            workflow: values.text("workflow"),
            schedule: values.parsed("schedule_id", "the id of a schedule"),
            run: values.parsed("run_id", "the id of a run"),
            paging: values.paging(),
        }
    }
}

impl IncidentListParams {
    pub(crate) async fn query(&self, app: &App) -> Result<IncidentQuery, Problem> {
        let Paging { limit, after } = self.paging.clone();
        let workflow = find_id(app, self.workflow.as_deref()).await?;
        let (open, schedule, run) = (self.open, self.schedule, self.run.clone());
        Ok(IncidentQuery { open, workflow, schedule, run, limit, after })
    }
}

/// An incident: from a failure to the next success.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct IncidentObject {
    id: String,
    workflow_id: String,
    /// The workflow's name.
    workflow: Option<String>,
    /// The schedule whose occurrence failed; null if no schedule started the run.
    schedule_id: Option<String>,
    /// The schedule's name.
    schedule: Option<String>,
    /// The run that failed. A schedule may die without one.
    run_id: Option<String>,
    /// The nominal time of the occurrence.
    #[schema(value_type = Option<String>)]
    nominal_at: Option<Timestamp>,
    /// Why the run failed, or the schedule died.
    error: String,
    /// When it failed for good.
    #[schema(value_type = String)]
    began_at: Timestamp,
    /// The results of the `on_failure` actions.
    told: Vec<ToldObject>,
    /// When the incident ended.
    #[schema(value_type = Option<String>)]
    ended_at: Option<Timestamp>,
    /// `recovered`, `died` (another incident followed: the schedule died) or `removed`.
    ending: Option<&'static str>,
    /// The run that succeeded.
    ended_by: Option<String>,
    /// The results of the `on_recovery` actions.
    recovery_told: Vec<ToldObject>,
}

/// The result of one action: a message, or a workflow that was to be started.
#[derive(Debug, Serialize, ToSchema)]
struct ToldObject {
    /// The channel or the workflow, without secrets.
    what: String,
    /// The run that sends the message, or that was started.
    run_id: Option<String>,
    /// Why nothing was sent or started, or why the message was not delivered.
    refused: Option<String>,
}

impl ToldObject {
    fn new(told: Told, undelivered: &Undelivered) -> ToldObject {
        let (run_id, refused) = match told.outcome {
            ToldOutcome::Run(id) => {
                let why = undelivered.get(&id).cloned();
                (Some(id), why)
            }
            ToldOutcome::Refused(why) => (None, Some(why)),
        };
        ToldObject { what: told.what, run_id, refused }
    }
}

impl IncidentObject {
    fn new(view: IncidentView, undelivered: &Undelivered) -> IncidentObject {
        let told = |told: Told| ToldObject::new(told, undelivered);
        let IncidentView { incident, workflow_name, schedule_name } = view;
        let end = incident.end;
        let ending = end.as_ref().map(|end| How::name(end.how));
        let ended_at = end.as_ref().map(|end| end.at);
        let (ended_by, recovery) = end.map(|end| (end.run, end.told)).unzip();
        IncidentObject {
            id: incident.key.to_string(),
            workflow_id: incident.workflow.to_string(),
            workflow: workflow_name,
            schedule_id: incident.schedule.map(|id| id.to_string()),
            schedule: schedule_name,
            run_id: incident.run,
            nominal_at: incident.nominal,
            error: incident.error,
            began_at: incident.began_at,
            told: incident.told.into_iter().map(told).collect(),
            ended_at,
            ending,
            ended_by: ended_by.flatten(),
            recovery_told: recovery.into_iter().flatten().map(told).collect(),
        }
    }
}

/// Lists incidents, latest first.
#[utoipa::path(get, path = "/incidents", tag = "incidents",
    params(("open" = Option<bool>, Query, description = "Only those that are not over; `false`: only those that are"),
        ("workflow" = Option<String>, Query, description = "Id or name of a workflow"),
        ("schedule_id" = Option<String>, Query),
        ("run_id" = Option<String>, Query, description = "That this run has begun"),
        ("limit" = Option<u64>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = Listed<IncidentObject>), (status = 400, body = Problem),
        (status = 404, body = Problem)))]
async fn list(State(app): State<App>, Query(params): Query<IncidentListParams>) -> Answered {
    let page = app.views().incidents(params.query(&app).await?).await?;
    let undelivered = undelivered::of_incidents(&app, &page.items).await?;
    let items = page.items.into_iter().map(|view| IncidentObject::new(view, &undelivered));
    let items: Vec<IncidentObject> = items.collect();
    answer::ok(&Listed::new(items, page.total, page.next.as_ref()))
}
