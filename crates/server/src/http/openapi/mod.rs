//! `/openapi.json`, and schemas for editors.
//!
//! Request handlers declare what is their own: parameters, bodies, responses. What holds for many
//! of them is added here when all routes are known: names, access, problems and headers
//! (`operations.rs`), and descriptions of common fields (`fields.rs`). Defaults of requests become
//! text (`defaults.rs`). Schedules and calendars are described by the engine's table of keys
//! (`composed.rs`).

mod composed;
mod defaults;
mod fields;
mod operations;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse as _;
use runners::script::TYPES;
use serde_json::{Value, json};
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::answer::{self, Answered};
use super::hooks::HookCalled;
use super::schedules::Difference;
use super::shapes::EventOrder;
use super::topics::EventInput;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Punctual",
        description = "A durable workflow scheduler. Times are RFC 3339 with an offset; errors are \
            application/problem+json; every POST takes an Idempotency-Key, and those \
            that it changes nothing for say so. Unknown query parameters and fields are refused; \
            a query parameter that is empty is as if it was not given."
    ),
    components(schemas(Difference, EventInput, EventOrder, HookCalled))
)]
struct Document;

/// The beginning of the document.
pub(super) fn head() -> OpenApi {
    let mut document = Document::openapi();
    document.info.version = env!("CARGO_PKG_VERSION").to_owned();
    document
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(document)).routes(routes!(schema)).routes(routes!(types))
}

/// Gets this document.
#[utoipa::path(get, path = "/openapi.json", tag = "node", responses((status = 200, body = Object)))]
async fn document(State(app): State<App>) -> axum::response::Response {
    ([(CONTENT_TYPE, "application/json")], app.document().to_owned()).into_response()
}

/// Gets the JSON Schema of definitions, for editors and programs.
#[utoipa::path(get, path = "/schema.json", tag = "node", responses((status = 200, body = Object)))]
async fn schema() -> Answered {
    answer::ok(&language::definition::schema())
}

/// Gets TypeScript definitions of the API of scripts, for editors.
#[utoipa::path(get, path = "/punctual.d.ts", tag = "node",
    responses((status = 200, body = String, content_type = "application/typescript")))]
async fn types() -> axum::response::Response {
    ([(CONTENT_TYPE, "application/typescript; charset=utf-8")], TYPES).into_response()
}

/// The document as it is served.
pub(super) fn text(document: &OpenApi) -> String {
    complete(document).to_string()
}

/// The document, completed with what request handlers do not declare.
fn complete(document: &OpenApi) -> Value {
    let mut document = serde_json::to_value(document).unwrap_or_else(|_| json!({}));
    composed::fill(&mut document);
    operations::complete(&mut document);
    fields::complete(&mut document);
    defaults::complete(&mut document);
    document
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::http;

    /// If two Rust types had the same name, the document would contain only one of them.
    #[test]
    fn no_two_schemas_have_the_same_name() {
        let all = [
            http::schedules::routes(),
            http::workflows::routes(),
            http::runs::routes(),
            http::attempts::routes(),
            http::approvals::routes(),
            http::hooks::routes(),
            http::queues::routes(),
            http::topics::routes(),
            http::calendars::routes(),
            http::nodes::routes(),
            http::tokens::routes(),
            http::audit::routes(),
            http::stats::routes(),
        ];
        let mut known: BTreeMap<String, Value> = BTreeMap::new();
        for router in all {
            let (_, document) = router.split_for_parts();
            let document = serde_json::to_value(&document).unwrap();
            let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
            for (name, schema) in schemas.into_iter().flatten() {
                let before = known.insert(name.clone(), schema.clone());
                assert!(before.is_none_or(|before| before == *schema), "{name} is there twice");
            }
        }
        assert!(known.len() > 70, "{}", known.len());
    }
}
