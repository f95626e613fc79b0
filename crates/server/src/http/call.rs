//! Calls to the API from inside: our own pages do nothing that the API does not do.

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

/// The largest response: a page of a thousand of the largest objects.
const LARGEST_ANSWER: usize = 64 * 1024 * 1024;

impl App {
    /// Calls the API as this caller, who needs the same permission as from outside. Returns the
    /// response, or the problem as other callers would see it.
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

    /// The same with a body of another content type.
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

    /// The response to a request that already has its caller.
    pub(crate) async fn answer(&self, request: Request) -> Result<Response, Problem> {
        let router = self.0.router.get().and_then(Weak::upgrade);
        let router = router.ok_or_else(|| Problem::unavailable("The node is stopping."))?;
        let Ok(response) = Router::clone(&router).call(request).await;
        Ok(response)
    }

    /// The OpenAPI document, parsed.
    pub(crate) fn read_document(&self) -> Result<Value, Problem> {
        serde_json::from_str(self.document())
            .map_err(|_| Problem::unavailable("The document could not be read."))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use calendar::Zones;
    use serde_json::json;
    use store::{Sqlite, SqliteOptions};
    use tokio::sync::mpsc::unbounded_channel;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::clock::SystemClock;
    use crate::http::access::{Role, sign_in, sign_out};
    use crate::http::{Reach, Token, router};
    use crate::hub::Hub;

    const SECRET: &str = "the node's own";

    struct World {
        app: App,
        router: Arc<Router>,
        _folder: tempfile::TempDir,
    }

    fn world() -> World {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions { sync: false, ..SqliteOptions::default() };
        let store = Sqlite::open(&folder.path().join("a.db"), Zones::bundled(), options).unwrap();
        let hub = Hub::new(Arc::new(store), Arc::new(SystemClock), unbounded_channel().0);
        let token = Some(Token::new(SECRET));
        let stop = CancellationToken::new();
        let app =
            App::new(Arc::new(hub), token, false, Arc::default(), None, Reach::nowhere(), stop);
        World { router: router(app.clone()), app, _folder: folder }
    }

    #[tokio::test]
    async fn pages_ask_as_whoever_is_behind_them() {
        let World { app, router, _folder } = world();
        let viewer = Caller::holder("eye", &[Role::Viewer]);
        let (status, me) = app.call(&viewer, Method::GET, "/api/v1/me", None).await.unwrap();
        assert_eq!((status, me), (StatusCode::OK, json!({ "name": "eye", "roles": ["viewer"] })));
        let refused = app.call(&viewer, Method::POST, "/api/v1/workflows/x/pause", None).await;
        let refused = refused.unwrap_err();
        assert_eq!((refused.status(), refused.title()), (StatusCode::FORBIDDEN, "Forbidden"));
        let designer = Caller::holder("des", &[Role::Designer]);
        let text = Some("name: a\nsteps: [{id: x, type: noop}]\n".to_owned());
        let path = "/api/v1/workflows?publish=true";
        let saved = app.call_with(&designer, Method::POST, path, "application/yaml", text).await;
        assert_eq!(saved.unwrap().0, StatusCode::CREATED);
        let wrong = Some(json!({ "name": "s", "workflow_id": "a", "cron": "never" }));
        let wrong = app.call(&designer, Method::POST, "/api/v1/schedules", wrong).await;
        let wrong = wrong.unwrap_err();
        assert_eq!(wrong.status(), StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!((wrong.errors()[0].path.as_str(), wrong.detail().is_empty()), ("cron", false));
        let log = app.store().audit(store::AuditQuery { limit: 9, ..Default::default() }).await;
        let log = log.unwrap().items;
        assert_eq!((log.len(), log[0].entry.who.as_str()), (1, "des"));
        drop(router);
        let stopping = app.call(&viewer, Method::GET, "/api/v1/me", None).await.unwrap_err();
        assert_eq!(stopping.status(), StatusCode::SERVICE_UNAVAILABLE);
    }

    #[tokio::test]
    async fn one_signs_in_with_a_token_and_out_again() {
        let World { app, router, _folder } = world();
        let from = Some([192, 0, 2, 1].into());
        let mut headers = axum::http::HeaderMap::new();
        headers.insert("origin", "https://punctual.example".parse().unwrap());
        let signed_in = sign_in(&app, &format!(" {SECRET} "), from, &headers).await.unwrap();
        let cookie = signed_in.cookie.to_str().unwrap().to_owned();
        assert_eq!(signed_in.name, "node");
        for part in ["; HttpOnly", "; SameSite=Lax", "; Path=/", "; Secure", "; Max-Age=43200"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        let shown = cookie.split(';').next().unwrap().to_owned();
        let me = async || {
            let request = Request::builder().uri("/api/v1/me").header("cookie", &shown);
            let request = request.header("host", "h").body(Body::empty()).unwrap();
            let Ok(response) = Router::clone(&router).call(request).await;
            response.status()
        };
        assert_eq!(me().await, StatusCode::OK);
        headers.insert("cookie", shown.parse().unwrap());
        let cleared = sign_out(&app, &headers).await.unwrap();
        assert!(cleared.to_str().unwrap().starts_with("punctual_sign_in=; "), "{cleared:?}");
        assert!(cleared.to_str().unwrap().contains("Max-Age=0"));
        assert_eq!(me().await, StatusCode::UNAUTHORIZED);

        for _ in 0..10 {
            let wrong = sign_in(&app, "wrong", from, &headers).await.unwrap_err();
            assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED);
        }
        // Whoever knows the secret is admitted, even if others guess from the same address.
        sign_in(&app, SECRET, from, &headers).await.unwrap();
    }
}
