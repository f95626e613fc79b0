//! Requests that the pages make to the API, in process, on behalf of whoever looks at them.

use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::response::Response;
use serde_json::Value;
use tower_service::Service as _;

use super::App;
use super::access::Caller;
use super::body::LARGEST_BATCH;
use super::problem::Problem;

impl App {
    /// What the API answers the caller, who is known already; their permission is checked as ever.
    pub(crate) async fn answer(
        &self,
        caller: &Caller,
        mut request: Request,
    ) -> Result<Response, Problem> {
        let Some(router) = self.0.api.get() else {
            return Err(Problem::unavailable("The node is starting. Try again."));
        };
        request.extensions_mut().insert(caller.clone());
        let mut router: Router = router.clone();
        match router.call(request).await {
            Ok(response) => Ok(response),
            Err(never) => match never {},
        }
    }

    /// The same, read: the JSON, or what went wrong.
    pub(crate) async fn call(&self, caller: &Caller, request: Request) -> Result<Value, Problem> {
        let mut response = self.answer(caller, request).await?;
        if let Some(problem) = response.extensions_mut().remove::<Problem>() {
            return Err(problem);
        }
        let body = to_bytes(response.into_body(), LARGEST_BATCH).await;
        let body = body.map_err(|_| Problem::unavailable("The answer could not be read."))?;
        Ok(serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    /// The OpenAPI document, to be shown.
    pub(crate) fn read_document(&self) -> Result<Value, Problem> {
        serde_json::from_str(self.document())
            .map_err(|_| Problem::unavailable("The document could not be read."))
    }
}
