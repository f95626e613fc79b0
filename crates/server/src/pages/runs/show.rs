//! The page of one run: its status and why, open approvals, and its steps.

use axum::response::Response;
use engine::RunKey;
use maud::{Markup, html};
use store::{ApprovalQuery, ApprovalView, Cursor, IncidentQuery, RunQuery, RunView};

use super::{actions, drawn, facts, said, steps};
use crate::http::path::PathId;
use crate::http::problem::Problem;
use crate::http::query::{Parameters, Query, Values};
use crate::http::runs::{WholeRun, told, whole};
use crate::pages::layout::Page;
use crate::pages::page_context::PageContext;
use crate::pages::value::{self, Room};
use crate::pages::{badge, incidents};

/// How many child runs are named.
const CHILDREN: usize = 10;

/// The query parameters of the page, for long runs.
pub(super) struct Part {
    from: usize,
    view: Option<View>,
}

/// A part that has a page of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum View {
    Graph,
}

impl Parameters for Part {
    fn read(values: &mut Values) -> Part {
        Part {
            from: values.number("from", 0..=1_000_000).unwrap_or(0) as usize,
            view: values.one_of("view", &[View::Graph], |View::Graph| "graph"),
        }
    }
}

pub(super) async fn show(
    context: PageContext,
    PathId(id): PathId,
    Query(part): Query<Part>,
) -> Result<Response, Problem> {
    let whole = whole(&context.app, &id).await?;
    if part.view == Some(View::Graph) {
        return Ok(graph_alone(&context, &whole));
    }
    let children = children(&context, &whole).await?;
    let asked = asked(&context, &whole).await?;
    let sentences = told(&context.app, &whole).await?;
    let said = said::now(&context, &whole, |_| true).await;
    let of_run = IncidentQuery { run: Some(whole.view.run.id.clone()), ..IncidentQuery::default() };
    let incidents = incidents::card(&context, of_run).await?;
    let mut room = Room::new();
    let run = &whole.view.run;
    let title = format!("{}: {}", whole.view.workflow_name, run.status.name().replace('_', " "));
    let content = html! {
        (head(&context, &whole))
        @if let Some(error) = run.error.as_ref().filter(|_| !run.state.is_unknown()) {
            div.said.is-bad id="error" {
                p { strong { (error.code.replace('_', " ")) } @if let Some(step) = &error.step { " in step " (step) } }
                (value::cut_text(&error.message, &api(&whole), &mut room))
            }
        }
        (actions::resolutions(&context, &whole))
        @for one in &asked {
            section.card id={ "asked-" (one.step) } { h2 { (one.title) } (actions::decision(&context, one)) }
        }
        div.columns {
            section.card id="facts" {
                h2 { "This run" }
                (facts::facts(&context, &whole, &children))
                div.words { @for sentence in &sentences { p.small { (sentence) } } }
            }
            section.card id="values" { h2 { "In and out" } (values(&whole, &mut room)) }
        }
        (facts::mutation(&context, whole.mutation.as_ref()))
        section.card id="time" {
            h2 { "Over time" }
            (drawn::deadlines(&context, &whole))
            (drawn::gantt(&context, &whole, part.from))
        }
        (said)
        (steps::list(&context, &whole, part.from, &mut room))
        @if whole.definition.steps.len() > 1 {
            section.card id="graph" { h2 { "What follows what" } (drawn::graph(&whole, false)) }
        }
        (facts::alerts(&context, &whole.alerts))
        (incidents)
    };
    Ok(context.show(Page::new(title, content).live(format!("run:{}", run.id))))
}

/// The graph on a page of its own, where it is too large for the page of the run.
fn graph_alone(context: &PageContext, whole: &WholeRun) -> Response {
    let id = &whole.view.run.id;
    let content = html! {
        (head(context, whole))
        p { a href={ "/runs/" (id) } { "Back to the run" } }
        section.card id="graph" { h2 { "What follows what" } (drawn::graph(whole, true)) }
    };
    let title = format!("Graph of a run of {}", whole.view.workflow_name);
    context.show(Page::new(title, content).live(format!("run:{id}")))
}

/// The title, with the buttons.
pub(super) fn head(context: &PageContext, whole: &WholeRun) -> Markup {
    let view = &whole.view;
    html! {
        div.head id="head" {
            div.trail { a href="/runs" { "Runs" } " / " a href={ "/workflows/" (view.workflow_name) } { (view.workflow_name) } }
            div.title {
                h1 {
                    (view.workflow_name)
                    @if let Some(handler) = &view.run.handler { " · " (handler) }
                }
                (badge::run(view.run.status))
                span.tag { "version " (whole.definition.version) " · revision " (view.run.version) }
            }
            (actions::buttons(context, whole))
        }
    }
}

fn api(whole: &WholeRun) -> String {
    format!("/api/v1/runs/{}", whole.view.run.id)
}

fn values(whole: &WholeRun, room: &mut Room) -> Markup {
    let run = &whole.view.run;
    let shown = |what: &str, json: Option<&str>, room: &mut Room| {
        html! {
            h3 { (what) }
            @match json {
                Some(json) if json != "null" => (value::open(json, &api(whole), room)),
                _ => p.muted { "nothing" },
            }
        }
    };
    html! {
        (shown("Input", Some(whole.view.run.input.get()), room))
        @if run.status.has_ended() {
            (shown("Output", run.output.as_ref().map(|output| output.get()), room))
        }
    }
}

async fn children(context: &PageContext, whole: &WholeRun) -> Result<Vec<RunView>, Problem> {
    let parent = Some(whole.view.run.key);
    let query = RunQuery { parent, limit: CHILDREN, ..RunQuery::default() };
    Ok(context.app.views().runs(query).await?.items)
}

/// The open approvals of this run. Approvals are listed in the order of their runs' keys.
async fn asked(context: &PageContext, whole: &WholeRun) -> Result<Vec<ApprovalView>, Problem> {
    let limit = actions::asks(whole);
    if limit == 0 {
        return Ok(Vec::new());
    }
    let before = RunKey(whole.view.run.key.0.saturating_sub(1));
    let after = Some(Cursor::Step(before, u32::MAX));
    let query = ApprovalQuery { limit, after, ..ApprovalQuery::default() };
    let mut found = context.app.views().approvals(query).await?.items;
    found.retain(|asked| asked.run == whole.view.run.id);
    Ok(found)
}
