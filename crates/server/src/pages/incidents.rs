//! Incidents and who was notified of them; and the channels of this node.

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use engine::incidents::{Told, ToldOutcome};
use maud::{Markup, html};
use store::{IncidentQuery, IncidentView};

use super::badge::badge;
use super::form;
use super::layout::Page;
use super::listing::{empty, heads, pager, with};
use super::page_context::PageContext;
use super::when;
use crate::http::App;
use crate::http::access::Permission;
use crate::http::incidents::IncidentListParams;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::undelivered::{self, Undelivered};

/// How many incidents a page shows.
const MOST: usize = 50;
/// How many characters of an error a table shows.
const ERROR_CHARS: usize = 200;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/incidents", get(show)).route("/channels", get(channels))
}

async fn show(
    context: PageContext,
    Query(params): Query<IncidentListParams>,
) -> Result<Response, Problem> {
    let open = params.open;
    let mut query = params.query(&context.app).await?;
    query.limit = query.limit.min(MOST);
    let page = context.app.views().incidents(query).await?;
    let undelivered = undelivered::of_incidents(&context.app, &page.items).await?;
    let first = with(&context.address, "cursor", None);
    let to = |open: Option<&str>| with(&first, "open", open);
    let content = html! {
        div.head { h1 { "Incidents" } a.button href="/channels" { "Channels" } }
        p.lead { "What has finally failed, until it succeeds again, and who was told." }
        nav.tabs aria-label="Which" {
            a href=(to(None)) aria-current=[open.is_none().then_some("page")] { "All" }
            a href=(to(Some("true"))) aria-current=[(open == Some(true)).then_some("page")] { "Open" }
            a href=(to(Some("false"))) aria-current=[(open == Some(false)).then_some("page")] { "Over" }
        }
        section.card.flush aria-label="Incidents" {
            @if page.items.is_empty() {
                (empty("There is no incident.", html! {
                    p { "When an occurrence or a run fails and is not tried again, it is found here. "
                        code { "on_failure" } " says who is told." }
                }))
            } @else {
                (table(&context, &page.items, &undelivered))
                (pager(&context, page.total, page.next.as_ref()))
            }
        }
    };
    Ok(context.show(Page::new("Incidents", content).live("all")))
}

/// A table of incidents.
pub(super) fn table(
    context: &PageContext,
    incidents: &[IncidentView],
    undelivered: &Undelivered,
) -> Markup {
    html! {
        table.cards {
            (heads(&["Of", "State", "Since", "Error", "Told"]))
            tbody { @for view in incidents { (row(context, view, undelivered)) } }
        }
    }
}

fn row(context: &PageContext, view: &IncidentView, undelivered: &Undelivered) -> Markup {
    let incident = &view.incident;
    let workflow = view.workflow_name.as_deref().unwrap_or("a workflow that is gone");
    let end = incident.end.as_ref();
    let error: String = incident.error.chars().take(ERROR_CHARS).collect();
    html! {
        tr id={ "incident-" (incident.key) } {
            td {
                @match (&view.schedule_name, incident.schedule) {
                    (Some(name), Some(id)) => a.name href={ "/schedules/" (id) } { (name) },
                    _ => a.name href={ "/workflows/" (workflow) } { (workflow) },
                }
            }
            td data-label="state" {
                @match end {
                    None => (badge("open", "is-bad")),
                    Some(end) => (badge(end.how.name(), "is-ok")),
                }
            }
            td data-label="since" {
                (when::at_and_age(context, incident.began_at))
                @if let Some(end) = end { " until " (when::at(context, end.at)) }
            }
            td data-label="error" {
                @if let Some(run) = &incident.run { a href={ "/runs/" (run) } { (error) } } @else { (error) }
            }
            td.small data-label="told" {
                (told(&incident.told, undelivered))
                @if let Some(end) = end { (told(&end.told, undelivered)) }
                @if incident.told.is_empty() { "nobody" }
            }
        }
    }
}

fn told(all: &[Told], undelivered: &Undelivered) -> Markup {
    html! {
        @for one in all {
            div {
                @match &one.outcome {
                    ToldOutcome::Run(id) => {
                        a href={ "/runs/" (id) } { (one.what) }
                        @if let Some(why) = undelivered.get(id) { span.wrong { ": " (why) } }
                    }
                    ToldOutcome::Refused(why) => span.wrong { (one.what) ": " (why) },
                }
            }
        }
    }
}

/// The latest incidents of a query, if there are any.
pub(super) async fn card(context: &PageContext, query: IncidentQuery) -> Result<Markup, Problem> {
    let query = IncidentQuery { limit: 5, ..query };
    let found = context.app.views().incidents(query).await?.items;
    let undelivered = undelivered::of_incidents(&context.app, &found).await?;
    Ok(html! {
        @if !found.is_empty() {
            section.card.flush id="incidents" { header { h2 { "Incidents" } } (table(context, &found, &undelivered)) }
        }
    })
}

async fn channels(context: PageContext) -> Result<Response, Problem> {
    let known = context.app.reach().shown();
    let list =
        |all: &[String]| if all.is_empty() { "nobody is told".to_owned() } else { all.join(", ") };
    let content = html! {
        div.head {
            nav.trail aria-label="Trail" { a href="/incidents" { "Incidents" } " / channels" }
            h1 { "Channels" }
        }
        p.lead { "How this node reaches people." }
        section.card.flush aria-label="Channels" {
            table.cards {
                (heads(&["Channel", "State", "Through"]))
                tbody {
                    @for one in &known.items {
                        tr id={ "channel-" (one.kind) } {
                            td.name { (one.kind) }
                            td data-label="state" {
                                @if one.configured { (badge("set up", "is-ok")) }
                                @else { (badge("not set up", "is-warn")) }
                            }
                            td data-label="through" { (through(one)) }
                        }
                    }
                }
            }
        }
        div.columns {
            section.card {
                h2 { "If nobody says otherwise" }
                dl.facts {
                    dt { "When something fails" } dd { (list(&known.on_failure)) }
                    dt { "When it succeeds again" } dd { (list(&known.on_recovery)) }
                    dt { "Links begin with" }
                    dd { (known.public_url.as_deref().unwrap_or("nothing: set --public-url")) }
                }
            }
            @if context.may(Permission::Design) {
                section.card {
                    h2 { "Send a test message" }
                    form.form method="post" action="/forms/channels/test" {
                        (form::hidden(&context, "/channels", Some("The test message was sent."), None))
                        (form::text("Channel", "channel", "", "email:ADDRESS, webhook:URL or slack:URL"))
                        div.row { button.main type="submit" { "Send" } }
                    }
                }
            }
        }
    };
    Ok(context.show(Page::new("Channels", content)))
}

fn through(one: &crate::http::ChannelObject) -> Markup {
    html! {
        @if let (Some(host), Some(from)) = (&one.host, &one.from) { (host) ", from " (from) }
        @if !one.hosts.is_empty() { "secrets for " (one.hosts.join(", ")) }
        @if one.other_hosts { @if one.hosts.is_empty() { "a secret for every host" } @else { " and for every other host" } }
        @if let Some(remedy) = one.remedy { "start the node with " code { (remedy) } }
        @else if one.kind == "slack" { "the URL alone" }
    }
}
