//! Agents at a URL: the node claims their tasks as a worker does, and posts each task to its agent.
//! Claims, leases and fencing are those of any worker, so when a node dies, other nodes take over
//! its tasks.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use engine::RunId;
use engine::run::{AttemptEnd, Claimant};
use engine::turn::{Answer, Command, Effect, Perform};
use jiff::SignedDuration;
use language::definition::limits::{OUTPUT_BYTES, QUEUE_LENGTH};
use language::definition::{Action, HttpAction};
use runners::{Ended, Policy, Runners, SetupError};
use serde_json::json;
use store::Failure;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::dispatch::{attempt_end, filled, not_filled, work};
use crate::handout::{self, Handout};
use crate::hub::Hub;
use crate::secrets::{Secrets, shown_address};

/// How many requests are sent to one agent at a time.
const AT_ONCE: usize = 64;
/// The lease of a task. Another node may claim the task this long after the last heartbeat; a
/// heartbeat is sent every third of it.
const LEASE: Duration = Duration::from_secs(30);
/// How often queues are checked again: other nodes queue tasks too, and a store that failed may
/// answer again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long a stopping node waits for answers. Other nodes take over the tasks without one.
const GRACE: Duration = Duration::from_secs(5);

/// An agent that takes tasks at a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    name: String,
    url: Url,
    /// Host and port, as the egress policy writes them.
    authority: String,
}

/// Why a text does not name an agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// The name or the URL is missing.
    #[error("write NAME=URL, such as reports=https://agents.example.org/reports")]
    Form,
    /// The name is too long for the name of a queue.
    #[error("the name has more than {} bytes", QUEUE_LENGTH - PREFIX.len())]
    Name,
    /// The URL cannot be posted to.
    #[error("`{url}` is not a URL that can be posted to: {why}")]
    Url {
        /// The URL without its password.
        url: String,
        why: String,
    },
}

const PREFIX: &str = "agent:";

impl FromStr for Agent {
    type Err = AgentError;

    fn from_str(text: &str) -> Result<Agent, AgentError> {
        let (name, url) = text.split_once('=').ok_or(AgentError::Form)?;
        let (name, url) = (name.trim(), url.trim());
        if name.is_empty() || url.is_empty() {
            return Err(AgentError::Form);
        }
        if PREFIX.len() + name.len() > QUEUE_LENGTH {
            return Err(AgentError::Name);
        }
        let wrong = |why: String| AgentError::Url { url: shown_address(url), why };
        let read = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
        if !matches!(read.scheme(), "http" | "https") {
            return Err(wrong("it begins with neither http:// nor https://".to_owned()));
        }
        if !read.username().is_empty() || read.password().is_some() {
            return Err(wrong("it has a user or a password, which would be logged".to_owned()));
        }
        let host = read.host_str().ok_or_else(|| wrong("it has no host".to_owned()))?;
        let authority = format!("{host}:{}", read.port_or_known_default().unwrap_or_default());
        // A host that the egress policy always refuses is refused here, not once per task.
        authority.parse::<runners::Egress>().map_err(|error| wrong(error.problem))?;
        Ok(Agent { name: name.to_owned(), authority, url: read })
    }
}

impl Agent {
    /// The agent's name, which is also the name in `agent_task` steps.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Claims the tasks of one agent and posts them.
pub(crate) struct Posting {
    agent: Agent,
    hub: Arc<Hub>,
    secrets: Arc<Secrets>,
    /// Runners that may reach the agent's host, and no other internal host.
    runners: Runners,
    /// The worker name that people see for these attempts.
    worker: String,
}

impl Posting {
    pub(crate) fn new(
        agent: Agent,
        hub: Arc<Hub>,
        secrets: Arc<Secrets>,
        node: &str,
    ) -> Result<Posting, SetupError> {
        let egress = agent.authority.parse().unwrap_or_default();
        let runners =
            Runners::new(Policy { egress, mask: secrets.to_mask(), ..Policy::default() })?;
        let worker = format!("{node} (for agent {})", agent.name);
        Ok(Posting { agent, hub, secrets, runners, worker })
    }

