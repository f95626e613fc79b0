//! Topics, their events, and the states of events.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::ids::{EventKey, RunKey, TopicId, WorkflowId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    pub id: TopicId,
    /// The workflow that owns it; `None` if it is shared.
    pub workflow: Option<WorkflowId>,
    /// The name, unique in its workflow or among the shared topics.
    pub name: String,
    /// An event that was returned this often is skipped.
    pub max_attempts: u32,
    pub counts: Counts,
    /// When it was first declared.
    pub created_at: Timestamp,
}

/// The number of events in each state. Expired events do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub pending: u64,
    pub reserved: u64,
    pub consumed: u64,
    pub skipped: u64,
}

impl Counts {
    /// The number of events in this state.
    pub fn of(&self, state: EventState) -> u64 {
        match state {
            EventState::Pending => self.pending,
            EventState::Reserved => self.reserved,
            EventState::Consumed => self.consumed,
            EventState::Skipped => self.skipped,
        }
    }

    pub(crate) fn add(&mut self, state: EventState) {
        *self.count_of(state) += 1;
    }

    pub(crate) fn take(&mut self, state: EventState) {
        let count = self.count_of(state);
        *count = count.saturating_sub(1);
    }

    fn count_of(&mut self, state: EventState) -> &mut u64 {
        match state {
            EventState::Pending => &mut self.pending,
            EventState::Reserved => &mut self.reserved,
            EventState::Consumed => &mut self.consumed,
            EventState::Skipped => &mut self.skipped,
        }
    }
}

/// The state of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventState {
    /// No run works on it. A consumer's run reserves it.
    Pending,
    /// A run works on it. The end of the run consumes it or makes it pending again.
    Reserved,
    /// A run has processed it.
    Consumed,
    /// No run will work on it.
    Skipped,
}

impl EventState {
    /// Every state, in the order of their stored numbers.
    pub const ALL: [EventState; 4] =
        [EventState::Pending, EventState::Reserved, EventState::Consumed, EventState::Skipped];

    /// The name in the API and on pages.
    pub fn name(self) -> &'static str {
        match self {
            EventState::Pending => "pending",
            EventState::Reserved => "reserved",
            EventState::Consumed => "consumed",
            EventState::Skipped => "skipped",
        }
    }
}

/// A message in a topic, with its state.
#[derive(Clone, Debug)]
pub struct Event {
    pub message: Message,
    pub status: EventStatus,
    /// When it was first published.
    pub created_at: Timestamp,
}

/// The content of an event.
#[derive(Clone, Debug)]
pub struct Message {
    /// The id, unique in its topic.
    pub message_id: String,
    /// One line for people.
    pub title: Option<String>,
    /// The data for programs.
    pub payload: Box<RawValue>,
    /// What caused the event: ids of registered inputs, or of other events.
    pub causes: Vec<String>,
}

/// The state of an event: everything that changes except its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventStatus {
    pub key: EventKey,
    pub topic: TopicId,
    pub state: EventState,
    /// How often it was returned without being consumed.
    pub attempt: u32,
    /// The run that works or worked on it.
    pub run: Option<RunKey>,
    /// Why it was skipped.
    pub reason: Option<String>,
    /// When it entered this state.
    pub updated_at: Timestamp,
    /// The number of events and deadlines between the start of the chain and this event. It is 0 if
    /// a person, a program or a producer published it.
    pub hops: u8,
}

/// A receiver of the events of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subscriber {
    /// A consumer of this workflow.
    Consumer(WorkflowId, crate::ids::HandlerId),
    /// The triggers of this workflow.
    Triggers(WorkflowId),
}
