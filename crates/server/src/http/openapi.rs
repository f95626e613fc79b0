//! `/openapi.json`, and what editors want to know.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse as _;
use runners::script::TYPES;
use utoipa::OpenApi as _;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, Response, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::answer::{self, Answered};

#[derive(utoipa::OpenApi)]
#[openapi(info(
    title = "Punctual",
    description = "A durable workflow scheduler. Times are RFC 3339 with an offset; errors are \
        application/problem+json; every POST takes an Idempotency-Key, and those \
        that it changes nothing for say so."
))]
struct Document;

/// What the document begins with.
pub(super) fn head() -> OpenApi {
    let mut document = Document::openapi();
    document.info.version = env!("CARGO_PKG_VERSION").to_owned();
    document
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(document)).routes(routes!(schema)).routes(routes!(types))
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "node", responses((status = 200, body = Object)))]
async fn document(State(app): State<App>) -> axum::response::Response {
    ([(CONTENT_TYPE, "application/json")], app.document().to_owned()).into_response()
}

/// The JSON Schema of definitions, for editors and programs.
#[utoipa::path(get, path = "/schema.json", tag = "node", responses((status = 200, body = Object)))]
async fn schema() -> Answered {
    answer::ok(&engine::definition::schema())
}

/// TypeScript definitions of all that scripts see, for editors.
#[utoipa::path(get, path = "/punctual.d.ts", tag = "node", responses((status = 200, body = String)))]
async fn types() -> axum::response::Response {
    ([(CONTENT_TYPE, "application/typescript; charset=utf-8")], TYPES).into_response()
}

/// The document as it is served.
pub(super) fn text(mut document: OpenApi) -> String {
    complete(&mut document);
    document.to_json().unwrap_or_default()
}

/// What holds for every operation is said here, not with each of them: a name of its own, made of its
/// method and its way, and the problems that any request can meet.
fn complete(document: &mut OpenApi) {
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in [
            ("get", &mut item.get),
            ("put", &mut item.put),
            ("post", &mut item.post),
            ("delete", &mut item.delete),
            ("patch", &mut item.patch),
        ] {
            let Some(operation) = operation else { continue };
            let words = path.split(|c: char| !c.is_ascii_alphanumeric());
            let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
            operation.operation_id = Some(format!("{method}_{}", words.join("_")));
            if path.starts_with("/api/") {
                add_problems(operation);
            }
        }
    }
}

fn add_problems(operation: &mut Operation) {
    operation.responses.responses.values_mut().for_each(name_type);
    let with_body: &[(&str, &str)] = match operation.request_body {
        Some(_) => &[("413", "Too large"), ("415", "Wrong content type"), ("422", "Invalid")],
        None => &[],
    };
    let always = [
        ("400", "Cannot be read, or not in this status"),
        ("401", "Nobody is known: the token is missing or wrong"),
        ("403", "Not for this caller"),
        ("503", "Not available; try again"),
    ];
    for (status, description) in always.iter().chain(with_body) {
        let problem = Content::new(Some(Ref::from_schema_name("Problem")));
        let response = ResponseBuilder::new()
            .description(*description)
            .content("application/problem+json", problem)
            .build();
        let known = &mut operation.responses.responses;
        known.entry((*status).to_owned()).or_insert_with(|| response.into());
    }
}

/// A problem has a content type of its own.
fn name_type(response: &mut RefOr<Response>) {
    let RefOr::T(response) = response else { return };
    let is_problem = |content: &RefOr<Content>| match content {
        RefOr::T(Content { schema: Some(RefOr::Ref(to)), .. }) => {
            to.ref_location.ends_with("/Problem")
        }
        _ => false,
    };
    if response.content.get("application/json").is_some_and(is_problem)
        && let Some(content) = response.content.swap_remove("application/json")
    {
        response.content.insert("application/problem+json".to_owned(), content);
    }
}
