//! The page of one topic with its events, and forms to publish and skip them.

use axum::extract::Path;
use axum::response::Response;
use engine::topics::EventState;
use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use store::{EventView, TopicView};

use crate::http::access::Permission;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::topics::events::EventListParams;
use crate::pages::badge::badge;
use crate::pages::form::{self, Action, hidden};
use crate::pages::layout::Page;
use crate::pages::listing::{empty, grouped, heads, pager, with};
use crate::pages::page_context::PageContext;
use crate::pages::when;

/// How many characters of a payload are shown; the API has all of it.
const SHOWN: usize = 2_000;

pub(super) async fn list(
    context: PageContext,
    Path(id): Path<String>,
    Query(params): Query<EventListParams>,
) -> Result<Response, Problem> {
    let view = params.topic(&context.app, &id).await?;
    let mut query = params.query(view.topic.id);
    // The oldest pending event is the one that is worked on next.
    if params.order.is_none() {
        query.oldest_first = params.state == Some(EventState::Pending);
    }
    let page = context.app.views().events(query).await?;
    let content = html! {
        div.head {
            div.trail { a href="/topics" { "Topics" } }
            div.title {
                h1 { (view.topic.name) }
                @match &view.workflow {
                    Some(name) => a href={ "/workflows/" (name) } { "of " (name) },
                    None => span.tag { "shared" },
                }
            }
        }
        (states(&context, &view, params.state))
        @if context.may(Permission::Operate) { (publishing(&context, &view)) }
        section.card.flush id="events" {
            @if page.items.is_empty() {
                (empty("No events here.", html! {}))
            } @else {
                (rows(&context, &view, &page.items))
                (pager(&context, page.total, page.next.as_ref()))
            }
        }
    };
    Ok(context.show(Page::new(view.topic.name.clone(), content).live("all")))
}

fn states(context: &PageContext, view: &TopicView, chosen: Option<EventState>) -> Markup {
    let address = with(&context.address, "cursor", None);
    html! {
        nav.tabs aria-label="States" {
            a href=(with(&address, "state", None)) aria-current=[chosen.is_none().then_some("page")] { "All" }
            @for state in EventState::ALL {
                @let counts = &view.topic.counts;
                @let count = match state {
                    EventState::Pending => counts.pending,
                    EventState::Reserved => counts.reserved,
                    EventState::Consumed => counts.consumed,
                    EventState::Skipped => counts.skipped,
                };
                a href=(with(&address, "state", Some(state.name())))
                    aria-current=[(chosen == Some(state)).then_some("page")] {
                    (state.name()) " " span.muted { (grouped(count)) }
                }
            }
        }
    }
}

fn publishing(context: &PageContext, view: &TopicView) -> Markup {
    html! {
        details.card {
            summary { "Publish an event" }
            form.form method="post" action={ "/forms/topics/" (view.topic.id) "/events" } {
                (hidden(context, &context.address, Some("Published."), None))
                div.fields {
                    (form::text("Message id", "message_id", "", "Unique in the topic: the same one again replaces what is pending."))
                    (form::text("Title", "title", "", "In a line, for people."))
                }
                (form::area("Payload", "payload:json", "{}", 6, "JSON"))
                div.row { button.main type="submit" { "Publish" } }
            }
        }
    }
}

fn rows(context: &PageContext, topic: &TopicView, events: &[EventView]) -> Markup {
    html! {
        table.cards {
            (heads(&["Message", "State", "Published", "Run", ""]))
            tbody {
                @for view in events { (row(context, topic, view)) }
            }
        }
    }
}

fn row(context: &PageContext, topic: &TopicView, view: &EventView) -> Markup {
    let EventView { event, run, unreadable } = view;
    let payload = event.message.payload.get();
    let shown: String = payload.chars().take(SHOWN).collect();
    let id = &event.message.message_id;
    html! {
        tr id={ "event-" (event.status.key) } {
            td {
                div.name { (event.message.title.as_deref().unwrap_or(id)) }
                @if event.message.title.is_some() { div.small.muted.mono { (id) } }
                @if let Some(why) = unreadable {
                    div.small { (badge("unreadable", "is-bad")) " " (why) }
                } @else {
                    details {
                        summary.small { "payload" }
                        pre tabindex="0" { (shown) @if shown.len() < payload.len() { "…" } }
                    }
                }
                @if let Some(reason) = &event.status.reason { div.small { (reason) } }
            }
            td data-label="state" {
                (badge(event.status.state.name(), class(event.status.state)))
                @if event.status.attempt > 0 { div.small.muted { "given back " (event.status.attempt) " times" } }
            }
            td data-label="published" { (when::at_and_age(context, event.created_at)) }
            td data-label="run" {
                @if let Some(run) = run { a href={ "/runs/" (run) } { "run" } } @else { span.muted { "–" } }
            }
            td.actions {
                @if event.status.state == EventState::Pending && context.may(Permission::Operate) {
                    @let id = utf8_percent_encode(id, NON_ALPHANUMERIC);
                    (Action::new(format!("topics/{}/events/{id}/skip", topic.topic.id), "Skip")
                        .ask("Nobody will work on this event. Skip it?")
                        .said("Skipped.")
                        .show(context))
                }
            }
        }
    }
}

fn class(state: EventState) -> &'static str {
    match state {
        EventState::Pending => "is-wait",
        EventState::Reserved => "is-run",
        EventState::Consumed => "is-ok",
        EventState::Skipped => "is-idle",
    }
}
