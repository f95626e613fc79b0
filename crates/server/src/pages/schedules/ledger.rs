//! The ledger of a schedule.

use engine::ledger::{Entry, Outcome};
use maud::{Markup, html};
use store::{LedgerQuery, LedgerRow};

use super::one::{Looked, cut};
use crate::http::problem::Problem;
use crate::http::schedules::occurrences::OccurrenceListParams;
use crate::pages::listing::{empty, heads, pager};
use crate::pages::page_context::PageContext;
use crate::pages::{badge, when};

/// How many rows a page shows.
const ROWS: usize = 25;

pub(super) async fn card(
    context: &PageContext,
    looked: &Looked,
    params: &OccurrenceListParams,
) -> Result<Markup, Problem> {
    let query = LedgerQuery { limit: ROWS, ..params.query(looked.schedule().id) };
    let page = context.app.store().ledger(query).await?;
    Ok(html! {
        section.card.flush #ledger {
            header { h2 { "What became of it" } (filter(looked, params.outcome)) }
            @if page.items.is_empty() {
                (none(params.outcome))
            } @else {
                div.scroll tabindex="0" role="region" aria-label="Occurrences" {
                    (table(context, looked, &page.items))
                }
                (pager(context, page.total, page.next.as_ref()))
            }
        }
    })
}

fn none(outcome: Option<Outcome>) -> Markup {
    match outcome {
        Some(outcome) => {
            empty("Nothing of the kind.", html! { p { "No occurrence was " (outcome.name()) "." } })
        }
        None => empty("Nothing was due yet.", html! {}),
    }
}

fn filter(looked: &Looked, chosen: Option<Outcome>) -> Markup {
    let all: Vec<(&str, &str)> = std::iter::once(("", "All outcomes"))
        .chain(Outcome::ALL.map(|outcome| (outcome.name(), outcome.name())))
        .collect();
    html! {
        form.row method="get" action={ (looked.address()) "#ledger" } {
            label.hidden for="outcome" { "Outcome" }
            select.narrow id="outcome" name="outcome" {
                @for (value, label) in &all {
                    option value=(value) selected[*value == chosen.map_or("", Outcome::name)] { (label) }
                }
            }
            button type="submit" { "Show" }
        }
    }
}

fn table(context: &PageContext, looked: &Looked, rows: &[LedgerRow]) -> Markup {
    html! {
        table.cards {
            caption.hidden { "Occurrences, latest first" }
            (heads(&["Due", "Outcome", "Why", "Run", "Decided"]))
            tbody {
                @for LedgerRow { entry, run } in rows {
                    tr id={ "n-" (entry.n) } {
                        td { (due(context, looked, entry)) }
                        td data-label="Outcome" { (badge::outcome(entry.outcome)) }
                        td data-label="Why" { (cut(&entry.reason)) }
                        td data-label="Run" {
                            @match run {
                                Some((id, status)) => {
                                    (badge::run(*status)) " "
                                    a.small href={ "/runs/" (id) } { (id) }
                                }
                                None => span.muted { "–" },
                            }
                        }
                        td data-label="Decided" { (when::age(context, entry.decided_at)) }
                    }
                }
            }
        }
    }
}

/// When an occurrence was due: its nominal time, and its effective one if that differs.
fn due(context: &PageContext, looked: &Looked, entry: &Entry) -> Markup {
    html! {
        (when::in_zone(context, &looked.zone, entry.nominal))
        @if entry.count > 1 {
            div.small.muted {
                "to " (when::in_zone(context, &looked.zone, entry.last_nominal)) ", " (entry.count) " in a row"
            }
        } @else if entry.effective != entry.nominal {
            div.small.muted { "at " (when::in_zone(context, &looked.zone, entry.effective)) }
        }
    }
}
