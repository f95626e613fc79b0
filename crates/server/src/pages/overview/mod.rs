//! The overview: active runs, late ones, failures, and upcoming occurrences.

mod timeline;

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use engine::run::RunStatus;
use engine::schedule::Status;
use maud::{Markup, html};
use store::{RunQuery, ScheduleQuery, ScheduleView, SetAside, Stats, Total};

use self::timeline::Reach;
use super::layout::Page;
use super::listing::{empty, grouped, with};
use super::page_context::PageContext;
use super::runs::lines;
use super::when;
use crate::http::App;
use crate::http::problem::Problem;
use crate::http::query::{Parameters, Query, Values};
use crate::http::schedules::object;

/// How many lines each list has.
const LINES: usize = 8;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/", get(show))
}

struct OverviewParams {
    reach: Reach,
}

impl Parameters for OverviewParams {
    fn read(values: &mut Values) -> OverviewParams {
        let reach = values.one_of("reach", &Reach::ALL, Reach::name);
        OverviewParams { reach: reach.unwrap_or(Reach::Hour) }
    }
}

async fn show(
    context: PageContext,
    Query(params): Query<OverviewParams>,
) -> Result<Response, Problem> {
    let (store, views) = (context.app.store().clone(), context.app.views());
    let stats = views.stats(context.now).await?;
    let of = |status: Vec<RunStatus>, overdue: Option<bool>| RunQuery {
        hides_system: true,
        status,
        overdue,
        limit: LINES,
        ..RunQuery::default()
    };
    let going_on = vec![RunStatus::Running, RunStatus::Waiting, RunStatus::Suspended];
    let active = views.runs(of(going_on, None)).await?;
    let failed = views.runs(of(vec![RunStatus::Failed, RunStatus::TimedOut], None)).await?;
    let overdue = views.runs(of(Vec::new(), Some(true))).await?;
    let coming = store.coming(LINES).await?;
    let aside = store.all_set_aside().await?;
    let dead =
        ScheduleQuery { status: Some(Status::Dead), limit: LINES, ..ScheduleQuery::default() };
    let dead = store.schedules(dead).await?;
    let content = html! {
        div.head { h1 { "Overview" } }
        (dead_schedules(&context, &dead))
        (paused_workflows(&context, &stats))
        (set_aside(&context, &aside))
        (figures(&stats))
        section.card id="timeline" {
            header {
                h2 { "Before and after now" }
                nav.row aria-label="How far" {
                    @for reach in Reach::ALL {
                        a href=(with(&context.address, "reach", Some(reach.name())))
                            aria-current=[(reach == params.reach).then_some("true")] { (reach.name()) }
                    }
                }
            }
            (timeline::show(&context, params.reach).await?)
        }
        div.columns {
            section.card.flush {
                header { h2 { "Coming" } a href="/schedules?status=active" { "All schedules" } }
                (coming_lines(&context, &coming))
            }
            section.card.flush {
                header { h2 { "Going on" } a href="/runs" { "All runs" } }
                (lines(&context, &active.items, "Nothing runs at the moment."))
            }
            section.card.flush {
                header { h2 { "Failed" } a href="/runs?status=failed,timed_out" { "All of them" } }
                (lines(&context, &failed.items, "Nothing has failed."))
            }
            section.card.flush {
                header { h2 { "Past their deadline" } a href="/runs?overdue=true" { "All of them" } }
                (lines(&context, &overdue.items, "Everything was done in the time promised."))
            }
        }
    };
    Ok(context.show(Page::new("Overview", content).live("all")))
}

/// Dead schedules, shown first: somebody has to act on them.
fn dead_schedules(context: &PageContext, dead: &store::Page<ScheduleView>) -> Markup {
    if dead.items.is_empty() {
        return html! {};
    }
    let total = match dead.total {
        Total::Exact(total) | Total::AtLeast(total) => total,
    };
    html! {
        section.card.is-bad id="dead" {
            header { h2 { "Dead schedules" } a href="/schedules?status=dead" { "All of them" } }
            p { "Nothing of these starts any more. Mend what is wrong, then revive them." }
            ul {
                @for view in &dead.items {
                    li {
                        a.name href={ "/schedules/" (view.schedule.id) } { (view.schedule.declared.name) }
                        ", last changed " (when::at(context, view.schedule.updated_at)) ": "
                        (view.schedule.progress.last_error.as_deref().unwrap_or("its retries are exhausted"))
                    }
                }
            }
            @if total > dead.items.len() as u64 {
                p { "and " (grouped(total - dead.items.len() as u64)) " more" }
            }
        }
    }
}

