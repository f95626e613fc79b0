//! Shows a problem of the API as a page.

use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::header::ACCEPT;
use axum::middleware::Next;
use axum::response::Response;
use maud::{Markup, html};

use super::layout::Page;
use super::page_context::PageContext;
use crate::http::App;
use crate::http::access::Caller;
use crate::http::problem::Problem;

/// Middleware that shows a problem to people as a page; programs get it as JSON.
pub(crate) async fn tell(State(app): State<App>, request: Request, next: Next) -> Response {
    let accepts = request.headers().get(ACCEPT).and_then(|accepts| accepts.to_str().ok());
    let is_program = request.uri().path().starts_with("/api")
        || !accepts.is_some_and(|accepts| accepts.contains("text/html"));
    if is_program {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let Ok(mut context) = PageContext::from_request_parts(&mut parts, &app).await;
    let mut response = next.run(Request::from_parts(parts, body)).await;
    if let Some(caller) = response.extensions_mut().remove::<Caller>() {
        context.caller = caller;
    }
    match response.extensions_mut().remove::<Problem>() {
        Some(problem) => shown(&context, &problem),
        None => response,
    }
}

/// A problem as a page of its own.
pub(super) fn shown(context: &PageContext, problem: &Problem) -> Response {
    let content = html! {
        div.head { h1 { (problem.title()) } }
        (told(problem))
        p { a href="/" { "To the overview" } " · or go back in your browser: what you wrote is still there." }
    };
    context.show_with(problem.status(), Page::new(problem.title(), content))
}

/// A problem in words, with each error.
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