    /// Claims and posts tasks until `stop` is cancelled.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let posting = Arc::new(self);
        let permits = Arc::new(Semaphore::new(AT_ONCE));
        let mut tasks = JoinSet::new();
        loop {
            let taken = async {
                let permit = permits.clone().acquire_owned().await.ok()?;
                Some((permit, posting.next().await))
            };
            let taken = tokio::select! {
                taken = taken => taken,
                () = stop.cancelled() => None,
            };
            let Some((permit, (perform, handout))) = taken else { break };
            handout.delivered();
            let posting = posting.clone();
            tasks.spawn(async move {
                posting.perform(*perform).await;
                drop(permit);
            });
            while tasks.try_join_next().is_some() {}
        }
        let all = async { while tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(GRACE, all).await;
    }

    /// Waits for the next task and claims it.
    async fn next(&self) -> (Box<Perform>, Handout) {
        let queues = [format!("{PREFIX}{}", self.agent.name)];
        let is_shared = self.hub.store().lease().is_some();
        let mut waiting = self.hub.wait_for_work(&queues);
        loop {
            waiting.looks();
            let command = Command::ClaimAttempts {
                queues: queues.to_vec(),
                limit: 1,
                worker: self.worker.clone(),
                claimant: self.claimant(),
                lease: lease(),
            };
            let mut look_again = is_shared;
            match handout::claim(&self.hub, command).await {
                Ok(mut handout) => {
                    let effects = std::mem::take(&mut handout.effects);
                    let claimed = effects.into_iter().find_map(|effect| match effect {
                        Effect::Claimed { perform, .. } => Some(perform),
                        Effect::Perform(_) | Effect::Cancel { .. } => None,
                    });
                    if let Some(perform) = claimed {
                        return (perform, handout);
                    }
                    waiting.found_nothing();
                }
                Err(failure) => {
                    let agent = &self.agent.name;
                    tracing::warn!(agent, %failure, "no task can be taken for now");
                    look_again = true;
                }
            }
            let again = async {
                if look_again {
                    tokio::time::sleep(LOOK_AGAIN).await
                } else {
                    std::future::pending().await
                }
            };
            tokio::select! {
                () = waiting.woken(None) => {}
                () = again => {}
            }
        }
    }

    /// No access token can have such a name, so nobody else can report on an agent's task.
    fn claimant(&self) -> Claimant {
        Claimant { name: Some(format!("{PREFIX}{}", self.agent.name)), key: String::new() }
    }

    /// Performs one task: posts it, and reports the answer.
    async fn perform(&self, perform: Perform) {
        let (id, token) = (perform.run_id.clone(), perform.token);
        let end = match self.request(&perform) {
            Err(end) => end,
            Ok(action) => {
                let cancel = CancellationToken::new();
                let asked = self.runners.perform(work(&perform, action), cancel.clone());
                let ended = tokio::select! {
                    ended = asked => ended,
                    () = self.keep(&id, token, &cancel) => return,
                };
                attempt_end(answered(ended), &self.secrets)
            }
        };
        self.report(id, token, end).await;
    }

    /// The HTTP request for a task.
    fn request(&self, perform: &Perform) -> Result<Action, AttemptEnd> {
        let filled =
            filled(perform, &self.secrets).map_err(|error| not_filled(&error, &self.secrets))?;
        let Action::AgentTask(task) = filled else {
            // Only a worker step that names this queue itself can bring anything else here.
            let message = "this queue is for agent_task steps: its tasks are posted to a URL";
            return Err(AttemptEnd::Failed {
                code: runners::Code::NotOurs.name().to_owned(),
                message: message.to_owned(),
                retryable: false,
                output: None,
            });
        };
        let input: serde_json::Value = serde_json::from_str(&perform.input).unwrap_or_default();
        let body = json!({
            "agent": task.agent,
            "message": task.message,
            "model": task.model,
            "temperature": task.temperature,
            "input": input,
            "workflow": perform.definition.name,
            "run_id": perform.run_id.to_string(),
            "step_id": perform.step().id,
            "attempt": perform.attempt,
            "idempotency_key": perform.idempotency_key(),
            "timeout_seconds": perform.timeout().map(|limit| limit.as_secs_f64()),
        });
        Ok(Action::Http(HttpAction {
            method: "POST".to_owned(),
            url: self.agent.url.to_string(),
            headers: BTreeMap::new(),
            body: Some(body),
            expect: Vec::new(),
            redirects: 0,
            max_bytes: OUTPUT_BYTES as u64,
        }))
    }