/// Paused workflows that wait for a person, because one of their handlers failed or somebody paused
/// them with a reason.
fn paused_workflows(context: &PageContext, stats: &Stats) -> Markup {
    let paused = &stats.latest_paused;
    if paused.is_empty() {
        return html! {};
    }
    html! {
        section.card.is-bad id="paused-workflows" {
            header { h2 { "Paused workflows" } }
            p { "Nothing of these starts by itself. Mend what is wrong, then resume them." }
            ul {
                @for (name, reason, since) in paused.iter().take(LINES) {
                    li {
                        a.name href={ "/workflows/" (name) } { (name) }
                        " since " (when::at(context, *since)) ": " (reason)
                    }
                }
            }
            @let more = stats.paused_workflows.saturating_sub(paused.len().min(LINES) as u64);
            @if more > 0 { p { "and " (grouped(more)) " more" } }
        }
    }
}

/// Rows that cannot be read or decided as they are stored, shown first: somebody has to act on
/// them.
fn set_aside(context: &PageContext, aside: &[SetAside]) -> Markup {
    if aside.is_empty() {
        return html! {};
    }
    html! {
        section.card.is-bad id="set-aside" {
            header { h2 { "Set aside" } }
            p {
                "These cannot be read or decided as they are stored, so nothing of them happens; everything else goes \
                 on. "
                code { "punctual doctor" }
                " says what is wrong with each of them and what to do."
            }
            ul {
                @for one in aside.iter().take(LINES) {
                    li {
                        strong { (one.kind()) " " (one.id) }
                        " since " (when::at(context, one.since)) ": " (one.reason)
                    }
                }
            }
            @if aside.len() > LINES { p { "and " (grouped((aside.len() - LINES) as u64)) " more" } }
        }
    }
}

fn figures(stats: &Stats) -> Markup {
    let schedules = |params: Status| {
        stats.schedules.iter().filter(|(status, _)| *status == params).map(|(_, n)| n).sum::<u64>()
    };
    let runs = |params: RunStatus| {
        stats.runs.iter().filter(|(status, _)| *status == params).map(|(_, n)| n).sum::<u64>()
    };
    let figures = [
        ("/runs?status=running", "running", runs(RunStatus::Running), ""),
        (
            "/runs?status=pending,waiting",
            "waiting",
            runs(RunStatus::Pending) + runs(RunStatus::Waiting),
            "",
        ),
        need_a_person(runs(RunStatus::Suspended), stats),
        ("/schedules?status=active", "active schedules", schedules(Status::Active), ""),
        ("/schedules?status=dead", "dead schedules", schedules(Status::Dead), "is-bad"),
        ("/runs?status=pending", "due and not taken up", stats.due, "is-warn"),
    ];
    html! {
        nav.figures aria-label="Figures" {
            @for (address, label, count, class) in figures {
                a href=(address) class=[(count > 0).then_some(class)] {
                    strong { (grouped(count)) }
                    span { (label) }
                }
            }
        }
    }
}

/// The count of what needs a person: open approvals, suspended runs, and workflows that are paused
/// for another reason than a suspended run.
fn need_a_person(suspended: u64, stats: &Stats) -> (&'static str, &'static str, u64, &'static str) {
    let paused = stats.paused_workflows.saturating_sub(suspended);
    let address = match (stats.approvals, suspended) {
        (1.., _) => "/approvals",
        (0, 1..) => "/runs?status=suspended",
        (0, 0) => "/workflows",
    };
    (address, "need a person", suspended + stats.approvals + paused, "is-warn")
}

fn coming_lines(context: &PageContext, coming: &[ScheduleView]) -> Markup {
    if coming.is_empty() {
        let remedy =
            html! { p { a href="/schedules/new" { "Create a schedule" } " to see what comes." } };
        return empty("Nothing is due.", remedy);
    }
    let rules = context.app.rules();
    html! {
        div.scroll {
            table {
                thead.hidden { tr { th { "Schedule" } th { "Due" } } }
                tbody {
                    @for view in coming {
                        tr id={ "coming-" (view.schedule.id) } {
                            td {
                                a.name href={ "/schedules/" (view.schedule.id) } { (view.schedule.declared.name) }
                                div.small.muted { (view.workflow_name) }
                            }
                            td.number {
                                @if let Some(at) = object::next(view, &rules, context.now) {
                                    (when::age(context, at))
                                    div.small.muted { (when::at(context, at)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
