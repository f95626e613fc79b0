//! What a worker and a node say to each other.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::client::{Ask, Line};
use crate::failure::Failure;

/// How long a node may keep a claim that finds nothing: less than any proxy waits.
const WAIT_SECONDS: u64 = 20;

/// An attempt that this worker has claimed.
#[derive(Debug, Deserialize)]
pub(super) struct Attempt {
    /// What the node calls it.
    pub(super) id: String,
    /// The run it belongs to.
    #[serde(rename = "run_id")]
    pub(super) run: String,
    /// The step it belongs to.
    #[serde(rename = "step_id")]
    pub(super) step: String,
    /// Which attempt at the step.
    pub(super) attempt: u64,
    /// What proves that it is ours; passed on as it is.
    pub(super) token: Value,
    /// JSON, exactly as the node has it.
    #[serde(rename = "payload")]
    pub(super) input: Box<RawValue>,
    /// The same for every attempt at the step.
    pub(super) idempotency_key: String,
    /// How long it may take.
    pub(super) timeout_seconds: Option<f64>,
    /// The span that the command's own are part of.
    pub(super) traceparent: Option<String>,
}

#[derive(Deserialize)]
struct Claimed {
    attempts: Vec<Attempt>,
}

/// What a node says to a sign of life.
#[derive(Deserialize)]
struct Beat {
    cancel: bool,
}

/// Why a node has not done what it was asked.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// Nobody answers, or nobody can now: it is worth asking again.
    Later(String),
    /// The attempt is not ours any more.
    Lost,
    /// However often it is asked.
    Refused(Failure),
}

/// How an attempt ended.
pub(super) enum Report {
    /// With this output.
    Completed(Box<RawValue>),
    /// Not well.
    Failed {
        /// For programs.
        code: String,
        /// For people.
        message: String,
        /// Whether trying again can help.
        retryable: bool,
    },
}

/// A worker's line to its node.
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

    /// Takes up to so many attempts; none, if none came in time.
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

    /// Says that the attempt goes on. The answer is whether it is to end.
    pub(super) async fn beat(&self, attempt: &Attempt) -> Result<bool, Unanswered> {
        let path = ["attempts", &attempt.id, "heartbeat"];
        let body = json!({ "token": attempt.token, "lease_seconds": self.lease_seconds });
        let ask = Ask::post(&path).json(&body);
        Ok(self.ask::<Beat>(ask).await?.cancel)
    }

    /// Says how the attempt ended.
    pub(super) async fn report(
        &self,
        attempt: &Attempt,
        report: &Report,
    ) -> Result<(), Unanswered> {
        let token = &attempt.token;
        let (verb, body) = match report {
            // Put together as text: what a command wrote is passed on as it is.
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

/// For the log, which has a line for each thing that happens.
fn in_one_line(failure: &Failure) -> String {
    let text = failure.to_string();
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    lines.join("; ")
}
