//! Previews: upcoming occurrences of rules and schedules.

use std::collections::BTreeMap;

use axum::extract::State;
use calendar::{Dst, Mistake, Timing, Zone, parse_instant};
use engine::schedule::{Ahead, Outlook, Schedule};
use engine::{ScheduleId, WorkflowId};
use jiff::Timestamp;
use language::schedule::{Declared, Plan, read_written};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::list::view;
use super::object::{self, Remark, remarks};
use crate::http::answer::{self, Answered};
use crate::http::body::{JsonBody, read_json};
use crate::http::path::SchedulePath;
use crate::http::problem::{Problem, Wrong};
use crate::http::query::{Parameters, Query, Values};
use crate::http::{App, shapes, shown};

/// How many occurrences are shown by default.
const DEFAULT_COUNT: usize = 10;
/// How many occurrences are shown at most.
pub(in crate::http) const LARGEST_COUNT: usize = 1_000;

/// The preview of a rule or a schedule.
#[derive(Serialize, ToSchema)]
pub(super) struct Preview {
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<shapes::ScheduleStatus>)]
    status: Option<&'static str>,
    words: String,
    zone: String,
    warnings: Vec<Remark>,
    items: Vec<Coming>,
}

/// One upcoming occurrence.
#[derive(Serialize, ToSchema)]
pub(crate) struct Coming {
    /// The time that the rule says.
    #[schema(format = DateTime)]
    nominal_at: String,
    /// When it happens; null if it does not.
    #[schema(format = DateTime)]
    effective_at: Option<String>,
    #[schema(value_type = shapes::ComingFate)]
    fate: &'static str,
    /// Why it was moved or skipped.
    reason: Option<String>,
}

pub(super) struct Counted {
    count: usize,
}

impl Parameters for Counted {
    fn read(values: &mut Values) -> Counted {
        let count = values.number("count", 1..=LARGEST_COUNT as u64);
        Counted { count: count.map_or(DEFAULT_COUNT, |count| count as usize) }
    }
}

/// Lists the upcoming occurrences of a schedule, with what will happen to each.
#[utoipa::path(get, path = "/schedules/{id}/next", tag = "schedules",
    params(("id" = String, Path, description = "The schedule"),
        ("count" = Option<u32>, Query, description = "1 to 1000; 10")),
    responses((status = 200, body = Preview), (status = 400, body = Problem),
        (status = 401, body = Problem), (status = 404, body = Problem)))]
pub(super) async fn next(
    State(app): State<App>,
    SchedulePath(id): SchedulePath,
    Query(Counted { count }): Query<Counted>,
) -> Answered {
    let found = view(&app, id).await?;
    let (rules, now) = (app.rules(), app.now());
    let Some(plan) = object::plan(&found.schedule, &rules) else {
        let why = found.schedule.progress.last_error.as_deref().unwrap_or_default();
        return Err(Problem::conflict(format!("The rule cannot be read any more: {why}")));
    };
    answer::ok(&Preview {
        schedule_id: Some(id.to_string()),
        status: Some(found.schedule.status.name()),
        ..Preview::new(&plan, &found.outlook(&plan, now).coming(count), now)
    })
}

impl Preview {
    fn new(plan: &Plan, rows: &[Ahead], now: Timestamp) -> Preview {
        Preview {
            schedule_id: None,
            status: None,
            words: plan.timing.words(),
            zone: plan.timing.zone().name().to_owned(),
            warnings: remarks(plan, now),
            items: shown_rows(rows, &plan.timing),
        }
    }
}

/// Upcoming occurrences in the zone of their rule.
pub(super) fn shown_rows(rows: &[Ahead], timing: &Timing) -> Vec<Coming> {
    let shown = |at: Timestamp| shown::time(timing.zone(), at);
    let row = |row: &Ahead| Coming {
        nominal_at: shown(row.nominal),
        effective_at: row.effective.map(shown),
        fate: row.fate.name(),
        reason: row.reason.clone(),
    };
    rows.iter().map(row).collect()
}

/// The upcoming occurrences of a schedule that would be created now with this plan.
pub(crate) fn if_created(
    declared: Box<Declared>,
    plan: &Plan,
    now: Timestamp,
    after: Timestamp,
    count: usize,
) -> Vec<Ahead> {
    let (id, workflow) = (ScheduleId(0), WorkflowId(0));
    let schedule = Schedule::new(id, workflow, None, declared, plan, now);
    let (workflow_is_paused, overrides) = (false, &[]);
    let outlook = Outlook { schedule: &schedule, plan, overrides, workflow_is_paused, now };
    if after > now { outlook.coming_after(after, count) } else { outlook.coming(count) }
}

/// Previews a rule, without creating anything.
#[utoipa::path(post, path = "/preview", tag = "schedules",
    request_body(content = shapes::PreviewInput,
        description = "The fields of a rule; count (1 to 1000; 10); after (a time; now)"),
    responses((status = 200, body = Preview), (status = 400, body = Problem),
        (status = 401, body = Problem), (status = 422, body = Problem)))]
pub(super) async fn preview(
    State(app): State<App>,
    Query(()): Query<()>,
    body: JsonBody,
) -> Answered {
    let mut fields: BTreeMap<String, Box<RawValue>> = body.read()?;
    let count = take::<u64>(&mut fields, "count")?.unwrap_or(DEFAULT_COUNT as u64);
    if !(1..=LARGEST_COUNT as u64).contains(&count) {
        let wrong = Wrong::new("count", "range", "is out of range");
        return Err(Problem::bad_query(vec![wrong.allow(format!("1 to {LARGEST_COUNT}"))]));
    }
    let now = app.now();
    let after = match take::<String>(&mut fields, "after")? {
        Some(text) => instant("after", &text)?,
        None => now,
    };
    let rest = serde_json::to_string(&fields).unwrap_or_default();
    let declared = read_written(&rest)?.declared;
    let plan = declared.plan(&app.rules(), now, &declared.name)?;
    let rows = if_created(declared, &plan, now, after, count as usize);
    answer::ok(&Preview::new(&plan, &rows, after))
}

fn take<T: for<'a> Deserialize<'a>>(
    fields: &mut BTreeMap<String, Box<RawValue>>,
    name: &str,
) -> Result<Option<T>, Problem> {
    let Some(value) = fields.remove(name) else { return Ok(None) };
    read_json(value.get())
        .map_err(|_| Problem::bad_query(vec![Wrong::new(name, "type", "cannot be read")]))
}

/// Reads a time in a request body.
fn instant(path: &str, text: &str) -> Result<Timestamp, Problem> {
    text.parse().map_err(|_| {
        let wrong = Wrong::new(path, "time", "not a time with an offset");
        Problem::invalid([wrong.allow("RFC 3339, such as 2026-03-08T09:00:00+01:00")])
    })
}

/// Reads a time in a request body; without an offset, it is in the zone given.
pub(crate) fn instant_in(zone: &Zone, path: &str, text: &str) -> Result<Timestamp, Problem> {
    parse_instant(text, zone, Dst::FIXED)
        .map_err(|problem| Problem::invalid([Mistake::new(path, problem)]))
}
