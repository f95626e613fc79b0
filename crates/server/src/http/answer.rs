//! Responses: JSON objects and pages of them.

use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use store::{Cursor, Total};

use super::cursor;
use super::problem::Problem;

/// What a request handler returns.
pub type Answered = Result<Response, Problem>;

/// A page of a list.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Listed<T> {
    /// The items of this page.
    pub items: Vec<T>,
    /// How many items there are in all.
    pub total: u64,
    /// Whether `total` is exact; otherwise there are at least so many.
    pub total_is_exact: bool,
    /// The `cursor` of the next page; null on the last one.
    pub next_cursor: Option<String>,
}

impl<T> Listed<T> {
    pub fn new(items: Vec<T>, total: Total, next: Option<&Cursor>) -> Listed<T> {
        let (total, total_is_exact) = match total {
            Total::Exact(total) => (total, true),
            Total::AtLeast(total) => (total, false),
        };
        Listed { items, total, total_is_exact, next_cursor: next.map(cursor::write) }
    }
}

/// A JSON response with this status.
pub fn json(status: StatusCode, body: &impl Serialize) -> Answered {
    let body = serde_json::to_vec(body).map_err(|error| {
        tracing::error!(%error, "an answer cannot be written");
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Problem::new(status, "internal", "Internal error", "The answer cannot be written.")
    })?;
    let mut response = (status, body).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// A JSON response with status 200.
pub fn ok(body: &impl Serialize) -> Answered {
    json(StatusCode::OK, body)
}

/// A JSON response with status 201 and the location of the new object.
pub fn created(location: &str, body: &impl Serialize) -> Answered {
    let mut response = json(StatusCode::CREATED, body)?;
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// An empty response with status 204.
pub fn no_content() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

/// Adds a header if the response is that of an earlier request with the same key.
#[must_use]
pub fn replayed(mut response: Response, replayed: bool) -> Response {
    if replayed {
        let yes = HeaderValue::from_static("true");
        response.headers_mut().insert("idempotency-replayed", yes);
    }
    response
}
