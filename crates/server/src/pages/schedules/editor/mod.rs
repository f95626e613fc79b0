//! The form in which schedules are written. A preview shows the rule in words and its next times:
//! while typing with the script, at the press of a button without it.

mod form_state;
mod options;
mod preview;
mod rule;
mod typed;

use axum::extract::RawQuery;
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use language::definition::DeclaredBy;
use maud::{Markup, html};

use self::form_state::{Field, FormState};
use self::preview::Told;
use self::typed::Typed;
use super::list::{choices, names};
use super::one::Looked;
use crate::http::body::RawBody;
use crate::http::path::SchedulePath;
use crate::http::problem::{Problem, Wrong};
use crate::pages::layout::Page;
use crate::pages::page_context::PageContext;
use crate::pages::{error_page, form, forms};

/// The name of the button that only updates the preview.
const LOOK: &str = "_look";

/// The form for a new schedule, filled in from the query.
pub(super) async fn new(
    context: PageContext,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = query.unwrap_or_default();
    let told = (!query.is_empty()).then(|| preview::of_new(&context, &query));
    let typed = Typed::parse(&query).or("timezone", context.zone.name());
    let told = told.unwrap_or(Told::Nothing);
    show(&context, StatusCode::OK, None, &typed, &told, None).await
}

/// The preview of a new schedule, as a part of the page.
pub(super) async fn preview(context: PageContext, RawQuery(query): RawQuery) -> Response {
    let told = preview::of_new(&context, &query.unwrap_or_default());
    context.show(Page::new("Preview", told.show(&context)))
}

/// The preview of a change to a schedule, with what would change.
pub(super) async fn preview_change(
    context: PageContext,
    SchedulePath(id): SchedulePath,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let looked = Looked::at(&context, id).await?;
    let told = preview::of_change(&context, &looked, &query.unwrap_or_default());
    Ok(context.show(Page::new("Preview", told.show(&context))))
}

/// Creates the schedule, or shows the form again with the errors.
pub(super) async fn create(
    context: PageContext,
    headers: HeaderMap,
    body: RawBody,
) -> Result<Response, Problem> {
    let typed = Typed::parse(&body.text);
    if only_looks(&typed) {
        let told = preview::of_new(&context, &body.text);
        return show(&context, StatusCode::OK, None, &typed, &told, None).await;
    }
    match send(&context, Method::POST, "schedules", &headers, &body).await {
        Err(problem) if !asks_for_json(&headers) => {
            let told = preview::of_new(&context, &body.text);
            show(&context, problem.status(), None, &typed, &told, Some(&problem)).await
        }
        answered => answered,
    }
}

/// The form with what a schedule declares.
pub(super) async fn edit(
    context: PageContext,
    SchedulePath(id): SchedulePath,
) -> Result<Response, Problem> {
    let looked = Looked::at(&context, id).await?;
    if let Some(by) = &looked.schedule().declared_by {
        return Ok(context.show(Page::new(looked.name(), elsewhere(&looked, by))));
    }
    let typed = Typed::of(&looked.schedule().declared);
    let told = preview::of_declared(&context, &looked);
    show(&context, StatusCode::OK, Some(&looked), &typed, &told, None).await
}

/// Changes the schedule, or shows the form again with the errors.
pub(super) async fn change(
    context: PageContext,
    SchedulePath(id): SchedulePath,
    headers: HeaderMap,
    body: RawBody,
) -> Result<Response, Problem> {
    let looked = Looked::at(&context, id).await?;
    let typed = Typed::parse(&body.text);
    if only_looks(&typed) {
        let told = preview::of_change(&context, &looked, &body.text);
        return show(&context, StatusCode::OK, Some(&looked), &typed, &told, None).await;
    }
    match send(&context, Method::PATCH, &format!("schedules/{id}"), &headers, &body).await {
        Err(problem) if !asks_for_json(&headers) => {
            let told = preview::of_change(&context, &looked, &body.text);
            show(&context, problem.status(), Some(&looked), &typed, &told, Some(&problem)).await
        }
        answered => answered,
    }
}

/// Whether nothing is to be saved yet: a preview was asked for, or another kind of rule was chosen
/// whose fields were not shown.
fn only_looks(typed: &Typed) -> bool {
    !typed.get(LOOK).is_empty() || typed.is_another_kind()
}

fn asks_for_json(headers: &HeaderMap) -> bool {
    headers.get(ACCEPT).is_some_and(|accept| accept == "application/json")
}

async fn send(
    context: &PageContext,
    method: Method,
    path: &str,
    headers: &HeaderMap,
    body: &RawBody,
) -> Result<Response, Problem> {
    let form = forms::read(context, &body.text)?;
    let answer = forms::call(context, method, path, &form).await?;
    forms::answered(&form, &answer, asks_for_json(headers))
}