    /// Sends heartbeats for a task. Returns when the task no longer belongs to this node.
    async fn keep(&self, id: &RunId, token: u32, cancel: &CancellationToken) {
        loop {
            tokio::time::sleep(LEASE / 3).await;
            let command = Command::Heartbeat {
                id: id.clone(),
                token,
                claimant: self.claimant(),
                lease: lease(),
            };
            match self.hub.command(command, None).await {
                Ok(commanded) => {
                    if matches!(commanded.answer, Answer::Lease { must_cancel: true, .. }) {
                        cancel.cancel();
                    }
                }
                Err(Failure::Refused(_)) => return,
                Err(failure) => {
                    let run = id.to_string();
                    tracing::warn!(run, token, %failure, "an agent's task could not be kept");
                }
            }
        }
    }

    /// Stores a task's report. If the store does not answer, retries for as long as the task
    /// certainly belongs to this node.
    async fn report(&self, id: RunId, token: u32, end: AttemptEnd) {
        let run = id.to_string();
        for _ in 0..LEASE.as_secs() {
            let (id, end) = (id.clone(), end.clone());
            let command = Command::EndAttempt { id, token, claimant: self.claimant(), end };
            match self.hub.command(command, None).await {
                // Refused: the task belonged to another worker by then.
                Ok(_) | Err(Failure::Refused(_)) => return,
                Err(failure) => {
                    tracing::warn!(run, token, %failure, "an agent's answer is not stored yet");
                }
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

fn lease() -> SignedDuration {
    SignedDuration::try_from(LEASE).unwrap_or(SignedDuration::MAX)
}

/// Converts the response of an agent. Its body is the output, with a flag beside it if it was cut.
/// A failure stays retryable only if there was no response, or its status is 408, 429 or at least
/// 500.
fn answered(ended: Ended) -> Ended {
    match ended {
        Ended::Succeeded { mut output } => {
            let body = output["body"].take();
            let output = if output["body_truncated"] == true {
                json!({"body": body, "body_truncated": true})
            } else {
                body
            };
            Ended::Succeeded { output }
        }
        Ended::Failed { code, message, retryable, output } => {
            let status = output.as_ref().and_then(|output| output["status"].as_u64());
            let is_later = status.is_none_or(|status| status >= 500 || matches!(status, 408 | 429));
            Ended::Failed { code, message, retryable: retryable && is_later, output }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::Agent;

    #[test]
    fn what_names_an_agent() {
        let agent: Agent = "reports=https://agents.example.org/r?x=1".parse().unwrap();
        assert_eq!((agent.name(), &*agent.authority), ("reports", "agents.example.org:443"));
        let agent: Agent = " a = http://[::1]:9000/".parse().unwrap();
        assert_eq!((agent.name(), &*agent.authority), ("a", "[::1]:9000"));
        let long = format!("{}=http://h/", "n".repeat(195));
        for (text, told) in [
            ("reports", "write NAME=URL"),
            ("=http://h/", "write NAME=URL"),
            ("a=", "write NAME=URL"),
            (&*long, "the name has more than 194 bytes"),
            ("a=reports", "is not a URL"),
            ("a=ftp://h/", "neither http:// nor https://"),
            ("a=http://me:pw@h/", "a user or a password"),
            ("a=http://169.254.169.254/", "is not a URL that can be posted to"),
            ("a=http://0xa9fea9fe/", "is not a URL that can be posted to"),
        ] {
            let error = text.parse::<Agent>().unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
