//! Where a run is in its steps: a letter for each, and more of those that something is going on with.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::item::Item;
use super::{BeingEnded, Part, Refusal, StepStatus};
use crate::ids::{NodeId, RunKey};

/// Where a step stands within its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepState {
    /// Something that it depends on has not ended, or nothing has led to it.
    Pending,
    /// Something is going on with it: see [`Position::active`].
    Active,
    /// Done.
    Completed,
    /// Failed for good.
    Failed,
    /// Its condition did not hold, or it failed and the definition says to go on.
    Skipped,
    /// No route has led to it, so none leads on from it.
    Bypassed,
    /// Ended from outside, or never begun because the run ended.
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
    /// Whether nothing more happens with it, unless the run goes back.
    pub fn has_ended(self) -> bool {
        !matches!(self, StepState::Pending | StepState::Active)
    }

    /// Whether what depends on it alone has no way to begin.
    pub fn leads_nowhere(self) -> bool {
        matches!(self, StepState::Bypassed | StepState::Failed)
    }

    /// As it is shown, if it has ended or not begun.
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

/// Where all steps stand, in the order of the definition. Stored as a letter each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct States(Vec<StepState>);

impl States {
    /// Nothing has begun.
    pub fn new(steps: usize) -> States {
        States(vec![StepState::Pending; steps])
    }

    /// Where this step stands.
    pub fn of(&self, step: u32) -> StepState {
        self.0.get(step as usize).copied().unwrap_or(StepState::Pending)
    }

    pub(super) fn set(&mut self, step: u32, state: StepState) {
        if let Some(at) = self.0.get_mut(step as usize) {
            *at = state;
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (u32, StepState)> + '_ {
        (0_u32..).zip(self.0.iter().copied())
    }

    /// Whether the run has not begun.
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

/// Instants of a position: milliseconds, as everywhere in a store.
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

/// Where a run is in its steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// Where each step stands; empty before the run begins.
    #[serde(rename = "s", default, skip_serializing_if = "States::is_empty")]
    pub states: States,
    /// The last fencing token that was given: each attempt has one of its own.
    #[serde(rename = "t", default)]
    pub token: u32,
    /// What is going on, in the order in which it began.
    #[serde(rename = "a", default, skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<Active>,
    /// Steps that are done and have something that undoes them, in the order in which they ended.
    #[serde(rename = "u", default, skip_serializing_if = "Vec::is_empty")]
    pub to_undo: Vec<u32>,
    /// How often the run went on somewhere else after an error.
    #[serde(rename = "j", default, skip_serializing_if = "is_zero")]
    pub jumps: u32,
    /// The steps that it went on with, until they begin.
    #[serde(rename = "g", default, skip_serializing_if = "Vec::is_empty")]
    pub jumped_to: Vec<u32>,
    /// Routes that gateways have taken: from which step to which.
    #[serde(rename = "r", default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<(u32, u32)>,
    /// Deadlines that are being watched.
    #[serde(rename = "d", default, skip_serializing_if = "Vec::is_empty")]
    pub watches: Vec<Watch>,
    /// How long something was performed, in milliseconds, until the stretch that goes on.
    #[serde(rename = "w", default, skip_serializing_if = "is_zero")]
    pub performed: i64,
    /// What was performed before this instant, in milliseconds, is in `performed`: something that is still going on
    /// began earlier.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub counted_until: Option<i64>,
    /// The schedule tries the whole run again, so that steps without a `retry` of their own are tried once.
    #[serde(rename = "o", default, skip_serializing_if = "is_zero")]
    pub tries_once: bool,
    /// Why the occurrence starts, as its schedule decided, until the run begins: the ledger keeps the reason.
    #[serde(rename = "y", default, skip_serializing_if = "Option::is_none")]
    pub start_reason: Option<String>,
    /// It is being ended.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<BeingEnded>,
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Something that is going on: a step, one of its items, or what undoes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Active {
    /// The step's place in the definition.
    #[serde(rename = "s")]
    pub step: u32,
    /// The part of the step that is active.
    #[serde(rename = "i", default, skip_serializing_if = "Item::is_whole")]
    pub item: Item,
    /// Attempts so far, the one that is going on included.
    #[serde(rename = "n", default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// When it could begin.
    #[serde(rename = "at", with = "ms")]
    pub enabled_at: Timestamp,
    /// What.
    #[serde(rename = "d")]
    pub doing: Doing,
}

/// What is going on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Doing {
    /// It waits for a place, or for another step of the run to end.
    #[serde(rename = "r")]
    Ready,
    /// A node performs it.
    #[serde(rename = "p")]
    Performed {
        /// The attempt's token: a report with another one is refused.
        #[serde(rename = "t")]
        token: u32,
        /// Since when.
        #[serde(rename = "s", with = "ms")]
        since: Timestamp,
        /// Who.
        #[serde(rename = "o")]
        owner: NodeId,
    },
    /// It waits for a worker.
    #[serde(rename = "q")]
    Queued {
        /// Of this queue.
        #[serde(rename = "q")]
        queue: String,
    },
    /// A worker performs it.
    #[serde(rename = "w")]
    Claimed {
        /// The attempt's token.
        #[serde(rename = "t")]
        token: u32,
        /// Since when.
        #[serde(rename = "s", with = "ms")]
        since: Timestamp,
        /// It is lost if it is not heard of until then.
        #[serde(rename = "l", with = "ms")]
        lease_until: Timestamp,
        /// What the worker calls itself.
        #[serde(rename = "w")]
        worker: String,
        /// Whose it is.
        #[serde(rename = "c", default)]
        claimant: Box<Claimant>,
    },
    /// It waits for its next attempt.
    #[serde(rename = "y")]
    Retrying {
        /// When that is.
        #[serde(rename = "a", with = "ms")]
        at: Timestamp,
    },
    /// It waits for a time.
    #[serde(rename = "z")]
    Timer {
        /// Since when.
        #[serde(rename = "s", with = "ms")]
        since: Timestamp,
        /// Until when.
        #[serde(rename = "u", with = "ms")]
        until: Timestamp,
    },
    /// A person is asked.
    #[serde(rename = "h")]
    Asked {
        /// Since when.
        #[serde(rename = "s", with = "ms")]
        since: Timestamp,
        /// Who may decide; anyone, if empty.
        #[serde(rename = "w", default, skip_serializing_if = "Vec::is_empty")]
        assignees: Vec<String>,
    },
    /// It waits for a run that it has started.
    #[serde(rename = "c")]
    Child {
        /// The attempt's token.
        #[serde(rename = "t")]
        token: u32,
        /// Since when.
        #[serde(rename = "s", with = "ms")]
        since: Timestamp,
        /// Which.
        #[serde(rename = "r")]
        run: RunKey,
    },
    /// It waits for an event.
    #[serde(rename = "v")]
    Awaiting {
        /// Since when.
        #[serde(rename = "s", with = "ms")]
        since: Timestamp,
        /// Until when, in milliseconds, if not for ever.
        #[serde(rename = "u", default, skip_serializing_if = "Option::is_none")]
        until: Option<i64>,
    },
    /// It waits for its items.
    #[serde(rename = "m")]
    Items {
        /// Since when.
        #[serde(rename = "s", with = "ms")]
        since: Timestamp,
        /// How many there are.
        #[serde(rename = "n")]
        count: u32,
        /// How many have begun.
        #[serde(rename = "b")]
        begun: u32,
        /// How many have ended.
        #[serde(rename = "e")]
        ended: u32,
    },
    /// What became of its attempt is not known, and it must not be tried twice: a person says.
    #[serde(rename = "k")]
    Unknown {
        /// Since when.
        #[serde(rename = "s", with = "ms")]
        since: Timestamp,
    },
}

/// Who has claimed an attempt. They show the same with everything that they say of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimant {
    /// What their access token is called; nothing if they claimed without one.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The hash of the random key that the answer to their claim has.
    #[serde(rename = "k", default)]
    pub key: String,
}

