//! The HTTP API: turns requests into commands to the [`Hub`] and queries to the store.
//!
//! Every route is declared with its documentation, so `/openapi.json` lists all of them.

pub mod access;
pub mod answer;
pub(crate) mod approvals;
mod attempt_token;
mod attempts;
pub(crate) mod audit;
pub mod body;
pub(crate) mod calendars;
mod call;
mod channels;
mod connections;
pub mod cursor;
mod health;
mod hooks;
pub(crate) mod incidents;
mod masked_views;
mod nodes;
mod openapi;
pub mod path;
pub mod problem;
pub mod query;
mod queues;
mod repeated;
pub(crate) mod runs;
pub(crate) mod schedules;
pub(crate) mod shapes;
pub mod shown;
mod stats;
mod stream;
mod tokens;
pub(crate) mod topics;
pub(crate) mod undelivered;
pub(crate) mod workflows;

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::header::X_CONTENT_TYPE_OPTIONS;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state, map_response};
use axum::response::{IntoResponse as _, Response};
use engine::turn::Command;
use jiff::Timestamp;
use language::Rules;
use prometheus_client::registry::Registry;
use runners::script::Scripts;
use store::{AuditEntry, Commanded, Failure, Idempotency, Store};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::router::OpenApiRouter;

use access::{Caller, Known, Wrongs};
pub(crate) use access::{Peer, Token, has_admin};
pub(crate) use channels::{ChannelObject, Reach};
pub use connections::ConnectionLimits;
pub(crate) use connections::serve;
use masked_views::MaskedViews;
use problem::Problem;

use crate::hub::Hub;
use crate::pages;
use crate::secrets::Secrets;

/// A request is answered within this time, if only with an error. Streams have begun by then.
const REQUEST_TIME: Duration = Duration::from_secs(60);

/// What request handlers share. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Shared>);

struct Shared {
    hub: Arc<Hub>,
    registry: Registry,
    streams: Arc<Semaphore>,
    open_pages: Arc<Semaphore>,
    known: Known,
    wrong: Wrongs,
    allows_exec: bool,
    secrets: Arc<Secrets>,
    scripts: Option<Arc<Scripts>>,
    reach: Reach,
    stop: CancellationToken,
    /// The text of `/openapi.json`, set once all routes are known.
    document: OnceLock<String>,
    /// The finished router, for requests of our own pages. It holds this struct, so it is held
    /// weakly here.
    router: OnceLock<Weak<Router>>,
}

impl App {
    pub(crate) fn new(
        hub: Arc<Hub>,
        token: Option<Token>,
        allows_exec: bool,
        secrets: Arc<Secrets>,
        scripts: Option<Arc<Scripts>>,
        reach: Reach,
        stop: CancellationToken,
    ) -> App {
        let mut registry = Registry::with_prefix("punctual");
        hub.metrics.register(&mut registry);
        let streams = Arc::new(Semaphore::new(stream::MOST_STREAMS));
        let open_pages = Arc::new(Semaphore::new(pages::MOST_PAGES));
        let (known, wrong) = (Known::new(token, hub.access_changes.clone()), Wrongs::default());
        App(Arc::new(Shared {
            hub,
            registry,
            streams,
            open_pages,
            known,
            wrong,
            allows_exec,
            secrets,
            scripts,
            reach,
            stop,
            document: OnceLock::new(),
            router: OnceLock::new(),
        }))
    }

