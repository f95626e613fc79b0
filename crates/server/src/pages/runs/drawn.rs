//! Drawings of a run: its steps over time, the graph of its steps, and its deadlines.

use drawing::bar::DeadlineBar;
use drawing::gantt::{Bar, Deadline, Gantt, Row};
use engine::run::{Item, StepState, Watch};
use jiff::Timestamp;
use language::definition;
use maud::{Markup, html};

use super::facts::{action_words, watched};
use super::steps::{address, called, class};
use crate::http::runs::{AttemptObject, PartObject, StepObject, WholeRun};
use crate::pages::flow::{self, Look};
use crate::pages::page_context::PageContext;
use crate::pages::when;

/// How many items are drawn below their step.
const ITEMS: usize = 20;
/// How many earlier attempts are drawn in a row: the last ones.
const ATTEMPTS: usize = 20;
/// How many rows are drawn.
const ROWS: usize = 120;
/// A graph with more steps has a page of its own.
pub(super) const BESIDE: usize = 40;

/// When each step began and ended.
pub(super) fn gantt(context: &PageContext, whole: &WholeRun, from: usize) -> Markup {
    let run = &whole.view.run;
    let mut rows = Vec::new();
    for (index, step) in whole.steps.iter().enumerate().skip(from).take(super::steps::ON_A_PAGE) {
        rows.extend(rows_of(context, whole, step, index));
    }
    let more = rows.len().saturating_sub(ROWS);
    rows.truncate(ROWS);
    let deadlines = run.state.watches.iter().map(|watch| Deadline {
        at: watch.due,
        label: format!("{} is due", of_watch(whole, watch)),
        state: if watch.overdue { "is-bad" } else { "is-warn" }.to_owned(),
    });
    let deadlines: Vec<Deadline> = deadlines.take(5).collect();
    let now = (!run.status.has_ended()).then_some(context.now);
    let title = "When its steps began and ended".to_owned();
    let drawn =
        when::drawn(&context.zone, |wall| Gantt { title, rows, now, deadlines, wall }.draw());
    html! { (drawn) @if more > 0 { p.small.muted { "And " (more) " more rows: see the steps." } } }
}

fn rows_of(context: &PageContext, whole: &WholeRun, step: &StepObject, index: usize) -> Vec<Row> {
    let bars = bar(context, whole, &step.part, index, Item::Whole);
    let href = Some(format!("#step-{index}"));
    let mut rows = vec![Row { label: called(step).to_owned(), depth: 0, href, bars }];
    for item in notable(step) {
        let nth = Item::Nth(item.index.unwrap_or_default());
        rows.push(Row {
            label: format!("item {}", item.index.unwrap_or_default()),
            depth: 1,
            href: Some(address(whole, step)),
            bars: bar(context, whole, item, index, nth),
        });
    }
    for (what, part) in [("undone", &step.compensation), ("looked", &step.reconcile)] {
        if let Some(part) = part {
            let number = if what == "undone" { Item::Undoing } else { Item::Reconciling };
            let bars = bar(context, whole, part, index, number);
            rows.push(Row { label: what.to_owned(), depth: 1, href: None, bars });
        }
    }
    rows
}

/// The items to draw: those that failed or are active, then the first of the others.
fn notable(step: &StepObject) -> Vec<&PartObject> {
    let is_notable = |item: &&PartObject| !matches!(item.status, "completed" | "pending");
    let mut found: Vec<&PartObject> = step.items.iter().filter(is_notable).take(ITEMS).collect();
    let rest = step.items.iter().filter(|item| !is_notable(item)).take(ITEMS - found.len());
    found.extend(rest);
    found.sort_unstable_by_key(|item| item.index);
    found
}

/// The bars of a part's attempts, and of its wait since the last one.
fn bar(
    context: &PageContext,
    whole: &WholeRun,
    part: &PartObject,
    index: usize,
    item: Item,
) -> Vec<Bar> {
    let position = &whole.view.run.state;
    let active = u32::try_from(index).ok().and_then(|index| position.part(index, item));
    let earlier = &part.earlier[part.earlier.len().saturating_sub(ATTEMPTS)..];
    let mut bars: Vec<Bar> = earlier.iter().map(tried).collect();
    if let Some(start) = part.started_at {
        bars.push(Bar {
            start,
            end: part.ended_at,
            state: class(part.status).to_owned(),
            label: format!("attempt {}, {}", part.attempts.max(1), part.status),
            href: None,
        });
    }
    if let Some(active) = active.filter(|active| active.status.since().is_none()) {
        let start = part.ended_at.unwrap_or(active.enabled_at).min(context.now);
        bars.push(Bar {
            start,
            end: None,
            state: "is-wait".to_owned(),
            label: part.reason.clone().unwrap_or_else(|| "waits".to_owned()),
            href: None,
        });
    }
    bars
}

