//! The page to start a workflow by hand.

use axum::response::Response;
use language::definition::{Definition, TriggerKind};
use language::input_schema::InputSchema;
use maud::{Markup, html};
use serde_json::Value;
use store::{RunQuery, WorkflowView};

use super::{Tab, address, head};
use crate::http::path::PathId;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::workflows::find_workflow;
use crate::pages::form::{area, hidden};
use crate::pages::layout::Page;
use crate::pages::listing::empty;
use crate::pages::page_context::PageContext;

/// A longer payload is not put into the field.
const LONGEST: usize = 16 * 1024;

pub(super) async fn show(
    context: PageContext,
    PathId(id): PathId,
    Query(()): Query<()>,
) -> Result<Response, Problem> {
    let view = find_workflow(&context.app, &id, None).await?;
    let payload = match declared(&view.definition) {
        Some(payload) => Some(("What its trigger gives it.", payload)),
        None => match last(&context, &view).await? {
            Some(payload) => Some(("What its last run was given.", payload)),
            None => expected(&view.definition),
        },
    };
    let content = html! {
        (head(&context, &view, Tab::Run))
        section.card id="run" {
            h2 { "Run it now" }
            @if view.workflow.live.is_none() {
                (empty("Nothing of it is live.", html! { p { "Publish it first." } }))
            } @else {
                (form(&context, &view, payload))
            }
        }
    };
    Ok(context.show(Page::new(format!("Run {}", view.workflow.name), content)))
}

fn form(context: &PageContext, view: &WorkflowView, payload: Option<(&str, String)>) -> Markup {
    // A workflow with only handlers: they run as soon as it is free, so there is no run to show
    // yet.
    let next = if view.definition.steps.is_empty() {
        address(&view.workflow)
    } else {
        "/runs/{id}".to_owned()
    };
    let (hint, payload) = payload.unwrap_or(("Any JSON; nothing, if left empty.", String::new()));
    html! {
        form.form method="post" action={ "/forms/workflows/" (view.workflow.id) "/runs" } {
            (hidden(context, &next, Some("It was started by hand."), None))
            @if view.workflow.paused {
                p.muted { "The workflow is paused: what is started by hand starts all the same." }
            }
            @if let Some(input) = &view.definition.input { (fields(input)) }
            (area("What it works on", "payload:json", &payload, 10, hint))
            div { button.main type="submit" { "Run now" } }
        }
    }
}

/// The payload of the first schedule trigger that has one.
fn declared(definition: &Definition) -> Option<String> {
    let payload = definition.triggers.iter().find_map(|trigger| match &trigger.kind {
        TriggerKind::Schedule { declaration } => declaration.get("payload"),
        _ => None,
    });
    written(payload?)
}

/// A sample payload, from the input schema of the definition.
fn expected(definition: &Definition) -> Option<(&'static str, String)> {
    let sample = definition.input.as_ref()?.sample();
    Some(("A beginning, made from what the workflow expects.", written(&sample)?))
}

/// The fields that the payload may have.
fn fields(input: &InputSchema) -> Markup {
    html! {
        @if !input.properties.is_empty() {
            table {
                thead { tr { th { "Field" } th { "What it has to be" } } }
                tbody {
                    @for (name, field) in &input.properties {
                        tr {
                            td { code { (name) } @if input.required.contains(name) { " (required)" } }
                            td { (field.words()) @if let Some(about) = &field.description { ": " (about) } }
                        }
                    }
                }
            }
        }
    }
}

async fn last(context: &PageContext, view: &WorkflowView) -> Result<Option<String>, Problem> {
    let query = RunQuery { workflow: Some(view.workflow.id), limit: 1, ..RunQuery::default() };
    let found = context.app.views().runs(query).await?.items.pop();
    let found = found.filter(|view| view.run.handler.is_none());
    let input = found.map(|view| view.run.input);
    let input = input.filter(|input| input.get().len() <= LONGEST);
    let value: Option<Value> = input.and_then(|input| serde_json::from_str(input.get()).ok());
    // The stored input also holds what started the run; the payload is a part of it.
    Ok(value.as_ref().and_then(|value| written(&value["payload"])))
}

fn written(value: &Value) -> Option<String> {
    let text = serde_json::to_string_pretty(value).ok()?;
    (!value.is_null() && text.len() <= LONGEST).then_some(text)
}
