//! `/openapi.json`.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

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

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(document))
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "node", responses((status = 200, body = Object)))]
async fn document(State(app): State<App>) -> Response {
    ([(CONTENT_TYPE, "application/json")], app.document().to_owned()).into_response()
}

/// The document as it is served.
pub(super) fn text(mut document: OpenApi) -> String {
    name_operations(&mut document);
    document.to_json().unwrap_or_default()
}

/// Each operation has a name of its own: its method and its way.
fn name_operations(document: &mut OpenApi) {
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in [
            ("get", &mut item.get),
            ("put", &mut item.put),
            ("post", &mut item.post),
            ("delete", &mut item.delete),
            ("patch", &mut item.patch),
        ] {
            if let Some(operation) = operation {
                let words = path.split(|c: char| !c.is_ascii_alphanumeric());
                let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
                operation.operation_id = Some(format!("{method}_{}", words.join("_")));
            }
        }
    }
}
