//! The ledger of a schedule, overrides of single occurrences, and explanations.

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::response::Response;
use calendar::{Dst, Mistake, Zone, parse_instant};
use engine::ScheduleId;
use engine::explain::{self, ScheduleFacts};
use engine::ledger::Outcome;
use engine::schedule::OverrideAction;
use engine::turn::{Command, Wakeup};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use store::{LedgerQuery, LedgerRow, ScheduleView};
use utoipa::ToSchema;

use super::coming::instant_in;
use super::control::check_payload;
use super::list::view;
use super::object;
use crate::http::access::Caller;
use crate::http::answer::{self, Answered, Listed};
use crate::http::body::JsonBody;
use crate::http::path::{SchedulePath, part};
use crate::http::problem::{Problem, Wrong};
use crate::http::query::{Paging, Parameters, Query, Values};
use crate::http::runs::explain::set_aside;
use crate::http::workflows::workflow_if_readable;
use crate::http::{App, shapes, shown};

/// How many ledger rows an explanation reads.
const LOOKED_AT: usize = 5;

/// What happened to an occurrence, or to several in a row with the same outcome.
#[derive(Serialize, ToSchema)]
pub(super) struct OccurrenceObject {
    schedule_id: String,
    n: u64,
    /// How many occurrences this row stands for.
    count: u64,
    #[schema(format = DateTime)]
    nominal_at: String,
    /// The last nominal time, if the row stands for several occurrences.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    last_nominal_at: Option<String>,
    #[schema(format = DateTime)]
    effective_at: String,
    #[schema(format = DateTime)]
    decided_at: String,
    #[schema(value_type = shapes::OccurrenceOutcome)]
    outcome: &'static str,
    reason: String,
    run_id: Option<String>,
    #[schema(value_type = Option<shapes::RunStatus>)]
    run_status: Option<&'static str>,
}

impl OccurrenceObject {
    fn new(LedgerRow { entry, run }: LedgerRow, zone: &Zone) -> OccurrenceObject {
        let shown = |at: Timestamp| shown::time(zone, at);
        let (run_id, run_status) = run.map(|(id, status)| (id.to_string(), status.name())).unzip();
        OccurrenceObject {
            schedule_id: entry.schedule.to_string(),
            n: entry.n,
            count: entry.count,
            nominal_at: shown(entry.nominal),
            last_nominal_at: (entry.count > 1).then(|| shown(entry.last_nominal)),
            effective_at: shown(entry.effective),
            decided_at: shown(entry.decided_at),
            outcome: entry.outcome.name(),
            reason: entry.reason.into_owned(),
            run_id,
            run_status,
        }
    }
}

/// The query parameters of the list of a schedule's occurrences.
pub(crate) struct OccurrenceListParams {
    pub(crate) outcome: Option<Outcome>,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    paging: Paging,
}

impl Parameters for OccurrenceListParams {
    fn read(values: &mut Values) -> OccurrenceListParams {
        OccurrenceListParams {
            outcome: values.one_of("outcome", &Outcome::ALL, Outcome::name),
            from: values.instant("from"),
            to: values.instant("to"),
            paging: values.paging(),
        }
    }
}

impl OccurrenceListParams {
    pub(crate) fn query(&self, schedule: ScheduleId) -> LedgerQuery {
        let Paging { limit, after } = self.paging.clone();
        let OccurrenceListParams { outcome, from, to, .. } = *self;
        LedgerQuery { schedule, outcome, from, to, limit, after }
    }
}

/// Lists what happened to a schedule's occurrences, latest first.
#[utoipa::path(get, path = "/schedules/{id}/occurrences", tag = "schedules",
    params(("id" = String, Path, description = "The schedule"),
        ("outcome" = Option<shapes::OccurrenceOutcome>, Query, description = "Only those with this outcome"),
        ("from" = Option<String>, Query, description = "Due from here on"),
        ("to" = Option<String>, Query, description = "And up to here"),
        ("limit" = Option<u32>, Query, description = "1 to 1000; 50"),
        ("cursor" = Option<String>, Query, description = "next_cursor of the page before")),
    responses((status = 200, body = Listed<OccurrenceObject>), (status = 400, body = Problem),
        (status = 401, body = Problem), (status = 404, body = Problem)))]
