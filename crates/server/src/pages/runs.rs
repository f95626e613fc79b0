//! Runs: lists of them, and one with all that became of it.

use axum::Router;
use maud::{Markup, html};
use store::RunView;

use super::listing::empty;
use super::visit::Visit;
use super::{badge, when};
use crate::http::App;

pub(super) fn routes() -> Router<App> {
    Router::new()
}

/// Runs in a few lines, for a corner of a page.
pub(super) fn lines(visit: &Visit, runs: &[RunView], none: &str) -> Markup {
    if runs.is_empty() {
        return empty(none, html! {});
    }
    html! {
        div.scroll {
            table {
                thead.hidden { tr { th { "Run" } th { "Status" } th { "Since" } } }
                tbody {
                    @for view in runs {
                        tr id={ "run-" (view.run.id) } {
                            td {
                                a.name href={ "/runs/" (view.run.id) } { (view.workflow_name) }
                                @if let Some(error) = &view.run.error {
                                    div.small.muted { (error.message.chars().take(120).collect::<String>()) }
                                }
                            }
                            td { (badge::run(view.run.status)) }
                            td.number.small {
                                (when::age(visit, view.run.ended_at.unwrap_or(view.run.created_at)))
                            }
                        }
                    }
                }
            }
        }
    }
}
