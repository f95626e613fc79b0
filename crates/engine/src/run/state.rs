//! The position of a run in its steps: one letter for each step, and details of the active ones.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::item::Item;
use super::{BeingEnded, Part, Refusal, StepStatus};
use crate::ids::{NodeId, RunKey};

/// The state of a step within its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepState {
    /// A step that it depends on has not ended, or nothing has led to it.
    Pending,
    /// A part of it is active: see [`RunState::active`].
    Active,
    Completed,
    /// The last attempt has failed.
    Failed,
    /// Its condition did not hold, or it failed and the definition continues without it.
    Skipped,
    /// No route led to it, so none leads on from it.
    Bypassed,
    /// Ended because the run ended, or never begun for that reason.
    Cancelled,
}

const LETTERS: [(StepState, char); 7] = [
    (StepState::Pending, 'p'),
    (StepState::Active, 'a'),
    (StepState::Completed, 'c'),
    (StepState::Failed, 'f'),
    (StepState::Skipped, 's'),
    (StepState::Bypassed, 'b'),
    (StepState::Cancelled, 'x'),
];

impl StepState {
    /// Whether the step will not change any more, unless the run jumps back.
    pub fn has_ended(self) -> bool {
        !matches!(self, StepState::Pending | StepState::Active)
    }

    /// Whether a step that depends only on this one cannot begin.
    pub fn leads_nowhere(self) -> bool {
        matches!(self, StepState::Bypassed | StepState::Failed)
    }

    /// The status that is shown for a step without active parts.
    pub fn status(self) -> StepStatus {
        match self {
            StepState::Pending => StepStatus::Pending,
            StepState::Active => StepStatus::Running,
            StepState::Completed => StepStatus::Completed,
            StepState::Failed => StepStatus::Failed,
            StepState::Skipped | StepState::Bypassed => StepStatus::Skipped,
            StepState::Cancelled => StepStatus::Cancelled,
        }
    }
}

/// The states of all steps, in the order of the definition. They are stored as one letter each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct States(Vec<StepState>);

impl States {
    /// The states of a run that has not begun any step.
    pub fn new(steps: usize) -> States {
        States(vec![StepState::Pending; steps])
    }

    /// The state of the step with this index; pending before the run begins.
    pub fn of(&self, step: u32) -> StepState {
        self.0.get(step as usize).copied().unwrap_or(StepState::Pending)
    }

    pub(super) fn set(&mut self, step: u32, state: StepState) {
        if let Some(at) = self.0.get_mut(step as usize) {
            *at = state;
        }
    }

    /// All steps with their states.
    pub fn iter(&self) -> impl Iterator<Item = (u32, StepState)> + '_ {
        (0_u32..).zip(self.0.iter().copied())
    }

    /// Whether there are no states yet, because the run has not begun.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<StepState> for States {
    fn from_iter<I: IntoIterator<Item = StepState>>(states: I) -> States {
        States(states.into_iter().collect())
    }
}

