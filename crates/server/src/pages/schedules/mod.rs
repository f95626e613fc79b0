//! The pages of schedules: lists, one schedule with its history, and a form for any rule.

mod all;
mod backfill;
mod coming;
mod drawings;
mod editor;
mod facts;
mod ledger;
mod list;
mod month;
mod one;
mod why;
mod words;

use axum::Router;
use axum::routing::get;
use engine::schedule::{Schedule, Status};
use maud::{Markup, html};

use super::form::Action;
use super::page_context::PageContext;
use crate::http::App;
use crate::http::access::Permission;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/schedules", get(list::show))
        .route("/schedules/new", get(editor::new).post(editor::create))
        .route("/schedules/preview", get(editor::preview))
        .route("/schedules/month", get(all::show))
        .route("/schedules/{id}", get(one::show))
        .route("/schedules/{id}/month", get(month::month))
        .route("/schedules/{id}/year", get(month::year))
        .route("/schedules/{id}/edit", get(editor::edit).post(editor::change))
        .route("/schedules/{id}/edit/preview", get(editor::preview_change))
}

/// The control buttons that fit the status of a schedule.
fn controls(context: &PageContext, schedule: &Schedule) -> Markup {
    if !context.may(Permission::Operate) {
        return html! {};
    }
    let id = schedule.id;
    let action = |verb: &str, label, said| {
        Action::new(format!("schedules/{id}/{verb}"), label).said(said).show(context)
    };
    html! {
        @match schedule.status {
            Status::Active => (action("pause", "Pause", "Paused: nothing new starts until it is resumed.")),
            Status::Paused => (action("resume", "Resume", "Resumed: it goes on.")),
            Status::Done | Status::Dead => (action("revive", "Revive", "Revived: it has a new life.")),
        }
    }
}
