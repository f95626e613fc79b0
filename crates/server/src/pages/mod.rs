//! The pages: HTML, rendered on the server from committed data.
//!
//! A page reads from the store and needs no script. A form makes one request to the API, in process
//! ([`forms`]), so the API alone decides what may be done, by whom, and how it is recorded. With
//! the script, a page loads itself again when [`live`] reports a change.

mod approvals;
mod assets;
mod badge;
mod calendars;
mod docs;
mod error_page;
mod flow;
mod form;
mod forms;
mod incidents;
mod layout;
mod listing;
mod live;
mod nodes;
mod oversight;
mod overview;
mod page_context;
mod runs;
mod schedules;
mod settings;
mod sign_in;
mod topics;
mod value;
mod when;
mod workflows;

use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::{
    CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::{get, post};

pub(crate) use error_page::tell as show_errors;
pub(crate) use live::MOST_PAGES;

use crate::http::App;

/// The content security policy: nothing from other sites, nothing inline, no framing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The routes of all pages.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .merge(overview::routes())
        .merge(schedules::routes())
        .merge(workflows::routes())
        .merge(runs::routes())
        .merge(approvals::routes())
        .merge(topics::routes())
        .merge(calendars::routes())
        .merge(nodes::routes())
        .merge(incidents::routes())
        .merge(oversight::routes())
        .merge(settings::routes())
        .merge(docs::routes())
        .merge(sign_in::routes())
        .route("/live", get(live::listen))
        .route("/forms/{*path}", post(forms::send))
        .route("/assets/{hash}/{name}", get(assets::send))
        .route_layer(map_response(guarded))
}

async fn guarded(mut response: Response) -> Response {
    let headers: [(HeaderName, &'static str); 4] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "same-origin"),
        (X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
