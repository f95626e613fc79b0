//! The pages of administrators: access tokens and the audit log.

mod audit;
mod tokens;

use axum::Router;
use axum::routing::get;

use crate::http::App;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/tokens", get(tokens::list).post(tokens::create))
        .route("/audit", get(audit::list))
}
