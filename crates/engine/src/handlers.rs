//! Producers and consumers: what is known of each, and when it runs next.

use jiff::{SignedDuration, Timestamp};
use language::definition::HandlerKind;
use language::definition::limits::HANDLER_RETRIES;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::ids::{HandlerId, RunKey, WorkflowId};
use crate::run::{Ending, TriggeredBy};

/// A consumer that found nothing to do while events are pending looks again after so long.
pub const LOOK_AGAIN: SignedDuration = SignedDuration::from_mins(5);
/// A consumer does not sleep for less.
pub const SHORTEST_SLEEP: SignedDuration = SignedDuration::from_secs(30);
/// A consumer does not sleep for longer.
pub const LONGEST_SLEEP: SignedDuration = SignedDuration::from_hours(24);
/// The wait before the first retry of a run that failed in passing; each further one is twice as long.
pub const FIRST_RETRY: SignedDuration = SignedDuration::from_secs(10);
/// No wait is longer.
pub const LONGEST_RETRY: SignedDuration = SignedDuration::from_mins(10);

/// Why a consumer is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Something was published to one of its topics since it last looked.
    Published,
    /// The time that it sleeps until has come.
    Woken,
    /// Somebody asks for it.
    ByHand,
    /// It has worked on some, and there are more.
    More,
    /// The run before has failed.
    Retry,
    /// It is new, and there are events already.
    Deployed,
}

impl Cause {
    /// Every cause, in the order of their stored numbers.
    pub const ALL: [Cause; 6] =
        [Cause::Published, Cause::Woken, Cause::ByHand, Cause::More, Cause::Retry, Cause::Deployed];

    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Published => "published",
            Cause::Woken => "woken",
            Cause::ByHand => "by_hand",
            Cause::More => "more",
            Cause::Retry => "retry",
            Cause::Deployed => "deployed",
        }
    }

    /// What the run that it brings about was born from.
    pub fn triggered_by(self) -> TriggeredBy {
        match self {
            Cause::ByHand => TriggeredBy::Manual,
            Cause::Retry => TriggeredBy::Retry,
            Cause::Woken => TriggeredBy::Wakeup,
            Cause::Published | Cause::More | Cause::Deployed => TriggeredBy::Event,
        }
    }
}

/// A producer or consumer of a workflow, over all versions that have it.
#[derive(Clone, Debug)]
pub struct Handler {
    /// Its id.
    pub id: HandlerId,
    /// Of which workflow.
    pub workflow: WorkflowId,
    /// Its name: unique in its workflow.
    pub name: String,
    /// What it is.
    pub kind: HandlerKind,
    /// What it keeps from one run to the next.
    pub state: Box<RawValue>,
    /// Why it is to look, if it is.
    pub cause: Option<Cause>,
    /// It sleeps until then, unless something happens before.
    pub wake_at: Option<Timestamp>,
    /// After a failure nothing of it begins before.
    pub retry_at: Option<Timestamp>,
    /// How many of its runs have failed one after the other.
    pub failures: u32,
    /// The run whose last phase is to be done again: its outside mutation is done.
    pub resumes: Option<RunKey>,
    /// Its run that has not ended.
    pub run: Option<RunKey>,
    /// When its last run began.
    pub last_run_at: Option<Timestamp>,
    /// How its last run ended.
    pub last_outcome: Option<Ending>,
    /// How many of its runs have begun.
    pub runs: u64,
}

impl Handler {
    /// A new one, that has done nothing yet.
    pub fn new(id: HandlerId, workflow: WorkflowId, name: &str, kind: HandlerKind) -> Handler {
        Handler {
            id,
            workflow,
            name: name.to_owned(),
            kind,
            state: RawValue::NULL.to_owned(),
            cause: None,
            wake_at: None,
            retry_at: None,
            failures: 0,
            resumes: None,
            run: None,
            last_run_at: None,
            last_outcome: None,
            runs: 0,
        }
    }

    /// When to look at it again, if nothing happens before.
    pub fn due(&self) -> Option<Timestamp> {
        self.retry_at.or(self.wake_at)
    }

    /// Whether a run of this consumer is to begin, if the workflow is free.
    pub fn is_ready(&self) -> bool {
        self.kind == HandlerKind::Consumer
            && self.run.is_none()
            && self.retry_at.is_none()
            && self.cause.is_some()
    }

    /// Something calls for its attention. What calls for it already is not forgotten.
    pub(crate) fn call(&mut self, cause: Cause) {
        if self.cause.is_none() || cause == Cause::ByHand {
            self.cause = Some(cause);
        }
    }

    /// It found nothing to do: it sleeps until the time it says, within limits, or else until it is worth to look
    /// again.
    pub(crate) fn sleep(&mut self, now: Timestamp, wake_at: Option<Timestamp>, has_pending: bool) {
        self.wake_at = match wake_at {
            Some(at) => Some(clamped(now, at)),
            None if has_pending => now.checked_add(LOOK_AGAIN).ok(),
            None => None,
        };
    }

    /// A run of it has failed in passing: when it is tried again, if it is.
    pub(crate) fn backoff(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.failures = self.failures.saturating_add(1);
        if self.failures > HANDLER_RETRIES {
            return None;
        }
        let doubled = FIRST_RETRY.saturating_mul(1 << (self.failures - 1));
        now.checked_add(doubled.min(LONGEST_RETRY)).ok()
    }
}

/// A time to wake at, within the host's limits.
pub fn clamped(now: Timestamp, at: Timestamp) -> Timestamp {
    let earliest = now.checked_add(SHORTEST_SLEEP).unwrap_or(now);
    let latest = now.checked_add(LONGEST_SLEEP).unwrap_or(now);
    at.clamp(earliest, latest)
}

/// Where a mutation of the outside world stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MutationStatus {
    /// It may be going on.
    InFlight,
    /// It has happened.
    Applied,
    /// It has not happened, for certain.
    Failed,
    /// Nobody knows.
    Unknown,
    /// A person says to go on without it.
    Skipped,
}

impl MutationStatus {
    /// Every status, in the order of their stored numbers.
    pub const ALL: [MutationStatus; 5] = [
        MutationStatus::InFlight,
        MutationStatus::Applied,
        MutationStatus::Failed,
        MutationStatus::Unknown,
        MutationStatus::Skipped,
    ];

    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            MutationStatus::InFlight => "in_flight",
            MutationStatus::Applied => "applied",
            MutationStatus::Failed => "failed",
            MutationStatus::Unknown => "unknown",
            MutationStatus::Skipped => "skipped",
        }
    }
}

/// A mutation of the outside world by a consumer's run: at most one in each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    /// By which run.
    pub run: RunKey,
    /// Of which workflow.
    pub workflow: WorkflowId,
    /// By which consumer.
    pub handler: String,
    /// Where it stands.
    pub status: MutationStatus,
    /// When it began, or may have.
    pub started_at: Timestamp,
    /// When it came to this status.
    pub updated_at: Timestamp,
    /// Who or what says so: the attempt itself, `reconcile`, or a person.
    pub said_by: Option<String>,
    /// What else there is to say.
    pub note: Option<String>,
}
