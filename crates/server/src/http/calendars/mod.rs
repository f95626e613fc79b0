//! Routes that declare, show and delete calendars.

mod days;
mod reading;

use axum::extract::State;
use axum::http::StatusCode;
use calendar::Calendar;
use calendar::holidays::Region;
use engine::Moment;
use serde::Serialize;
use serde_json::value::RawValue;
use store::Total;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) use self::days::YEARS;
use super::App;
use super::access::Caller;
use super::answer::{self, Answered, Listed};
use super::body::RawBody;
use super::path::PathId;
use super::problem::Problem;
use super::query::Query;
use super::schedules::object::Remark;
use super::shapes;
use crate::maintenance::NextTimes;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get, put, delete))
        .merge(days::routes())
}

/// A calendar.
#[derive(Debug, Serialize, ToSchema)]
struct CalendarObject {
    id: String,
    /// The zone of its dates and hours.
    timezone: String,
    /// How many hours `1 working day` means.
    hours_per_day: f64,
    /// Its declaration; null for a region.
    #[schema(value_type = Option<shapes::CalendarInput>)]
    spec: Option<Box<RawValue>>,
}

/// A calendar that was stored.
#[derive(Debug, Serialize, ToSchema)]
struct Put {
    #[serde(flatten)]
    calendar: CalendarObject,
    /// How many schedules were recomputed.
    recomputed: u64,
    /// Warnings about the calendar.
    warnings: Vec<Remark>,
}

impl CalendarObject {
    fn new(id: &str, calendar: &Calendar, spec: Option<&str>) -> CalendarObject {
        let spec = spec.and_then(|text| RawValue::from_string(text.to_owned()).ok());
        let hours_per_day = calendar.seconds_per_day() as f64 / 3_600.0;
        let timezone = calendar.zone().name().to_owned();
        CalendarObject { id: id.to_owned(), timezone, hours_per_day, spec }
    }
}

/// The calendar with this id, or the one of the region.
pub(crate) fn find(app: &App, id: &str) -> Result<Calendar, Problem> {
    let rules = app.rules();
    if let Some(calendar) = rules.calendar(id) {
        return Ok(calendar.clone());
    }
    let region = Region::parse(id).map_err(|_| Problem::not_found("calendar", id))?;
    Ok(Calendar::for_region(&region, calendar::Zone::utc()))
}

/// Lists declared calendars, by id. Regions such as `DE-BY` need no declaration.
#[utoipa::path(get, path = "/calendars", tag = "calendars",
    responses((status = 200, body = Listed<CalendarObject>)))]
async fn list(State(app): State<App>, Query(()): Query<()>) -> Answered {
    let views = app.store().calendars().await?;
    let rules = app.rules();
    let items: Vec<CalendarObject> = views
        .iter()
        .filter_map(|view| {
            let calendar = rules.calendar(&view.id)?;
            Some(CalendarObject::new(&view.id, calendar, Some(&view.spec)))
        })
        .collect();
    let total = Total::Exact(items.len() as u64);
    answer::ok(&Listed::new(items, total, None))
}

/// Gets a calendar, or that of a region.
#[utoipa::path(get, path = "/calendars/{id}", tag = "calendars",
    params(("id" = String, Path, description = "Id, or a region such as DE-BY")),
    responses((status = 200, body = CalendarObject), (status = 404, body = Problem)))]
async fn get(State(app): State<App>, PathId(id): PathId, Query(()): Query<()>) -> Answered {
    let calendar = find(&app, &id)?;
    let views = app.store().calendars().await?;
    let spec = views.iter().find(|view| view.id == id).map(|view| view.spec.as_str());
    answer::ok(&CalendarObject::new(&id, &calendar, spec))
}

/// Declares a calendar, or replaces it. Schedules that use it are recomputed.
#[utoipa::path(put, path = "/calendars/{id}", tag = "calendars",
    request_body(content((shapes::CalendarInput = "application/yaml"), (shapes::CalendarInput = "application/json"))),
    params(("id" = String, Path, description = "Id")),
    responses((status = 200, body = Put), (status = 201, body = Put),
        (status = 409, body = Problem), (status = 413, body = Problem),
        (status = 415, body = Problem), (status = 422, body = Problem)))]
async fn put(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId,
    Query(()): Query<()>,
    body: RawBody,
) -> Answered {
    let spec = reading::spec(&id, &body)?;
    app.rules().build_calendar(&spec)?;
    let text =
        serde_json::to_string(&spec).map_err(|error| Problem::unavailable(error.to_string()))?;
    let is_new = app.rules().calendar(&id).is_none();
    let audit = app.audit(&caller, None);
    let (hub, name, spec) = (app.hub().clone(), id.clone(), text.clone());
    let putting = async move { NextTimes::default().put_calendar(&hub, &name, &spec, audit).await };
    let recomputed = app.hub().uninterrupted(putting).await?;
    let built = find(&app, &id)?;
    let warnings = built.never_works(app.now()).into_iter().map(Remark::from).collect();
    let calendar = CalendarObject::new(&id, &built, Some(&text));
    let put = Put { calendar, recomputed, warnings };
    if is_new {
        answer::created(&format!("/api/v1/calendars/{id}"), &put)
    } else {
        answer::json(StatusCode::OK, &put)
    }
}

/// Deletes a calendar that nothing uses.
#[utoipa::path(delete, path = "/calendars/{id}", tag = "calendars",
    params(("id" = String, Path, description = "Id")),
    responses((status = 204), (status = 404, body = Problem),
        (status = 409, body = Problem, description = "It is used")))]
async fn delete(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId,
    Query(()): Query<()>,
) -> Answered {
    let moment = Moment::new(app.now(), app.now());
    let (store, name, audit) = (app.store().clone(), id.clone(), app.audit(&caller, None));
    let deleting = async move { store.delete_calendar(&name, moment, audit).await };
    if app.hub().uninterrupted(deleting).await? {
        Ok(answer::no_content())
    } else {
        Err(Problem::not_found("calendar", &id))
    }
}
