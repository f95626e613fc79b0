//! The pages of workflows: overview, source, versions, and starting by hand.

mod check;
mod editor;
mod handlers;
mod list;
mod overview;
mod run;
mod source;
mod versions;

use axum::Router;
use axum::routing::{get, post};
use engine::turn::{Workflow, WorkflowStatus};
use maud::{Markup, html};
use store::WorkflowView;

use super::badge;
use super::form::{Action, field, hidden};
use super::page_context::PageContext;
use crate::http::App;
use crate::http::access::Permission;

/// Names of workflows that collide with other pages.
const TAKEN: [&str; 2] = ["new", "check"];

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/workflows", get(list::show))
        .route("/workflows/new", get(editor::new))
        .route("/workflows/check", post(check::show))
        .route("/workflows/{id}", get(overview::show))
        .route("/workflows/{id}/source", get(source::show))
        .route("/workflows/{id}/edit", get(editor::edit))
        .route("/workflows/{id}/versions", get(versions::show))
        .route("/workflows/{id}/run", get(run::show))
}

/// The address of a workflow's page.
fn address(workflow: &Workflow) -> String {
    if TAKEN.contains(&workflow.name.as_str()) {
        format!("/workflows/{}", workflow.id)
    } else {
        format!("/workflows/{}", workflow.name)
    }
}

/// The pages of a workflow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tab {
    Overview,
    Source,
    Versions,
    Run,
}

const TABS: [(Tab, &str, &str); 4] = [
    (Tab::Overview, "", "Overview"),
    (Tab::Source, "/source", "Source"),
    (Tab::Versions, "/versions", "Versions"),
    (Tab::Run, "/run", "Run"),
];

/// The title with the buttons, and links to the other pages.
fn head(context: &PageContext, view: &WorkflowView, tab: Tab) -> Markup {
    let workflow = &view.workflow;
    let here = address(workflow);
    html! {
        div.head id="head" {
            div.trail { a href="/workflows" { "Workflows" } }
            div.title {
                h1 { (workflow.name) }
                (badge::workflow(workflow.status, workflow.paused))
                span.tag { "version " (view.definition.version) " · revision " (view.revision) }
            }
            (buttons(context, workflow))
        }
        nav.tabs aria-label="Parts of the workflow" {
            @for (other, path, label) in TABS {
                @if other != Tab::Run || context.may(Permission::Operate) {
                    a href={ (here) (path) } aria-current=[(other == tab).then_some("page")] { (label) }
                }
            }
        }
    }
}

fn buttons(context: &PageContext, workflow: &Workflow) -> Markup {
    let path = |verb: &str| format!("workflows/{}/{verb}", workflow.id);
    let is_newer = workflow.live != Some(workflow.newest);
    html! {
        div.row {
            @if context.may(Permission::Operate) && workflow.status == WorkflowStatus::Published {
                @if workflow.paused {
                    (Action::new(path("resume"), "Resume").said("Everything starts again.").show(context))
                } @else {
                    (pause(context, workflow))
                }
                a.button.main href={ (address(workflow)) "/run" } { "Run now" }
            }
            @if context.may(Permission::Design) {
                @if is_newer {
                    (Action::new(path("publish"), "Publish").said("It is live.").show(context))
                }
                @if workflow.status != WorkflowStatus::Archived {
                    (Action::new(path("archive"), "Archive")
                        .ask("Its schedules go; its history stays. Archive it?")
                        .said("It is out of use.")
                        .show(context))
                }
            }
        }
    }
}

fn pause(context: &PageContext, workflow: &Workflow) -> Markup {
    html! {
        details.menu id="pause" {
            summary.button { "Pause" }
            form.form.card method="post" action={ "/forms/workflows/" (workflow.id) "/pause" } {
                (hidden(context, &context.address, Some("Nothing starts any more but by hand."), None))
                (field("Why", "pause-reason", "For those who wonder. May be left empty.", html! {
                    input type="text" id="pause-reason" name="reason" maxlength="500"
                        aria-describedby="pause-reason-hint";
                }))
                div { button type="submit" { "Pause the workflow" } }
            }
        }
    }
}