/// Explains where to change a schedule that a definition declares.
fn elsewhere(looked: &Looked, by: &DeclaredBy) -> Markup {
    let schedule = looked.schedule();
    html! {
        div.head { h1 { (looked.name()) } }
        div.said {
            p {
                "This schedule is declared by trigger " code { (by) }
                " of workflow " strong { (looked.view.workflow_name) } ". "
                "It is changed there, with a new version of the workflow."
            }
            p {
                a href={ "/workflows/" (schedule.workflow) } { "To the workflow" } " · "
                a href=(looked.address()) { "Back to the schedule" }
            }
        }
    }
}

async fn show(
    context: &PageContext,
    status: StatusCode,
    looked: Option<&Looked>,
    typed: &Typed,
    told: &Told,
    problem: Option<&Problem>,
) -> Result<Response, Problem> {
    let wrong = problem.map(Problem::errors).unwrap_or_default();
    let form = FormState { typed, wrong };
    let title = match looked {
        Some(looked) => format!("Edit {}", looked.name()),
        None => "New schedule".to_owned(),
    };
    let content = html! {
        div.head {
            nav.trail aria-label="Trail" {
                a href="/schedules" { "Schedules" }
                @if let Some(looked) = looked { " / " a href=(looked.address()) { (looked.name()) } }
            }
            h1 { (title) }
        }
        @if let Some(problem) = problem { (error_page::told(problem)) }
        div.editor {
            (whole(context, looked, &form).await?)
            (told.show(context))
        }
        (lists(context).await?)
    };
    Ok(context.show_with(status, Page::new(title, content)))
}

async fn whole(
    context: &PageContext,
    looked: Option<&Looked>,
    form: &FormState<'_>,
) -> Result<Markup, Problem> {
    let (action, preview, next, said, label) = match looked {
        None => (
            "/schedules/new".to_owned(),
            "/schedules/preview".to_owned(),
            "/schedules/{id}".to_owned(),
            "The schedule was created.",
            "Create",
        ),
        Some(looked) => {
            let own = looked.address();
            (
                format!("{own}/edit"),
                format!("{own}/edit/preview"),
                own,
                "The schedule was changed.",
                "Save",
            )
        }
    };
    Ok(html! {
        form.form.card #editor method="post" action=(action) data-in-place="" data-preview=(preview)
            data-preview-into="preview" {
            (form::hidden(context, &next, Some(said), None))
            div.fields {
                (form.line(&Field::new("Name", "name").placeholder("Nightly report").required()))
                @match looked {
                    None => (form.line(&Field::new("Workflow", "workflow_id")
                        .placeholder("which it starts").list("workflows").required())),
                    Some(looked) => div.field {
                        strong.small { "Workflow" }
                        a href={ "/workflows/" (looked.schedule().workflow) } { (looked.view.workflow_name) }
                    },
                }
            }
            (form.kind())
            (form.rule())
            (form.zone_and_days_off())
            (form.area(&Field::new("Payload", "payload:json-or-null").placeholder("{}")
                .hint("JSON that each run gets as its input"), 3))
            (more(form, "Bounds, spread, clock changes", &BOUNDS, form.finer()))
            (more(form, "Overlap and catching up", &POLICIES, form.policies()))
            (more(form, "Retries and time limit", &FAILURES, form.failures()))
            (more(form, "Description, owner, history", &ABOUT, form.about()))
            div.row {
                button.main type="submit" { (label) }
                button type="submit" name=(LOOK) value="true" formnovalidate { "Preview" }
            }
        }
    })
}

const BOUNDS: [&str; 5] = ["start", "end", "spread", "total_repeats", "dst"];
const POLICIES: [&str; 3] = ["overlap", "queue_limit", "catch_up"];
const FAILURES: [&str; 5] =
    ["max_retries", "on_exhausted", "retry", "timeout_seconds", "pause_on_failure"];
const ABOUT: [&str; 3] = ["description", "owner", "retention"];

/// Rarely used fields in a collapsed section, which is open if one of them has an error.
fn more(form: &FormState<'_>, title: &str, paths: &[&str], fields: Markup) -> Markup {
    let is_about = |wrong: &Wrong| paths.iter().any(|path| form_state::is_about(wrong, path));
    html! {
        details open[form.wrong.iter().any(is_about)] { summary { (title) } (fields) }
    }
}

/// The values that fields offer to choose from.
async fn lists(context: &PageContext) -> Result<Markup, Problem> {
    let rules = context.app.rules();
    let calendars = context.app.store().calendars().await?;
    Ok(html! {
        (choices("workflows", &names(context).await?))
        (choices("zones", &rules.zones().names()))
        datalist id="calendars" {
            @for calendar in calendars.iter().take(100) { option value=(calendar.id) {} }
            (options::regions())
        }
    })
}
