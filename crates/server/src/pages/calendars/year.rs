//! The page of a calendar: a year, its holidays and hours.

use axum::response::Response;
use calendar::{Calendar, Reason};
use drawing::days::{self, Day};
use jiff::civil::Date;
use maud::{Markup, html};

use super::calculator::{self, Sum};
use crate::http::access::Permission;
use crate::http::calendars::find;
use crate::http::path::PathId;
use crate::http::problem::Problem;
use crate::http::query::{Parameters, Query, Values};
use crate::pages::form::Action;
use crate::pages::layout::Page;
use crate::pages::page_context::PageContext;

/// The years that calendars cover.
const YEARS: std::ops::RangeInclusive<u64> = 1900..=2299;
const MONDAY: (i16, i8, i8) = (2024, 1, 1);

pub(super) struct YearParams {
    year: Option<i16>,
    sum: Sum,
}

impl Parameters for YearParams {
    fn read(values: &mut Values) -> YearParams {
        let year = values.number("year", YEARS);
        YearParams { year: year.and_then(|year| i16::try_from(year).ok()), sum: Sum::read(values) }
    }
}

pub(super) async fn show(
    context: PageContext,
    PathId(id): PathId,
    Query(params): Query<YearParams>,
) -> Result<Response, Problem> {
    let calendar = find(&context.app, &id)?;
    let today = calendar.date_of(context.now);
    let year = params.year.unwrap_or(today.year());
    let is_declared = context.app.rules().calendar(&id).is_some();
    let plans = plans(&calendar, year);
    let named: Vec<&(Date, calendar::DayPlan)> =
        plans.iter().filter(|(_, plan)| name(&plan.reason).is_some()).collect();
    let working = plans.iter().filter(|(_, plan)| plan.is_working()).count();
    let content = html! {
        div.head {
            div.trail { a href="/calendars" { "Calendars" } }
            div.title { h1 { (id) } @if !is_declared { span.tag { "public holidays" } } }
            div.row {
                a.button href={ "/api/v1/calendars/" (id) "/ics?year=" (year) } { "iCalendar file" }
                @if is_declared && context.may(Permission::Design) {
                    a.button href={ "/calendars/" (id) "/edit" } { "Edit" }
                    (Action::new(format!("calendars/{id}"), "Delete").method("DELETE")
                        .ask("Delete this calendar?").said("Deleted.").next("/calendars").show(&context))
                }
            }
        }
        section.card id="year" {
            header {
                h2 { (year) }
                nav.row aria-label="Years" {
                    a href={ "?year=" (year - 1) } rel="prev" { (year - 1) }
                    a href={ "?year=" (year + 1) } rel="next" { (year + 1) }
                }
            }
            p.muted { (working) " working days, " (named.len()) " days with a name." }
            (days::year(year, &shown(&plans, today)))
        }
        div.columns {
            section.card { h2 { "Holidays and exceptions" } (names(&named)) }
            section.card { h2 { "Hours of a week" } (hours(&calendar)) }
            section.card id="calculator" { h2 { "Working time" } (calculator::show(&context, &calendar, &params.sum)) }
        }
    };
    Ok(context.show(Page::new(format!("Calendar {id}"), content)))
}

fn plans(calendar: &Calendar, year: i16) -> Vec<(Date, calendar::DayPlan)> {
    let days = std::iter::successors(Date::new(year, 1, 1).ok(), |date| date.tomorrow().ok());
    let days = days.take_while(|date| date.year() == year);
    days.map(|date| (date, calendar.day(date))).collect()
}

fn shown(plans: &[(Date, calendar::DayPlan)], today: Date) -> Vec<Day> {
    let day = |(date, plan): &(Date, calendar::DayPlan)| {
        let class = match &plan.reason {
            Reason::Holiday(_) | Reason::Exception(_) if !plan.is_working() => "day-holiday",
            Reason::Weekend(_) => "day-weekend",
            _ => "day-working",
        };
        let mut classes = vec![class.to_owned()];
        classes.extend((*date == today).then(|| "day-today".to_owned()));
        let title = name(&plan.reason).map(str::to_owned);
        Day { date: *date, classes, marks: Vec::new(), href: None, title }
    };
    plans.iter().map(day).collect()
}

fn name(reason: &Reason) -> Option<&str> {
    match reason {
        Reason::Holiday(name) | Reason::Exception(name) => Some(name),
        Reason::Working | Reason::Weekend(_) => None,
    }
}

fn names(named: &[&(Date, calendar::DayPlan)]) -> Markup {
    if named.is_empty() {
        return html! { p.muted { "None in this year." } };
    }
    html! {
        ul.plain.lines {
            @for (date, plan) in named {
                li {
                    time.nowrap datetime=(date) { (date.strftime("%a %-d %b")) } " "
                    strong { (name(&plan.reason).unwrap_or_default()) }
                    @if plan.is_working() { " " span.tag { "worked " (shifts(plan)) } }
                }
            }
        }
    }
}

fn shifts(plan: &calendar::DayPlan) -> String {
    let all: Vec<String> = plan.shifts.iter().map(ToString::to_string).collect();
    all.join(", ")
}

/// The hours of an ordinary week: for each weekday, those of the first date that is no holiday.
fn hours(calendar: &Calendar) -> Markup {
    let (year, month, day) = MONDAY;
    let monday = Date::constant(year, month, day);
    let ordinary = |weekday: i64| {
        let weeks = (0..10).filter_map(move |week| {
            monday.checked_add(jiff::Span::new().days(weekday + 7 * week)).ok()
        });
        weeks.map(|date| (date, calendar.day(date))).find(|(_, plan)| name(&plan.reason).is_none())
    };
    html! {
        dl.facts {
            @for weekday in 0..7 {
                @if let Some((date, plan)) = ordinary(weekday) {
                    dt { (date.strftime("%A")) }
                    dd { @if plan.is_working() { (shifts(&plan)) } @else { span.muted { "off" } } }
                }
            }
            dt { "Zone" } dd { (calendar.zone().name()) }
            dt { "1 working day" } dd { (calendar.seconds_per_day() as f64 / 3_600.0) " h" }
        }
    }
}
