//! The pages of calendars: declared ones and regions, a year of one, and calculations of working
//! time.

mod calculator;
mod editor;
mod year;

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use calendar::holidays::Region;
use maud::{Markup, html};
use store::CalendarView;

use super::layout::Page;
use super::listing::empty;
use super::page_context::PageContext;
use crate::http::App;
use crate::http::access::Permission;
use crate::http::problem::Problem;
use crate::http::query::Query;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/calendars", get(list))
        .route("/calendars/new", get(editor::new))
        .route("/calendars/{id}", get(year::show))
        .route("/calendars/{id}/edit", get(editor::edit))
}

async fn list(context: PageContext, Query(()): Query<()>) -> Result<Response, Problem> {
    let declared = context.app.store().calendars().await?;
    let content = html! {
        div.head {
            h1 { "Calendars" }
            @if context.may(Permission::Design) {
                a.button.main href="/calendars/new" { "New calendar" }
            }
        }
        p.lead { "Working days, working hours and holidays: schedules and deadlines keep to them." }
        section.card.flush id="declared" {
            header { h2 { "Declared here" } }
            (declared_rows(&context, &declared))
        }
        section.card {
            h2 { "Public holidays" }
            p { "These need no declaration: write their code, such as " code { "DE-BY" } ", where a calendar is asked for." }
            (regions())
        }
    };
    Ok(context.show(Page::new("Calendars", content)))
}

fn declared_rows(context: &PageContext, declared: &[CalendarView]) -> Markup {
    if declared.is_empty() {
        return empty("No calendar is declared.", html! {});
    }
    let rules = context.app.rules();
    html! {
        table.cards {
            thead { tr { th scope="col" { "Calendar" } th scope="col" { "Zone" } th scope="col" { "A working day is" } } }
            tbody {
                @for view in declared {
                    @if let Some(calendar) = rules.calendar(&view.id) {
                        tr id={ "calendar-" (view.id) } {
                            td { a.name href={ "/calendars/" (view.id) } { (view.id) } }
                            td data-label="zone" { (calendar.zone().name()) }
                            td data-label="a working day is" { (calendar.seconds_per_day() as f64 / 3_600.0) " h" }
                        }
                    }
                }
            }
        }
    }
}

fn regions() -> Markup {
    html! {
        ul.regions {
            @for country in Region::countries() {
                li {
                    a href={ "/calendars/" (country.code) } { (country.name) } " " span.tag { (country.code) }
                    @if !country.subdivisions.is_empty() {
                        details {
                            summary.small { (country.subdivisions.len()) " parts" }
                            ul.plain {
                                @for part in &country.subdivisions {
                                    li { a href={ "/calendars/" (part.code) } { (part.name) } " " span.tag { (part.code) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
