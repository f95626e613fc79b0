//! Problems as pages.

use axum::extract::{FromRequestParts as _, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use maud::{Markup, html};

use super::frame::Page;
use super::visit::Visit;
use crate::http::App;
use crate::http::problem::Problem;

/// A problem that a page's handler answers with is shown as a page, unless a program asked.
pub(super) async fn tell(State(app): State<App>, request: Request, next: Next) -> Response {
    let accepts = request.headers().get(axum::http::header::ACCEPT);
    let is_program =
        accepts.and_then(|accepts| accepts.to_str().ok()).is_some_and(|text| !takes_pages(text));
    let (mut parts, body) = request.into_parts();
    let Ok(visit) = Visit::from_request_parts(&mut parts, &app).await;
    let mut response = next.run(Request::from_parts(parts, body)).await;
    match response.extensions_mut().remove::<Problem>() {
        Some(problem) if !is_program => shown(&visit, &problem),
        _ => response,
    }
}

fn takes_pages(accepts: &str) -> bool {
    accepts.contains("text/html") || accepts.contains("*/*")
}

/// A problem as a page of its own.
pub(super) fn shown(visit: &Visit, problem: &Problem) -> Response {
    let content = html! {
        div.head { h1 { (problem.title()) } }
        (told(problem))
        p { a href="/" { "To the overview" } " · or go back in your browser: what you wrote is still there." }
    };
    visit.show_with(problem.status(), Page::new(problem.title(), content))
}

/// A problem in words, with each mistake.
pub(super) fn told(problem: &Problem) -> Markup {
    html! {
        div.said.is-bad role="alert" {
            p { (problem.detail()) }
            @if problem.errors().len() > 1 {
                ul { @for wrong in problem.errors() { li { (wrong) } } }
            }
        }
    }
}
