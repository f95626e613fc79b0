//! The API asked from inside: our own pages do nothing that the API does not do.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use serde_json::Value;
use std::sync::Weak;
use tower_service::Service as _;

use super::App;
use super::access::Caller;
use super::problem::Problem;

/// An answer is at most so long: a page of a thousand of the largest objects.
const LARGEST_ANSWER: usize = 64 * 1024 * 1024;

impl App {
    /// Asks the API as this caller, who needs the same permission as from outside. What was answered, or the problem
    /// as others would see it.
    pub async fn call(
        &self,
        caller: &Caller,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<(StatusCode, Value), Problem> {
        let body = body.map(|body| body.to_string());
        self.call_with(caller, method, path, "application/json", body).await
    }

    /// The same with a body of another type.
    pub async fn call_with(
        &self,
        caller: &Caller,
        method: Method,
        path: &str,
        content_type: &str,
        body: Option<String>,
    ) -> Result<(StatusCode, Value), Problem> {
        let mut request = Request::builder().method(method).uri(path).extension(caller.clone());
        if body.is_some() {
            request = request.header(CONTENT_TYPE, content_type);
        }
        let request = request.body(body.map_or_else(Body::empty, Body::from));
        let request = request.map_err(|error| Problem::bad_request(error.to_string()))?;
        let response = self.answer(request).await?;
        let status = response.status();
        let bytes = to_bytes(response.into_body(), LARGEST_ANSWER).await;
        let bytes = bytes.map_err(|error| Problem::unavailable(error.to_string()))?;
        let text = String::from_utf8_lossy(&bytes);
        if !status.is_success() {
            return Err(Problem::read(status, &text));
        }
        let answer = match &*text {
            "" => Value::Null,
            text => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
        };
        Ok((status, answer))
    }

    /// The answer to a request whose caller is known already.
    pub(crate) async fn answer(&self, request: Request) -> Result<Response, Problem> {
        let router = self.0.router.get().and_then(Weak::upgrade);
        let router = router.ok_or_else(|| Problem::unavailable("The node is stopping."))?;
        let Ok(response) = Router::clone(&router).call(request).await;
        Ok(response)
    }

    /// The OpenAPI document, to be shown.
    pub(crate) fn read_document(&self) -> Result<Value, Problem> {
        serde_json::from_str(self.document())
            .map_err(|_| Problem::unavailable("The document could not be read."))
    }
}
