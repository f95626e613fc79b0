//! A node to talk to.

use std::path::Path;
use std::sync::Arc;

use calendar::Zones;
use engine::RunId;
use engine::run::RunStatus;
use engine::turn::Notice;
use reqwest::Method;
use serde_json::Value;
use server::serve::{Server, ServerOptions};
use store::{Sqlite, SqliteOptions, Store};
use tempfile::TempDir;

/// A node and a client of it.
pub(crate) struct Node {
    pub(crate) server: Server,
    client: reqwest::Client,
    _folder: TempDir,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    /// The body as JSON; null if there is none.
    pub(crate) fn json(&self) -> Value {
        match &*self.text {
            "" => Value::Null,
            text => serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {self:?}")),
        }
    }

    /// Insists on the status; the body as JSON.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json()
    }

    /// Insists on a problem with the status; the problem.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16) -> Value {
        let problem = self.expect(status);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(problem["status"], status);
        assert!(!problem["detail"].as_str().unwrap().is_empty(), "{problem}");
        problem
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

pub(crate) fn open(folder: &Path) -> Arc<dyn Store> {
    let options = SqliteOptions { sync: false, ..SqliteOptions::default() };
    Arc::new(Sqlite::open(&folder.join("punctual.db"), Zones::bundled(), options).unwrap())
}

impl Node {
    /// A node that may run commands and send requests to this machine.
    pub(crate) async fn start() -> Node {
        Node::start_in(tempfile::tempdir().unwrap(), |_| {}).await
    }

    pub(crate) async fn start_in(folder: TempDir, change: impl FnOnce(&mut ServerOptions)) -> Node {
        let mut options = ServerOptions::new(open(folder.path()));
        options.listen.set_port(0);
        options.runners.allow_exec = true;
        options.runners.egress = "127.0.0.0/8".parse().unwrap();
        change(&mut options);
        let server = Server::start(options).await.unwrap();
        Node { server, client: reqwest::Client::new(), _folder: folder }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let url = format!("http://{}/api/v1{path}", self.server.address());
        self.client.request(method, url)
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        send(self.request(Method::GET, path)).await
    }

    /// Posts JSON, or nothing if it is null.
    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        let request = self.request(Method::POST, path);
        send(if body.is_null() { request } else { request.json(&body) }).await
    }

    /// Sends a text of a type.
    pub(crate) async fn send_as(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: impl Into<reqwest::Body>,
    ) -> Reply {
        send(self.request(method, path).header("content-type", content_type).body(body)).await
    }

    pub(crate) async fn yaml(&self, path: &str, body: impl Into<reqwest::Body>) -> Reply {
        self.send_as(Method::POST, path, "application/yaml", body).await
    }

    /// Publishes a definition; its id.
    pub(crate) async fn publish(&self, text: &str) -> String {
        let reply = self.yaml("/workflows?publish=true", text.to_owned()).await;
        assert!(reply.status == 201 || reply.status == 200, "{}", reply.text);
        reply.json()["id"].as_str().unwrap().to_owned()
    }

    /// Starts the workflow by hand; the run's id.
    pub(crate) async fn run(&self, workflow: &str) -> String {
        let run = self.post(&format!("/workflows/{workflow}/runs"), Value::Null).await.expect(201);
        run["id"].as_str().unwrap().to_owned()
    }

    /// The run once it has come to a status that is wanted.
    pub(crate) async fn until(&self, run: &str, wanted: impl Fn(RunStatus) -> bool) -> Value {
        let mut notices = self.server.hub().listen();
        let id: RunId = run.parse().unwrap();
        loop {
            let detail = self.server.hub().store().run(id.clone()).await.unwrap().unwrap();
            if wanted(detail.view.run.status) {
                return self.get(&format!("/runs/{run}")).await.expect(200);
            }
            let about =
                |notice: &Notice| matches!(notice, Notice::Run { id: known, .. } if *known == id);
            while !notices.recv().await.unwrap().iter().any(about) {}
        }
    }

    /// The run when it has ended.
    pub(crate) async fn ended(&self, run: &str) -> Value {
        self.until(run, RunStatus::has_ended).await
    }
}

pub(crate) async fn send(request: reqwest::RequestBuilder) -> Reply {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Reply { status, headers, text: response.text().await.unwrap() }
}
