//! Starts a node for a test, and sends requests to it.

use std::sync::Arc;
use std::time::Duration;

use calendar::Zones;
use engine::RunId;
use engine::run::{Run, RunStatus};
use engine::turn::{Answer, Command, Notice};
use language::definition::ReadContext;
use reqwest::{Method, Response};
use runners::script::{ScriptHost, Scripts};
use serde_json::Value;
use server::serve::{Server, ServerOptions};
use store::Store;

use crate::ground::Ground;

/// A timeout that no machine reaches.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A node and a client for it.
pub(crate) struct Node {
    pub(crate) server: Server,
    pub(crate) client: reqwest::Client,
    pub(crate) token: Option<String>,
    pub(crate) ground: Ground,
}

/// A response.
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

    /// The body as JSON; null if there is none.
    pub(crate) fn json(&self) -> Value {
        match &*self.text {
            "" => Value::Null,
            text => serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {self:?}")),
        }
    }

    /// Insists on the status, and returns the body as JSON.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json()
    }

    /// Insists on a problem with the status, and returns its detail.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16) -> String {
        self.whole_problem(status)["detail"].as_str().unwrap().to_owned()
    }

    /// Insists on a problem with the status, and returns all of it.
    #[track_caller]
    pub(crate) fn whole_problem(&self, status: u16) -> Value {
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

/// A workflow that does nothing, and ends at once.
pub(crate) const NOOP: &str = "name: nothing\nsteps: [{id: a, type: noop}]\n";
/// A workflow that takes longer than any test.
pub(crate) const SLOW: &str = "name: slow\nsteps: [{id: a, type: exec, command: [sleep, '600']}]\n";

impl Node {
    /// A node that may run commands and send requests to this machine, on a store of its own.
    pub(crate) async fn start() -> Node {
        Node::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut ServerOptions)) -> Node {
        Node::start_on(Ground::new(), change).await
    }

    /// Stops the node in order, and starts it again on the same store.
    pub(crate) async fn restart(self) -> Node {
        let Node { server, ground, client, .. } = self;
        drop(client);
        tokio::time::timeout(PATIENCE, server.stop()).await.unwrap().unwrap();
        Node::start_on(ground, |_| {}).await
    }

    /// Starts a node on a store that may exist already, and that other nodes may share.
    pub(crate) async fn start_on(ground: Ground, change: impl FnOnce(&mut ServerOptions)) -> Node {
        let store = ground.open().await;
        Node::start_over(ground, store, change).await
    }

    /// Starts a node on a store that was opened already.
    pub(crate) async fn start_over(
        ground: Ground,
        store: Arc<dyn Store>,
        change: impl FnOnce(&mut ServerOptions),
    ) -> Node {
        let mut options = ServerOptions::new(store);
        options.listen.set_port(0);
        options.runners.allow_exec = true;
        options.runners.egress = "127.0.0.0/8".parse().unwrap();
        let program = env!("CARGO_BIN_EXE_server-script-child");
        options.scripts = Some(Arc::new(Scripts::new(ScriptHost::new(program, &[]))));
        change(&mut options);
        let token = options.token.clone();
        let server = Server::start(options).await.unwrap();
        Node { server, client: runners::http_client().build().unwrap(), token, ground }
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

    /// Sends JSON, or no body if it is null.
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

    /// Creates a schedule, and returns its path.
    pub(crate) async fn schedule(&self, body: Value) -> String {
        let created = self.post("/api/v1/schedules", body).await.expect(201);
        format!("/api/v1/schedules/{}", created["id"].as_str().unwrap())
    }

    /// Waits until the object is as wanted, checking it after each notice of the node.
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

    /// Sends a body with a content type.
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

    /// Publishes a definition, and returns the workflow's id.
    pub(crate) async fn publish(&self, text: &str) -> String {
        let reply = self.yaml("/api/v1/workflows?publish=true", text.to_owned()).await;
        assert!(reply.status == 201 || reply.status == 200, "{}", reply.text);
        reply.json()["id"].as_str().unwrap().to_owned()
    }

    /// Starts the workflow by hand, and returns the run's id.
    pub(crate) async fn run(&self, workflow: &str) -> String {
        let path = format!("/api/v1/workflows/{workflow}/runs");
        let run = self.post(&path, Value::Null).await.expect(201);
        run["id"].as_str().unwrap().to_owned()
    }

    /// The run, once it has a wanted status.
    pub(crate) async fn run_until(&self, run: &str, wanted: impl Fn(RunStatus) -> bool) -> Value {
        let mut notices = self.server.hub().listen();
        let id: RunId = run.parse().unwrap();
        loop {
            let detail = self.server.hub().store().run(id.clone()).await.unwrap().unwrap();
            // On a busy machine a run may wait for the next turn before it begins its steps.
            let is_to_begin = |run: &Run| run.status == RunStatus::Waiting && run.waits_for_slot;
            if wanted(detail.view.run.status) && !is_to_begin(&detail.view.run) {
                return self.get(&format!("/api/v1/runs/{run}")).await.expect(200);
            }
            let about = |notice: &Notice| match notice {
                Notice::Run { id: known, .. } | Notice::Steps { run: known, .. } => *known == id,
                _ => false,
            };
            while !notices.recv().await.unwrap().iter().any(about) {}
        }
    }

    /// The run when it has ended.
    pub(crate) async fn ended(&self, run: &str) -> Value {
        self.run_until(run, RunStatus::has_ended).await
    }

    /// Publishes a workflow without the API, and returns its id.
    pub(crate) async fn workflow(&self, source: &str) -> String {
        let (hub, zones) = (self.server.hub(), Zones::bundled());
        let context = ReadContext { zones: &zones, now: hub.now(), known_calendar: &|_| None };
        let definition = language::definition::read(source, &context).unwrap();
        let command = Command::SaveWorkflow {
            source: source.to_owned(),
            definition: Arc::new(definition),
            publish: true,
            folder: None,
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