impl Serialize for States {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let letter = |state: &StepState| {
            LETTERS.iter().find(|(known, _)| known == state).map_or('p', |(_, letter)| *letter)
        };
        let text: String = self.0.iter().map(letter).collect();
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for States {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<States, D::Error> {
        let text = String::deserialize(deserializer)?;
        let state = |letter: char| {
            let known = LETTERS.iter().find(|(_, known)| *known == letter);
            known.map(|(state, _)| *state).ok_or_else(|| {
                serde::de::Error::custom(format!("{letter:?} says nothing of a step"))
            })
        };
        Ok(States(text.chars().map(state).collect::<Result<_, D::Error>>()?))
    }
}

/// Serializes instants as milliseconds, as everywhere in a store.
mod ms {
    use jiff::Timestamp;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(at: &Timestamp, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_i64(at.as_millisecond())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Timestamp, D::Error> {
        Timestamp::from_millisecond(i64::deserialize(d)?).map_err(serde::de::Error::custom)
    }
}

/// The progress of a run through its steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    /// The state of each step; empty before the run begins.
    #[serde(rename = "s", default, skip_serializing_if = "States::is_empty")]
    pub states: States,
    /// The last fencing token that was given. Each attempt has its own.
    #[serde(rename = "t", default)]
    pub token: u32,
    /// Active parts, in the order in which they began.
    #[serde(rename = "a", default, skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<Activity>,
    /// Completed steps that have a compensation, in the order in which they ended.
    #[serde(rename = "u", default, skip_serializing_if = "Vec::is_empty")]
    pub to_undo: Vec<u32>,
    /// How often the run has jumped to another step after an error.
    #[serde(rename = "j", default, skip_serializing_if = "is_zero")]
    pub jumps: u32,
    /// Steps that the run has jumped to and that have not begun yet.
    #[serde(rename = "g", default, skip_serializing_if = "Vec::is_empty")]
    pub jumped_to: Vec<u32>,
    /// Routes that gateways have taken, from one step to another.
    #[serde(rename = "r", default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<(u32, u32)>,
    /// The deadlines that are being watched.
    #[serde(rename = "d", default, skip_serializing_if = "Vec::is_empty")]
    pub watches: Vec<Watch>,
    /// For how many milliseconds something was performed, not counting what is being performed now.
    #[serde(rename = "w", default, skip_serializing_if = "is_zero")]
    pub performed: i64,
    /// Until when, in milliseconds, the time of attempts that are still active is already included
    /// in `performed`.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub counted_until: Option<i64>,
    /// Whether the schedule retries the whole run, so that steps without a `retry` of their own are
    /// attempted once.
    #[serde(rename = "o", default, skip_serializing_if = "is_zero")]
    pub tries_once: bool,
    /// Why the schedule started the occurrence. It is kept until the run begins, for the ledger.
    #[serde(rename = "y", default, skip_serializing_if = "Option::is_none")]
    pub start_reason: Option<String>,
    /// Set while the run is being ended.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<BeingEnded>,
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// An active part: a step, one of its items, its compensation or its reconciliation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Activity {
    /// The index of the step in the definition.
    #[serde(rename = "s")]
    pub step: u32,
    #[serde(rename = "i", default, skip_serializing_if = "Item::is_whole")]
    pub item: Item,
    /// The number of attempts, including the current one.
    #[serde(rename = "n", default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// When the part became ready.
    #[serde(rename = "at", with = "ms")]
    pub enabled_at: Timestamp,
    #[serde(rename = "d")]
    pub status: ActivityStatus,
}

/// What an active part does or waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ActivityStatus {
    /// Waits for a free slot, or for another step of the run to end.
    #[serde(rename = "r")]
    Ready,
    /// A node performs it.
    #[serde(rename = "p")]
    Performed {
        /// The attempt's token. A report with another token is refused.
        #[serde(rename = "t")]
        token: u32,
        #[serde(rename = "s", with = "ms")]
        since: Timestamp,
        #[serde(rename = "o")]
        owner: NodeId,
    },
    /// Waits for a worker in this queue.
    #[serde(rename = "q")]
    Queued {
        #[serde(rename = "q")]
        queue: String,
    },
    /// A worker performs it.
    #[serde(rename = "w")]
    Claimed {
        #[serde(rename = "t")]
        token: u32,
        #[serde(rename = "s", with = "ms")]
        since: Timestamp,
        /// The worker is presumed dead if it sends no heartbeat until then.
        #[serde(rename = "l", with = "ms")]
        lease_until: Timestamp,
        /// The name that the worker gave itself.
        #[serde(rename = "w")]
        worker: String,
        #[serde(rename = "c", default)]
        claimant: Box<Claimant>,
    },
    /// Waits for its next attempt.
    #[serde(rename = "y")]
    Retrying {
        #[serde(rename = "a", with = "ms")]
        at: Timestamp,
    },
    /// Waits for a time.
    #[serde(rename = "z")]
    Timer {
        #[serde(rename = "s", with = "ms")]
        since: Timestamp,
        #[serde(rename = "u", with = "ms")]
        until: Timestamp,
    },
    /// Waits for a person's decision.
    #[serde(rename = "h")]
    Asked {
        #[serde(rename = "s", with = "ms")]
        since: Timestamp,
        /// Who may decide; anyone if empty.
        #[serde(rename = "w", default, skip_serializing_if = "Vec::is_empty")]
        assignees: Vec<String>,
    },
    /// Waits for a run that it has started.
    #[serde(rename = "c")]
    Child {
        #[serde(rename = "t")]
        token: u32,
        #[serde(rename = "s", with = "ms")]
        since: Timestamp,
        #[serde(rename = "r")]
        run: RunKey,
    },
    /// Waits for an event.
    #[serde(rename = "v")]
    Awaiting {
        #[serde(rename = "s", with = "ms")]
        since: Timestamp,
        /// Until when, in milliseconds; `None` waits forever.
        #[serde(rename = "u", default, skip_serializing_if = "Option::is_none")]
        until: Option<i64>,
    },
    /// Waits for its items.
    #[serde(rename = "m")]
    Items {
        #[serde(rename = "s", with = "ms")]
        since: Timestamp,
        #[serde(rename = "n")]
        count: u32,
        /// How many items have begun.
        #[serde(rename = "b")]
        begun: u32,
        /// How many items have ended.
        #[serde(rename = "e")]
        ended: u32,
    },
    /// The result of its attempt is unknown and it must not be repeated: a person must resolve it.
    #[serde(rename = "k")]
    Unknown {
        #[serde(rename = "s", with = "ms")]
        since: Timestamp,
    },
}