fn tried(attempt: &AttemptObject) -> Bar {
    let why = attempt.error.as_ref().map(|error| format!(": {}", super::in_a_line(&error.message)));
    Bar {
        start: attempt.started_at,
        end: Some(attempt.ended_at),
        state: class(attempt.status).to_owned(),
        label: format!(
            "attempt {}, {}{}",
            attempt.attempt,
            attempt.status,
            why.unwrap_or_default()
        ),
        href: None,
    }
}

/// The graph of the run's steps with their status, or a link to it if it is large.
pub(super) fn graph(whole: &WholeRun, is_wanted: bool) -> Markup {
    let count = whole.definition.steps.len();
    if count < 2 || (count > flow::MOST && is_wanted) {
        return html! { @if count > 1 { p.muted { (count) " steps are too many for a picture: see the list." } } };
    }
    if count > BESIDE && !is_wanted {
        let address = format!("/runs/{}?view=graph", whole.view.run.id);
        return html! { p { a href=(address) { "The graph of its " (count) " steps" } } };
    }
    let states = &whole.view.run.state.states;
    flow::graph("What follows what", &whole.definition, |index, _| {
        let part = &whole.steps[index].part;
        let state = u32::try_from(index).map_or(StepState::Pending, |index| states.of(index));
        let class = match state {
            StepState::Active => class(part.status),
            state => flow::class(state),
        };
        Look {
            class: Some(class.to_owned()),
            note: Some(part.status.to_owned()),
            href: Some(address(whole, &whole.steps[index])),
        }
    })
    .draw()
}

/// How near each deadline is.
pub(super) fn deadlines(context: &PageContext, whole: &WholeRun) -> Markup {
    let run = &whole.view.run;
    html! {
        @for (number, watch) in run.state.watches.iter().enumerate().take(10) {
            div id={ "deadline-" (number) } {
                p.small { strong { (of_watch(whole, watch)) } " " (watched(context, watch)) }
                (deadline_bar(context, whole, watch))
            }
        }
    }
}

fn deadline_bar(context: &PageContext, whole: &WholeRun, watch: &Watch) -> Markup {
    let run = &whole.view.run;
    let until = run.ended_at.unwrap_or(context.now);
    when::drawn(&context.zone, |wall| {
        DeadlineBar {
            title: format!("The deadline of {}", of_watch(whole, watch)),
            start: watch.from,
            due: watch.due,
            warnings: warnings(whole, watch),
            until,
            is_over: run.status.has_ended(),
            state: if watch.overdue || until > watch.due { "is-bad" } else { "is-run" }.to_owned(),
            wall,
        }
        .draw()
    })
}

fn warnings(whole: &WholeRun, watch: &Watch) -> Vec<(Timestamp, String)> {
    let declared = declared(whole, watch);
    let words = |index: u32| {
        let action = declared.and_then(|deadline| deadline.actions.get(index as usize));
        action.map_or_else(|| "something happens".to_owned(), action_words)
    };
    let coming = watch
        .coming
        .iter()
        .filter_map(|(at, index)| Some((Timestamp::from_millisecond(*at).ok()?, words(*index))));
    let step = watch.step.and_then(|step| whole.definition.steps.get(step as usize));
    let past = whole.alerts.iter().filter(|alert| alert.step.as_deref() == step.map(|s| &*s.id));
    coming.chain(past.map(|alert| (alert.at, words(alert.action)))).collect()
}

fn declared<'a>(whole: &'a WholeRun, watch: &Watch) -> Option<&'a definition::Deadline> {
    match watch.step {
        Some(step) => whole.definition.steps.get(step as usize)?.deadline.as_ref(),
        None => whole.definition.deadline.as_ref(),
    }
}

fn of_watch(whole: &WholeRun, watch: &Watch) -> String {
    match watch.step.and_then(|step| whole.steps.get(step as usize)) {
        Some(step) => called(step).to_owned(),
        None => "The run".to_owned(),
    }
}
