//! Backfill: runs past occurrences.

use std::collections::HashSet;

use axum::extract::State;
use calendar::{Zone, parse_duration};
use engine::ScheduleId;
use engine::ledger::Outcome;
use engine::schedule::Due;
use engine::turn::{Answer, Command, Refused};
use jiff::Timestamp;
use language::schedule::LARGEST_QUEUE;
use serde::{Deserialize, Serialize};
use store::{Commanded, LedgerQuery};
use utoipa::ToSchema;

use super::coming::instant_in;
use super::list::view;
use super::object::{self, ScheduleObject};
use crate::http::access::Caller;
use crate::http::answer::{self, Answered};
use crate::http::body::JsonBody;
use crate::http::path::SchedulePath;
use crate::http::problem::{Problem, Wrong};
use crate::http::query::Query;
use crate::http::{App, shown};

/// The occurrences to run.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Range {
    /// The first instant; without an offset, in the schedule's zone.
    from: String,
    /// The last instant, in the same form.
    to: String,
    /// How many occurrences may run, 1 to 1000; 100 if left out. A range with more is refused.
    #[schema(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
    /// The time between two starts, such as `10s`.
    pace: Option<String>,
    /// Whether occurrences that have run already, or wait to run, run once more.
    #[serde(default)]
    again: Option<bool>,
    /// Only shows what would run.
    #[serde(default)]
    dry_run: Option<bool>,
}

/// How many occurrences a backfill runs by default.
const DEFAULT_LIMIT: u32 = 100;
/// How many ledger rows are read at a time.
const READ: usize = 1_000;

#[derive(Serialize, ToSchema)]
pub(super) struct Backfilled {
    dry_run: bool,
    /// How many occurrences run.
    count: usize,
    /// How many do not, because they have run already or wait to run.
    passed_over: usize,
    items: Vec<PastTime>,
    /// The schedule afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<ScheduleObject>,
}

#[derive(Serialize, ToSchema)]
struct PastTime {
    #[schema(format = DateTime)]
    nominal_at: String,
    #[schema(format = DateTime)]
    effective_at: String,
}

/// The nominal times of those occurrences that have run already or wait to run. This is for a dry
/// run: what a backfill accepts is decided with it.
async fn ran_in(
    app: &App,
    schedule: ScheduleId,
    found: &[Due],
) -> Result<HashSet<Timestamp>, Problem> {
    let mut ran = HashSet::new();
    let from = found.iter().map(|due| due.nominal).min();
    let to = found.iter().map(|due| due.nominal).max();
    // A queued occurrence may start between two reads, so the queued ones are read first.
    for outcome in [Outcome::Queued, Outcome::Started, Outcome::Moved] {
        let mut after = None;
        loop {
            let (limit, outcome) = (READ, Some(outcome));
            let query = LedgerQuery { schedule, outcome, from, to, limit, after };
            let page = app.store().ledger(query).await?;
            ran.extend(page.items.iter().map(|row| row.entry.nominal));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok(ran)
}

/// Runs past occurrences, one after the other.
/// Occurrences that have run already, or wait to run, are passed over unless `again` is set.
#[utoipa::path(post, path = "/schedules/{id}/backfill", tag = "schedules",
    params(("id" = String, Path, description = "The schedule"),
        ("Idempotency-Key" = Option<String>, Header, description = "Asking twice does once")),
    request_body = Range,
    responses((status = 200, body = Backfilled), (status = 400, body = Problem),
        (status = 401, body = Problem), (status = 404, body = Problem),
        (status = 409, body = Problem, description = "Too many occurrences wait already"),
        (status = 422, body = Problem), (status = 503, body = Problem)))]
pub(super) async fn backfill(
    State(app): State<App>,
    caller: Caller,
    SchedulePath(id): SchedulePath,
    Query(()): Query<()>,
    body: JsonBody,
) -> Answered {
    let range: Range = body.read()?;
    let schedule = view(&app, id).await?.schedule;
    let rules = app.rules();
    let zone = object::zone(&schedule, &rules);
    let from = instant_in(&zone, "from", &range.from)?;
    let to = instant_in(&zone, "to", &range.to)?;
    if to < from {
        return Err(Problem::invalid([Wrong::new("to", "range", "lies before from")]));
    }
    let limit = range.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=LARGEST_QUEUE).contains(&limit) {
        let wrong = Wrong::new("limit", "range", "is out of range");
        return Err(Problem::invalid([wrong.allow(format!("1 to {LARGEST_QUEUE}"))]));
    }
    let pace = range.pace.as_deref().map(parse_duration).transpose();
    let pace = pace.map_err(|problem| vec![calendar::Mistake::new("pace", problem)])?;
    let Some(plan) = object::plan(&schedule, &rules) else {
        return Err(Problem::conflict("The rule cannot be read any more."));
    };
    let again = range.again.unwrap_or_default();
    if range.dry_run == Some(true) {
        let mut found = schedule
            .backfilled(&plan, (from, to), app.now(), limit)
            .map_err(|refusal| Problem::from(Refused::Schedule(refusal)))?;
        let all = found.len();
        let ran = if again { HashSet::new() } else { ran_in(&app, id, &found).await? };
        found.retain(|due| !ran.contains(&due.nominal));
        return answer::ok(&Backfilled::new(true, &zone, &found, all - found.len()));
    }
    let command = Command::Backfill { id, from, to, limit, pace, again };
    let Commanded { answer, replayed, .. } =
        app.command(&caller, command, body.idempotency).await?;
    let Answer::Backfilled { accepted, left_out } = answer else {
        return Err(Problem::unavailable("The store answers something else."));
    };
    let mut answered = Backfilled::new(false, &zone, &accepted, left_out as usize);
    answered.schedule = Some(super::list::object(&app, id).await?);
    Ok(answer::replayed(answer::ok(&answered)?, replayed))
}

impl Backfilled {
    fn new(dry_run: bool, zone: &Zone, runs: &[Due], passed_over: usize) -> Backfilled {
        let items = runs.iter().map(|due| PastTime {
            nominal_at: shown::time(zone, due.nominal),
            effective_at: shown::time(zone, due.effective),
        });
        let (count, items) = (runs.len(), items.collect());
        Backfilled { dry_run, count, passed_over, items, schedule: None }
    }
}