/// The holder of a claim. A worker identifies itself with the same values in every heartbeat and
/// report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimant {
    /// The name of the worker's access token; `None` if it claimed without one.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The hash of the random key in the response to the claim.
    #[serde(rename = "k", default)]
    pub key: String,
}

impl Claimant {
    /// Checks that a caller may report on an attempt of this claimant. The key identifies the
    /// claim. An attempt claimed with an access token also requires that token, even from a caller
    /// who knows the key.
    pub fn admits(&self, said: &Claimant, token: u32) -> Result<(), Refusal> {
        if self.key != said.key {
            return Err(Refusal::OldToken { given: token });
        }
        match &self.name {
            Some(name) if said.name.as_ref() != Some(name) => {
                Err(Refusal::ClaimedByOther { given: token })
            }
            _ => Ok(()),
        }
    }
}

impl ActivityStatus {
    /// The token of the current attempt.
    pub fn token(&self) -> Option<u32> {
        match self {
            ActivityStatus::Performed { token, .. }
            | ActivityStatus::Claimed { token, .. }
            | ActivityStatus::Child { token, .. } => Some(*token),
            _ => None,
        }
    }

    /// When the part must be woken.
    pub fn wake_at(&self) -> Option<Timestamp> {
        match self {
            ActivityStatus::Claimed { lease_until, .. } => Some(*lease_until),
            ActivityStatus::Retrying { at } => Some(*at),
            ActivityStatus::Timer { until, .. } => Some(*until),
            ActivityStatus::Awaiting { until, .. } => Timestamp::from_millisecond((*until)?).ok(),
            _ => None,
        }
    }

    /// When the part began, if it has.
    pub fn since(&self) -> Option<Timestamp> {
        match self {
            ActivityStatus::Performed { since, .. }
            | ActivityStatus::Claimed { since, .. }
            | ActivityStatus::Timer { since, .. }
            | ActivityStatus::Asked { since, .. }
            | ActivityStatus::Child { since, .. }
            | ActivityStatus::Awaiting { since, .. }
            | ActivityStatus::Items { since, .. }
            | ActivityStatus::Unknown { since } => Some(*since),
            ActivityStatus::Ready
            | ActivityStatus::Queued { .. }
            | ActivityStatus::Retrying { .. } => None,
        }
    }

    /// Whether somebody performs it, who must be told if it should end.
    pub fn is_performed(&self) -> bool {
        matches!(
            self,
            ActivityStatus::Performed { .. }
                | ActivityStatus::Claimed { .. }
                | ActivityStatus::Child { .. }
        )
    }

    /// Whether its time counts towards the timeout of the run. Time spent waiting for an instant, a
    /// person, an event, a worker or another run does not count.
    pub fn counts(&self) -> bool {
        matches!(self, ActivityStatus::Performed { .. } | ActivityStatus::Claimed { .. })
    }

    /// The status that is shown.
    pub fn status(&self) -> StepStatus {
        match self {
            ActivityStatus::Ready | ActivityStatus::Queued { .. } => StepStatus::Ready,
            ActivityStatus::Performed { .. } | ActivityStatus::Claimed { .. } => {
                StepStatus::Running
            }
            _ => StepStatus::Waiting,
        }
    }
}

