//! What is shown of topics, events, producers, consumers and mutations.

use engine::handlers::{Handler, Mutation};
use engine::topics::{Event, EventState, Topic};
use engine::{EventKey, RunId, TopicId};
use jiff::Timestamp;

use crate::view::{self, Cursor};

/// Which topics.
#[derive(Clone, Debug, Default)]
pub struct TopicQuery {
    /// With this id.
    pub id: Option<TopicId>,
    /// With this name.
    pub name: Option<String>,
    /// Of this workflow, by its id or name. Shared ones belong to none.
    pub workflow: Option<String>,
    /// At most so many.
    pub limit: usize,
    /// After this one.
    pub after: Option<Cursor>,
}

/// A topic.
#[derive(Clone, Debug)]
pub struct TopicView {
    /// The topic.
    pub topic: Topic,
    /// The name of its workflow, unless it is shared.
    pub workflow: Option<String>,
    /// When the oldest event was published that nobody works on.
    pub oldest_pending_at: Option<Timestamp>,
}

/// Which events of a topic.
#[derive(Clone, Debug)]
pub struct EventQuery {
    /// Of which topic.
    pub topic: TopicId,
    /// In this state.
    pub state: Option<EventState>,
    /// Oldest first, by when they were published; else latest first.
    pub oldest_first: bool,
    /// At most so many.
    pub limit: usize,
    /// After this one.
    pub after: Option<Cursor>,
}

/// An event.
#[derive(Clone, Debug)]
pub struct EventView {
    /// The event.
    pub event: Event,
    /// The id of the run that works on it, or has.
    pub run: Option<RunId>,
}

/// A producer or consumer.
#[derive(Clone, Debug)]
pub struct HandlerView {
    /// The handler.
    pub handler: Handler,
    /// The id of its run that has not ended.
    pub run: Option<RunId>,
}

/// A mutation of the outside world.
#[derive(Clone, Debug)]
pub struct MutationView {
    /// The mutation.
    pub mutation: Mutation,
    /// The id of its run.
    pub run: RunId,
}

/// Which mutations.
#[derive(Clone, Debug, Default)]
pub struct MutationQuery {
    /// Of this workflow.
    pub workflow: Option<engine::WorkflowId>,
    /// At most so many.
    pub limit: usize,
    /// After this one.
    pub after: Option<Cursor>,
}

/// A topic, for lists: its name and its id, since several may have the same name.
pub(crate) fn after_topic(cursor: Option<&Cursor>) -> Option<(&str, TopicId)> {
    let (name, id) = view::name(cursor)?.rsplit_once('/')?;
    Some((name, id.parse().ok()?))
}

pub(crate) fn topic_cursor(topic: &Topic) -> Cursor {
    Cursor::Name(format!("{}/{}", topic.name, topic.id))
}

/// An event, for lists: when it was published, in milliseconds, and its key.
pub(crate) fn after_event(cursor: Option<&Cursor>) -> Option<(i64, EventKey)> {
    let (at, key) = view::name(cursor)?.split_once('/')?;
    Some((at.parse().ok()?, key.parse().ok()?))
}

pub(crate) fn event_cursor(event: &Event) -> Cursor {
    Cursor::Name(format!("{}/{}", event.created_at.as_millisecond(), event.fate.key))
}
