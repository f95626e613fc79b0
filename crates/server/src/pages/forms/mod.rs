//! Handles forms: each makes one request to the API, in process, as the user who sent it.
//!
//! `/forms/schedules/42/pause` becomes `POST /api/v1/schedules/42/pause`, with the fields as its
//! JSON body. The API decides who may do it, what is valid and what is recorded, once for programs
//! and people.

mod fields;
mod values;

use axum::extract::OriginalUri;
use axum::http::header::{ACCEPT, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use url::form_urlencoded;

use self::fields::Form;
use super::page_context::{PageContext, SAID_COOKIE};
use crate::http::answer::{self, Answered};
use crate::http::body::RawBody;
use crate::http::problem::{Problem, Wrong};

/// How many seconds a message waits for the next page at most.
const SAID_SECONDS: u32 = 60;

/// Passes a form on to the API, and sends the user to the next page.
pub(super) async fn send(
    context: PageContext,
    OriginalUri(address): OriginalUri,
    headers: HeaderMap,
    body: RawBody,
) -> Answered {
    let form = read(&context, &body.text)?;
    let method = match form.method.as_deref() {
        None | Some("POST") => Method::POST,
        Some("PUT") => Method::PUT,
        Some("PATCH") => Method::PATCH,
        Some("DELETE") => Method::DELETE,
        Some(_) => return Err(Problem::bad_request("Forms send POST, PUT, PATCH or DELETE.")),
    };
    let address = address.path_and_query().map_or("", |address| address.as_str());
    let path = address.strip_prefix("/forms/").unwrap_or_default();
    let answer = call(&context, method, path, &form).await?;
    let is_script = headers.get(ACCEPT).is_some_and(|accept| accept == "application/json");
    answered(&form, &answer, is_script)
}

/// Sends the user to the next page, with values from the API's response.
pub(super) fn answered(form: &Form, answer: &Value, is_script: bool) -> Answered {
    let next = fields::destination(form.next.as_deref().unwrap_or("/"), answer);
    let said = form.said.as_deref().map(|said| fields::filled(said, answer));
    go(&next, said.as_deref(), is_script)
}

/// The JSON of a form's fields, without a check of its key.
pub(super) fn fields_of(text: &str) -> Result<String, Vec<Wrong>> {
    let form = fields::read(form_urlencoded::parse(text.as_bytes()).into_owned())?;
    Ok(form.values.json())
}

/// Reads a form, and refuses it if it was not made by one of our own pages.
pub(super) fn read(context: &PageContext, text: &str) -> Result<Form, Problem> {
    let pairs = form_urlencoded::parse(text.as_bytes()).into_owned();
    let form = fields::read(pairs).map_err(Problem::invalid)?;
    if !context.caller.has_form_key(&form.key) {
        let detail = "The form does not come from a page of this sign-in. Load the page again.";
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", "Forbidden", detail));
    }
    Ok(form)
}

/// Calls the API for a form, and returns its response.
pub(super) async fn call(
    context: &PageContext,
    method: Method,
    path: &str,
    form: &Form,
) -> Result<Value, Problem> {
    let target = format!("/api/v1/{path}");
    let (kind, body) = match (&form.body, &form.content_type) {
        (Some(body), kind) => (kind.as_deref().unwrap_or("application/yaml"), Some(body.clone())),
        (None, _) if form.values.is_empty() => ("application/json", None),
        (None, _) => ("application/json", Some(form.values.json())),
    };
    let (_, answer) = context.app.call_with(&context.caller, method, &target, kind, body).await?;
    Ok(answer)
}

/// Sends the user to the next page, with a message to show there.
pub(super) fn go(next: &str, said: Option<&str>, is_script: bool) -> Answered {
    let mut response = if is_script {
        answer::ok(&json!({ "next": next }))?
    } else {
        let mut response: Response = StatusCode::SEE_OTHER.into_response();
        let location = HeaderValue::from_str(next).unwrap_or(HeaderValue::from_static("/"));
        response.headers_mut().insert(LOCATION, location);
        response
    };
    if let Some(said) = said {
        let said = percent_encoding::utf8_percent_encode(said, percent_encoding::NON_ALPHANUMERIC);
        let cookie =
            format!("{SAID_COOKIE}={said}; Path=/; Max-Age={SAID_SECONDS}; HttpOnly; SameSite=Lax");
        let cookie = HeaderValue::from_str(&cookie).ok();
        response.headers_mut().extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    }
    Ok(response)
}
