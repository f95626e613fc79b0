//! The preview of the form: the rule in words and its next times, or the errors.

use calendar::{Timing, Zone};
use engine::schedule::Ahead;
use language::schedule::{Declared, Plan, read_written};
use maud::{Markup, html};

use super::super::coming::fate;
use super::super::one::Looked;
use super::form_state::said;
use crate::http::problem::{Problem, Wrong};
use crate::http::schedules::coming::if_created;
use crate::http::schedules::edit::{Difference, Edited, would_change};
use crate::http::schedules::object::remarks;
use crate::pages::forms;
use crate::pages::page_context::PageContext;
use crate::pages::when;

/// How many occurrences are shown.
const COUNT: usize = 10;
/// How many rows are shown, with the skipped occurrences between.
const MOST_ROWS: usize = 40;
/// How many characters of a changed value are shown.
const SHOWN: usize = 80;

/// The result of a preview.
pub(super) enum Told {
    /// The form does not contain a rule yet.
    Nothing,
    /// The form has errors.
    Wrong(Vec<Wrong>),
    /// What the rule means, and what would change.
    Meant { plan: Box<Plan>, rows: Vec<Ahead>, change: Option<Difference> },
}

/// The preview of a new schedule.
pub(super) fn of_new(context: &PageContext, text: &str) -> Told {
    let declared = match forms::fields_of(text).map(|text| read_written(&text)) {
        Ok(Ok(written)) => written.declared,
        Ok(Err(mistakes)) => return Told::Wrong(mistakes.into_iter().map(Wrong::from).collect()),
        Err(wrong) => return Told::Wrong(wrong),
    };
    new(context, &declared)
}

/// The preview of a change to a schedule.
pub(super) fn of_change(context: &PageContext, looked: &Looked, text: &str) -> Told {
    let values = match forms::fields_of(text) {
        Ok(values) => values,
        Err(wrong) => return Told::Wrong(wrong),
    };
    match would_change(&context.app, &looked.view, &values) {
        Ok(Edited { after, plan, difference }) => {
            let rows = after.outlook(&plan, context.now).coming(COUNT);
            Told::Meant { plan: Box::new(plan), rows, change: Some(difference) }
        }
        Err(problem) => Told::Wrong(wrongs(&problem)),
    }
}

fn wrongs(problem: &Problem) -> Vec<Wrong> {
    match problem.errors() {
        [] => vec![Wrong::new("", "invalid", problem.detail())],
        errors => errors.to_vec(),
    }
}

/// The preview of what a schedule declares now.
pub(super) fn of_declared(context: &PageContext, looked: &Looked) -> Told {
    let Some(plan) = looked.plan.clone() else {
        return new(context, &looked.schedule().declared);
    };
    let rows = looked.view.outlook(&plan, context.now).coming(COUNT);
    Told::Meant { plan: Box::new(plan), rows, change: None }
}

/// The preview of a declaration, as if the schedule were created now.
fn new(context: &PageContext, declared: &Declared) -> Told {
    let (rules, now) = (context.app.rules(), context.now);
    let is_named = !declared.name.trim().is_empty();
    let has_rule = serde_json::to_value(&declared.timing).is_ok_and(|timing| {
        const OPTIONS: [&str; 7] =
            ["timezone", "calendar", "roll", "fit", "start", "end", "spread"];
        timing.as_object().is_some_and(|keys| keys.keys().any(|key| !OPTIONS.contains(&&**key)))
    });
    if !has_rule {
        return Told::Nothing;
    }
    if let Err(mistakes) = declared.check(&rules, now) {
        // People try out a rule before they type a name, so a missing name is not reported.
        let told = mistakes.into_iter().filter(|mistake| is_named || mistake.path != "name");
        let wrong: Vec<Wrong> = told.map(Wrong::from).collect();
        if !wrong.is_empty() {
            return Told::Wrong(wrong);
        }
    }
    match declared.plan(&rules, now, &declared.name) {
        Ok(plan) => {
            let rows = if_created(Box::new(declared.clone()), &plan, now, now, COUNT);
            Told::Meant { plan: Box::new(plan), rows, change: None }
        }
        Err(mistakes) => Told::Wrong(mistakes.into_iter().map(Wrong::from).collect()),
    }
}

impl Told {
    /// The part of the page that shows the preview.
    pub(super) fn show(&self, context: &PageContext) -> Markup {
        html! {
            section.card.flush #preview aria-label="Preview" aria-live="polite" tabindex="0" {
                header { h2 { "Preview" } }
                div.pad {
                    @match self {
                        Told::Nothing => p.muted { "Say when it is due, and the next times appear here." },
                        Told::Wrong(wrong) => (wrong_list(wrong)),
                        Told::Meant { plan, change, .. } => {
                            p.words { (plan.timing.words()) }
                            @for warning in remarks(plan, context.now) {
                                p.said.is-warn { (warning.message) "." }
                            }
                            @if let Some(change) = change { (changes(change)) }
                        },
                    }
                }
                @if let Told::Meant { plan, rows, .. } = self {
                    (times(context, &plan.timing, rows))
                }
            }
        }
    }
}

fn wrong_list(wrong: &[Wrong]) -> Markup {
    html! {
        div.said.is-bad {
            p { strong { "This cannot be read yet" } }
            ul {
                @for wrong in wrong.iter().take(10) {
                    li { @if !wrong.path.is_empty() { code { (wrong.path) } ": " } (said(wrong)) }
                }
            }
        }
    }
}

fn times(context: &PageContext, timing: &Timing, rows: &[Ahead]) -> Markup {
    html! {
        @if rows.is_empty() {
            p.pad.muted { "No time comes of it." }
        } @else {
            table {
                caption { "The next times, " (timing.zone().name()) }
                thead.hidden { tr { th scope="col" { "Due" } th scope="col" { "What becomes of it" } } }
                tbody {
                    @for row in rows.iter().take(MOST_ROWS) { (line(context, timing.zone(), row)) }
                }
            }
        }
    }
}

fn line(context: &PageContext, zone: &Zone, row: &Ahead) -> Markup {
    html! {
        tr {
            td {
                (when::in_zone(context, zone, row.nominal))
                div.small.muted { (when::age(context, row.effective.unwrap_or(row.nominal))) }
            }
            td {
                (fate(context, zone, row))
            }
        }
    }
}

fn changes(change: &Difference) -> Markup {
    let value = |value: Option<&serde_json::value::RawValue>| match value.map(|value| value.get()) {
        None | Some("null") => "nothing".to_owned(),
        Some(text) if text.chars().count() > SHOWN => {
            format!("{}…", text.chars().take(SHOWN).collect::<String>())
        }
        Some(text) => text.to_owned(),
    };
    html! {
        @if change.changes.is_empty() {
            p.muted { "Nothing would change." }
        } @else {
            h3 { "What would change" }
            dl.facts {
                @for (key, change) in &change.changes {
                    dt { (key.replace('_', " ")) }
                    dd { (value(change.before.as_deref())) " → " strong { (value(change.after.as_deref())) } }
                }
            }
        }
    }
}
