//! Routes of schedules.

use utoipa_axum::router::OpenApiRouter;

use super::App;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
}

/// The routes that exist without a version too.
pub(super) fn alias_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
}
