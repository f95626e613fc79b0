//! `/openapi.json`.

use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use axum::{Router, response::IntoResponse as _};
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;

use super::App;

#[derive(utoipa::OpenApi)]
#[openapi(info(
    title = "Punctual",
    description = "A durable workflow scheduler. Times are RFC 3339 with an offset; errors are \
        application/problem+json; every POST takes an Idempotency-Key."
))]
struct Document;

/// What the document begins with.
pub(super) fn head() -> OpenApi {
    let mut document = Document::openapi();
    document.info.version = env!("CARGO_PKG_VERSION").to_owned();
    document
}

/// Serves the document.
pub(super) fn route(document: &OpenApi) -> Router<App> {
    let text = document.to_json().unwrap_or_default();
    let show = move || async move { ([(CONTENT_TYPE, "application/json")], text).into_response() };
    Router::new().route("/openapi.json", get(show))
}
