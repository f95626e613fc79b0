//! Not written yet.

use axum::Router;

use crate::http::App;

pub(super) fn routes() -> Router<App> {
    Router::new()
}