pub(super) async fn list(
    State(app): State<App>,
    SchedulePath(id): SchedulePath,
    Query(params): Query<OccurrenceListParams>,
) -> Answered {
    let schedule = view(&app, id).await?.schedule;
    let page = app.store().ledger(params.query(id)).await?;
    let zone = object::zone(&schedule, &app.rules());
    let items = page.items.into_iter().map(|row| OccurrenceObject::new(row, &zone)).collect();
    answer::ok(&Listed::new(items, page.total, page.next.as_ref()))
}

pub(super) struct Moment {
    at: Option<Timestamp>,
}

impl Parameters for Moment {
    fn read(values: &mut Values) -> Moment {
        Moment { at: values.instant("at") }
    }
}

/// Why a schedule ran, waited or did not run.
#[derive(Serialize, ToSchema)]
pub(super) struct Explanation {
    schedule_id: String,
    #[schema(format = DateTime)]
    at: Option<String>,
    sentences: Vec<String>,
}

/// Explains in sentences why the schedule ran, waited or did not run.
#[utoipa::path(get, path = "/schedules/{id}/explain", tag = "schedules",
    params(("id" = String, Path, description = "The schedule"),
        ("at" = Option<String>, Query, description = "About this time; else about the latest")),
    responses((status = 200, body = Explanation), (status = 400, body = Problem),
        (status = 401, body = Problem), (status = 404, body = Problem)))]
pub(super) async fn explain(
    State(app): State<App>,
    SchedulePath(id): SchedulePath,
    Query(Moment { at }): Query<Moment>,
) -> Answered {
    let found = view(&app, id).await?;
    let sentences = sentences(&app, &found, at).await?;
    let zone = object::zone(&found.schedule, &app.rules());
    let at = at.map(|at| shown::time(&zone, at));
    answer::ok(&Explanation { schedule_id: id.to_string(), at, sentences })
}

/// Sentences about the occurrence at one time, or about the schedule's current state.
pub(crate) async fn sentences(
    app: &App,
    found: &ScheduleView,
    at: Option<Timestamp>,
) -> Result<Vec<String>, Problem> {
    let query = LedgerQuery {
        schedule: found.schedule.id,
        outcome: None,
        from: at,
        to: at,
        limit: LOOKED_AT,
        after: None,
    };
    let page = app.store().ledger(query).await?;
    let workflow = found.schedule.workflow.to_string();
    let workflow = workflow_if_readable(app, &workflow, None).await?;
    let (rules, now) = (app.rules(), app.now());
    let plan = object::plan(&found.schedule, &rules);
    let rows: Vec<explain::Row> = page
        .items
        .into_iter()
        .map(|LedgerRow { entry, run }| explain::Row { entry, run })
        .collect();
    let facts = ScheduleFacts {
        schedule: &found.schedule,
        workflow: &found.workflow_name,
        workflow_is_paused: workflow.is_some_and(|view| view.workflow.paused),
        plan: plan.as_ref(),
        overrides: &found.overrides,
        rows: &rows,
        now,
    };
    let mut sentences = match at {
        Some(at) => explain::at(&facts, at),
        None => explain::now(&facts),
    };
    let aside = set_aside(app, Wakeup::Schedule(found.schedule.id)).await?;
    // The first sentence says which schedule it is.
    sentences.splice(1..1, aside);
    Ok(sentences)
}

/// The part of the path that names an occurrence by its nominal time.
pub(super) struct Nominal(String);

impl<S: Send + Sync> FromRequestParts<S> for Nominal {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Nominal, Problem> {
        let text = part(parts, state, "nominal").await?;
        Ok(Nominal(text))
    }
}