impl Claimant {
    /// Whether what `said` says of an attempt of this one counts. The key says whether it is the same claim; what was
    /// claimed with an access token belongs to that one, whoever learns the key.
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

impl Doing {
    /// The token of the attempt that is going on.
    pub fn token(&self) -> Option<u32> {
        match self {
            Doing::Performed { token, .. }
            | Doing::Claimed { token, .. }
            | Doing::Child { token, .. } => Some(*token),
            _ => None,
        }
    }

    /// When to look at it again.
    pub fn wake_at(&self) -> Option<Timestamp> {
        match self {
            Doing::Claimed { lease_until, .. } => Some(*lease_until),
            Doing::Retrying { at } => Some(*at),
            Doing::Timer { until, .. } => Some(*until),
            Doing::Awaiting { until, .. } => Timestamp::from_millisecond((*until)?).ok(),
            _ => None,
        }
    }

    /// When it began, if it has.
    pub fn since(&self) -> Option<Timestamp> {
        match self {
            Doing::Performed { since, .. }
            | Doing::Claimed { since, .. }
            | Doing::Timer { since, .. }
            | Doing::Asked { since, .. }
            | Doing::Child { since, .. }
            | Doing::Awaiting { since, .. }
            | Doing::Items { since, .. }
            | Doing::Unknown { since } => Some(*since),
            Doing::Ready | Doing::Queued { .. } | Doing::Retrying { .. } => None,
        }
    }

    /// Whether somebody performs it, who has to be told if it is to end.
    pub fn is_performed(&self) -> bool {
        matches!(self, Doing::Performed { .. } | Doing::Claimed { .. } | Doing::Child { .. })
    }

