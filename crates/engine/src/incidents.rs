//! Incidents: from the moment that something has finally failed until it succeeds again.
//!
//! A schedule's incident begins when an occurrence fails and is not tried again, or when the schedule dies, and ends
//! with its next success. Runs that no schedule started share the incident of their workflow. Each incident tells
//! once that it begins (`on_failure`) and at most once that it is over (`on_recovery`): both are decided in the
//! transaction in which the run ends.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::definition::{Channel, Definition, IncidentAction, host_of};
use crate::ids::{IncidentKey, ScheduleId, WorkflowId};

/// An incident as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Its place in the store.
    pub key: IncidentKey,
    /// Of which workflow.
    pub workflow: WorkflowId,
    /// Of which schedule; of the runs that no schedule started, if nothing.
    pub schedule: Option<ScheduleId>,
    /// The run that failed. A schedule may die without one.
    pub run: Option<String>,
    /// When the occurrence was due by its rule, if it is one.
    pub nominal: Option<Timestamp>,
    /// What went wrong.
    pub error: String,
    /// When it began.
    pub began_at: Timestamp,
    /// What came of `on_failure`.
    pub told: Vec<Told>,
    /// How it ended, if it has.
    pub end: Option<IncidentEnd>,
}

/// The end of an incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncidentEnd {
    /// What ended it.
    pub how: How,
    /// When.
    pub at: Timestamp,
    /// The run that succeeded.
    pub run: Option<String>,
    /// What came of `on_recovery`.
    pub told: Vec<Told>,
}

impl IncidentEnd {
    /// It is over without a success, and nobody is told.
    pub fn of_itself(how: How, at: Timestamp) -> IncidentEnd {
        IncidentEnd { how, at, run: None, told: Vec::new() }
    }
}

/// What ends an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// A success: the only end that is told.
    Recovered,
    /// The schedule died meanwhile, which is an incident of its own.
    Died,
    /// The schedule or workflow is gone.
    Removed,
}

impl How {
    /// Every end, in the order of their stored numbers.
    pub const ALL: [How; 3] = [How::Recovered, How::Died, How::Removed];

    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            How::Recovered => "recovered",
            How::Died => "died",
            How::Removed => "removed",
        }
    }
}

/// What came of one channel, or of one workflow that was to be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Whom or what, without secrets: `email ops@example.com`, `webhook hooks.example.com`, `start repair`.
    pub what: String,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: ToldOutcome,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToldOutcome {
    /// This run tells it, or is what was to be started.
    Run(String),
    /// Nothing was started, for this reason.
    Refused(String),
}

impl Told {
    /// Who was not told and why, in one line; nothing if a run was started.
    pub fn refusal(&self) -> Option<String> {
        match &self.outcome {
            ToldOutcome::Run(_) => None,
            ToldOutcome::Refused(why) => Some(format!("{}: {why}", self.what)),
        }
    }
}

/// What a node knows of telling people: whom it can reach, and whom it tells if nobody says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// What happens when something fails and neither its trigger nor its workflow says so.
    pub on_failure: Vec<IncidentAction>,
    /// What happens when it succeeds again.
    pub on_recovery: Vec<IncidentAction>,
    /// Where people reach the pages, without a slash at the end.
    pub public_url: Option<String>,
    /// Which channels are set up. Nothing if that is not known: then none is refused.
    pub channels: Option<Channels>,
}

/// Which channels of a node are set up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// Whether there is a mail server.
    pub mail: bool,
    /// Hosts that webhooks are signed for.
    pub webhook_hosts: Vec<String>,
    /// Whether webhooks to all other hosts are signed as well.
    pub webhooks: bool,
}

impl Setup {
    /// Nobody is told unless a definition says so, and no channel is refused.
    pub const NONE: Setup =
        Setup { on_failure: Vec::new(), on_recovery: Vec::new(), public_url: None, channels: None };

    /// Why a message to this channel cannot be sent from here.
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

    /// The channels of a definition, of its deadlines too, that cannot be reached from here: where, which, and why.
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
                let actions = declaration.get(key).map(crate::definition::read_incident_actions);
                let actions = actions.into_iter().flatten().flatten();
                let path = format!("triggers[{at}].{key}");
                actions.for_each(|action| look(&path, &action.notify));
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
