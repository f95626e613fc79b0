//! Routes that create, change, show and start schedules.

mod backfill;
pub(crate) mod coming;
mod control;
mod create;
pub(crate) mod edit;
mod feed;
pub(crate) mod list;
mod many;
pub(crate) mod object;
pub(crate) mod occurrences;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) use self::coming::LARGEST_COUNT;
pub(super) use self::create::LARGEST as LARGEST_BATCH;
pub(super) use self::edit::Difference;
use super::App;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list::list, create::create))
        .routes(routes!(create::batch))
        .routes(routes!(control::batch_delete))
        .routes(routes!(many::batch_control))
        .routes(routes!(feed::feed))
        .routes(routes!(coming::preview))
        .routes(routes!(list::get, edit::edit, control::delete))
        .routes(routes!(control::pause))
        .routes(routes!(control::resume))
        .routes(routes!(control::enable))
        .routes(routes!(control::disable))
        .routes(routes!(control::revive))
        .routes(routes!(control::trigger))
        .routes(routes!(coming::next))
        .routes(routes!(occurrences::list))
        .routes(routes!(occurrences::explain))
        .routes(routes!(occurrences::override_one, occurrences::restore_one))
        .routes(routes!(backfill::backfill))
}

/// The routes that also exist without a version in the path.
pub(super) fn alias_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list::list))
        .routes(routes!(list::get))
        .routes(routes!(control::enable))
        .routes(routes!(control::disable))
        .routes(routes!(control::trigger))
}
