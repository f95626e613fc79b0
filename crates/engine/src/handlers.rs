//! Producers and consumers: their stored state, and when each runs next.

use jiff::{SignedDuration, Timestamp};
use language::definition::HandlerKind;
use language::definition::limits::HANDLER_RETRIES;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::ids::{HandlerId, RunKey, WorkflowId};
use crate::run::{Ending, TriggeredBy};

/// How long a consumer sleeps that found nothing to do although events are pending.
pub const LOOK_AGAIN: SignedDuration = SignedDuration::from_mins(5);
/// The shortest sleep of a consumer.
pub const SHORTEST_SLEEP: SignedDuration = SignedDuration::from_secs(30);
/// The longest sleep of a consumer.
pub const LONGEST_SLEEP: SignedDuration = SignedDuration::from_hours(24);
/// The wait before the first retry after a transient failure. Each further wait is twice as long.
pub const FIRST_RETRY: SignedDuration = SignedDuration::from_secs(10);
/// The longest wait before a retry.
pub const LONGEST_RETRY: SignedDuration = SignedDuration::from_mins(10);

/// Why a consumer should look for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// An event was published to one of its topics since it last ran.
    Published,
    /// The sleep of the consumer is over.
    Woken,
    /// A person called the consumer.
    ByHand,
    /// The consumer has worked on some events, and more are pending.
    More,
    /// The last run of the consumer failed.
    Retry,
    /// The consumer is new, and events were pending before it was declared.
    Deployed,
}

impl Cause {
    /// Every cause, in the order of their stored numbers.
    pub const ALL: [Cause; 6] =
        [Cause::Published, Cause::Woken, Cause::ByHand, Cause::More, Cause::Retry, Cause::Deployed];

    /// The name in the API and on pages.
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

    /// The origin of the run that this cause starts.
    pub fn triggered_by(self) -> TriggeredBy {
        match self {
            Cause::ByHand => TriggeredBy::Manual,
            Cause::Retry => TriggeredBy::Retry,
            Cause::Woken => TriggeredBy::Wakeup,
            Cause::Published | Cause::More | Cause::Deployed => TriggeredBy::Event,
        }
    }
}

/// A producer or consumer of a workflow, across all revisions that declare it.
#[derive(Clone, Debug)]
pub struct Handler {
    pub id: HandlerId,
    pub workflow: WorkflowId,
    /// The name, unique in its workflow.
    pub name: String,
    pub kind: HandlerKind,
    /// The state that it keeps between runs.
    pub state: Box<RawValue>,
    /// Why it should look for work, if it should.
    pub cause: Option<Cause>,
    /// The end of the consumer's sleep, unless something calls the consumer before.
    pub wake_at: Option<Timestamp>,
    /// After a failure, none of its runs begins before this time.
    pub retry_at: Option<Timestamp>,
    /// The number of consecutive failed runs.
    pub failures: u32,
    /// The run whose last phase must be repeated: its mutation is done.
    pub resumes: Option<RunKey>,
    /// Its active or pending run.
    pub run: Option<RunKey>,
    pub last_run_at: Option<Timestamp>,
    pub last_outcome: Option<Ending>,
    /// The number of its runs that have begun.
    pub runs: u64,
}

impl Handler {
    /// A new handler that has never run.
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

    /// When the handler must be woken, if nothing calls it before.
    pub fn due(&self) -> Option<Timestamp> {
        self.retry_at.or(self.wake_at)
    }

    /// Whether a run of this consumer should begin once its workflow is free.
    pub fn is_ready(&self) -> bool {
        self.kind == HandlerKind::Consumer
            && self.run.is_none()
            && self.retry_at.is_none()
            && self.cause.is_some()
    }

    /// Records a cause to run. An earlier cause stays, unless this one is a call by hand.
    pub(crate) fn call(&mut self, cause: Cause) {
        if self.cause.is_none() || cause == Cause::ByHand {
            self.cause = Some(cause);
        }
    }

    /// Puts the consumer to sleep: until `wake_at`, within limits, or for [`LOOK_AGAIN`] if events
    /// are pending, or until something calls it.
    pub(crate) fn sleep(&mut self, now: Timestamp, wake_at: Option<Timestamp>, has_pending: bool) {
        self.wake_at = match wake_at {
            Some(at) => Some(clamped(now, at)),
            None if has_pending => now.checked_add(LOOK_AGAIN).ok(),
            None => None,
        };
    }

    /// Counts a failed run, and returns when it is retried, if it is.
    pub(crate) fn backoff(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.failures = self.failures.saturating_add(1);
        if self.failures > HANDLER_RETRIES {
            return None;
        }
        let doubled = FIRST_RETRY.saturating_mul(1 << (self.failures - 1));
        now.checked_add(doubled.min(LONGEST_RETRY)).ok()
    }
}

/// The wakeup time that a consumer asks for, within the limits on its sleep.
pub fn clamped(now: Timestamp, at: Timestamp) -> Timestamp {
    let earliest = now.checked_add(SHORTEST_SLEEP).unwrap_or(now);
    let latest = now.checked_add(LONGEST_SLEEP).unwrap_or(now);
    at.clamp(earliest, latest)
}

/// The status of a mutation of the outside world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MutationStatus {
    /// The attempt may be performing the mutation.
    InFlight,
    /// The mutation has happened.
    Applied,
    /// The mutation has certainly not happened.
    Failed,
    /// Nobody knows whether the mutation has happened. A reconciliation or a person decides.
    Unknown,
    /// A person decided to continue without it.
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

    /// The name in the API and on pages.
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

/// A mutation of the outside world by a consumer's run. Each run has at most one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    pub run: RunKey,
    pub workflow: WorkflowId,
    pub handler: String,
    pub status: MutationStatus,
    /// When it began, or may have begun.
    pub started_at: Timestamp,
    /// When it entered this status.
    pub updated_at: Timestamp,
    /// Who reported the status, if a person did.
    pub said_by: Option<String>,
    /// An error message that explains the status.
    pub note: Option<String>,
}
