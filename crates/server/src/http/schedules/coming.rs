//! Previews: upcoming occurrences of rules and schedules.

use std::collections::BTreeMap;

use axum::extract::State;
use calendar::{Dst, Fate, Mistake, Timing, Zone, parse_instant};
use engine::schedule::{Override, OverrideAction, Status};
use jiff::{SignedDuration, Timestamp};
use language::schedule::read_written;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use store::ScheduleView;
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
    const KNOWN: &'static [&'static str] = &["count"];

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
    let schedule = &found.schedule;
    let overrides = match schedule.progress.has_overrides {
        true => app.store().overrides(id).await?,
        false => Vec::new(),
    };
    let (rules, now) = (app.rules(), app.now());
    let Some(plan) = object::plan(schedule, &rules) else {
        let why = schedule.progress.last_error.as_deref().unwrap_or_default();
        return Err(Problem::conflict(format!("The rule cannot be read any more: {why}")));
    };
    let items = coming(&found, &plan.timing, &overrides, now, count);
    answer::ok(&Preview {
        schedule_id: Some(id.to_string()),
        status: Some(schedule.status.name()),
        words: plan.timing.words(),
        zone: plan.timing.zone().name().to_owned(),
        warnings: remarks(&plan, now),
        items,
    })
}

/// The upcoming occurrences of a schedule, as they are shown.
pub(super) fn coming(
    view: &ScheduleView,
    timing: &Timing,
    overrides: &[Override],
    now: Timestamp,
    count: usize,
) -> Vec<Coming> {
    let rows = coming_rows(view, timing, overrides, now, count);
    rows.into_iter().map(|row| row.shown(timing)).collect()
}

/// The upcoming occurrences of a schedule; none if it is done or dead. While the schedule or its
/// workflow is paused, these are the times of the rule.
pub(crate) fn coming_rows(
    view: &ScheduleView,
    timing: &Timing,
    overrides: &[Override],
    now: Timestamp,
    count: usize,
) -> Vec<Row> {
    let schedule = &view.schedule;
    if matches!(schedule.status, Status::Done | Status::Dead) {
        return Vec::new();
    }
    let left = schedule.remaining().map_or(count, |left| usize::try_from(left).unwrap_or(count));
    let mut rows = rows(timing, now, count.min(left));
    if view.workflow_is_paused {
        for row in rows.iter_mut().filter(|row| row.effective.is_some()) {
            (row.effective, row.fate) = (None, "skipped");
            row.reason = Some("the workflow is paused".to_owned());
        }
    }
    for row in &mut rows {
        if let Some(over) = overrides.iter().find(|over| over.nominal == row.nominal) {
            row.override_by(over);
        }
    }
    // Occurrences that were moved from the past to the future are not among the rule's upcoming
    // times.
    let first = rows.first().map_or(Timestamp::MAX, |row| row.nominal);
    for over in overrides.iter().filter(|over| over.nominal < first) {
        if let OverrideAction::Move(to) = over.action
            && to > now
        {
            rows.push(Row::moved(over, to));
        }
    }
    rows.sort_by_key(|row| row.effective.unwrap_or(row.nominal));
    rows.truncate(rows.len().min(count.max(1) * 5));
    rows
}

/// An upcoming occurrence before it is shown.
pub(crate) struct Row {
    /// The time that the rule says.
    pub(crate) nominal: Timestamp,
    /// When it happens; `None` if it does not.
    pub(crate) effective: Option<Timestamp>,
    /// `kept`, `moved` or `skipped`.
    pub(crate) fate: &'static str,
    /// Why it was moved or skipped.
    pub(crate) reason: Option<String>,
}

impl Row {
    fn moved(over: &Override, to: Timestamp) -> Row {
        let reason = Some(format!("moved by {}", over.by));
        Row { nominal: over.nominal, effective: Some(to), fate: "moved", reason }
    }

    fn override_by(&mut self, over: &Override) {
        match &over.action {
            OverrideAction::Skip => {
                self.effective = None;
                self.fate = "skipped";
                self.reason = Some(format!("skipped by {}", over.by));
            }
            OverrideAction::Move(to) => *self = Row::moved(over, *to),
            OverrideAction::Payload(_) => {
                self.reason = Some(format!("with a payload given by {}", over.by));
            }
        }
    }

    fn shown(self, timing: &Timing) -> Coming {
        let shown = |at: Timestamp| shown::time(timing.zone(), at);
        Coming {
            nominal_at: shown(self.nominal),
            effective_at: self.effective.map(shown),
            fate: self.fate,
            reason: self.reason,
        }
    }
}

/// The rule's occurrences after `now`, and those between them that are skipped.
pub(crate) fn rows(timing: &Timing, now: Timestamp, count: usize) -> Vec<Row> {
    // An occurrence that was rolled forward past `now` is still to come.
    let first = timing.next_after(now).map_or(now, |due| due.nominal);
    let millisecond = SignedDuration::from_millis(1);
    let from = first.checked_sub(millisecond).map_or(now, |before| before.min(now));
    let spread = |at: Timestamp| at.checked_add(timing.moved_by()).unwrap_or(at);
    let mut happening = 0;
    let rows = timing.preview(from, count.saturating_add(1)).into_iter().map(|row| {
        let (effective, fate, reason) = match row.fate {
            Fate::Kept => (Some(spread(row.nominal)), "kept", None),
            Fate::Moved { to, reason } => (Some(spread(to)), "moved", Some(reason.to_string())),
            Fate::Skipped { reason } => (None, "skipped", Some(reason.to_string())),
        };
        Row { nominal: row.nominal, effective, fate, reason }
    });
    rows.filter(|row| row.effective.is_none_or(|at| at > now))
        .take_while(|row| {
            happening += usize::from(row.effective.is_some());
            happening <= count
        })
        .collect()
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
    let timing = &plan.timing;
    let items = rows(timing, after, count as usize);
    answer::ok(&Preview {
        schedule_id: None,
        status: None,
        words: timing.words(),
        zone: timing.zone().name().to_owned(),
        warnings: remarks(&plan, after),
        items: items.into_iter().map(|row| row.shown(timing)).collect(),
    })
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
