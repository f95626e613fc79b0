//! Queries to a calendar: days, holidays, working time.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse as _;
use calendar::{
    Amount, Calendar, Dst, IcsEvent, IcsTime, Mistake, Problem as Wording, Reason, parse_instant,
    write_ics,
};
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::find;
use crate::http::App;
use crate::http::answer::{self, Answered};
use crate::http::body::JsonBody;
use crate::http::path::PathId;
use crate::http::problem::{Problem, Wrong};
use crate::http::query::{Parameters, Query, Values};

/// The years that calendars cover.
pub(in crate::http) const YEARS: std::ops::RangeInclusive<u64> = 1900..=2299;
/// The longest span of days that is counted.
const LONGEST_SPAN: i32 = 366 * 100;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(holidays))
        .routes(routes!(is_working_day))
        .routes(routes!(next_working_day))
        .routes(routes!(working_days))
        .routes(routes!(add))
        .routes(routes!(ics))
}

struct Year(Option<i16>);

impl Parameters for Year {
    fn read(values: &mut Values) -> Year {
        let year = values.number("year", YEARS);
        Year(year.and_then(|year| i16::try_from(year).ok()))
    }
}

/// A day in a calendar.
#[derive(Debug, Serialize, ToSchema)]
struct DayObject {
    #[schema(value_type = String, format = Date)]
    date: Date,
    weekday: String,
    /// Whether it is a working day.
    working: bool,
    /// The reason, in words.
    reason: String,
    /// The holiday's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

impl DayObject {
    fn new(calendar: &Calendar, date: Date) -> DayObject {
        let plan = calendar.day(date);
        DayObject {
            date,
            weekday: date.strftime("%A").to_string(),
            working: plan.is_working(),
            reason: plan.reason.to_string(),
            name: named(&plan.reason),
        }
    }
}

fn named(reason: &Reason) -> Option<String> {
    match reason {
        Reason::Holiday(name) | Reason::Exception(name) => Some(name.to_string()),
        Reason::Working | Reason::Weekend(_) => None,
    }
}

/// The days of a year that have a name: holidays and exceptions.
fn named_days(calendar: &Calendar, year: i16) -> Vec<DayObject> {
    let first = Date::new(year, 1, 1).ok();
    let days = std::iter::successors(first, |date| date.tomorrow().ok());
    let days = days.take_while(|date| date.year() == year);
    days.map(|date| DayObject::new(calendar, date)).filter(|day| day.name.is_some()).collect()
}

fn year_of(app: &App, calendar: &Calendar, asked: Option<i16>) -> i16 {
    asked.unwrap_or_else(|| calendar.date_of(app.now()).year())
}

#[derive(Debug, Serialize, ToSchema)]
struct Holidays {
    calendar: String,
    year: i16,
    /// Holidays and exceptions, in order of date.
    holidays: Vec<DayObject>,
    /// Regions whose holidays are not fully known for this year.
    incomplete: Vec<String>,
}

/// Lists the holidays of a year; of the current one if none is given.
#[utoipa::path(get, path = "/calendars/{id}/holidays", tag = "calendars",
    params(("id" = String, Path, description = "Id, or a region such as DE-BY"),
        ("year" = Option<i16>, Query)),
    responses((status = 200, body = Holidays), (status = 400, body = Problem),
        (status = 404, body = Problem)))]
async fn holidays(
    State(app): State<App>,
    PathId(id): PathId,
    Query(Year(year)): Query<Year>,
) -> Answered {
    let calendar = find(&app, &id)?;
    let year = year_of(&app, &calendar, year);
    let incomplete = calendar.unknown_holidays(year).into_iter().map(|(region, _)| region);
    answer::ok(&Holidays {
        calendar: id,
        year,
        holidays: named_days(&calendar, year),
        incomplete: incomplete.collect(),
    })
}

/// Gets the holidays of a year as an iCalendar file.
#[utoipa::path(get, path = "/calendars/{id}/ics", tag = "calendars",
    params(("id" = String, Path, description = "Id, or a region such as DE-BY"),
        ("year" = Option<i16>, Query)),
    responses((status = 200, body = String, content_type = "text/calendar"),
        (status = 400, body = Problem), (status = 404, body = Problem)))]
async fn ics(
    State(app): State<App>,
    PathId(id): PathId,
    Query(Year(year)): Query<Year>,
) -> Answered {
    let calendar = find(&app, &id)?;
    let days = named_days(&calendar, year_of(&app, &calendar, year));
    let events: Vec<IcsEvent> = days
        .into_iter()
        .map(|day| IcsEvent {
            time: IcsTime::Day(day.date),
            uid: format!("{id}-{}@punctual", day.date),
            summary: day.name.unwrap_or_default(),
        })
        .collect();
    let text = write_ics(&id, &events, app.now());
    Ok(([(CONTENT_TYPE, "text/calendar; charset=utf-8")], text).into_response())
}

struct OneDate(Option<Date>);

impl Parameters for OneDate {
    fn read(values: &mut Values) -> OneDate {
        OneDate(date(values, "date"))
    }
}

/// A date, which must be given.
fn date(values: &mut Values, name: &'static str) -> Option<Date> {
    let allowed = "a date such as 2026-12-24, in the years 1900 to 2299";
    let date: Option<Date> = values.required(name, allowed);
    let planned = date.filter(|date| YEARS.contains(&(date.year().max(0) as u64)));
    if date.is_some() && planned.is_none() {
        values.refuse(name, "range", "is out of range", Some(allowed));
    }
    planned
}

/// The value; `Query` has already refused a request without it.
fn given<T>(value: Option<T>) -> Result<T, Problem> {
    value.ok_or_else(|| Problem::bad_request("A date is missing."))
}