/// A deadline that is being watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Watch {
    /// The step; `None` for the deadline of the run.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// The instant from which the deadline counts.
    #[serde(rename = "f", with = "ms")]
    pub from: Timestamp,
    #[serde(rename = "u", with = "ms")]
    pub due: Timestamp,
    /// Actions still to come: instants in milliseconds and indexes into the definition's actions.
    /// The earliest is last.
    #[serde(rename = "p", default, skip_serializing_if = "Vec::is_empty")]
    pub coming: Vec<(i64, u32)>,
    /// Whether the deadline has passed.
    #[serde(rename = "o", default, skip_serializing_if = "is_zero")]
    pub overdue: bool,
    /// Since when the clock of the deadline is stopped, in milliseconds.
    #[serde(rename = "h", default, skip_serializing_if = "Option::is_none")]
    pub held_since: Option<i64>,
}

impl Watch {
    /// When the deadline must be examined next.
    pub fn wake_at(&self) -> Option<Timestamp> {
        if self.held_since.is_some() {
            return None;
        }
        let next = self.coming.last().and_then(|(at, _)| Timestamp::from_millisecond(*at).ok());
        let due = (!self.overdue).then_some(self.due);
        next.into_iter().chain(due).min()
    }
}

impl RunState {
    /// The active attempt with this token.
    pub fn with_token(&self, token: u32) -> Option<&Activity> {
        self.active.iter().find(|active| active.status.token() == Some(token))
    }

    /// The active part of a step, if this part is active.
    pub fn part(&self, step: u32, item: Item) -> Option<&Activity> {
        self.active.iter().find(|active| active.step == step && active.item == item)
    }

    /// The position of a new run that continues where this one failed. Completed and skipped steps
    /// stay so, unless they were undone since.
    pub fn where_it_failed(&self, undone: &[u32]) -> RunState {
        let kept = |(step, state): (u32, StepState)| match state {
            StepState::Completed if undone.contains(&step) => StepState::Pending,
            StepState::Completed | StepState::Skipped | StepState::Bypassed => state,
            _ => StepState::Pending,
        };
        let states = States(self.states.iter().map(kept).collect());
        let is_kept = |(gateway, _): &&(u32, u32)| states.of(*gateway).has_ended();
        let routes = self.routes.iter().filter(is_kept).copied().collect();
        RunState { states, routes, ..RunState::default() }
    }

    /// Since when something has been performed that `performed` does not include yet.
    pub fn performed_since(&self) -> Option<Timestamp> {
        let performed = self.active.iter().filter(|active| active.status.counts());
        let since = performed.filter_map(|active| active.status.since()).min()?;
        let counted = self.counted_until.and_then(|at| Timestamp::from_millisecond(at).ok());
        Some(counted.map_or(since, |counted| since.max(counted)))
    }

    /// When the performed time will reach `timeout`; `None` while nothing is performed.
    pub fn time_limit(&self, timeout: SignedDuration) -> Option<Timestamp> {
        let left = timeout.saturating_sub(SignedDuration::from_millis(self.performed));
        self.performed_since()?.checked_add(left).ok()
    }

    /// Adds the time performed from `since` until now. Attempts that continue are counted from now
    /// on.
    pub(super) fn count_performed(&mut self, since: Timestamp, now: Timestamp) {
        let more = now.duration_since(since).as_millis().max(0);
        self.performed = self.performed.saturating_add(i64::try_from(more).unwrap_or(i64::MAX));
        let goes_on = self.active.iter().any(|active| active.status.counts());
        self.counted_until = goes_on.then(|| now.as_millisecond());
    }

    /// The nodes that perform parts of the run, each once.
    pub fn owners(&self) -> Vec<NodeId> {
        let mut owners: Vec<NodeId> = self.active.iter().filter_map(Activity::owner).collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    /// Whether the run waits for active attempts to stop. Compensations that run afterwards do not
    /// count.
    pub fn is_stopping(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| ending.until.is_some())
    }

    /// Whether an attempt with an unknown result waits for a person.
    pub fn is_unknown(&self) -> bool {
        self.active.iter().any(|active| matches!(active.status, ActivityStatus::Unknown { .. }))
    }
}

impl Activity {
    /// The part of the run that is active.
    pub fn part(&self) -> Part {
        Part { step: self.step, item: self.item }
    }

    /// The node that performs it, if a node does.
    pub fn owner(&self) -> Option<NodeId> {
        match self.status {
            ActivityStatus::Performed { owner, .. } => Some(owner),
            _ => None,
        }
    }
}
