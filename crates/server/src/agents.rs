//! Agents at a URL: the node takes their tasks as a worker does, and posts each to its agent. Claims, leases and
//! fences are those of any worker, so a node that dies loses its tasks to others.

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

/// Requests to one agent at a time.
const AT_ONCE: usize = 64;
/// A task is another node's after so long without a sign of life; there is one every third of it.
const LEASE: Duration = Duration::from_secs(30);
/// Other nodes queue tasks as well, and a store that failed may answer again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// When the node stops, what was asked may still be answered so long. The rest is taken over.
const GRACE: Duration = Duration::from_secs(5);

/// An agent that is reached at a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    name: String,
    url: Url,
    /// Host and port, as the egress policy names them.
    place: String,
}

/// Why a text names no agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// There is no name, or no URL.
    #[error("write NAME=URL, such as reports=https://agents.example.org/reports")]
    Form,
    /// No queue has such a name.
    #[error("the name has more than {} bytes", QUEUE_LENGTH - PREFIX.len())]
    Name,
    /// Nothing can be posted there.
    #[error("`{url}` is not a URL that can be posted to: {why}")]
    Url {
        /// Without a password.
        url: String,
        /// What is wrong.
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
        let place = format!("{host}:{}", read.port_or_known_default().unwrap_or_default());
        // What is never reached is refused here, not with each task.
        place.parse::<runners::Egress>().map_err(|error| wrong(error.problem))?;
        Ok(Agent { name: name.to_owned(), place, url: read })
    }
}

impl Agent {
    /// Whose tasks it takes.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// What the tasks of one agent have in common.
pub(crate) struct Posting {
    agent: Agent,
    hub: Arc<Hub>,
    secrets: Arc<Secrets>,
    /// They reach the agent's host, and no other inner one.
    runners: Runners,
    /// What the node calls itself to people.
    worker: String,
}

impl Posting {
    pub(crate) fn new(
        agent: Agent,
        hub: Arc<Hub>,
        secrets: Arc<Secrets>,
        node: &str,
    ) -> Result<Posting, SetupError> {
        let egress = agent.place.parse().unwrap_or_default();
        let runners =
            Runners::new(Policy { egress, mask: secrets.to_mask(), ..Policy::default() })?;
        let worker = format!("{node} (for agent {})", agent.name);
        Ok(Posting { agent, hub, secrets, runners, worker })
    }

    /// Takes tasks until it is told to stop.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let posting = Arc::new(self);
        let places = Arc::new(Semaphore::new(AT_ONCE));
        let mut tasks = JoinSet::new();
        loop {
            let taken = async {
                let place = places.clone().acquire_owned().await.ok()?;
                Some((place, posting.next().await))
            };
            let taken = tokio::select! {
                taken = taken => taken,
                () = stop.cancelled() => None,
            };
            let Some((place, (perform, handout))) = taken else { break };
            handout.delivered();
            let posting = posting.clone();
            tasks.spawn(async move {
                posting.perform(*perform).await;
                drop(place);
            });
            while tasks.try_join_next().is_some() {}
        }
        let all = async { while tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(GRACE, all).await;
    }

    /// The next task, when there is one.
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
                match look_again {
                    true => tokio::time::sleep(LOOK_AGAIN).await,
                    false => std::future::pending().await,
                }
            };
            tokio::select! {
                () = waiting.woken(None) => {}
                () = again => {}
            }
        }
    }

    /// No access token has such a name: nobody else reports on what an agent does.
    fn claimant(&self) -> Claimant {
        Claimant { name: Some(format!("{PREFIX}{}", self.agent.name)), key: String::new() }
    }

    /// One task, from the request to the report.
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

    /// What is posted.
    fn request(&self, perform: &Perform) -> Result<Action, AttemptEnd> {
        let filled =
            filled(perform, &self.secrets).map_err(|error| not_filled(&error, &self.secrets))?;
        let Action::AgentTask(task) = filled else {
            // Nothing else is queued there, unless a worker step names the queue itself.
            let message = "this queue is for agent_task steps: its tasks are posted to a URL";
            return Err(AttemptEnd::Failed {
                code: runners::code::NOT_OURS.to_owned(),
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

    /// Says again and again that the task is being done. Returns when it is another's.
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
                    if matches!(commanded.answer, Answer::Lease { is_told_to_end: true, .. }) {
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

    /// While the store does not answer, the report is kept as long as the task is certain to be ours.
    async fn report(&self, id: RunId, token: u32, end: AttemptEnd) {
        let run = id.to_string();
        for _ in 0..LEASE.as_secs() {
            let (id, end) = (id.clone(), end.clone());
            let command = Command::EndAttempt { id, token, claimant: self.claimant(), end };
            match self.hub.command(command, None).await {
                // Refused: it was another's by then.
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

/// The body of the answer is the output, with a mark beside it if it was cut. Of refusals, only those are tried again that say so.
fn answered(ended: Ended) -> Ended {
    match ended {
        Ended::Succeeded { mut output } => {
            let body = output["body"].take();
            let output = match output["body_truncated"] == true {
                true => json!({"body": body, "body_truncated": true}),
                false => body,
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
        assert_eq!((agent.name(), &*agent.place), ("reports", "agents.example.org:443"));
        let agent: Agent = " a = http://[::1]:9000/".parse().unwrap();
        assert_eq!((agent.name(), &*agent.place), ("a", "[::1]:9000"));
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
