//! Does the work of an attempt: an HTTP request, a command, a notification, a script.
//!
//! A [`Runners`] holds what the host permits ([`Policy`]) and performs one [`Work`] per call. The
//! result is an [`Ended`], never a panic. A runner knows neither runs nor retries: its caller
//! decides what follows. It does not know secrets either: the caller, which put them into the
//! action, masks them in the result, and provides a [`Mask`] for texts that are cut before. Scripts
//! are evaluated in processes of their own ([`script`]). Messages contain no query and no password
//! of a URL.
#![forbid(unsafe_code)]

mod address;
mod egress;
mod ended;
mod exec;
mod fitting;
mod http;
mod mask;
mod notification;
mod output_sink;
mod own_program;
mod policy;
pub mod script;
mod signature;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use language::definition::Action;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use egress::{Egress, EgressError};
pub use ended::{Code, Ended};
pub use exec::{Supervisor, end_orphans, supervise};
pub use mask::Mask;
pub use notification::{MailServer, MailServerError, Notifier, WebhookKeys, WebhookKeysError};
pub use output_sink::{OutputSink, Stream};
pub use policy::Policy;
pub use signature::{WebhookKey, WebhookKeyError};
pub use tls::http_client;

use script::{FetchAnswer, FetchRequest, WorldFailure};

/// One attempt to perform.
#[derive(Clone, Debug)]
pub struct Work {
    pub action: Action,
    pub run_id: String,
    pub step_id: String,
    /// The same for all attempts whose effect must happen once.
    pub idempotency_key: String,
    /// The run's input as JSON text, exactly as it was given.
    pub input: Arc<str>,
    /// The trace span that outside work becomes part of, as the value of a `traceparent` header.
    pub traceparent: Option<String>,
    /// Receives a command's output while the command runs.
    pub output_sink: Option<OutputSink>,
    /// The output of the previous attempt, if that failed and had one. A notification reads from it
    /// which channels were already notified.
    pub earlier: Option<Value>,
    pub timeout: Duration,
}

/// Performs attempts. Clones are cheap and share connections.
#[derive(Clone, Debug)]
pub struct Runners {
    shared: Arc<Shared>,
    notifier: Option<Arc<Notifier>>,
}

#[derive(Debug)]
struct Shared {
    http: http::Sender,
    exec: exec::Launcher,
}

/// Why a node cannot perform attempts.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// TLS or the resolver could not be set up.
    #[error("the HTTP client cannot be set up: {0}")]
    Http(#[from] reqwest::Error),
    /// The directory for process groups could not be created.
    #[error("the folder for process groups cannot be made: {0}")]
    GroupsDir(#[from] std::io::Error),
}

impl Runners {
    /// Sets up the HTTP clients and the command launcher that all attempts share.
    pub fn new(policy: Policy) -> Result<Runners, SetupError> {
        let http = http::Sender::new(policy.egress, policy.mask.clone())?;
        let exec = exec::Launcher {
            allowed: policy.allow_exec,
            grace: policy.cancel_grace,
            notes: policy.groups_dir.map(exec::Notes::in_dir).transpose()?,
            supervisor: policy.supervisor,
            mask: policy.mask,
        };
        Ok(Runners { shared: Arc::new(Shared { http, exec }), notifier: None })
    }

    #[must_use]
    pub fn notifying(self, notifier: Notifier) -> Runners {
        Runners { notifier: Some(Arc::new(notifier)), ..self }
    }

    /// Performs an HTTP request on behalf of a script, if the egress policy admits its target.
    pub async fn fetch(&self, request: FetchRequest) -> Result<FetchAnswer, WorldFailure> {
        self.shared.http.fetch(request).await
    }

    /// Masks the secrets in a text.
    pub fn masked(&self, text: &str) -> String {
        self.shared.exec.mask.apply(text)
    }

    /// Performs one attempt, until it ends, exceeds its timeout or `cancel` is cancelled.
    ///
    /// Dropping the future ends the work at once: a request is abandoned, a command's process
    /// group is killed.
    pub async fn perform(&self, work: Work, cancel: CancellationToken) -> Ended {
        if cancel.is_cancelled() {
            return Ended::Cancelled { message: "cancelled before anything was done".to_owned() };
        }
        match &work.action {
            Action::Noop => Ended::Succeeded { output: Value::Null },
            Action::Http(action) => self.shared.http.perform(action, &work, &cancel).await,
            Action::Exec(action) => self.shared.exec.perform(action, &work, &cancel).await,
            Action::Notification(notification) => match &self.notifier {
                Some(notifier) => {
                    notifier.perform(&self.shared.http, notification, &work, &cancel).await
                }
                None => Ended::for_good(Code::NotifierMissing, "this node tells nobody anything"),
            },
            _ => Ended::for_good(Code::NotOurs, "no node performs a step of this type"),
        }
    }
}
