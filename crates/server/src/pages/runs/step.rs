//! The page of one step of a run, with its items and outputs.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::Response;
use maud::{Markup, html};

use super::steps::{called, class, times, windows};
use super::{facts, said, show, steps};
use crate::http::path::part;
use crate::http::problem::Problem;
use crate::http::query::{Parameters, Query, Values};
use crate::http::runs::{PartObject, StepObject, WholeRun, whole};
use crate::pages::badge::badge;
use crate::pages::layout::Page;
use crate::pages::page_context::PageContext;
use crate::pages::value::{self, Room};
use crate::pages::when;

/// The run and the step in the path.
pub(super) struct Which {
    run: String,
    step: String,
}

impl<S: Send + Sync> FromRequestParts<S> for Which {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Which, Problem> {
        let run = part(parts, state, "id").await?;
        Ok(Which { run, step: part(parts, state, "step").await? })
    }
}

/// The query parameter that names the first item shown.
pub(super) struct Items {
    from: usize,
}

impl Parameters for Items {
    fn read(values: &mut Values) -> Items {
        Items { from: values.number("from", 0..=1_000_000).unwrap_or(0) as usize }
    }
}

pub(super) async fn show(
    context: PageContext,
    which: Which,
    Query(wanted): Query<Items>,
) -> Result<Response, Problem> {
    let whole = whole(&context.app, &which.run).await?;
    let known = whole.steps.iter().position(|step| step.id == which.step);
    let index = known.ok_or_else(|| Problem::not_found("step", &which.step))?;
    let step = &whole.steps[index];
    let said = said::now(&context, &whole, |one| one.id == step.id).await;
    let mut room = Room::new();
    let api = format!("/api/v1/runs/{}", whole.view.run.id);
    let content = html! {
        (show::head(&context, &whole))
        p { a href={ "/runs/" (whole.view.run.id) "#step-" (index) } { "Back to the run" } }
        section.card id="step" {
            header {
                h2 { (called(step)) }
                (badge(step.part.status, class(step.part.status)))
            }
            (about(&context, &whole, step, index))
            (results("step", &step.part, &api, &mut room))
        }
        (earlier(&context, &step.part))
        (said)
        @for (what, beside) in [("Undone", &step.compensation), ("Looked whether it was done", &step.reconcile)] {
            @if let Some(part) = beside {
                section.card id={ "beside-" (what.len()) } {
                    header { h2 { (what) } (badge(part.status, class(part.status))) }
                    @if let Some(reason) = &part.reason { p.muted { (reason) } }
                    (results(what, part, &api, &mut room))
                }
            }
        }
        @if !step.items.is_empty() { (items(&context, step, wanted.from, &api, &mut room)) }
    };
    let title = format!("{} of {}", called(step), whole.view.workflow_name);
    Ok(context.show(Page::new(title, content).live(format!("run:{}", whole.view.run.id))))
}

fn about(context: &PageContext, whole: &WholeRun, step: &StepObject, index: usize) -> Markup {
    let part = &step.part;
    let watches = &whole.view.run.state.watches;
    let watch = watches.iter().find(|watch| watch.step.is_some_and(|at| at as usize == index));
    html! {
        dl.facts {
            dt { "Step" } dd { code { (step.id) } " " span.tag { (step.kind) } }
            @if !step.depends_on.is_empty() { dt { "After" } dd { (step.depends_on.join(", ")) } }
            @if let Some(reason) = &part.reason { dt { "Why" } dd { (reason) } }
            dt { "Attempts" } dd { (part.attempts) }
            @if part.started_at.is_some() { dt { "Last attempt" } dd { (times(context, part)) } }
            @if let Some(watch) = watch { dt { "Deadline" } dd { (facts::watched(context, watch)) } }
        }
    }
}

/// The attempts before the last one, latest first.
fn earlier(context: &PageContext, part: &PartObject) -> Markup {
    if part.earlier.is_empty() {
        return html! {};
    }
    let more = part.earlier.len().saturating_sub(steps::ON_A_PAGE);
    html! {
        section.card.flush id="earlier" {
            header { h2 { "Earlier attempts" } }
            table.cards {
                thead {
                    tr {
                        th.number scope="col" { "Attempt" } th scope="col" { "How it ended" }
                        th scope="col" { "When" } th scope="col" { "What went wrong" }
                    }
                }
                tbody {
                    @for attempt in part.earlier.iter().rev().take(steps::ON_A_PAGE) {
                        tr {
                            td.number data-label="Attempt" { (attempt.attempt) }
                            td data-label="How it ended" { (badge(attempt.status, class(attempt.status))) }
                            td.small data-label="When" {
                                (when::at(context, attempt.started_at)) " · "
                                @let (from, to) = (attempt.started_at, attempt.ended_at);
                                (when::took_until(context, Some(from), Some(to)))
                            }
                            td.small data-label="What went wrong" {
                                @if let Some(error) = &attempt.error {
                                    (super::in_a_line(&error.message))
                                }
                            }
                        }
                    }
                }
            }
            @if more > 0 { p.small.muted { "And " (more) " before these." } }
        }
    }
}

fn results(id: &str, part: &PartObject, api: &str, room: &mut Room) -> Markup {
    html! {
        @if let Some(error) = &part.error {
            h3 { "Error" }
            p.small.muted { (error.code) }
            (value::cut_text(&error.message, api, room))
        }
        @if let Some(output) = &part.output {
            h3 id={ (id.replace(' ', "-")) "-output" } { "Output" }
            (value::open(output.get(), api, room))
        }
    }
}

fn items(
    context: &PageContext,
    step: &StepObject,
    from: usize,
    api: &str,
    room: &mut Room,
) -> Markup {
    let shown = step.items.iter().skip(from).take(steps::ON_A_PAGE);
    html! {
        section.card.flush id="items" {
            header {
                h2 { "Items" }
                @if step.items.len() > steps::ON_A_PAGE { (windows(context, step.items.len(), from, "from")) }
            }
            table.cards {
                thead {
                    tr {
                        th scope="col" { "Item" } th scope="col" { "Status" }
                        th.number scope="col" { "Attempts" } th scope="col" { "When" }
                        th scope="col" { "What came out" }
                    }
                }
                tbody {
                    @for item in shown {
                        @let index = item.index.unwrap_or_default();
                        tr id={ "item-" (index) } {
                            td data-label="Item" { (index) }
                            td data-label="Status" { (badge(item.status, class(item.status))) }
                            td.number data-label="Attempts" { (item.attempts) }
                            td.small data-label="When" { (times(context, item)) }
                            td.small data-label="What came out" { (outcome(item, api, room)) }
                        }
                    }
                }
            }
        }
    }
}

fn outcome(item: &PartObject, api: &str, room: &mut Room) -> Markup {
    let id = format!("item-output-{}", item.index.unwrap_or_default());
    html! {
        @match (&item.error, &item.output, &item.reason) {
            (Some(error), ..) => (super::in_a_line(&error.message)),
            (None, Some(output), _) if output.get().len() <= 80 => code { (output.get()) },
            (None, Some(output), _) => (value::folded(&id, "Output", output.get(), api, room)),
            (None, None, Some(reason)) => (super::in_a_line(reason)),
            (None, None, None) => span.muted { "–" },
        }
    }
}
