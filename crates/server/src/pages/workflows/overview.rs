//! The overview of a workflow: its steps, triggers, handlers, topics and latest runs.

use axum::response::Response;
use maud::{Markup, html};
use store::{MutationQuery, MutationView, RunQuery, WorkflowView};

use super::{Tab, handlers, head};
use crate::http::path::PathId;
use crate::http::problem::Problem;
use crate::http::query::{Parameters, Query, Values};
use crate::http::topics::of_workflow;
use crate::http::workflows::{TriggerObject, WorkflowObject, find_workflow, shown};
use crate::pages::badge::badge;
use crate::pages::flow::{self, Look};
use crate::pages::layout::Page;
use crate::pages::listing::empty;
use crate::pages::page_context::PageContext;
use crate::pages::runs::lines;
use crate::pages::{topics, when};

/// How many lines each list has.
const LINES: usize = 10;
/// How many triggers are shown. The others are in the list of schedules.
const TRIGGERS: usize = 50;
/// A graph with more steps has an address of its own.
const BESIDE: usize = 60;

pub(super) struct Part {
    graph: bool,
}

impl Parameters for Part {
    fn read(values: &mut Values) -> Part {
        Part { graph: values.flag("graph") }
    }
}

pub(super) async fn show(
    context: PageContext,
    PathId(id): PathId,
    Query(part): Query<Part>,
) -> Result<Response, Problem> {
    let app = &context.app;
    let view = find_workflow(app, &id, None).await?;
    let workflow = view.workflow.id;
    let recent = RunQuery { workflow: Some(workflow), limit: LINES, ..RunQuery::default() };
    let recent = app.views().runs(recent).await?.items;
    let named = of_workflow(app, workflow, &view.definition).await?;
    let mutations = if view.definition.consumers.is_empty() {
        Vec::new()
    } else {
        let query = MutationQuery { workflow: Some(workflow), limit: LINES, after: None };
        app.views().mutations(query).await?.items
    };
    let object = shown(app, view.clone()).await?;
    let content = html! {
        (head(&context, &view, Tab::Overview))
        (standing(&object))
        @if part.graph { (graph(&view, true)) } @else {
            @if let Some(text) = &view.definition.description { p.lead.keep { (text) } }
            (graph(&view, false))
            div.columns {
                section.card.flush id="triggers" {
                    header { h2 { "What starts it" } a href={ "/schedules?workflow_id=" (view.workflow.name) } { "Its schedules" } }
                    (triggers(&context, &view, &object.triggers))
                }
                section.card.flush id="recent" {
                    header { h2 { "Recent runs" } a href={ "/runs?workflow=" (view.workflow.name) } { "All of them" } }
                    (lines(&context, &recent, "It has not run yet."))
                }
            }
            (handlers::show(&context, &view, &object))
            @if !named.is_empty() {
                section.card.flush id="topics" { header { h2 { "Topics" } } (topics::rows(&context, &named)) }
            }
            (changed(&context, &mutations))
            (facts(&context, &view))
        }
    };
    let page = Page::new(view.workflow.name.clone(), content);
    Ok(context.show(page.live(format!("workflow:{workflow}"))))
}

/// Why the workflow is paused, what resuming would do, and whether a draft is not live.
fn standing(object: &WorkflowObject) -> Markup {
    let summary = &object.summary;
    html! {
        @if let Some(reason) = &summary.paused_reason {
            div.said.is-warn id="paused" {
                p { strong { "Nothing starts but by hand: " } (reason) }
                @if let Some(text) = &object.on_resume { p { "If you resume it: " (text) } }
            }
        }
        @if summary.live_revision.is_some_and(|live| live < summary.versions) {
            div.said id="draft" {
                p {
                    "Revision " (summary.versions) " is saved and not live. "
                    a href={ "/workflows/" (summary.id) "/versions" } { "What has changed" }
                }
            }
        }
    }
}

fn graph(view: &WorkflowView, is_wanted: bool) -> Markup {
    let count = view.definition.steps.len();
    if count == 0 {
        return html! {};
    }
    let drawn = html! {
        @if count > flow::MOST {
            p.muted { (count) " steps are too many for a picture: see the source." }
        } @else if count > BESIDE && !is_wanted {
            p { a href={ "/workflows/" (view.workflow.id) "?graph=true" } { "The graph of its " (count) " steps" } }
        } @else {
            (flow::graph("What follows what", &view.definition, |_, _| Look::default()).draw())
        }
    };
    html! { section.card id="graph" { h2 { "Steps" } (drawn) } }
}

