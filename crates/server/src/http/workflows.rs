//! Routes of workflows.

use utoipa_axum::router::OpenApiRouter;

use super::App;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
}
