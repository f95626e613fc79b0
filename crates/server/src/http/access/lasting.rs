//! Ends responses that last (streams, long polls) when their caller loses access.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use jiff::Timestamp;

use super::known::{REMEMBERED, Shown};
use super::unknown;
use crate::http::App;
use crate::http::problem::Problem;

/// The longest sleep until a token expires: the clock may be set meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// What a caller was admitted with.
pub(super) enum Pass {
    /// The node was open.
    Open,
    /// A secret that must stay valid.
    Secret(Shown, String),
}

/// Whether a route may answer late, or stream its answer.
pub(super) fn is_lasting(route: &str) -> bool {
    route.ends_with("/stream") || route.ends_with("/live") || route.ends_with("/attempts/claim")
}

/// Answers while the pass is valid. When it ends, a pending request gets 401, and a stream ends.
pub(super) async fn while_admitted(
    app: App,
    pass: Pass,
    answering: impl Future<Output = Response>,
) -> Response {
    let mut over = Box::pin(over(app, pass));
    let response = tokio::select! {
        biased;
        response = answering => response,
        () = &mut over => return unknown().into_response(),
    };
    let kind = response.headers().get(CONTENT_TYPE).map(axum::http::HeaderValue::as_bytes);
    if kind != Some(b"text/event-stream") {
        return response;
    }
    let (head, body) = response.into_parts();
    let body = Body::from_stream(body.into_data_stream().take_until(over));
    Response::from_parts(head, body)
}

/// Returns when the pass is no longer valid: the token was revoked or has expired, the caller has
/// signed out, or a node that was open has a token now. While the store does not answer, the pass
/// counts as valid.
async fn over(app: App, pass: Pass) {
    // Marked as seen before the first query: changes during it lead to another query.
    let mut changes = app.known().changes();
    // Other nodes notify this one of changes, but such calls may be lost.
    let is_shared = app.store().lease().is_some();
    loop {
        changes.borrow_and_update();
        let (until, asks_again) = match good_until(&app, &pass).await {
            Ok(None) => return,
            Ok(Some(until)) => (until, is_shared),
            Err(_) => (None, true),
        };
        let left = until.map(|until| Duration::try_from(until.duration_since(app.now())));
        let left = left.map(|left| left.unwrap_or_default().min(LONGEST_SLEEP));
        let sleep =
            if asks_again { Some(left.unwrap_or(REMEMBERED).min(REMEMBERED)) } else { left };
        let slept = async {
            match sleep {
                Some(sleep) => tokio::time::sleep(sleep).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = slept => {}
            // The sender lives as long as the node.
            _ = changes.changed() => {}
        }
    }
}

/// `None` if the pass is not valid; otherwise until when, if that is limited.
async fn good_until(app: &App, pass: &Pass) -> Result<Option<Option<Timestamp>>, Problem> {
    let store = app.store().as_ref();
    match pass {
        Pass::Open => Ok(app.known().is_open(store).await?.then_some(None)),
        Pass::Secret(shown, secret) => {
            let holder = app.known().holder(store, *shown, secret, app.now()).await?;
            Ok(holder.map(|holder| holder.until()))
        }
    }
}
