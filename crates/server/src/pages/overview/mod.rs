//! The overview: what runs, what is late, what failed, what comes.

mod timeline;

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use engine::run::RunStatus;
use engine::schedule::Status;
use maud::{Markup, html};
use store::{RunQuery, ScheduleView, Stats};

use self::timeline::Reach;
use super::frame::Page;
use super::listing::{empty, grouped, with};
use super::runs::lines;
use super::visit::Visit;
use super::when;
use crate::http::App;
use crate::http::problem::Problem;
use crate::http::query::{Parameters, Query, Values};

/// Lines of each list.
const LINES: usize = 8;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/", get(show))
}

struct Wanted {
    reach: Reach,
}

impl Parameters for Wanted {
    const KNOWN: &'static [&'static str] = &["reach"];

    fn read(values: &mut Values) -> Wanted {
        let reach = values.one_of("reach", &Reach::ALL, Reach::name);
        Wanted { reach: reach.unwrap_or(Reach::Hour) }
    }
}

async fn show(visit: Visit, Query(wanted): Query<Wanted>) -> Result<Response, Problem> {
    let store = visit.app.store().clone();
    let stats = store.stats(visit.now).await?;
    let of = |status: Vec<RunStatus>, overdue: bool| RunQuery {
        status,
        overdue,
        limit: LINES,
        ..RunQuery::default()
    };
    let going_on = vec![RunStatus::Running, RunStatus::Waiting, RunStatus::Suspended];
    let active = store.runs(of(going_on, false)).await?;
    let failed = store.runs(of(vec![RunStatus::Failed, RunStatus::TimedOut], false)).await?;
    let overdue = store.runs(of(Vec::new(), true)).await?;
    let coming = store.coming(LINES).await?;
    let content = html! {
        div.head { h1 { "Overview" } }
        (figures(&stats))
        section.card id="timeline" {
            header {
                h2 { "Before and after now" }
                nav.row aria-label="How far" {
                    @for reach in Reach::ALL {
                        a href=(with(&visit.address, "reach", Some(reach.name())))
                            aria-current=[(reach == wanted.reach).then_some("true")] { (reach.name()) }
                    }
                }
            }
            (timeline::show(&visit, wanted.reach).await?)
        }
        div.columns {
            section.card.flush {
                header { h2 { "Coming" } a href="/schedules?status=active" { "All schedules" } }
                (coming_lines(&visit, &coming))
            }
            section.card.flush {
                header { h2 { "Going on" } a href="/runs" { "All runs" } }
                (lines(&visit, &active.items, "Nothing runs at the moment."))
            }
            section.card.flush {
                header { h2 { "Failed" } a href="/runs?status=failed,timed_out" { "All of them" } }
                (lines(&visit, &failed.items, "Nothing has failed."))
            }
            section.card.flush {
                header { h2 { "Past their deadline" } a href="/runs?overdue=true" { "All of them" } }
                (lines(&visit, &overdue.items, "Everything was done in the time promised."))
            }
        }
    };
    Ok(visit.show(Page::new("Overview", content).live("all")))
}

fn figures(stats: &Stats) -> Markup {
    let schedules = |wanted: Status| {
        stats.schedules.iter().filter(|(status, _)| *status == wanted).map(|(_, n)| n).sum::<u64>()
    };
    let runs = |wanted: RunStatus| {
        stats.runs.iter().filter(|(status, _)| *status == wanted).map(|(_, n)| n).sum::<u64>()
    };
    let figures = [
        ("/runs?status=running", "running", runs(RunStatus::Running), ""),
        (
            "/runs?status=pending,waiting",
            "waiting",
            runs(RunStatus::Pending) + runs(RunStatus::Waiting),
            "",
        ),
        ("/runs?status=suspended", "need a person", runs(RunStatus::Suspended), "is-warn"),
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

fn coming_lines(visit: &Visit, coming: &[ScheduleView]) -> Markup {
    if coming.is_empty() {
        let remedy =
            html! { p { a href="/schedules/new" { "Create a schedule" } " to see what comes." } };
        return empty("Nothing is due.", remedy);
    }
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
                                @if let Some(due) = &view.schedule.progress.next {
                                    (when::age(visit, due.effective))
                                    div.small.muted { (when::at(visit, due.effective)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
