//! The worker's requests to its node: claim, heartbeat, report.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::client::{Ask, Line};
use crate::failure::Failure;

/// How long a node may hold a claim that finds nothing: less than any proxy waits.
const WAIT_SECONDS: u64 = 20;

/// An attempt that this worker has claimed.
#[derive(Debug, Deserialize)]
pub(super) struct Attempt {
    pub(super) id: String,
    #[serde(rename = "run_id")]
    pub(super) run: String,
    #[serde(rename = "step_id")]
    pub(super) step: String,
    /// The number of the attempt within the step.
    pub(super) attempt: u64,
    /// Proves that this worker has claimed the attempt; sent back unchanged.
    pub(super) token: Value,
    /// The payload as JSON, exactly as the node sent it.
    #[serde(rename = "payload")]
    pub(super) input: Box<RawValue>,
    /// The same for every attempt at the step.
    pub(super) idempotency_key: String,
    pub(super) timeout_seconds: Option<f64>,
    /// The trace span that the command's own spans belong to.
    pub(super) traceparent: Option<String>,
}

#[derive(Deserialize)]
struct Claimed {
    attempts: Vec<Attempt>,
}

/// A node's answer to a heartbeat.
#[derive(Deserialize)]
struct Beat {
    cancel: bool,
}

/// Why a node has not done what it was asked to do.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The node did not answer, or cannot answer now; the request may be retried.
    Later(String),
    /// The attempt no longer belongs to this worker.
    Lost,
    /// The node refused the request and would refuse it again.
    Refused(Failure),
}

/// The result of an attempt.
pub(super) enum Report {
    Completed(Box<RawValue>),
    Failed {
        code: String,
        message: String,
        /// Whether a retry may succeed.
        retryable: bool,
    },
}

/// A worker's connection to its node.
pub(super) struct Node {
    line: Line,
    queues: Vec<String>,
    worker: String,
    lease_seconds: u64,
}

impl Node {
    pub(super) fn new(line: Line, queues: &[String], worker: String, lease_seconds: u64) -> Node {
        Node { line, queues: queues.to_vec(), worker, lease_seconds }
    }

    /// Claims up to `most` attempts. Returns none if none became available in time.
    pub(super) async fn claim(&self, most: usize) -> Result<Vec<Attempt>, Unanswered> {
        let body = json!({
            "queues": self.queues,
            "max": most,
            "worker": self.worker,
            "lease_seconds": self.lease_seconds,
            "wait_seconds": WAIT_SECONDS,
        });
        let ask = Ask::post(&["attempts", "claim"]).json(&body);
        Ok(self.ask::<Claimed>(ask).await?.attempts)
    }

    /// Sends a heartbeat. Returns whether the attempt is to be cancelled.
    pub(super) async fn beat(&self, attempt: &Attempt) -> Result<bool, Unanswered> {
        let path = ["attempts", &attempt.id, "heartbeat"];
        let body = json!({ "token": attempt.token, "lease_seconds": self.lease_seconds });
        let ask = Ask::post(&path).json(&body);
        Ok(self.ask::<Beat>(ask).await?.cancel)
    }

    /// Reports the result of the attempt.
    pub(super) async fn report(
        &self,
        attempt: &Attempt,
        report: &Report,
    ) -> Result<(), Unanswered> {
        let token = &attempt.token;
        let (verb, body) = match report {
            // The body is put together as text, so that the command's output is passed on
            // unchanged.
            Report::Completed(output) => {
                ("complete", format!("{{\"token\":{token},\"output\":{}}}", output.get()))
            }
            Report::Failed { code, message, retryable } => {
                let error = json!({ "code": code, "message": message, "retryable": retryable });
                ("fail", json!({ "token": token, "error": error }).to_string())
            }
        };
        let path = ["attempts", &attempt.id, verb];
        self.send(Ask::post(&path).json_text(body)).await.map(drop)
    }

    async fn ask<T: DeserializeOwned>(&self, ask: Ask<'_>) -> Result<T, Unanswered> {
        let text = self.send(ask).await?;
        serde_json::from_str(&text).map_err(|error| Unanswered::Refused(self.line.misread(&error)))
    }

    async fn send(&self, ask: Ask<'_>) -> Result<String, Unanswered> {
        match self.line.send(ask).await {
            Ok((200..300, text)) => Ok(text),
            Ok((409, _)) => Err(Unanswered::Lost),
            Ok((status @ (408 | 429 | 500..), text)) => {
                Err(Unanswered::Later(in_one_line(&self.line.refused(status, &text))))
            }
            Ok((status, text)) => Err(Unanswered::Refused(self.line.refused(status, &text))),
            Err(error) => Err(Unanswered::Later(in_one_line(&self.line.unreachable(&error)))),
        }
    }
}

/// Joins the lines of a failure, because the log has one line per event.
fn in_one_line(failure: &Failure) -> String {
    let text = failure.to_string();
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    lines.join("; ")
}
