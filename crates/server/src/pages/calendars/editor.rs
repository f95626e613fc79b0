//! The form to declare a calendar.

use axum::response::Response;
use maud::html;
use serde_json::Value;

use crate::http::path::PathId;
use crate::http::problem::Problem;
use crate::http::query::{Parameters, Query, Values};
use crate::pages::form::{area, hidden, text};
use crate::pages::layout::Page;
use crate::pages::page_context::PageContext;

/// The example that a new calendar begins with.
const EXAMPLE: &str = "timezone: Europe/Berlin
hours:
  mon-thu: [\"08:00-12:00\", \"13:00-17:00\"]
  fri: \"08:00-14:00\"
holidays:
  - DE-BY
  - 2026-12-24
exceptions:
  - { date: 2026-12-19, working: true }
";

pub(super) struct Named {
    id: Option<String>,
}

impl Parameters for Named {
    fn read(values: &mut Values) -> Named {
        Named { id: values.text("id") }
    }
}

/// The form for a new calendar. It is stored under its id, so the id is asked for first.
pub(super) async fn new(
    context: PageContext,
    Query(named): Query<Named>,
) -> Result<Response, Problem> {
    match named.id {
        Some(id) => show(&context, &id, EXAMPLE, "application/yaml"),
        None => {
            let content = html! {
                div.head { div.trail { a href="/calendars" { "Calendars" } } h1 { "New calendar" } }
                form.card.form method="get" action="/calendars/new" {
                    (text("Id", "id", "", "What schedules call it: letters, digits, - _ ."))
                    div.row { button.main type="submit" { "Go on" } }
                }
            };
            Ok(context.show(Page::new("New calendar", content)))
        }
    }
}

pub(super) async fn edit(context: PageContext, PathId(id): PathId) -> Result<Response, Problem> {
    let views = context.app.store().calendars().await?;
    let view = views.into_iter().find(|view| view.id == id);
    let view = view.ok_or_else(|| Problem::not_found("calendar", &id))?;
    let spec: Option<Value> = serde_json::from_str(&view.spec).ok();
    let pretty = spec.and_then(|spec| serde_json::to_string_pretty(&spec).ok());
    show(&context, &id, &pretty.unwrap_or(view.spec), "application/json")
}

fn show(context: &PageContext, id: &str, source: &str, kind: &str) -> Result<Response, Problem> {
    let encoded = percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC);
    let next = format!("/calendars/{encoded}");
    let content = html! {
        div.head {
            div.trail { a href="/calendars" { "Calendars" } }
            h1 { "Calendar " (id) }
        }
        form.card.form method="post" action={ "/forms/calendars/" (encoded) } {
            (hidden(context, &next, Some("Saved. Next times of schedules that use it are computed again."), Some("PUT")))
            input type="hidden" name="_type" value=(kind);
            (area("Declaration", "_body", source, 18, "Zone, hours of weekdays, holidays (regions or dates), exceptions; or union, intersection, base with all_but."))
            div.row { button.main type="submit" { "Save" } a.button href="/calendars" { "Leave" } }
        }
    };
    Ok(context.show(Page::new(format!("Calendar {id}"), content)))
}
