//! The audit log: who has changed what, from where.

use axum::response::Response;
use maud::{Markup, html};
use store::AuditView;

use crate::http::audit::AuditListParams;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::pages::layout::Page;
use crate::pages::listing::{empty, heads, pager};
use crate::pages::page_context::PageContext;
use crate::pages::when;

pub(super) async fn list(
    context: PageContext,
    Query(params): Query<AuditListParams>,
) -> Result<Response, Problem> {
    let page = context.app.store().audit(params.query()).await?;
    let content = html! {
        div.head { h1 { "Audit log" } }
        p.lead { "Every change that somebody made, committed together with it. What schedules and workers do is in the history of runs." }
        form.search method="get" role="search" {
            div.field.grow {
                label for="who" { "Who" }
                input type="search" id="who" name="who" value=[params.who.as_deref()];
            }
            div.field.grow {
                label for="since" { "Since" }
                input type="text" id="since" name="since" placeholder="2026-03-08T09:00:00Z"
                    value=[params.since.map(|at| at.to_string())];
            }
            button type="submit" { "Show" }
        }
        section.card.flush id="audit" {
            @if page.items.is_empty() {
                (empty("Nobody has changed anything.", html! {}))
            } @else {
                (rows(&context, &page.items))
                (pager(&context, page.total, page.next.as_ref()))
            }
        }
    };
    Ok(context.show(Page::new("Audit log", content)))
}

fn rows(context: &PageContext, changes: &[AuditView]) -> Markup {
    html! {
        table.cards {
            (heads(&["When", "Who", "What", "To what", "From"]))
            tbody {
                @for AuditView { key, at, entry } in changes {
                    tr id={ "change-" (key) } {
                        td { (when::at_and_age(context, *at)) }
                        td.short data-label="who" { strong { (entry.who) } }
                        td data-label="what" {
                            span.mono.small { (entry.action) }
                            @if let Some(detail) = &entry.detail { div.small { (detail) } }
                        }
                        td.mono.small data-label="to what" { (entry.target) }
                        td.short.small data-label="from" { (entry.from.as_deref().unwrap_or("–")) }
                    }
                }
            }
        }
    }
}
