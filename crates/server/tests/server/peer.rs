//! A real HTTP peer on loopback.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A peer that fails a number of times, and records who asked.
pub(crate) struct Peer {
    pub(crate) port: u16,
    heard: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl Peer {
    pub(crate) async fn failing(times: usize) -> Peer {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let (keys, asked) = (heard.clone(), Arc::new(AtomicUsize::new(0)));
        let answer = move |request: Request| async move {
            let key = request.headers().get("idempotency-key").map(|key| key.to_str().unwrap());
            keys.lock().unwrap().push(key.unwrap_or_default().to_owned());
            if asked.fetch_add(1, Ordering::Relaxed) < times {
                (StatusCode::INTERNAL_SERVER_ERROR, "not now")
            } else {
                (StatusCode::OK, r#"{"done": true}"#)
            }
        };
        let router = Router::new().fallback(answer);
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Peer { port, heard, serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// The idempotency keys of all requests.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