    /// Whether its time counts towards the timeout of the run: what waits for a time, a person, an event, a worker or
    /// another run does not.
    pub fn counts(&self) -> bool {
        matches!(self, Doing::Performed { .. } | Doing::Claimed { .. })
    }

    /// As it is shown.
    pub fn status(&self) -> StepStatus {
        match self {
            Doing::Ready | Doing::Queued { .. } => StepStatus::Ready,
            Doing::Performed { .. } | Doing::Claimed { .. } => StepStatus::Running,
            _ => StepStatus::Waiting,
        }
    }
}

/// A deadline that is being watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Watch {
    /// Of which step; of the run, if left out.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// From when it counts.
    #[serde(rename = "f", with = "ms")]
    pub from: Timestamp,
    /// When it is.
    #[serde(rename = "u", with = "ms")]
    pub due: Timestamp,
    /// What happens then and around it, by its place in the definition; the earliest last.
    #[serde(rename = "p", default, skip_serializing_if = "Vec::is_empty")]
    pub coming: Vec<(i64, u32)>,
    /// Whether it is over.
    #[serde(rename = "o", default, skip_serializing_if = "is_zero")]
    pub overdue: bool,
    /// Since when its clock stands.
    #[serde(rename = "h", default, skip_serializing_if = "Option::is_none")]
    pub held_since: Option<i64>,
}

impl Watch {
    /// When to look at it again.
    pub fn wake_at(&self) -> Option<Timestamp> {
        if self.held_since.is_some() {
            return None;
        }
        let next = self.coming.last().and_then(|(at, _)| Timestamp::from_millisecond(*at).ok());
        let due = (!self.overdue).then_some(self.due);
        next.into_iter().chain(due).min()
    }
}

impl Position {
    /// The attempt with this token.
    pub fn with_token(&self, token: u32) -> Option<&Active> {
        self.active.iter().find(|active| active.doing.token() == Some(token))
    }

    /// What is going on with this part of a step.
    pub fn part(&self, step: u32, item: Item) -> Option<&Active> {
        self.active.iter().find(|active| active.step == step && active.item == item)
    }

    /// Where a run begins that goes on where this one failed: what was done or passed over stays so, unless it was
    /// undone since.
    pub fn where_it_failed(&self, undone: &[u32]) -> Position {
        let kept = |(step, state): (u32, StepState)| match state {
            StepState::Completed if undone.contains(&step) => StepState::Pending,
            StepState::Completed | StepState::Skipped | StepState::Bypassed => state,
            _ => StepState::Pending,
        };
        let states = States(self.states.iter().map(kept).collect());
        let is_kept = |(gateway, _): &&(u32, u32)| states.of(*gateway).has_ended();
        let routes = self.routes.iter().filter(is_kept).copied().collect();
        Position { states, routes, ..Position::default() }
    }

    /// Since when something is performed, as far as it is not counted yet.
    pub fn performed_since(&self) -> Option<Timestamp> {
        let performed = self.active.iter().filter(|active| active.doing.counts());
        let since = performed.filter_map(|active| active.doing.since()).min()?;
        let counted = self.counted_until.and_then(|at| Timestamp::from_millisecond(at).ok());
        Some(counted.map_or(since, |counted| since.max(counted)))
    }

    /// When so much will have been performed; never, as long as nothing is.
    pub fn time_limit(&self, timeout: SignedDuration) -> Option<Timestamp> {
        let left = timeout.saturating_sub(SignedDuration::from_millis(self.performed));
        self.performed_since()?.checked_add(left).ok()
    }

    /// Counts what was performed from `since` until now. What goes on is counted from here.
    pub(super) fn count_performed(&mut self, since: Timestamp, now: Timestamp) {
        let more = now.duration_since(since).as_millis().max(0);
        self.performed = self.performed.saturating_add(i64::try_from(more).unwrap_or(i64::MAX));
        let goes_on = self.active.iter().any(|active| active.doing.counts());
        self.counted_until = goes_on.then(|| now.as_millisecond());
    }

    /// The nodes that perform something, each once.
    pub fn owners(&self) -> Vec<NodeId> {
        let mut owners: Vec<NodeId> = self.active.iter().filter_map(Active::owner).collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    /// Whether whoever performs something is to end, and is being waited for. What undoes steps afterwards is not.
    pub fn is_stopping(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| ending.until.is_some())
    }

    /// Whether an attempt whose end is unknown waits for a person.
    pub fn is_unknown(&self) -> bool {
        self.active.iter().any(|active| matches!(active.doing, Doing::Unknown { .. }))
    }
}

impl Active {
    /// Which part of the run it is.
    pub fn part(&self) -> Part {
        Part { step: self.step, item: self.item }
    }

    /// The node that performs it.
    pub fn owner(&self) -> Option<NodeId> {
        match self.doing {
            Doing::Performed { owner, .. } => Some(owner),
            _ => None,
        }
    }
}
