//! Drawings of how long the last runs took, and how late they began.

use drawing::series::{Dot, Series};
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use store::RunView;

use super::one::Looked;
use crate::pages::badge::run_class;
use crate::pages::page_context::PageContext;
use crate::pages::when;

pub(super) fn cards(context: &PageContext, looked: &Looked, runs: &[RunView]) -> Markup {
    let took = runs.iter().filter_map(|view| {
        let (started, ended) = view.run.started_at.zip(view.run.ended_at)?;
        Some(dot(view, started, ended.duration_since(started)))
    });
    let late = runs.iter().filter_map(|view| {
        let (due, started) = view.run.effective.zip(view.run.started_at)?;
        Some(dot(view, due, started.duration_since(due)))
    });
    let (took, late): (Vec<Dot>, Vec<Dot>) = (took.collect(), late.collect());
    if took.is_empty() && late.is_empty() {
        return html! {};
    }
    let zone = if looked.plan.is_some() { &looked.zone } else { &context.zone };
    let draw = |title: &str, dots: Vec<Dot>| {
        when::drawn(zone, |wall| {
            Series { title: title.to_owned(), noun: ("run", "runs"), dots, wall }.draw()
        })
    };
    html! {
        div.columns #drawings {
            section.card { h2 { "How long runs took" } (draw("How long runs took", took)) }
            section.card {
                h2 { "How late they began" }
                (draw("How late they began, after they were due", late))
                p.small.muted { "Past times that were run after all count from when they were due." }
            }
        }
    }
}

fn dot(view: &RunView, at: Timestamp, length: SignedDuration) -> Dot {
    Dot {
        at,
        length: length.max(SignedDuration::ZERO),
        state: run_class(view.run.status).to_owned(),
        label: view.run.status.name().replace('_', " "),
        href: Some(format!("/runs/{}", view.run.id)),
    }
}
