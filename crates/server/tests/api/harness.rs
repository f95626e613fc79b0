//! A node to talk to.

use std::sync::Arc;
use std::time::Duration;

use calendar::Zones;
use engine::definition::ReadContext;
use engine::turn::{Answer, Command};
use reqwest::{Method, Response};
use serde_json::Value;
use server::serve::{Server, ServerOptions};
use store::{Sqlite, SqliteOptions, Store};
use tempfile::TempDir;

/// Nothing takes so long on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A node and a client of it.
pub(crate) struct Node {
    pub(crate) server: Server,
    pub(crate) client: reqwest::Client,
    pub(crate) token: Option<String>,
    folder: TempDir,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    async fn read(response: Response) -> Reply {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Reply { status, headers, text: response.text().await.unwrap() }
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Insists on the status; the body as JSON, or null if there is none.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        if self.text.is_empty() { Value::Null } else { self.json() }
    }

    /// Insists on a problem with the status; its detail.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let body = self.json();
        assert_eq!(body["status"], status);
        body["detail"].as_str().unwrap().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// A workflow that does nothing, at once.
pub(crate) const NOOP: &str = "name: nothing\nsteps: [{id: a, type: noop}]\n";
/// A workflow that takes longer than any test.
pub(crate) const SLOW: &str = "name: slow\nsteps: [{id: a, type: exec, command: [sleep, '600']}]\n";

impl Node {
    pub(crate) async fn start() -> Node {
        Node::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut ServerOptions)) -> Node {
        Node::start_in(tempfile::tempdir().unwrap(), change).await
    }

    /// Stops in order and begins another life over the same store.
    pub(crate) async fn restart(self) -> Node {
        let Node { server, folder, client, .. } = self;
        drop(client);
        tokio::time::timeout(PATIENCE, server.stop()).await.unwrap().unwrap();
        Node::start_in(folder, |_| {}).await
    }

    async fn start_in(folder: TempDir, change: impl FnOnce(&mut ServerOptions)) -> Node {
        let store = open(&folder);
        let mut options = ServerOptions::new(store);
        options.listen.set_port(0);
        options.runners.allow_exec = true;
        change(&mut options);
        let token = options.token.clone();
        let server = Server::start(options).await.unwrap();
        Node { server, client: reqwest::Client::new(), token, folder }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.address())
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.client.request(method, self.url(path));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// Sends JSON, or nothing if it is null.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Value) -> Reply {
        let request = self.request(method, path);
        let request = if body.is_null() { request } else { request.json(&body) };
        send(request).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, Value::Null).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        self.send(Method::POST, path, body).await
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Reply {
        self.send(Method::PATCH, path, body).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.send(Method::DELETE, path, Value::Null).await
    }

    /// Creates a schedule; its path.
    pub(crate) async fn schedule(&self, body: Value) -> String {
        let created = self.post("/api/v1/schedules", body).await.expect(201);
        format!("/api/v1/schedules/{}", created["id"].as_str().unwrap())
    }

    /// Waits until the object is as wanted, woken by what the node tells.
    pub(crate) async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut notices = self.server.hub().listen();
        loop {
            let object = self.get(path).await.expect(200);
            if wanted(&object) {
                return object;
            }
            let told = tokio::time::timeout(PATIENCE, notices.recv()).await;
            assert!(told.is_ok(), "nothing happens any more: {object}");
        }
    }

    /// Publishes a workflow without the API; its id.
    pub(crate) async fn workflow(&self, source: &str) -> String {
        let (hub, zones) = (self.server.hub(), Zones::bundled());
        let context = ReadContext { zones: &zones, now: hub.now(), known_calendar: &|_| None };
        let definition = engine::definition::read(source, &context).unwrap();
        let command = Command::SaveWorkflow {
            source: source.to_owned(),
            definition: Arc::new(definition),
            publish: true,
        };
        match hub.command(command, None).await.unwrap().answer {
            Answer::Workflow { id, .. } => id.to_string(),
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) async fn send(request: reqwest::RequestBuilder) -> Reply {
    Reply::read(request.send().await.unwrap()).await
}

pub(crate) fn open(folder: &TempDir) -> Arc<dyn Store> {
    let path = folder.path().join("punctual.db");
    Arc::new(Sqlite::open(&path, Zones::bundled(), SqliteOptions::default()).unwrap())
}