/// Tells whether a date is a working day, and why.
#[utoipa::path(get, path = "/calendars/{id}/is-working-day", tag = "calendars",
    params(("id" = String, Path, description = "Id, or a region such as DE-BY"),
        ("date" = String, Query)),
    responses((status = 200, body = DayObject), (status = 400, body = Problem),
        (status = 404, body = Problem)))]
async fn is_working_day(
    State(app): State<App>,
    PathId(id): PathId,
    Query(OneDate(date)): Query<OneDate>,
) -> Answered {
    answer::ok(&DayObject::new(&find(&app, &id)?, given(date)?))
}

#[derive(Debug, Serialize, ToSchema)]
struct NextWorkingDay {
    calendar: String,
    /// The date that was asked for.
    #[schema(value_type = String, format = Date)]
    date: Date,
    /// The first working day after it; null if there is none within ten years.
    #[schema(value_type = Option<String>, format = Date)]
    next_working_day: Option<Date>,
}

/// Gets the first working day after a date.
#[utoipa::path(get, path = "/calendars/{id}/next-working-day", tag = "calendars",
    params(("id" = String, Path, description = "Id, or a region such as DE-BY"),
        ("date" = String, Query)),
    responses((status = 200, body = NextWorkingDay), (status = 400, body = Problem),
        (status = 404, body = Problem)))]
async fn next_working_day(
    State(app): State<App>,
    PathId(id): PathId,
    Query(OneDate(date)): Query<OneDate>,
) -> Answered {
    let (calendar, date) = (find(&app, &id)?, given(date)?);
    let after = date.tomorrow().ok();
    let next_working_day = after.and_then(|after| calendar.working_day_from(after));
    answer::ok(&NextWorkingDay { calendar: id, date, next_working_day })
}

struct Span {
    from: Option<Date>,
    to: Option<Date>,
}

impl Parameters for Span {
    fn read(values: &mut Values) -> Span {
        let span = Span { from: date(values, "from"), to: date(values, "to") };
        if let (Some(from), Some(to)) = (span.from, span.to) {
            let days = to.since(from).map_or(-1, |span| span.get_days());
            if !(0..LONGEST_SPAN).contains(&days) {
                let allowed = Some("from itself up to a century later");
                values.refuse("to", "range", "is out of range", allowed);
            }
        }
        span
    }
}

#[derive(Debug, Default, Serialize, ToSchema)]
struct WorkingDays {
    calendar: String,
    #[schema(value_type = String, format = Date)]
    from: Date,
    #[schema(value_type = String, format = Date)]
    to: Date,
    working_days: u32,
    /// Days off in the working week.
    weekend_days: u32,
    /// Holidays and exceptions that are not working days.
    holidays: u32,
}

/// Counts the working days from one date to another, both included.
#[utoipa::path(get, path = "/calendars/{id}/working-days", tag = "calendars",
    params(("id" = String, Path, description = "Id, or a region such as DE-BY"),
        ("from" = String, Query), ("to" = String, Query)),
    responses((status = 200, body = WorkingDays), (status = 400, body = Problem),
        (status = 404, body = Problem)))]
async fn working_days(
    State(app): State<App>,
    PathId(id): PathId,
    Query(span): Query<Span>,
) -> Answered {
    let calendar = find(&app, &id)?;
    let (from, to) = (given(span.from)?, given(span.to)?);
    let mut counted = WorkingDays { calendar: id, from, to, ..WorkingDays::default() };
    let days = std::iter::successors(Some(from), |date| date.tomorrow().ok());
    for plan in days.take_while(|date| *date <= to).map(|date| calendar.day(date)) {
        match plan.reason {
            _ if plan.is_working() => counted.working_days += 1,
            Reason::Holiday(_) | Reason::Exception(_) => counted.holidays += 1,
            Reason::Working | Reason::Weekend(_) => counted.weekend_days += 1,
        }
    }
    answer::ok(&counted)
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Addition {
    /// An instant, or a wall time in the calendar's zone.
    start: String,
    /// `2d`, `16h`, `90m`; negative to go back.
    amount: String,
}

#[derive(Debug, Serialize, ToSchema)]
struct Added {
    calendar: String,
    timezone: String,
    start: String,
    amount: String,
    result: String,
    elapsed_seconds: i64,
}

/// Adds working time to an instant.
#[utoipa::path(post, path = "/calendars/{id}/add", tag = "calendars", request_body = Addition,
    params(("id" = String, Path, description = "Id, or a region such as DE-BY")),
    responses((status = 200, body = Added), (status = 404, body = Problem),
        (status = 422, body = Problem)))]
async fn add(
    State(app): State<App>,
    PathId(id): PathId,
    Query(()): Query<()>,
    body: JsonBody,
) -> Answered {
    let Addition { start, amount } = body.read()?;
    let calendar = find(&app, &id)?;
    let zone = calendar.zone();
    let wrong = |path: &str| {
        let path = path.to_owned();
        move |problem: Wording| Problem::invalid([Mistake::new(path, problem)])
    };
    let start = parse_instant(&start, zone, Dst::FIXED).map_err(wrong("start"))?;
    let parsed = Amount::parse(&amount).map_err(wrong("amount"))?;
    let result = calendar.add(start, parsed).ok_or_else(|| {
        let message = "the calendar does not hold that much working time";
        Problem::invalid([Wrong::new("amount", "working-time", message)])
    })?;
    answer::ok(&Added {
        calendar: id,
        timezone: zone.name().to_owned(),
        start: zone.rfc3339(start),
        amount,
        result: zone.rfc3339(result),
        elapsed_seconds: result.duration_since(start).as_secs(),
    })
}
