//! Upcoming occurrences as an iCalendar file.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse as _;
use calendar::{IcsEvent, IcsTime, write_ics};
use engine::ScheduleId;
use engine::schedule::{Ahead, Status};
use jiff::Timestamp;
use language::Rules;
use store::{ScheduleQuery, ScheduleView};

use super::list::view;
use super::object;
use crate::http::App;
use crate::http::answer::Answered;
use crate::http::problem::Problem;
use crate::http::query::{Parameters, Query, Values};

/// How many schedules the file may contain.
const SCHEDULES: usize = 1_000;
/// How many occurrences of each schedule: a calendar is not meant for every minute of a year.
const OCCURRENCES: usize = 10;

pub(super) struct FeedParams {
    workflow: Option<String>,
    schedule: Option<ScheduleId>,
}

impl Parameters for FeedParams {
    fn read(values: &mut Values) -> FeedParams {
        let workflow = values.text("workflow_id");
        let id = values.text("schedule_id").as_deref().map(str::parse);
        if let Some(Err(())) = id {
            values.refuse("schedule_id", "value", "is not the id of a schedule", None);
        }
        FeedParams { workflow, schedule: id.and_then(Result::ok) }
    }
}

/// Gets the upcoming occurrences of up to 1,000 schedules, as iCalendar.
#[utoipa::path(get, path = "/schedules.ics", tag = "schedules",
    params(("workflow_id" = Option<String>, Query, description = "Id or name of a workflow"),
        ("schedule_id" = Option<String>, Query, description = "Of this schedule alone")),
    responses((status = 200, content_type = "text/calendar", body = String),
        (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 404, body = Problem)))]
pub(super) async fn feed(State(app): State<App>, Query(params): Query<FeedParams>) -> Answered {
    let (name, views) = match (&params.workflow, params.schedule) {
        (_, Some(id)) => {
            let view = view(&app, id).await?;
            (view.schedule.declared.name.clone(), vec![view])
        }
        (None, None) => ("Punctual".to_owned(), app.store().coming(SCHEDULES).await?),
        (Some(named), None) => {
            let found = app.store().workflow(named, None).await?;
            let workflow = found.ok_or_else(|| Problem::not_found("workflow", named))?.workflow;
            let query = ScheduleQuery {
                status: Some(Status::Active),
                workflow: Some(workflow.id),
                limit: SCHEDULES,
                ..ScheduleQuery::default()
            };
            (workflow.name, app.store().schedules(query).await?.items)
        }
    };
    let now = app.now();
    let mut events = Vec::new();
    for view in &views {
        events.extend(of_schedule(view, &app.rules(), now));
    }
    events.sort_by_key(|(at, _)| *at);
    let events: Vec<IcsEvent> = events.into_iter().map(|(_, event)| event).collect();
    let text = write_ics(&name, &events, now);
    Ok(([(CONTENT_TYPE, "text/calendar; charset=utf-8")], text).into_response())
}

fn of_schedule(view: &ScheduleView, rules: &Rules, now: Timestamp) -> Vec<(Timestamp, IcsEvent)> {
    let schedule = &view.schedule;
    let Some(plan) = object::plan(schedule, rules) else { return Vec::new() };
    let rows = view.outlook(&plan, now).coming(OCCURRENCES);
    let event = |row: &Ahead| {
        let uid = format!("{}-{}@punctual", schedule.id, row.nominal.as_millisecond());
        let (at, summary) = (row.effective?, schedule.declared.name.clone());
        Some((at, IcsEvent { time: IcsTime::At(at), summary, uid }))
    };
    rows.iter().filter_map(event).collect()
}
