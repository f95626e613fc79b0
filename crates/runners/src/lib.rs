//! Does the work of an attempt: an HTTP request, a command, a notification, a script.
//!
//! A [`Runners`] holds what the host permits ([`Policy`]) and performs one [`Work`] at a time per
//! call; how it ended is an [`Ended`], never a panic. It knows neither runs nor retries: whoever
//! calls it decides what follows. Secrets are not known here either: whoever put them into the
//! action masks them in what comes back, and gives a [`Mask`] for what is cut before. Scripts are
//! evaluated in processes of their own ([`script`]). Messages hold no query and no password of a
//! URL.
#![forbid(unsafe_code)]

mod address;
mod ear;
mod egress;
mod ended;
mod exec;
mod fitting;
mod http;
mod mask;
mod notification;
mod own_program;
mod policy;
pub mod script;
mod signature;

use std::sync::Arc;
use std::time::Duration;

use language::definition::Action;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use ear::{Ear, Stream};
pub use egress::{Egress, EgressError};
pub use ended::{Ended, code};
pub use exec::{Supervisor, end_orphans, supervise};
pub use mask::Mask;
pub use notification::{MailServer, MailServerError, Notifier, WebhookKeys, WebhookKeysError};
pub use policy::Policy;
pub use signature::{WebhookKey, WebhookKeyError};

use script::{FetchAnswer, FetchRequest, WorldFailure};

/// One attempt to perform.
#[derive(Clone, Debug)]
pub struct Work {
    /// What to do.
    pub action: Action,
    /// The run that the attempt belongs to.
    pub run_id: String,
    /// The step that the attempt belongs to.
    pub step_id: String,
    /// The same for every attempt that must have its effect once.
    pub idempotency_key: String,
    /// The run's input: JSON, exactly as it was given.
    pub input: Arc<str>,
    /// The span that what is done outside is part of, as in the header of that name.
    pub traceparent: Option<String>,
    /// Who hears what a command writes, while it does.
    pub ear: Option<Ear>,
    /// What the attempt before this one gave, if it failed and gave something: a notification finds
    /// in it who has been told.
    pub earlier: Option<Value>,
    /// How long the attempt may take.
    pub timeout: Duration,
}

/// Performs attempts. Cloning is cheap and shares connections.
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
    /// TLS or the resolver did not start.
    #[error("the HTTP client cannot be set up: {0}")]
    Http(#[from] reqwest::Error),
    /// The folder for process groups cannot be made.
    #[error("the folder for process groups cannot be made: {0}")]
    GroupsDir(#[from] std::io::Error),
}

impl Runners {
    /// Prepares everything that attempts share.
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

    /// Performs notifications too.
    #[must_use]
    pub fn notifying(self, notifier: Notifier) -> Runners {
        Runners { notifier: Some(Arc::new(notifier)), ..self }
    }

    /// Reads from outside on behalf of a script, to where the egress policy admits it.
    pub async fn fetch(&self, request: FetchRequest) -> Result<FetchAnswer, WorldFailure> {
        self.shared.http.fetch(request).await
    }

    /// A text without secrets.
    pub fn masked(&self, text: &str) -> String {
        self.shared.exec.mask.apply(text)
    }

    /// Performs one attempt, until it ends, its time is over or `cancel` is cancelled.
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
                None => Ended::for_good(code::NOTIFIER_MISSING, "this node tells nobody anything"),
            },
            _ => Ended::for_good(code::NOT_OURS, "no node performs a step of this type"),
        }
    }
}
