//! The page to sign in with a token, and to sign out.

use axum::Router;
use axum::extract::State;
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::{get, post};
use maud::{DOCTYPE, Markup, html};
use url::form_urlencoded;

use super::forms;
use super::layout::head;
use super::page_context::{PageContext, Theme};
use crate::http::App;
use crate::http::access::{self, Standing, local_path};
use crate::http::body::RawBody;
use crate::http::problem::Problem;
use crate::http::query::{Parameters, Query, Values};

pub(super) fn routes() -> Router<App> {
    Router::new().route("/sign-in", get(show).post(sign_in)).route("/sign-out", post(sign_out))
}

struct SignInParams {
    next: String,
}

impl Parameters for SignInParams {
    fn read(values: &mut Values) -> SignInParams {
        let next = values.text("next").unwrap_or_default();
        SignInParams { next: local_path(&next).to_owned() }
    }
}

async fn show(context: PageContext, Query(params): Query<SignInParams>) -> Response {
    match context.caller.standing {
        Standing::Anyone => to(&params.next),
        _ => page(&context, StatusCode::OK, &params.next, None),
    }
}

async fn sign_in(
    context: PageContext,
    headers: HeaderMap,
    body: RawBody,
) -> Result<Response, Problem> {
    let field = |params: &str| {
        let mut pairs = form_urlencoded::parse(body.text.as_bytes());
        pairs.find(|(name, _)| name == params).map(|(_, value)| value.into_owned())
    };
    let next = field("next").unwrap_or_default();
    let token = field("token").unwrap_or_default();
    match access::sign_in(&context.app, &token, context.caller.from, &headers).await {
        Ok(signed_in) => {
            let mut response = to(local_path(&next));
            response.headers_mut().append(SET_COOKIE, signed_in.cookie);
            Ok(response)
        }
        Err(problem) if problem.status().is_client_error() => {
            Ok(page(&context, problem.status(), local_path(&next), Some(problem.detail())))
        }
        Err(problem) => Err(problem),
    }
}

async fn sign_out(
    State(app): State<App>,
    context: PageContext,
    headers: HeaderMap,
    body: RawBody,
) -> Result<Response, Problem> {
    forms::read(&context, &body.text)?;
    let cookie = access::sign_out(&app, &headers).await?;
    let mut response = to("/sign-in");
    response.headers_mut().append(SET_COOKIE, cookie);
    Ok(response)
}

fn to(address: &str) -> Response {
    let address = HeaderValue::from_str(address).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(LOCATION, address)]).into_response()
}

fn page(context: &PageContext, status: StatusCode, next: &str, wrong: Option<&str>) -> Response {
    let markup: Markup = html! {
        (DOCTYPE)
        html lang="en" data-theme=[context.theme.map(Theme::name)] {
            (head("Sign in"))
            body {
                main.alone #content {
                    h1 { "Sign in" }
                    form.card.form method="post" action="/sign-in" {
                        input type="hidden" name="next" value=(next);
                        div.field {
                            label for="token" { "Token" }
                            input type="password" id="token" name="token" autocomplete="current-password"
                                required autofocus aria-describedby="token-hint"
                                aria-invalid=[wrong.map(|_| "true")];
                            span.hint id="token-hint" {
                                "Somebody who administers this node makes one with "
                                code { "punctual token create NAME --role viewer" } "."
                            }
                            @if let Some(wrong) = wrong { p.wrong role="alert" { (wrong) } }
                        }
                        div.row { button.main type="submit" { "Sign in" } }
                    }
                }
            }
        }
    };
    (status, Html(markup.into_string())).into_response()
}
