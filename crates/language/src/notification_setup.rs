//! The channels by which a node can notify people, and whom it notifies of failures by default.

use crate::definition::{
    Action, Channel, Definition, IncidentAction, host_of, read_incident_actions,
};

/// The notification settings of a node: which channels it can use, and whom it notifies by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// What happens on a failure if neither the trigger nor the workflow says so.
    pub on_failure: Vec<IncidentAction>,
    /// What happens on the next success if neither the trigger nor the workflow says so.
    pub on_recovery: Vec<IncidentAction>,
    /// The URL of the pages, without a slash at the end.
    pub public_url: Option<String>,
    /// The channels that are set up. `None` if that is unknown: then no channel is refused.
    pub channels: Option<Channels>,
}

/// The channels of a node that are set up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// Whether there is a mail server.
    pub mail: bool,
    /// The hosts for which webhooks are signed.
    pub webhook_hosts: Vec<String>,
    /// Whether webhooks to all other hosts are signed as well.
    pub webhooks: bool,
}

impl Setup {
    /// No default notifications, and no channel is refused.
    pub const NONE: Setup =
        Setup { on_failure: Vec::new(), on_recovery: Vec::new(), public_url: None, channels: None };

    /// Why this node cannot send a message to this channel, if it cannot.
    pub fn refusal(&self, channel: &Channel) -> Option<&'static str> {
        let channels = self.channels.as_ref()?;
        match channel {
            Channel::Email(_) if !channels.mail => Some(
                "this node has no mail server; start it with \
                 PUNCTUAL_SMTP=smtps://user:password@host?from=punctual@example.org",
            ),
            Channel::Webhook(url) if !channels.signs(url) => Some(
                "this node has no secret to sign webhooks to this host with; start it with \
                 PUNCTUAL_WEBHOOK_SECRET=whsec_…",
            ),
            Channel::Email(_) | Channel::Webhook(_) | Channel::Slack(_) => None,
        }
    }

    /// The channels of a definition, its notifications and its deadlines that this node cannot
    /// reach: path, channel and reason.
    pub fn unreachable(&self, definition: &Definition) -> Vec<(String, String, &'static str)> {
        let mut found = Vec::new();
        let mut look = |path: &str, channels: &[Channel]| {
            let refused = channels.iter().filter_map(|channel| {
                Some((path.to_owned(), channel.shown(), self.refusal(channel)?))
            });
            found.extend(refused);
        };
        for (key, actions) in
            [("on_failure", &definition.on_failure), ("on_recovery", &definition.on_recovery)]
        {
            actions.iter().flatten().for_each(|action| look(key, &action.notify));
        }
        for (at, trigger) in definition.triggers.iter().enumerate() {
            let Some(declaration) = definition.declaration(trigger) else { continue };
            for key in ["on_failure", "on_recovery"] {
                let actions = declaration.get(key).map(read_incident_actions);
                let actions = actions.into_iter().flatten().flatten();
                let path = format!("triggers[{at}].{key}");
                actions.for_each(|action| look(&path, &action.notify));
            }
        }
        for step in &definition.steps {
            let action = match &step.action {
                Action::ForEach(each) => &*each.action,
                action => action,
            };
            if let Action::Notification(told) = action {
                // Nobody knows yet which host a template names.
                let is_host_unknown = |channel: &&Channel| matches!(channel, Channel::Webhook(url) if url.contains("{{"));
                let signs_some = self.channels.as_ref().is_some_and(|channels| {
                    channels.webhooks || !channels.webhook_hosts.is_empty()
                });
                let known: Vec<Channel> = told
                    .to
                    .iter()
                    .filter(|to| !(signs_some && is_host_unknown(to)))
                    .cloned()
                    .collect();
                look(&format!("steps[{}].to", step.id), &known);
            }
        }
        let of_steps = definition.steps.iter().filter_map(|step| {
            Some((format!("steps[{}].deadline", step.id), step.deadline.as_ref()?))
        });
        let own = definition.deadline.iter().map(|deadline| ("deadline".to_owned(), deadline));
        for (path, deadline) in own.chain(of_steps) {
            deadline.actions.iter().for_each(|action| look(&path, &action.notify));
        }
        found
    }
}

impl Channels {
    fn signs(&self, url: &str) -> bool {
        let host = host_of(url);
        self.webhooks || host.is_some_and(|host| self.webhook_hosts.contains(&host))
    }
}
