//! The revisions of a workflow, and the difference between two of them.

use axum::response::Response;
use maud::{Markup, html};
use similar::{ChangeTag, TextDiff};
use store::WorkflowView;

use super::{Tab, address, head};
use crate::http::path::PathId;
use crate::http::problem::Problem;
use crate::http::query::{Parameters, Query, Values};
use crate::http::workflows::find_workflow;
use crate::pages::badge::badge;
use crate::pages::layout::Page;
use crate::pages::page_context::PageContext;
use crate::pages::when;

/// How many revisions a page shows: each is read with its text.
const MOST: u32 = 20;
/// How many unchanged lines are shown around a change.
const AROUND: usize = 3;
/// How many lines of a comparison are shown.
const LINES: usize = 1_000;

pub(super) struct VersionParams {
    from: Option<u32>,
    to: Option<u32>,
    before: Option<u32>,
}

impl Parameters for VersionParams {
    fn read(values: &mut Values) -> VersionParams {
        let mut number = |name: &'static str| {
            let number = values.number(name, 1..=u64::from(u32::MAX));
            number.and_then(|number| u32::try_from(number).ok())
        };
        VersionParams { from: number("from"), to: number("to"), before: number("before") }
    }
}

pub(super) async fn show(
    context: PageContext,
    PathId(id): PathId,
    Query(params): Query<VersionParams>,
) -> Result<Response, Problem> {
    let view = find_workflow(&context.app, &id, None).await?;
    let newest = view.workflow.newest;
    let last = params.before.map_or(newest, |before| before.saturating_sub(1).min(newest));
    let first = last.saturating_sub(MOST - 1).max(1);
    let mut revisions = Vec::new();
    for revision in (first..=last).rev() {
        revisions.push(find_workflow(&context.app, &id, Some(revision)).await?);
    }
    let to = params.to.unwrap_or(newest);
    let live = view.workflow.live.filter(|live| *live < to);
    let from = params.from.or(live).unwrap_or(to.saturating_sub(1).max(1));
    let before = find_workflow(&context.app, &id, Some(from)).await?;
    let after = find_workflow(&context.app, &id, Some(to)).await?;
    let content = html! {
        (head(&context, &view, Tab::Versions))
        section.card.flush id="versions" {
            header { h2 { "Revisions" } span.small.muted { (newest) " in all" } }
            (table(&context, &view, &revisions))
            @if first > 1 {
                nav.pages aria-label="Pages" { a.button href={ (address(&view.workflow)) "/versions?before=" (first) } { "Earlier ones" } }
            }
        }
        section.card id="diff" {
            header { h2 { "What has changed" } (choice(&view, from, to)) }
            @if from == to { p.muted { "There is nothing to compare it with yet." } }
            @else { (difference(&before, &after)) }
        }
    };
    Ok(context.show(Page::new(format!("Versions of {}", view.workflow.name), content)))
}

fn table(context: &PageContext, view: &WorkflowView, revisions: &[WorkflowView]) -> Markup {
    let here = address(&view.workflow);
    html! {
        table.cards {
            thead {
                tr {
                    th scope="col" { "Revision" } th scope="col" { "Version" }
                    th scope="col" { "Saved" } th scope="col" { span.hidden { "Ways on" } }
                }
            }
            tbody {
                @for one in revisions {
                    tr id={ "revision-" (one.revision) } {
                        td {
                            a.name href={ (here) "/source?revision=" (one.revision) } { "Revision " (one.revision) }
                            @if view.workflow.live == Some(one.revision) { " " (badge("live", "is-ok")) }
                        }
                        td data-label="Version" { (one.definition.version) }
                        td data-label="Saved" { (when::at_and_age(context, one.saved_at)) }
                        td.actions {
                            @if one.revision > 1 {
                                a href={ (here) "/versions?from=" (one.revision - 1) "&to=" (one.revision) "#diff" } {
                                    "Compare with " (one.revision - 1)
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn choice(view: &WorkflowView, from: u32, to: u32) -> Markup {
    let newest = view.workflow.newest;
    let number = |id: &str, label: &str, value: u32| {
        html! {
            label.small for=(id) { (label) }
            input.short type="number" id=(id) name=(id) min="1" max=(newest) value=(value);
        }
    };
    html! {
        form.row method="get" action={ (address(&view.workflow)) "/versions" } {
            (number("from", "From", from)) (number("to", "to", to))
            button type="submit" { "Compare" }
        }
    }
}

fn difference(before: &WorkflowView, after: &WorkflowView) -> Markup {
    let diff = TextDiff::from_lines(&before.source, &after.source);
    let mut unified = diff.unified_diff();
    unified.context_radius(AROUND);
    let (mut left, mut hunks) = (LINES, Vec::new());
    for hunk in unified.iter_hunks() {
        if left == 0 {
            break;
        }
        let changes = hunk.iter_changes().take(left);
        let lines: Vec<Markup> = changes.map(|change| line(change.tag(), change.value())).collect();
        left -= lines.len();
        hunks.push((hunk.header().to_string(), lines));
    }
    html! {
        @if before.source == after.source { p.muted { "Both say the same." } }
        div.scroll tabindex="0" role="region" aria-label="What has changed, line by line" {
            @for (header, lines) in &hunks {
                p.small.muted.mono { (header) }
                ul.diff { @for line in lines { (line) } }
            }
        }
        @if left == 0 { p.small.muted { "The first " (LINES) " lines. " code { "punctual workflow diff" } " shows all of them." } }
    }
}

fn line(tag: ChangeTag, text: &str) -> Markup {
    let (class, sign, words) = match tag {
        ChangeTag::Delete => ("gone", "−", "removed: "),
        ChangeTag::Insert => ("new", "+", "added: "),
        ChangeTag::Equal => ("same", " ", ""),
    };
    html! {
        li class=(class) {
            span aria-hidden="true" { (sign) " " } span.hidden { (words) }
            code { (text.trim_end_matches(['\n', '\r'])) }
        }
    }
}
