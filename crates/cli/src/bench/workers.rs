//! Measures attempts per second that workers claim and complete over HTTP.

use std::net::Ipv4Addr;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use server::Stopwatch;
use server::serve::{Server, ServerOptions};

use super::store_target::StoreTarget;
use crate::failure::Failure;

/// Outside programs, each with one connection per open request.
pub(super) const WORKERS: usize = 4;
/// Attempts that each worker claims at a time; it completes [`SIDE_BY_SIDE`] of them concurrently.
const CLAIMED: usize = 250;
const SIDE_BY_SIDE: usize = 16;
/// Schedules in one request.
const BATCH: u64 = 5_000;
const WORKFLOW: &str =
    r#"{"name": "worked", "steps": [{"id": "s", "type": "worker", "queue": "q"}]}"#;

/// Attempts per second, measured over `attempts` attempts from the first claim to the last report.
pub(super) async fn rate(target: &StoreTarget, attempts: u64) -> Result<f64, Failure> {
    let store = target.open().await?;
    let listen = (Ipv4Addr::LOCALHOST, 0).into();
    let options = ServerOptions { listen, ..ServerOptions::new(store) };
    let server = Server::start(options).await;
    let server = server.map_err(|error| Failure::Environment(error.to_string()))?;
    let http = runners::http_client().build();
    let http = http.map_err(|error| Failure::Environment(error.to_string()))?;
    let node = Edge { http, url: format!("http://{}", server.address()) };
    node.queue(attempts, server.hub().now()).await?;
    let watch = Stopwatch::start();
    let workers = (0..WORKERS).map(|number| node.work(number));
    let done: u64 = futures_util::future::try_join_all(workers).await?.into_iter().sum();
    let took = watch.elapsed().as_secs_f64();
    server.stop().await?;
    if done == attempts {
        Ok(done as f64 / took)
    } else {
        Err(Failure::Environment(format!("{done} of {attempts} attempts were done")))
    }
}

/// The node's API, as an outside program uses it.
struct Edge {
    http: reqwest::Client,
    url: String,
}

impl Edge {
    async fn post(&self, path: &str, body: String) -> Result<Value, Failure> {
        let url = format!("{}/api/v1/{path}", self.url);
        let asked = self.http.post(url).header("content-type", "application/json").body(body);
        let broken = |error: reqwest::Error| Failure::Environment(error.to_string());
        let answer = asked.send().await.map_err(broken)?;
        let (status, text) = (answer.status(), answer.text().await.map_err(broken)?);
        if status.is_success() {
            Ok(serde_json::from_str(&text).unwrap_or_default())
        } else {
            Err(Failure::Environment(format!("{path}: {status}: {text}")))
        }
    }

    /// Puts attempts into the queue, and waits until all of them are queued.
    async fn queue(&self, attempts: u64, now: Timestamp) -> Result<(), Failure> {
        self.post("workflows?publish=true", WORKFLOW.to_owned()).await?;
        let at = (now + SignedDuration::from_secs(1)).to_string();
        for from in (0..attempts).step_by(BATCH as usize) {
            let numbers = from..(from + BATCH).min(attempts);
            let schedule =
                |n: u64| json!({"name": format!("worked {n}"), "workflow_id": "worked", "at": at});
            let all: Vec<Value> = numbers.map(schedule).collect();
            self.post("schedules/batch", json!(all).to_string()).await?;
        }
        loop {
            let url = format!("{}/api/v1/queues", self.url);
            let broken = |error: reqwest::Error| Failure::Environment(error.to_string());
            let text = self.http.get(url).send().await.map_err(broken)?;
            let queues: Value = text.json().await.map_err(broken)?;
            if queues["items"][0]["depth"].as_u64() == Some(attempts) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Claims and completes attempts until none is left. Returns how many there were.
    async fn work(&self, number: usize) -> Result<u64, Failure> {
        let claim = json!({"queues": ["q"], "max": CLAIMED, "worker": format!("bench-{number}")});
        let claim = claim.to_string();
        let mut done = 0;
        loop {
            let claimed = self.post("attempts/claim", claim.clone()).await?;
            let attempts = claimed["attempts"].as_array().cloned().unwrap_or_default();
            if attempts.is_empty() {
                return Ok(done);
            }
            done += attempts.len() as u64;
            let complete = |attempt: Value| async move {
                let id = attempt["id"].as_str().unwrap_or_default();
                let body = json!({"token": attempt["token"], "output": {"is_done": true}});
                self.post(&format!("attempts/{id}/complete"), body.to_string()).await
            };
            let reports = stream::iter(attempts).map(complete).buffer_unordered(SIDE_BY_SIDE);
            reports.try_for_each(|_| async { Ok(()) }).await?;
        }
    }
}
