//! A fake node for workers: it hands out attempts and records heartbeats and reports.

use std::collections::VecDeque;
use std::net::TcpListener;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// The token of every attempt.
const TOKEN: &str = "0000000003.k-e_y";

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);
/// How long a claim that finds nothing is held: shorter than on a real node, so that tests end.
const KEPT: Duration = Duration::from_millis(300);

/// A fake node that answers until it is dropped.
pub(crate) struct FakeNode {
    pub(crate) port: u16,
    shared: Arc<Shared>,
    _runtime: Runtime,
}

#[derive(Default)]
struct Shared {
    state: Mutex<Known>,
    changed: Condvar,
}

#[derive(Default)]
struct Known {
    waiting: VecDeque<Value>,
    said: Vec<Said>,
    /// Statuses to answer with instead of 200, by verb.
    answers: Vec<(&'static str, u16)>,
    cancelled: Vec<String>,
}

/// A request of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) run: String,
    pub(crate) verb: String,
    pub(crate) body: Value,
}

impl FakeNode {
    pub(crate) fn start() -> FakeNode {
        FakeNode::on(TcpListener::bind("127.0.0.1:0").expect("a free port"))
    }

    /// Starts a fake node on a port where one was before.
    pub(crate) fn at(port: u16) -> FakeNode {
        FakeNode::on(TcpListener::bind(("127.0.0.1", port)).expect("the port is free"))
    }

    fn on(listener: TcpListener) -> FakeNode {
        let port = listener.local_addr().expect("an address").port();
        listener.set_nonblocking(true).expect("a socket");
        let shared = Arc::<Shared>::default();
        let router = Router::new()
            .route("/api/v1/attempts/claim", post(claim))
            .route("/api/v1/attempts/{id}/{verb}", post(hear))
            .with_state(Arc::clone(&shared));
        let runtime = Runtime::new().expect("a runtime");
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
            axum::serve(listener, router).await
        });
        FakeNode { port, shared, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Queues an attempt for the next claim.
    pub(crate) fn give(&self, run: &str, input: Value) {
        self.change(|known| {
            known.waiting.push_back(json!({
                "id": format!("{run}.3"), "run_id": run, "workflow": "w", "step_id": "s",
                "queue": "q", "attempt": 2, "token": TOKEN, "payload": input,
                "idempotency_key": format!("{run}/s"),
                "lease_until": "2026-03-01T12:00:00Z", "timeout_seconds": null,
            }));
        });
    }

    /// Answers the next request with this verb with this status.
    pub(crate) fn answer(&self, verb: &'static str, status: u16) {
        self.change(|known| known.answers.push((verb, status)));
    }

    /// From now on, answers heartbeats of this run with a request to cancel.
    pub(crate) fn cancel(&self, run: &str) {
        self.change(|known| known.cancelled.push(run.to_owned()));
    }

    /// Waits for a request about a run, and returns its body.
    pub(crate) fn heard(&self, run: &str, verb: &str) -> Value {
        self.heard_times(run, verb, 1).remove(0)
    }

    /// Waits until there were this many such requests.
    pub(crate) fn heard_times(&self, run: &str, verb: &str, times: usize) -> Vec<Value> {
        let found = |known: &Known| -> Vec<Value> {
            let of_run = known.said.iter().filter(|said| said.run == run && said.verb == verb);
            of_run.map(|said| said.body.clone()).collect()
        };
        let known = self.shared.state.lock().expect("no panic");
        let waited =
            self.shared.changed.wait_timeout_while(known, LONG, |known| found(known).len() < times);
        let (known, _) = waited.expect("no panic");
        let bodies = found(&known);
        assert!(bodies.len() >= times, "{run} {verb}: {:?}", known.said);
        bodies
    }

    /// All requests so far.
    pub(crate) fn said(&self) -> Vec<Said> {
        self.shared.state.lock().expect("no panic").said.clone()
    }

    fn change(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.shared.state.lock().expect("no panic"));
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn note(&self, run: &str, verb: &str, body: Value) -> Result<bool, StatusCode> {
        let mut known = self.state.lock().expect("no panic");
        known.said.push(Said { run: run.to_owned(), verb: verb.to_owned(), body });
        self.changed.notify_all();
        match known.answers.iter().position(|(on, _)| *on == verb) {
            Some(at) => Err(StatusCode::from_u16(known.answers.remove(at).1).expect("a status")),
            None => Ok(known.cancelled.iter().any(|cancelled| cancelled == run)),
        }
    }
}

async fn claim(
    State(shared): State<Arc<Shared>>,
    Json(body): Json<Value>,
) -> Result<Json<Value>, StatusCode> {
    let limit = body["max"].as_u64().ok_or(StatusCode::UNPROCESSABLE_ENTITY)? as usize;
    shared.note("", "claim", body)?;
    for _ in 0..KEPT.as_millis() / 20 {
        let taken: Vec<Value> = {
            let mut known = shared.state.lock().expect("no panic");
            let count = known.waiting.len().min(limit);
            known.waiting.drain(..count).collect()
        };
        if !taken.is_empty() {
            return Ok(Json(json!({ "attempts": taken })));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(Json(json!({ "attempts": [] })))
}

async fn hear(
    State(shared): State<Arc<Shared>>,
    Path((id, verb)): Path<(String, String)>,
    Json(mut body): Json<Value>,
) -> Result<Json<Value>, StatusCode> {
    let wrong = StatusCode::UNPROCESSABLE_ENTITY;
    let run = id.strip_suffix(".3").ok_or(StatusCode::NOT_FOUND)?;
    let token = body.as_object_mut().and_then(|fields| fields.remove("token"));
    token.filter(|token| *token == TOKEN).ok_or(wrong)?;
    let said = match verb.as_str() {
        "fail" => body["error"].take(),
        _ => body,
    };
    let cancel = shared.note(run, &verb, said)?;
    Ok(Json(match verb.as_str() {
        "heartbeat" => json!({ "lease_until": "2026-03-01T12:00:30Z", "cancel": cancel }),
        "complete" | "fail" => json!({}),
        _ => return Err(StatusCode::NOT_FOUND),
    }))
}
