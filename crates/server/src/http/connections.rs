//! Connections: how many, and how long each may take to say what it wants.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Uri};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower_service::Service as _;

use super::Peer;

/// Connections at a time; more wait to be taken.
const MOST_CONNECTIONS: usize = 1_000;
/// Whoever takes longer to send the head of a request is not in earnest.
const HEADER_TIME: Duration = Duration::from_secs(10);
const MOST_HEADERS: usize = 100;
const LARGEST_HEADERS: usize = 64 * 1024;
/// Answers that are under way at a stop may take so long.
const FINISH: Duration = Duration::from_secs(5);
/// After an error of accepting (no file handles left), so long until the next try.
const BREATHER: Duration = Duration::from_millis(50);

/// Takes connections until `stop`, then lets the answers that are under way end.
pub(crate) async fn serve(listener: TcpListener, router: Arc<Router>, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let graceful = GracefulShutdown::new();
    loop {
        let place = tokio::select! {
            () = stop.cancelled() => break,
            place = places.clone().acquire_owned() => place,
        };
        let Ok(place) = place else { break };
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let connection = connection(stream, peer.ip(), Router::clone(&router));
                let connection = graceful.watch(connection);
                tokio::spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!(%error, "a connection ended early");
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be taken");
                tokio::time::sleep(BREATHER).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(FINISH, graceful.shutdown()).await.is_err() {
        tracing::warn!("connections were cut off");
    }
}

fn connection(
    stream: TcpStream,
    peer: IpAddr,
    router: Router,
) -> http1::Connection<
    TokioIo<TcpStream>,
    impl hyper::service::Service<
        Request<Incoming>,
        Response = axum::response::Response,
        Error = Infallible,
        Future: Send,
    > + Send,
> {
    // Small answers go out at once.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let mut router = router.clone();
        async move {
            let mut request = without_trailing_slash(request.map(Body::new));
            request.extensions_mut().insert(Peer(peer));
            router.call(request).await
        }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_headers(MOST_HEADERS)
        .max_header_size(LARGEST_HEADERS)
        .serve_connection(TokioIo::new(stream), service)
}

/// `/api/v1/schedules/` is `/api/v1/schedules`.
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