    /// The hub, which takes commands.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.0.hub
    }

    /// The store, which answers queries.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.0.hub.store()
    }

    /// The rows that hold data of runs and events, as people may see them.
    pub(crate) fn views(&self) -> MaskedViews<'_> {
        MaskedViews { store: &**self.store(), secrets: self.secrets() }
    }

    /// The zones and calendars that declarations are read with.
    pub fn rules(&self) -> Arc<Rules> {
        self.store().rules()
    }

    /// The current time by the store's clock.
    pub fn now(&self) -> Timestamp {
        self.0.hub.now()
    }

    /// Whether the host allows steps that run commands.
    pub fn allows_exec(&self) -> bool {
        self.0.allows_exec
    }

    /// The secrets that templates may name, and that are masked in everything shown.
    pub fn secrets(&self) -> &Arc<Secrets> {
        &self.0.secrets
    }

    /// The script sandbox, if this node has one.
    pub fn scripts(&self) -> Option<&Scripts> {
        self.0.scripts.as_deref()
    }

    /// The channels through which the node can notify people.
    pub(crate) fn reach(&self) -> &Reach {
        &self.0.reach
    }

    /// An id for a run that is started by hand.
    pub fn new_run_id(&self) -> u128 {
        uuid::Uuid::now_v7().as_u128()
    }

    fn registry(&self) -> &Registry {
        &self.0.registry
    }

    fn streams(&self) -> Arc<Semaphore> {
        self.0.streams.clone()
    }

    pub(crate) fn open_pages(&self) -> Arc<Semaphore> {
        self.0.open_pages.clone()
    }

    /// Carries out a command of a caller, and writes it to the audit log in the same transaction.
    pub async fn command(
        &self,
        caller: &Caller,
        command: Command,
        idempotency: Option<Idempotency>,
    ) -> Result<Commanded, Failure> {
        let audit = self.audit(caller, audit::detail(&command));
        self.hub().audited(command, idempotency, audit).await
    }

    /// The audit entry for a change by this caller. Secrets are masked, as people may type one by
    /// mistake.
    fn audit(&self, caller: &Caller, detail: Option<String>) -> Option<AuditEntry> {
        let secrets = self.secrets();
        let detail = detail.map(|detail| secrets.mask(&detail).into_owned());
        let entry = caller.audit(detail)?;
        Some(AuditEntry { target: secrets.mask(&entry.target).into_owned(), ..entry })
    }

    fn known(&self) -> &Known {
        &self.0.known
    }

    fn wrong(&self) -> &Wrongs {
        &self.0.wrong
    }

    fn document(&self) -> &str {
        self.0.document.get().map_or("{}", String::as_str)
    }

    pub(crate) async fn stopped(&self) {
        self.0.stop.cancelled().await;
    }
}

/// Every route, with its documentation.
fn routes() -> OpenApiRouter<App> {
    let api = OpenApiRouter::new()
        .merge(schedules::routes())
        .merge(workflows::routes())
        .merge(runs::routes())
        .merge(attempts::routes())
        .merge(approvals::routes())
        .merge(hooks::routes())
        .merge(queues::routes())
        .merge(topics::routes())
        .merge(calendars::routes())
        .merge(nodes::routes())
        .merge(channels::routes())
        .merge(incidents::routes())
        .merge(tokens::routes())
        .merge(audit::routes())
        .merge(stats::routes())
        .merge(stream::routes());
    OpenApiRouter::with_openapi(openapi::head())
        .merge(health::routes())
        .merge(openapi::routes())
        .nest("/api/v1", api)
        .nest("/api", schedules::alias_routes())
}

/// The whole API. Our own pages can use it as long as the caller holds it.
pub(crate) fn router(app: App) -> Arc<Router> {
    let (router, document) = routes().split_for_parts();
    app.0.document.get_or_init(|| openapi::text(&document));
    let router = router
        .merge(pages::routes())
        .fallback(unknown_route)
        .method_not_allowed_fallback(unknown_method)
        .layer(from_fn_with_state(app.clone(), access::check))
        .layer(from_fn_with_state(app.clone(), pages::show_errors))
        .layer(from_fn(in_time))
        .layer(CatchPanicLayer::custom(|_| broken()))
        .layer(map_response(not_sniffed))
        .with_state(app.clone());
    let router = Arc::new(router);
    app.0.router.get_or_init(|| Arc::downgrade(&router));
    router
}

/// Forbids browsers to guess content types.
async fn not_sniffed(mut response: Response) -> Response {
    let value = HeaderValue::from_static("nosniff");
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, value);
    response
}

async fn unknown_route(request: Request) -> Problem {
    Problem::not_found("route", request.uri().path())
}

async fn unknown_method(request: Request) -> Problem {
    let detail =
        format!("{} is not possible here. See /openapi.json for what is.", request.method());
    let status = StatusCode::METHOD_NOT_ALLOWED;
    Problem::new(status, "wrong-method", "Method not allowed", detail)
}

/// Limits how long a request may take. Only the response is given up: writes to the store go on in
/// tasks of their own ([`Hub::uninterrupted`]).
async fn in_time(request: Request, next: Next) -> Response {
    let is_safe = request.method().is_safe();
    match tokio::time::timeout(REQUEST_TIME, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let seconds = REQUEST_TIME.as_secs();
            let mut detail = format!("There was no answer within {seconds} s.");
            if !is_safe {
                detail.push_str(
                    " What was asked may still be done. Ask again with the same Idempotency-Key.",
                );
            }
            Problem::unavailable(detail).into_response()
        }
    }
}

fn broken() -> Response {
    tracing::error!("a request ended with a panic");
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    let detail = "This is a mistake in Punctual, not in your request. Nothing was changed.";
    Problem::new(status, "internal", "Internal error", detail).into_response()
}
