//! Backfill on the page of a schedule: shows which past occurrences would run, then runs them.

use engine::schedule::Due;
use engine::turn::Refused;
use jiff::Timestamp;
use maud::{Markup, html};

use super::one::Looked;
use crate::http::access::Permission;
use crate::http::problem::Problem;
use crate::http::query::Values;
use crate::http::schedules::coming::instant_in;
use crate::pages::form::{self, Action};
use crate::pages::page_context::PageContext;
use crate::pages::{error_page, when};

/// How many occurrences run by default.
const DEFAULT_LIMIT: u32 = 100;
/// How many occurrences may run at most.
const LARGEST_LIMIT: u64 = 1_000;
/// How many of them are shown.
const SHOWN: usize = 50;

/// The range of past occurrences, as it was typed.
pub(super) struct Range {
    from: Option<String>,
    to: Option<String>,
    limit: u32,
}

impl Range {
    /// Reads the range from the query.
    pub(super) fn read(values: &mut Values) -> Range {
        let limit = values.number("past_limit", 1..=LARGEST_LIMIT);
        Range {
            from: values.text("past_from"),
            to: values.text("past_to"),
            limit: limit.map_or(DEFAULT_LIMIT, |limit| limit as u32),
        }
    }
}

/// The occurrences that would run.
struct Found {
    from: Timestamp,
    to: Timestamp,
    times: Vec<Due>,
}

pub(super) fn card(context: &PageContext, looked: &Looked, range: &Range) -> Markup {
    if !context.may(Permission::Operate) || looked.plan.is_none() {
        return html! {};
    }
    html! {
        section.card #past {
            h2 { "Run past times" }
            (form(looked, range))
            @if let (Some(from), Some(to)) = (&range.from, &range.to) {
                @match find(context, looked, from, to, range.limit) {
                    Ok(found) => (shown(context, looked, &found, range.limit)),
                    Err(problem) => (error_page::told(&problem)),
                }
            }
        }
    }
}

fn form(looked: &Looked, range: &Range) -> Markup {
    let zone = looked.zone.name();
    let time = |label: &str, name: &str, value: Option<&str>| {
        form::field(
            label,
            name,
            zone,
            html! {
                input type="datetime-local" step="1" required id=(name) name=(name) value=[value];
            },
        )
    };
    html! {
        form.form method="get" action={ (looked.address()) "#past" } {
            div.fields {
                (time("From", "past_from", range.from.as_deref()))
                (time("To", "past_to", range.to.as_deref()))
                (form::field("At most", "past_limit", "1 to 1000", html! {
                    input type="number" min="1" max=(LARGEST_LIMIT) id="past_limit" name="past_limit" value=(range.limit);
                }))
            }
            div.row { button type="submit" { "Show what would run" } }
        }
    }
}

fn find(
    context: &PageContext,
    looked: &Looked,
    from: &str,
    to: &str,
    limit: u32,
) -> Result<Found, Problem> {
    let from = instant_in(&looked.zone, "from", from)?;
    let to = instant_in(&looked.zone, "to", to)?;
    let Some(plan) = &looked.plan else {
        return Err(Problem::conflict("The rule cannot be read any more."));
    };
    let schedule = &looked.view.schedule;
    let times = schedule
        .backfilled(plan, (from, to), context.now, limit)
        .map_err(|refusal| Problem::from(Refused::Schedule(refusal)))?;
    Ok(Found { from, to, times })
}

fn shown(context: &PageContext, looked: &Looked, found: &Found, limit: u32) -> Markup {
    let count = found.times.len();
    let label = if count == 1 { "Run this one".to_owned() } else { format!("Run these {count}") };
    html! {
        div #past-times {
            p { strong { (count) @if count == 1 { " occurrence" } @else { " occurrences" } " would run" }
                ", one after the other; those that have run already are passed over:" }
            ul.plain.lines {
                @for due in found.times.iter().take(SHOWN) {
                    li { (when::in_zone(context, &looked.zone, due.nominal)) }
                }
                @if count > SHOWN { li.muted { "and " (count - SHOWN) " more" } }
            }
            (Action::new(format!("schedules/{}/backfill", looked.schedule().id), &label)
                .class("main")
                .field("from", found.from.to_string())
                .field("to", found.to.to_string())
                .field("limit:number", limit.to_string())
                .next(looked.address())
                .said("{count} past occurrences run, one after the other.")
                .show(context))
        }
    }
}
