//! Topics: what is told in them, and what becomes of it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::ids::{EventKey, RunKey, TopicId, WorkflowId};

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its id.
    pub id: TopicId,
    /// Whose it is; everyone's, if nothing.
    pub workflow: Option<WorkflowId>,
    /// Its name: unique in its workflow, or among the shared ones.
    pub name: String,
    /// An event that was given back so often is skipped.
    pub max_attempts: u32,
    /// How many events there are in each state.
    pub counts: Counts,
    /// When it was declared first.
    pub created_at: Timestamp,
}

/// How many events there are in each state. What has expired does not count any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Nobody works on them.
    pub pending: u64,
    /// A run works on them.
    pub reserved: u64,
    /// They are done with.
    pub consumed: u64,
    /// Nobody will work on them.
    pub skipped: u64,
}

impl Counts {
    /// How many there are in this state.
    pub fn of(&self, state: EventState) -> u64 {
        match state {
            EventState::Pending => self.pending,
            EventState::Reserved => self.reserved,
            EventState::Consumed => self.consumed,
            EventState::Skipped => self.skipped,
        }
    }

    pub(crate) fn add(&mut self, state: EventState) {
        *self.place(state) += 1;
    }

    pub(crate) fn take(&mut self, state: EventState) {
        let count = self.place(state);
        *count = count.saturating_sub(1);
    }

    fn place(&mut self, state: EventState) -> &mut u64 {
        match state {
            EventState::Pending => &mut self.pending,
            EventState::Reserved => &mut self.reserved,
            EventState::Consumed => &mut self.consumed,
            EventState::Skipped => &mut self.skipped,
        }
    }
}

/// Where an event stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventState {
    /// Nobody works on it.
    Pending,
    /// A run works on it.
    Reserved,
    /// It is done with.
    Consumed,
    /// Nobody will work on it.
    Skipped,
}

impl EventState {
    /// Every state, in the order of their stored numbers.
    pub const ALL: [EventState; 4] =
        [EventState::Pending, EventState::Reserved, EventState::Consumed, EventState::Skipped];

    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            EventState::Pending => "pending",
            EventState::Reserved => "reserved",
            EventState::Consumed => "consumed",
            EventState::Skipped => "skipped",
        }
    }
}

/// A message in a topic.
#[derive(Clone, Debug)]
pub struct Event {
    /// What it says.
    pub message: Message,
    /// What has become of it.
    pub fate: Fate,
    /// When it was first published.
    pub created_at: Timestamp,
}

/// What an event says.
#[derive(Clone, Debug)]
pub struct Message {
    /// Unique in its topic.
    pub message_id: String,
    /// In a line, for people.
    pub title: Option<String>,
    /// For programs.
    pub payload: Box<RawValue>,
    /// What brought it about: ids of registered inputs, or of other events.
    pub causes: Vec<String>,
}

/// What has become of an event: all that changes but for what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate {
    /// Its place in the store.
    pub key: EventKey,
    /// Its topic.
    pub topic: TopicId,
    /// Where it stands.
    pub state: EventState,
    /// How often it was given back.
    pub attempt: u32,
    /// The run that works on it, or has.
    pub run: Option<RunKey>,
    /// Why it was skipped.
    pub reason: Option<String>,
    /// When it came to this state.
    pub updated_at: Timestamp,
    /// How many events and deadlines lie between what began it all and this event: 0 if a person, a program or a
    /// producer has published it.
    pub hops: u8,
}

/// Who hears of the events of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subscriber {
    /// A consumer of this workflow.
    Consumer(WorkflowId, crate::ids::HandlerId),
    /// The triggers of this workflow.
    Triggers(WorkflowId),
}
