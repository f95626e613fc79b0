//! Sends notifications to all channels concurrently, and keeps track of which channels were
//! notified.

mod mail;
mod outcome;
mod webhook;

use std::fmt;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream;
use jiff::Timestamp;
use language::definition::{Channel, Notification};
use tokio_util::sync::CancellationToken;

use crate::http::Sender;
use crate::{Code, Ended, Work};
use outcome::{Outcome, Outcomes};

pub use mail::{MailServer, MailServerError};
pub use webhook::{WebhookKeys, WebhookKeysError};

/// How many channels are notified at the same time. A notification to many channels must not use
/// all of the node's connections.
const AT_ONCE: usize = 16;

/// What a node needs to send notifications: a clock, webhook keys and a mail server.
#[derive(Clone)]
pub struct Notifier {
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    keys: WebhookKeys,
    mail: Option<MailServer>,
}

/// Omits the clock, a closure.
impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Notifier { now: _, keys, mail } = self;
        f.debug_struct("Notifier").field("keys", keys).field("mail", mail).finish_non_exhaustive()
    }
}

impl Notifier {
    /// `now` provides the timestamps of signatures and messages. A channel whose key or server is
    /// missing fails, and its message says which setting is needed.
    pub fn new(
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
        keys: WebhookKeys,
        mail: Option<MailServer>,
    ) -> Notifier {
        Notifier { now: Arc::new(now), keys, mail }
    }

    /// Notifies every channel that no earlier attempt has notified.
    pub(crate) async fn perform(
        &self,
        http: &Sender,
        notification: &Notification,
        work: &Work,
        cancel: &CancellationToken,
    ) -> Ended {
        let mut outcomes = Outcomes::after(work.earlier.as_ref(), &notification.to);
        let tell = |at: usize| async move {
            (at, self.tell(http, &notification.to[at], notification, work).await)
        };
        let mut telling = stream::iter(outcomes.left()).map(tell).buffer_unordered(AT_ONCE);
        let time_is_over = tokio::time::sleep(work.timeout);
        tokio::pin!(time_is_over);
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return outcomes.cancelled(),
                told = telling.next() => match told {
                    Some((at, outcome)) => outcomes.set(at, outcome),
                    None => return outcomes.ended(),
                },
                () = &mut time_is_over => return outcomes.timed_out(work.timeout),
            }
        }
    }

    async fn tell(
        &self,
        http: &Sender,
        channel: &Channel,
        notification: &Notification,
        work: &Work,
    ) -> Outcome {
        let now = (self.now)();
        match channel {
            Channel::Webhook(url) => match self.keys.signed(url, notification, work, now) {
                Ok(action) => answered(http.send_secretly(&action, work).await),
                Err(failure) => failure,
            },
            Channel::Slack(url) => {
                let action = webhook::slack(url, notification);
                answered(http.send_secretly(&action, work).await)
            }
            Channel::Email(address) => match &self.mail {
                Some(server) => server.send(address, notification, work, now).await,
                None => Outcome::for_good(
                    Code::MailNotSetUp,
                    "this node has no mail server; start it with \
                     PUNCTUAL_SMTP=smtps://user:password@host?from=punctual@example.org",
                ),
            },
        }
    }
}

/// The outcome of a webhook request. The text of the response is discarded.
fn answered(ended: Ended) -> Outcome {
    match ended {
        Ended::Succeeded { .. } => Outcome::Told,
        other => other.into(),
    }
}
