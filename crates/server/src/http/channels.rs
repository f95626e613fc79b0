//! Channels through which this node reaches people: what is configured, without secrets, and a test
//! message.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use language::definition::{Action, Channel, IncidentAction, Notification};
use language::notification_setup::Setup;
use runners::{Ended, Runners, Work};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::answer::{self, Answered};
use super::body::JsonBody;
use super::problem::{Problem, Wrong};
use super::query::Query;

/// How long sending a test message may take.
const TEST_TIME: Duration = Duration::from_secs(30);

/// The configured channels, and the runners that send messages.
pub(crate) struct Reach {
    /// The setup as the engine knows it.
    pub(crate) setup: Arc<Setup>,
    /// The mail server's host, and the sender's address.
    pub(crate) mail: Option<(String, String)>,
    pub(crate) runners: Runners,
}

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(test))
}

/// The channels through which this node reaches people.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChannelsObject {
    /// One item for each kind of channel.
    pub(crate) items: Vec<ChannelObject>,
    /// The actions on a failure, where neither the trigger nor the workflow names any.
    pub(crate) on_failure: Vec<String>,
    /// The actions on recovery, where neither the trigger nor the workflow names any.
    pub(crate) on_recovery: Vec<String>,
    /// The address with which links in messages begin.
    pub(crate) public_url: Option<String>,
}

/// One kind of channel.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChannelObject {
    /// `email`, `webhook` or `slack`.
    pub(crate) kind: &'static str,
    /// Whether messages can be sent through it.
    pub(crate) configured: bool,
    /// The mail server.
    pub(crate) host: Option<String>,
    /// The sender of mail.
    pub(crate) from: Option<String>,
    /// Hosts with webhook signing keys of their own.
    pub(crate) hosts: Vec<String>,
    /// Whether webhooks to all other hosts are signed too.
    pub(crate) other_hosts: bool,
    /// What to set if it is not configured.
    pub(crate) remedy: Option<&'static str>,
}

impl Reach {
    /// A node without channels.
    #[cfg(test)]
    pub(crate) fn nowhere() -> Reach {
        let runners = Runners::new(runners::Policy::default());
        Reach { setup: Arc::default(), mail: None, runners: runners.expect("runners") }
    }

    pub(crate) fn shown(&self) -> ChannelsObject {
        let Setup { on_failure, on_recovery, public_url, channels } = &*self.setup;
        let channels = channels.clone().unwrap_or_default();
        let plain = |kind, configured| ChannelObject {
            kind,
            configured,
            host: None,
            from: None,
            hosts: Vec::new(),
            other_hosts: false,
            remedy: None,
        };
        let (host, from) = self.mail.clone().unzip();
        let email = ChannelObject {
            remedy: self
                .mail
                .is_none()
                .then_some("PUNCTUAL_SMTP=smtps://user:password@host?from=punctual@example.org"),
            host,
            from,
            ..plain("email", channels.mail)
        };
        let signs = channels.webhooks || !channels.webhook_hosts.is_empty();
        let webhook = ChannelObject {
            hosts: channels.webhook_hosts,
            other_hosts: channels.webhooks,
            remedy: (!signs).then_some("PUNCTUAL_WEBHOOK_SECRET=whsec_…"),
            ..plain("webhook", signs)
        };
        ChannelsObject {
            // Slack needs nothing but the URL.
            items: vec![email, webhook, plain("slack", true)],
            on_failure: shown(on_failure),
            on_recovery: shown(on_recovery),
            public_url: public_url.clone(),
        }
    }
}

fn shown(actions: &[IncidentAction]) -> Vec<String> {
    let of_one = |action: &IncidentAction| {
        let told = action.notify.iter().map(Channel::shown);
        let started = action.start.iter().map(|name| format!("start {name}"));
        told.chain(started).collect::<Vec<_>>()
    };
    actions.iter().flat_map(of_one).collect()
}

/// Lists the channels through which this node reaches people, without secrets.
#[utoipa::path(get, path = "/channels", tag = "node",
    responses((status = 200, body = ChannelsObject)))]
async fn list(State(app): State<App>, Query(()): Query<()>) -> Answered {
    answer::ok(&app.reach().shown())
}

/// The recipient of a test message.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Tested {
    /// `email:ADDRESS`, `webhook:URL` or `slack:URL`.
    channel: String,
}

/// A test message that was sent.
#[derive(Debug, Serialize, ToSchema)]
struct Sent {
    /// The recipient, without secrets.
    channel: String,
    /// Always true: a failure is returned as a problem.
    sent: bool,
}

/// Sends a test message through a channel.
#[utoipa::path(post, path = "/channels/test", tag = "node", request_body = Tested,
    responses((status = 200, body = Sent),
        (status = 409, body = Problem, description = "The channel is not set up on this node"),
        (status = 422, body = Problem),
        (status = 502, body = Problem, description = "The mail server or the URL did not take it")))]
async fn test(State(app): State<App>, Query(()): Query<()>, body: JsonBody) -> Answered {
    let Tested { channel } = body.read()?;
    let channel = Channel::parse(&channel).map_err(|problem| {
        let wrong = Wrong::new("channel", problem.code, &problem.message);
        Problem::invalid([wrong.allow("email:ADDRESS, webhook:URL or slack:URL")])
    })?;
    let (shown, remedy) = (channel.shown(), what_to_check(&channel));
    if let Some(why) = app.reach().setup.refusal(&channel) {
        return Err(Problem::conflict(format!("{shown}: {why}.")));
    }
    let id = uuid::Uuid::from_u128(app.new_run_id()).to_string();
    let work = Work {
        action: Action::Notification(Notification {
            to: vec![channel],
            subject: Some("A test message of Punctual".to_owned()),
            message: "Somebody has asked for this message to see whether it arrives.".to_owned(),
            data: None,
        }),
        step_id: "test".to_owned(),
        idempotency_key: format!("{id}/test"),
        run_id: id,
        input: "null".into(),
        traceparent: None,
        output_sink: None,
        earlier: None,
        timeout: TEST_TIME,
    };
    let why = match app.reach().runners.perform(work, CancellationToken::new()).await {
        Ended::Succeeded { .. } => return answer::ok(&Sent { channel: shown, sent: true }),
        Ended::Failed { message, .. }
        | Ended::TimedOut { message }
        | Ended::Cancelled { message } => message,
    };
    let why = app.secrets().mask(&why).into_owned();
    let message = format!("the message to {shown} was not sent: {why}");
    Err(Problem::not_sent(Wrong::new("channel", "not-sent", message).suggest(remedy)))
}

/// What to check when a message through the channel does not arrive.
fn what_to_check(channel: &Channel) -> &'static str {
    match channel {
        Channel::Email(_) => {
            "check the address, and the host, port, user and password in PUNCTUAL_SMTP"
        }
        Channel::Webhook(_) => "check the URL, and that it answers a POST with a status of 2xx",
        Channel::Slack(_) => "check the URL: it is that of an incoming webhook, and still valid",
    }
}
