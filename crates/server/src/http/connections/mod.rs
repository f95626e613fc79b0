//! Connections: how many there may be, and how long a peer may take to send a request and to accept
//! its response.

mod limits;
mod stream;
mod unread;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::{EXPECT, HOST, HeaderValue, RETRY_AFTER};
use axum::http::{Request, Uri, Version};
use axum::response::{IntoResponse as _, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use prometheus_client::metrics::counter::Counter;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tower_service::Service as _;

use super::problem::Problem;
use super::{Peer, not_sniffed};
pub use limits::ConnectionLimits;
pub(super) use limits::network;
use limits::{Permit, Permits};
use stream::WriteLimited;
use unread::RequestBody;

const MOST_HEADERS: usize = 100;
const LARGEST_HEADERS: usize = 64 * 1024;
/// Extra connections for when all others are taken. Each serves one request: a health check, or any
/// other, which gets 503. When they are all taken, the oldest is closed: a health check has been
/// sent within milliseconds.
const RESERVED: usize = 64;
/// How quickly the peer of an extra connection must send its request.
const RESERVED_TIME: Duration = Duration::from_secs(2);
/// Routes that the node answers even when all its connections are taken.
const ALWAYS: [&str; 3] = ["/healthz", "/readyz", "/metrics"];
/// The `Retry-After` of a 503 response, in seconds.
const ASK_AGAIN: HeaderValue = HeaderValue::from_static("1");
/// How long responses under way may take when the node stops.
const FINISH: Duration = Duration::from_secs(5);
/// The pause after an error of `accept`, such as when no file handles are left.
const BREATHER: Duration = Duration::from_millis(50);

/// Accepts connections until `stop`, then waits for responses under way. Counts the connections for
/// which there was no slot.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Arc<Router>,
    limits: ConnectionLimits,
    refused: Counter,
    stop: CancellationToken,
) {
    let permits = Permits::new(limits);
    let graceful = GracefulShutdown::new();
    let mut reserved: VecDeque<AbortHandle> = VecDeque::with_capacity(RESERVED);
    let mut is_full = false;
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be taken");
                tokio::time::sleep(BREATHER).await;
                continue;
            }
        };
        let permit = permits.take(peer.ip());
        let was_full = std::mem::replace(&mut is_full, permit.is_none());
        let connection = Connection { peer: peer.ip(), router: Router::clone(&router), permit };
        if connection.permit.is_some() {
            connection.spawn(stream, limits, &graceful);
            continue;
        }
        refused.inc();
        if !was_full {
            tracing::warn!(peer = %peer.ip(), "there are too many connections: more are refused");
        }
        reserved.retain(|reserved| !reserved.is_finished());
        if reserved.len() >= RESERVED
            && let Some(oldest) = reserved.pop_front()
        {
            oldest.abort();
        }
        reserved.push_back(connection.spawn(stream, limits, &graceful));
    }
    drop(listener);
    if tokio::time::timeout(FINISH, graceful.shutdown()).await.is_err() {
        tracing::warn!("connections were cut off");
    }
}

struct Connection {
    peer: IpAddr,
    router: Router,
    /// Without a slot, it gets one response, and only health checks are answered.
    permit: Option<Permit>,
}

impl Connection {
    /// Answers its requests in a task of its own.
    fn spawn(
        self,
        stream: TcpStream,
        limits: ConnectionLimits,
        graceful: &GracefulShutdown,
    ) -> AbortHandle {
        // Send small responses at once.
        let _ = stream.set_nodelay(true);
        let Connection { peer, router, permit } = self;
        let has_permit = permit.is_some();
        let header_time =
            if has_permit { limits.header_time } else { limits.header_time.min(RESERVED_TIME) };
        let service = service_fn(move |request: Request<Incoming>| {
            answer(request, peer, router.clone(), has_permit)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .keep_alive(has_permit)
            .header_read_timeout(header_time)
            .max_headers(MOST_HEADERS)
            .max_header_size(LARGEST_HEADERS)
            .serve_connection(TokioIo::new(WriteLimited::new(stream, limits.write_time)), service);
        let connection = graceful.watch(connection);
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(permit);
        });
        task.abort_handle()
    }
}

async fn answer(
    request: Request<Incoming>,
    peer: IpAddr,
    mut router: Router,
    has_permit: bool,
) -> Result<Response, Infallible> {
    let expects_continue = request.headers().contains_key(EXPECT);
    let body = |incoming| Body::new(RequestBody::new(incoming, expects_continue));
    if lacks_host(&request) {
        return Ok(not_sniffed(Problem::bad_request(NO_HOST).into_response()).await);
    }
    let mut request = without_trailing_slash(request.map(body));
    if !has_permit && !ALWAYS.contains(&request.uri().path()) {
        return Ok(not_sniffed(busy()).await);
    }
    request.extensions_mut().insert(Peer(peer));
    router.call(request).await
}

const NO_HOST: &str =
    "The request has no Host header. HTTP/1.1 asks for one: send Host: and the name of this node.";

/// Whether a request of HTTP/1.1 names no host, neither in a header nor in its target.
fn lacks_host(request: &Request<Incoming>) -> bool {
    request.version() == Version::HTTP_11
        && !request.headers().contains_key(HOST)
        && request.uri().authority().is_none()
}

fn busy() -> Response {
    let detail = "The node has as many connections as it takes, in all or from your address. Close \
                  some, or try again.";
    let mut response = Problem::unavailable(detail).into_response();
    response.headers_mut().insert(RETRY_AFTER, ASK_AGAIN);
    response
}

/// Treats `/api/v1/schedules/` as `/api/v1/schedules`.
fn without_trailing_slash(mut request: Request<Body>) -> Request<Body> {
    let path = request.uri().path();
    let trimmed = path.trim_end_matches('/');
    if trimmed.len() == path.len() || trimmed.is_empty() {
        return request;
    }
    let target = match request.uri().query() {
        Some(query) => format!("{trimmed}?{query}"),
        None => trimmed.to_owned(),
    };
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = target.parse().ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
    request
}
