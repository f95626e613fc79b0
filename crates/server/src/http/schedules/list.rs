//! Lists schedules, and gets one of them.

use axum::extract::State;
use engine::ScheduleId;
use engine::schedule::Status;
use store::{Page, ScheduleQuery, ScheduleView, Total};

use super::object::ScheduleObject;
use crate::http::App;
use crate::http::answer::{self, Answered, Listed};
use crate::http::path::SchedulePath;
use crate::http::problem::Problem;
use crate::http::query::{LARGEST_LIMIT, Paging, Parameters, Query, Values};
use crate::http::shapes;

/// The query parameters of the list of schedules.
pub(crate) struct ScheduleListParams {
    pub(crate) status: Option<Status>,
    pub(crate) workflow: Option<String>,
    pub(crate) search: Option<String>,
    pub(crate) paging: Paging,
    offset: u64,
}

impl Parameters for ScheduleListParams {
    fn read(values: &mut Values) -> ScheduleListParams {
        ScheduleListParams {
            status: values.one_of("status", &Status::ALL, Status::name),
            workflow: values.text("workflow_id"),
            search: values.text("q"),
            paging: values.paging(),
            offset: values.number("offset", 0..=i64::MAX as u64).unwrap_or(0),
        }
    }
}

impl ScheduleListParams {
    /// Finds the schedules, at most `most`. A workflow that does not exist has none.
    pub(crate) async fn find(&self, app: &App, most: usize) -> Result<Page<ScheduleView>, Problem> {
        let mut workflow = None;
        if let Some(named) = &self.workflow {
            let Some(view) = app.store().workflow(named, None).await? else {
                return Ok(Page { items: Vec::new(), total: Total::Exact(0), next: None });
            };
            workflow = Some(view.workflow.id);
        }
        let query = ScheduleQuery {
            status: self.status,
            workflow,
            search: self.search.clone(),
            limit: self.paging.limit.min(most),
            after: self.paging.after.clone(),
            offset: self.offset,
        };
        Ok(app.store().schedules(query).await?)
    }
}

/// Lists schedules, in the order of their ids.
#[utoipa::path(get, path = "/schedules", tag = "schedules",
    params(
        ("status" = Option<shapes::ScheduleStatus>, Query, description = "Only those in this status"),
        ("workflow_id" = Option<String>, Query, description = "Id or name of a workflow"),
        ("q" = Option<String>, Query, description = "Beginnings of words in the name"),
        ("limit" = Option<u32>, Query, description = "1 to 1000; 50"),
        ("cursor" = Option<String>, Query, description = "next_cursor of the page before"),
        ("offset" = Option<u64>, Query, description = "So many are passed over")),
    responses((status = 200, body = Listed<ScheduleObject>), (status = 400, body = Problem),
        (status = 401, body = Problem)))]
pub(super) async fn list(
    State(app): State<App>,
    Query(params): Query<ScheduleListParams>,
) -> Answered {
    let page = params.find(&app, LARGEST_LIMIT).await?;
    let (rules, now) = (app.rules(), app.now());
    let items = page.items.into_iter().map(|view| ScheduleObject::new(view, &rules, now)).collect();
    answer::ok(&Listed::new(items, page.total, page.next.as_ref()))
}

/// Gets a schedule.
#[utoipa::path(get, path = "/schedules/{id}", tag = "schedules",
    params(("id" = String, Path, description = "The schedule")),
    responses((status = 200, body = ScheduleObject), (status = 404, body = Problem),
        (status = 401, body = Problem)))]
pub(super) async fn get(
    State(app): State<App>,
    SchedulePath(id): SchedulePath,
    Query(()): Query<()>,
) -> Answered {
    answer::ok(&object(&app, id).await?)
}

/// Reads a schedule, or responds that there is none.
pub(crate) async fn view(app: &App, id: ScheduleId) -> Result<ScheduleView, Problem> {
    let found = app.store().schedule(id).await?;
    found.ok_or_else(|| Problem::not_found("schedule", &id.to_string()))
}

/// A schedule as it is shown alone, with warnings.
pub(super) async fn object(app: &App, id: ScheduleId) -> Result<ScheduleObject, Problem> {
    Ok(ScheduleObject::alone(view(app, id).await?, app))
}
