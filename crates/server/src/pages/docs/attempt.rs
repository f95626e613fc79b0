//! Tries out a request to the API: it is really sent, in process, as the user.

use std::collections::HashMap;
use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use maud::{Markup, html};
use serde_json::Value;
use url::form_urlencoded;

use super::operation::operations;
use crate::http::problem::Problem;
use crate::pages::page_context::PageContext;

/// How many characters of a response are shown.
const SHOWN: usize = 64 * 1024;
/// Larger than any response but a stream.
const LARGEST: usize = 32 * 1024 * 1024;
/// How long to wait for a response. A stream does not end, and is not shown.
const PATIENCE: Duration = Duration::from_secs(20);

/// The response to a request.
pub(super) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    request: String,
    body: String,
}

/// Sends the request that the form describes.
pub(super) async fn send(context: &PageContext, id: &str, sent: &str) -> Result<Answer, Problem> {
    let fields: HashMap<String, String> =
        form_urlencoded::parse(sent.as_bytes()).into_owned().collect();
    if !context.caller.has_form_key(fields.get("_key").map_or("", String::as_str)) {
        let detail = "The form does not come from a page of this sign-in. Load the page again.";
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", "Forbidden", detail));
    }
    let document = context.app.read_document()?;
    let all = operations(&document);
    let found = all.into_iter().find(|operation| operation.id() == id);
    let operation = found.ok_or_else(|| Problem::not_found("request in the API", id))?;
    let address = operation.address(&fields);
    let request = Request::builder()
        .method(&*operation.method())
        .uri(&address)
        .header("content-type", operation.content_type())
        .extension(context.caller.clone())
        .body(fields.get("_body").cloned().unwrap_or_default().replace("\r\n", "\n").into())
        .map_err(|_| Problem::bad_request("This address cannot be asked for."))?;
    let response = context.app.answer(request).await?;
    let (parts, body) = response.into_parts();
    let body = tokio::time::timeout(PATIENCE, to_bytes(body, LARGEST)).await;
    let body = match body {
        Ok(Ok(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
        Ok(Err(_)) => "(more than can be shown)".to_owned(),
        Err(_) => "(it goes on: ask with a program)".to_owned(),
    };
    let request = format!("{} {address}", operation.method());
    Ok(Answer { status: parts.status, headers: parts.headers, request, body })
}

pub(super) fn answered(answer: &Answer) -> Markup {
    let class = if answer.status.is_success() { "is-ok" } else { "is-bad" };
    let read = serde_json::from_str::<Value>(&answer.body).ok();
    let pretty = read.and_then(|value| serde_json::to_string_pretty(&value).ok());
    let body = pretty.unwrap_or_else(|| answer.body.clone());
    let shown: String = body.chars().take(SHOWN).collect();
    let kind = answer.headers.get("content-type").and_then(|kind| kind.to_str().ok());
    html! {
        p.mono.small { (answer.request) }
        p {
            span class={ "badge " (class) } { (answer.status) } " "
            span.muted.small { (kind.unwrap_or_default()) }
        }
        @if !shown.is_empty() { pre tabindex="0" { (shown) } }
        @if shown.len() < body.len() { p.muted { "… and more: ask with a program." } }
    }
}