impl Nominal {
    /// The instant; without an offset, in the schedule's zone.
    fn instant(&self, zone: &Zone) -> Result<Timestamp, Problem> {
        let read = |text: &str| parse_instant(text, zone, Dst::FIXED);
        // In a path a `+` may have been decoded as a space.
        read(&self.0)
            .or_else(|problem| read(&self.0.replace(' ', "+")).map_err(|_| problem))
            .map_err(|problem| Problem::bad_query(vec![Mistake::new("nominal", problem).into()]))
    }
}

/// What is to happen to one occurrence: exactly one of these fields.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OverrideInput {
    /// It does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    skip: Option<bool>,
    /// It runs at this time; without an offset, in the schedule's zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    move_to: Option<String>,
    /// It runs with this payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    payload: Option<Box<RawValue>>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct OverrideObject {
    schedule_id: String,
    #[schema(format = DateTime)]
    nominal_at: String,
    #[serde(flatten)]
    action: OverrideInput,
    by: String,
}

impl OverrideInput {
    fn action(&self, zone: &Zone) -> Result<OverrideAction, Problem> {
        check_payload(self.payload.as_deref())?;
        match (self.skip, &self.move_to, &self.payload) {
            (Some(true), None, None) => Ok(OverrideAction::Skip),
            (None, Some(text), None) => instant_in(zone, "move_to", text).map(OverrideAction::Move),
            (None, None, Some(payload)) => Ok(OverrideAction::Payload(payload.clone())),
            _ => {
                let wrong = Wrong::new("", "one-of", "one thing is to become of it");
                let allowed = r#"{"skip": true}, {"move_to": "TIME"} or {"payload": …}"#;
                Err(Problem::invalid([wrong.allow(allowed)]))
            }
        }
    }
}

/// Overrides one occurrence: skips it, moves it, or changes its payload.
#[utoipa::path(put, path = "/schedules/{id}/occurrences/{nominal}", tag = "schedules",
    params(("id" = String, Path, description = "The schedule"),
        ("nominal" = String, Path, description = "The time that the rule says")),
    request_body = OverrideInput,
    responses((status = 200, body = OverrideObject), (status = 400, body = Problem),
        (status = 401, body = Problem), (status = 404, body = Problem),
        (status = 409, body = Problem, description = "No such occurrence to come"),
        (status = 422, body = Problem)))]
pub(super) async fn override_one(
    State(app): State<App>,
    caller: Caller,
    SchedulePath(id): SchedulePath,
    nominal: Nominal,
    Query(()): Query<()>,
    body: JsonBody,
) -> Answered {
    let mut input: OverrideInput = body.read()?;
    let zone = object::zone(&view(&app, id).await?.schedule, &app.rules());
    let nominal = nominal.instant(&zone)?;
    let action = Some(input.action(&zone)?);
    let by = caller.name.to_string();
    app.command(&caller, Command::Override { id, nominal, action, by }, None).await?;
    input.payload = input.payload.map(|payload| app.secrets().mask_raw(payload));
    answer::ok(&OverrideObject {
        schedule_id: id.to_string(),
        nominal_at: shown::time(&zone, nominal),
        action: input,
        by: caller.name.to_string(),
    })
}

/// Removes the override of an occurrence.
#[utoipa::path(delete, path = "/schedules/{id}/occurrences/{nominal}", tag = "schedules",
    params(("id" = String, Path, description = "The schedule"),
        ("nominal" = String, Path, description = "The time that the rule says")),
    responses((status = 204), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 404, body = Problem)))]
pub(super) async fn restore_one(
    State(app): State<App>,
    caller: Caller,
    SchedulePath(id): SchedulePath,
    nominal: Nominal,
    Query(()): Query<()>,
) -> Result<Response, Problem> {
    let found = view(&app, id).await?;
    let nominal = nominal.instant(&object::zone(&found.schedule, &app.rules()))?;
    let mut known = found.overrides.iter().map(|over| over.nominal);
    if !known.any(|known| known == nominal) && !found.unreadable_overrides.contains(&nominal) {
        return Err(Problem::not_found("override of occurrence", &nominal.to_string()));
    }
    let by = caller.name.to_string();
    app.command(&caller, Command::Override { id, nominal, action: None, by }, None).await?;
    Ok(answer::no_content())
}
