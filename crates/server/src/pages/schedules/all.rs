//! A month of all schedules: the upcoming occurrences of those that are due first.

use std::collections::BTreeMap;

use axum::response::Response;
use drawing::days::DayMark;
use jiff::Timestamp;
use jiff::civil::Date;
use maud::html;
use store::ScheduleView;

use super::month::{Month, around, day};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::schedules::coming::instant_in;
use crate::http::schedules::object;
use crate::pages::layout::Page;
use crate::pages::listing::empty;
use crate::pages::page_context::PageContext;

/// How many schedules are included: those that are due first.
const SCHEDULES: usize = 200;
/// How many occurrences of each are computed.
const TIMES: usize = 62;

pub(super) async fn show(
    context: PageContext,
    Query(month): Query<Month>,
) -> Result<Response, Problem> {
    let first = month.first(&context.zone, context.now);
    let views = context.app.store().coming(SCHEDULES).await?;
    let marks = marks(&context, &views, first)?;
    let today = context.zone.wall(context.now).date();
    let dates = std::iter::successors(Some(first), |date| date.tomorrow().ok());
    let days: Vec<_> = dates
        .take_while(|date| *date <= first.last_of_month())
        .map(|date| day(date, None, today, marks.get(&date).cloned().unwrap_or_default()))
        .collect();
    let content = html! {
        div.head {
            nav.trail aria-label="Trail" { a href="/schedules" { "Schedules" } }
            h1 { "What comes" }
        }
        section.card #days {
            (around("/schedules/month", first))
            @if views.is_empty() {
                (empty("Nothing is due.", html! { p { a href="/schedules/new" { "New schedule" } } }))
            } @else {
                (drawing::days::month(first, &days))
            }
            p.small.muted {
                "Days are those of " (context.zone.name()) ". Shown is what comes of the "
                (SCHEDULES) " schedules that are due first, up to " (TIMES) " times of each."
            }
        }
    };
    let title = format!("What comes, {}", first.strftime("%B %Y"));
    Ok(context.show(Page::new(title, content)))
}

fn marks(
    context: &PageContext,
    views: &[ScheduleView],
    first: Date,
) -> Result<BTreeMap<Date, Vec<DayMark>>, Problem> {
    let start = |date: Date| instant_in(&context.zone, "month", &format!("{date}T00:00:00"));
    let from = start(first)?.max(context.now);
    let until = start(first.last_of_month().tomorrow().unwrap_or(first))?;
    let mut marks: BTreeMap<Date, Vec<DayMark>> = BTreeMap::new();
    for view in views {
        for (date, count) in of(context, view, from, until) {
            marks.entry(date).or_default().push(mark(view, count));
        }
    }
    Ok(marks)
}

/// How many occurrences of a schedule come on each day.
fn of(
    context: &PageContext,
    view: &ScheduleView,
    from: Timestamp,
    until: Timestamp,
) -> BTreeMap<Date, usize> {
    let mut counts = BTreeMap::new();
    let Some(plan) = object::plan(&view.schedule, &context.app.rules()) else { return counts };
    let rows = view.outlook(&plan, context.now).coming_after(from, TIMES);
    for at in rows.iter().filter_map(|row| row.effective).filter(|at| *at < until) {
        *counts.entry(context.zone.wall(at).date()).or_insert(0) += 1;
    }
    counts
}

fn mark(view: &ScheduleView, count: usize) -> DayMark {
    let name: String = view.schedule.declared.name.chars().take(60).collect();
    DayMark {
        label: if count == 1 { name } else { format!("{count} × {name}") },
        state: "is-run".to_owned(),
        href: Some(format!("/schedules/{}", view.schedule.id)),
    }
}
