//! The producers and consumers of a workflow: what each does now, and when it runs next.

use maud::{Markup, html};
use store::WorkflowView;

use super::overview::next;
use crate::http::access::Permission;
use crate::http::workflows::{ConsumerObject, ProducerObject, WorkflowObject};
use crate::pages::badge::badge;
use crate::pages::form::Action;
use crate::pages::listing::grouped;
use crate::pages::page_context::PageContext;
use crate::pages::when;

pub(super) fn show(context: &PageContext, view: &WorkflowView, object: &WorkflowObject) -> Markup {
    html! {
        @if !object.producers.is_empty() {
            section.card.flush id="producers" {
                header { h2 { "Producers" } }
                table.cards {
                    thead {
                        tr {
                            th scope="col" { "Producer" } th scope="col" { "Publishes to" } th scope="col" { "Next" }
                            th scope="col" { "Last" } th scope="col" { span.hidden { "Actions" } }
                        }
                    }
                    tbody { @for one in &object.producers { (producer(context, view, one)) } }
                }
            }
        }
        @if !object.consumers.is_empty() {
            section.card.flush id="consumers" {
                header { h2 { "Consumers" } }
                table.cards {
                    thead {
                        tr {
                            th scope="col" { "Consumer" } th scope="col" { "State" } th.number scope="col" { "Pending" }
                            th scope="col" { "Last" } th scope="col" { span.hidden { "Actions" } }
                        }
                    }
                    tbody { @for one in &object.consumers { (consumer(context, view, one)) } }
                }
            }
        }
    }
}

fn producer(context: &PageContext, view: &WorkflowView, one: &ProducerObject) -> Markup {
    html! {
        tr id={ "producer-" (one.name) } {
            td {
                @match &one.schedule_id {
                    Some(schedule) => a.name href={ "/schedules/" (schedule) } { (one.name) },
                    None => span.name { (one.name) },
                }
                @if one.queued { " " (badge("waits for its turn", "is-wait")) }
                (current(one.run_id.as_deref()))
                @if let Some(words) = &one.words { div.small.muted { (words) } }
            }
            td.small data-label="Publishes to" { (one.publishes.join(", ")) }
            td.small data-label="Next" { (next(context, one.next_run_at.as_deref())) }
            td.small data-label="Last" { (last(context, one.last_run_at, one.last_outcome, one.failures)) }
            td.actions { (start(context, view, &one.name)) }
        }
    }
}

fn consumer(context: &PageContext, view: &WorkflowView, one: &ConsumerObject) -> Markup {
    let class = match one.state {
        "running" => "is-run",
        "suspended" | "paused" => "is-warn",
        "ready" => "is-wait",
        _ => "is-idle",
    };
    html! {
        tr id={ "consumer-" (one.name) } {
            td { span.name { (one.name) } (current(one.run_id.as_deref())) }
            td data-label="State" {
                (badge(one.state, class))
                div.small.muted { (waits(context, one)) }
            }
            td.number data-label="Pending" { (grouped(one.pending)) }
            td.small data-label="Last" { (last(context, one.last_run_at, one.last_outcome, one.failures)) }
            td.actions { (start(context, view, &one.name)) }
        }
    }
}

/// What a consumer waits for.
fn waits(context: &PageContext, one: &ConsumerObject) -> Markup {
    html! {
        @match (one.state, one.retry_at.or(one.wake_at)) {
            ("sleeping", Some(at)) => { "until " (when::at_and_age(context, at)) ", or an event on " (one.wake_on.join(", ")) }
            ("sleeping", None) => { "until an event on " (one.wake_on.join(", ")) }
            ("suspended", _) => "somebody has to say what became of its mutation",
            _ => {}
        }
        @if one.resumes { " Its next run only ends what an earlier one began." }
    }
}

fn current(run: Option<&str>) -> Markup {
    html! { @if let Some(run) = run { div.small { a href={ "/runs/" (run) } { "Its run" } } } }
}

fn last(
    context: &PageContext,
    at: Option<jiff::Timestamp>,
    outcome: Option<&'static str>,
    failures: u32,
) -> Markup {
    html! {
        @if let Some(at) = at { (when::age(context, at)) } @else { span.muted { "never" } }
        @if let Some(outcome) = outcome {
            " " (badge(outcome, if outcome == "succeeded" { "is-ok" } else { "is-bad" }))
        }
        @if failures > 1 { div.wrong { (failures) " failures in a row" } }
    }
}

fn start(context: &PageContext, view: &WorkflowView, handler: &str) -> Markup {
    html! {
        @if context.may(Permission::Operate) && view.workflow.live.is_some() {
            (Action::new(format!("workflows/{}/runs", view.workflow.id), "Run now")
                .field("handler", handler)
                .said("It runs as soon as the workflow is free.")
                .show(context))
        }
    }
}
