//! The upcoming occurrences of a schedule, and forms to override one of them.

use calendar::Zone;
use engine::schedule::{Ahead, AheadFate, Override, OverrideAction, Status};
use maud::{Markup, html};

use super::one::Looked;
use crate::http::access::Permission;
use crate::http::schedules::object;
use crate::pages::badge::badge;
use crate::pages::form::{self, Action};
use crate::pages::listing::empty;
use crate::pages::page_context::PageContext;
use crate::pages::when;

/// How many occurrences are shown.
const COUNT: usize = 10;
/// How many rows are shown, with the skipped days between.
const MOST_ROWS: usize = 30;
/// How many later overrides are shown.
const MOST_LATER: usize = 20;

pub(super) fn card(context: &PageContext, looked: &Looked) -> Markup {
    let schedule = looked.schedule();
    let rows = match &looked.plan {
        Some(plan) => looked.view.outlook(plan, context.now).coming(COUNT),
        None => Vec::new(),
    };
    html! {
        section.card.flush #coming {
            header { h2 { "Coming" } span.small.muted { (looked.zone.name()) } }
            @if schedule.status == Status::Paused && !rows.is_empty() {
                p.pad.small.muted { "It is paused: the times of its rule do not start." }
            }
            @if rows.is_empty() {
                (empty("Nothing comes.", html! {}))
            } @else {
                (table(context, looked, &rows))
            }
            (later(context, looked, &rows))
            (warnings(context, looked))
        }
    }
}

fn table(context: &PageContext, looked: &Looked, rows: &[Ahead]) -> Markup {
    html! {
        table.cards {
            caption.hidden { "Times to come" }
            thead.hidden {
                tr { th scope="col" { "Due" } th scope="col" { "What becomes of it" } th scope="col" { "Change" } }
            }
            tbody {
                @for row in rows.iter().take(MOST_ROWS) { (line(context, looked, row)) }
            }
        }
    }
}

fn line(context: &PageContext, looked: &Looked, row: &Ahead) -> Markup {
    let over = looked.view.overrides.iter().find(|over| over.nominal == row.nominal);
    html! {
        tr id={ "due-" (row.nominal.as_millisecond()) } {
            td {
                (when::in_zone(context, &looked.zone, row.nominal))
                div.small.muted { (when::age(context, row.effective.unwrap_or(row.nominal))) }
            }
            td {
                (fate(context, &looked.zone, row))
                @if let Some(OverrideAction::Payload(payload)) = over.map(|over| &over.action) {
                    details {
                        summary.small { "Its payload" }
                        @let masked = context.app.secrets().mask_raw(payload.clone());
                        pre tabindex="0" { (super::one::cut(masked.get())) }
                    }
                }
            }
            td.actions {
                @if context.may(Permission::Operate) { (change(context, looked, row, over)) }
            }
        }
    }
}

/// What will happen to an occurrence, and why.
pub(super) fn fate(context: &PageContext, zone: &Zone, row: &Ahead) -> Markup {
    let class = match row.fate {
        AheadFate::Kept => "is-ok",
        AheadFate::Moved | AheadFate::Retried | AheadFate::Queued => "is-run",
        AheadFate::Skipped | AheadFate::Coalesced => "is-idle",
    };
    html! {
        (badge(row.fate.name(), class))
        @if let Some(at) = row.effective.filter(|at| *at != row.nominal) {
            " to " (when::in_zone(context, zone, at))
        }
        @if let Some(reason) = &row.reason { div.small.muted { (reason) } }
    }
}

fn path(looked: &Looked, nominal: jiff::Timestamp) -> String {
    format!("schedules/{}/occurrences/{nominal}", looked.schedule().id)
}

/// The forms to override one occurrence.
fn change(context: &PageContext, looked: &Looked, row: &Ahead, over: Option<&Override>) -> Markup {
    let path = path(looked, row.nominal);
    if over.is_some() {
        return undo(context, looked, row.nominal);
    }
    let is_paused = looked.schedule().status == Status::Paused || looked.view.workflow_is_paused;
    let is_begun = matches!(row.fate, AheadFate::Retried | AheadFate::Queued);
    if row.effective.is_none() && !is_paused || is_begun {
        return html! {};
    }
    let wall = looked.zone.wall(row.effective.unwrap_or(row.nominal));
    let key = row.nominal.as_millisecond();
    html! {
        details.inline id={ "change-" (key) } {
            summary { "Change" span.hidden { " " (row.nominal) } }
            div.form {
                (Action::new(path.clone(), "Skip it").method("PUT").field("skip:flag", "true")
                    .said("It will be skipped.").show(context))
                form.form method="post" action={ "/forms/" (path) } {
                    (form::hidden(context, &context.address, Some("It was moved."), Some("PUT")))
                    (form::field("Move to", &format!("move-{key}"), looked.zone.name(), html! {
                        input type="datetime-local" step="1" required id={ "move-" (key) } name="move_to"
                            value=(wall.strftime("%Y-%m-%dT%H:%M:%S"));
                    }))
                    div.row { button type="submit" { "Move it" } }
                }
                form.form method="post" action={ "/forms/" (path) } {
                    (form::hidden(context, &context.address, Some("It has its own payload now."), Some("PUT")))
                    (form::field("Payload", &format!("payload-{key}"), "JSON, for this time alone", html! {
                        textarea id={ "payload-" (key) } name="payload:json" rows="3" required {}
                    }))
                    div.row { button type="submit" { "Use this payload" } }
                }
            }
        }
    }
}

fn undo(context: &PageContext, looked: &Looked, nominal: jiff::Timestamp) -> Markup {
    Action::new(path(looked, nominal), "Undo")
        .method("DELETE")
        .said("It is an ordinary one again.")
        .show(context)
}

/// Overrides of occurrences after those that are shown.
fn later(context: &PageContext, looked: &Looked, rows: &[Ahead]) -> Markup {
    let last = rows.iter().map(|row| row.nominal).max().unwrap_or(context.now);
    let later: Vec<&Override> =
        looked.view.overrides.iter().filter(|over| over.nominal > last).collect();
    if later.is_empty() {
        return html! {};
    }
    html! {
        details.pad #later {
            summary { (later.len()) " later ones were changed by hand" }
            ul.plain.lines {
                @for over in later.iter().take(MOST_LATER) {
                    li.row id={ "later-" (over.nominal.as_millisecond()) } {
                        (when::in_zone(context, &looked.zone, over.nominal)) " "
                        @match &over.action {
                            OverrideAction::Skip => "is skipped",
                            OverrideAction::Move(to) => {
                                "is moved to " (when::in_zone(context, &looked.zone, *to))
                            }
                            OverrideAction::Payload(_) => "has its own payload",
                        }
                        " by " (over.by)
                        @if context.may(Permission::Operate) {
                            (undo(context, looked, over.nominal))
                        }
                    }
                }
            }
            @if later.len() > MOST_LATER { p.small.muted { "The first " (MOST_LATER) " are shown." } }
        }
    }
}

fn warnings(context: &PageContext, looked: &Looked) -> Markup {
    let warnings = match &looked.plan {
        Some(plan) => object::remarks(plan, context.now),
        None => Vec::new(),
    };
    html! {
        @if !warnings.is_empty() {
            div.pad { @for warning in &warnings { p.small.muted { "Note: " (warning.message) "." } } }
        }
    }
}
