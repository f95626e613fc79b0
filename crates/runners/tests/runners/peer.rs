//! A real HTTP peer on loopback.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use language::definition::{Action, HttpAction};
use runners::{Egress, Policy};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A peer that serves until it is dropped.
pub(crate) struct Peer {
    pub(crate) port: u16,
    serving: JoinHandle<()>,
}

impl Peer {
    pub(crate) async fn serve(router: Router) -> Peer {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Peer { port, serving }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The texts that peers recorded, in order.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    pub(crate) fn add(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// A policy that lets requests reach peers of these tests.
pub(crate) fn loopback_listed() -> Policy {
    policy("127.0.0.0/8")
}

pub(crate) fn policy(egress: &str) -> Policy {
    Policy { egress: egress.parse::<Egress>().unwrap(), ..Policy::default() }
}

pub(crate) fn get(url: impl Into<String>) -> HttpAction {
    HttpAction {
        method: "GET".to_owned(),
        url: url.into(),
        headers: BTreeMap::new(),
        body: None,
        expect: Vec::new(),
        redirects: 5,
        max_bytes: 1 << 20,
    }
}

pub(crate) fn getting(url: impl Into<String>) -> Action {
    Action::Http(get(url))
}