fn triggers(context: &PageContext, view: &WorkflowView, all: &[TriggerObject]) -> Markup {
    let definition = &view.definition;
    if all.is_empty() && !(definition.producers.is_empty() && definition.consumers.is_empty()) {
        let remedy =
            html! { p { "Producers have schedules of their own; consumers hear of events." } };
        return empty("It declares no other trigger.", remedy);
    }
    if all.is_empty() {
        let remedy = html! { p { "You can run it by hand, or " a href="/schedules/new" { "create a schedule" } "." } };
        return empty("It declares no trigger.", remedy);
    }
    let name = &view.workflow.name;
    html! {
        table.cards {
            thead { tr { th scope="col" { "Trigger" } th scope="col" { "When" } th scope="col" { "Next" } } }
            tbody {
                @for trigger in all.iter().take(TRIGGERS) {
                    tr id={ "trigger-" (trigger.id) } {
                        td {
                            @match &trigger.schedule_id {
                                Some(schedule) => a.name href={ "/schedules/" (schedule) } { (trigger.id) },
                                None => span.name { (trigger.id) },
                            }
                            " " span.tag { (trigger.kind) }
                            @if !trigger.enabled { " " (badge("off", "is-idle")) }
                            @if let Some(status) = trigger.status.filter(|status| *status != "active") {
                                " " (badge(status, "is-warn"))
                            }
                        }
                        td.small data-label="When" {
                            @if let Some(words) = &trigger.words { (words) }
                            @if trigger.kind == "webhook" { code { "POST /api/v1/hooks/" (name) "/" (trigger.id) } }
                            @if let Some(text) = &trigger.description { div.muted { (text) } }
                        }
                        td.small data-label="Next" { (next(context, trigger.next_run_at.as_deref())) }
                    }
                }
            }
        }
        @if all.len() > TRIGGERS { p.pad.small.muted { "And " (all.len() - TRIGGERS) " more." } }
    }
}

/// When something happens next, or a dash.
pub(super) fn next(context: &PageContext, at: Option<&str>) -> Markup {
    match at.and_then(|at| at.parse().ok()) {
        Some(at) => when::at_and_age(context, at),
        None => html! { span.muted { "–" } },
    }
}

/// The mutations of its consumers.
fn changed(context: &PageContext, mutations: &[MutationView]) -> Markup {
    html! {
        @if !mutations.is_empty() {
            section.card.flush id="mutations" {
                header { h2 { "What its consumers have changed outside" } }
                table.cards {
                    thead { tr { th scope="col" { "Run" } th scope="col" { "Status" } th scope="col" { "When" } } }
                    tbody {
                        @for MutationView { mutation, run } in mutations {
                            tr id={ "mutation-" (run) } {
                                td { a.name href={ "/runs/" (run) } { (mutation.handler) } }
                                td data-label="Status" {
                                    (mutation.status.name().replace('_', " "))
                                    @if let Some(by) = &mutation.said_by { span.small.muted { ", says " (by) } }
                                }
                                td.small data-label="When" { (when::at_and_age(context, mutation.updated_at)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn facts(context: &PageContext, view: &WorkflowView) -> Markup {
    let workflow = &view.workflow;
    html! {
        section.card id="facts" {
            h2 { "About it" }
            dl.facts {
                dt { "Id" } dd { code { (workflow.id) } }
                dt { "Created" } dd { (when::at_and_age(context, workflow.created_at)) }
                dt { "Changed" } dd { (when::at_and_age(context, workflow.updated_at)) }
                @if let Some(most) = workflow.concurrency {
                    dt { "Runs at a time" } dd { (workflow.active) " of " (most) }
                }
                @if let Some(zone) = &view.definition.timezone { dt { "Zone" } dd { (zone) } }
                @if let Some(calendar) = &view.definition.calendar {
                    dt { "Calendar" } dd { a href={ "/calendars/" (calendar) } { (calendar) } }
                }
                @if let Some(time) = view.definition.timeout { dt { "A run may take" } dd { (when::took(time)) } }
                @if let Some(time) = workflow.retention { dt { "Ended runs are kept for" } dd { (when::took(time)) } }
            }
        }
    }
}
