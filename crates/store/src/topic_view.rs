//! Queries and views of topics, events, handlers and mutations.

use engine::handlers::{Handler, Mutation};
use engine::topics::{Event, EventState, Topic};
use engine::{EventKey, RunId, TopicId};
use jiff::Timestamp;

use crate::view::{self, Cursor};

/// Filter and paging for topics.
#[derive(Clone, Debug, Default)]
pub struct TopicQuery {
    pub id: Option<TopicId>,
    pub name: Option<String>,
    /// Only topics of this workflow, by its id or name. Shared topics belong to no workflow.
    pub workflow: Option<String>,
    pub limit: usize,
    pub after: Option<Cursor>,
}

/// A topic with the facts shown beside it.
#[derive(Clone, Debug)]
pub struct TopicView {
    pub topic: Topic,
    /// The name of its workflow; `None` if the topic is shared.
    pub workflow: Option<String>,
    /// When the oldest pending event was published.
    pub oldest_pending_at: Option<Timestamp>,
}

/// Filter and paging for the events of a topic.
#[derive(Clone, Debug)]
pub struct EventQuery {
    pub topic: TopicId,
    pub state: Option<EventState>,
    /// Whether to list the events published first at the top; otherwise latest first.
    pub oldest_first: bool,
    pub limit: usize,
    pub after: Option<Cursor>,
}

/// An event with the run that works on it.
#[derive(Clone, Debug)]
pub struct EventView {
    pub event: Event,
    /// The id of the run that works on the event, or worked on it last.
    pub run: Option<RunId>,
    /// Why the message or the state of the event cannot be read, if it cannot: such a payload is
    /// shown as null and such a state as skipped, and consumers pass over the event.
    pub unreadable: Option<String>,
}

/// A producer or consumer with its open run.
#[derive(Clone, Debug)]
pub struct HandlerView {
    pub handler: Handler,
    /// The id of its run that has not ended.
    pub run: Option<RunId>,
}

/// A mutation of the outside world.
#[derive(Clone, Debug)]
pub struct MutationView {
    pub mutation: Mutation,
    pub run: RunId,
}

/// Filter and paging for mutations.
#[derive(Clone, Debug, Default)]
pub struct MutationQuery {
    pub workflow: Option<engine::WorkflowId>,
    pub limit: usize,
    pub after: Option<Cursor>,
}

/// The topic in a cursor: its name and its id, since several topics may have the same name.
pub(crate) fn after_topic(cursor: Option<&Cursor>) -> Option<(&str, TopicId)> {
    let (name, id) = view::name(cursor)?.rsplit_once('/')?;
    Some((name, id.parse().ok()?))
}

pub(crate) fn topic_cursor(topic: &Topic) -> Cursor {
    Cursor::Name(format!("{}/{}", topic.name, topic.id))
}

/// The event in a cursor: when it was published, in milliseconds, and its key.
pub(crate) fn after_event(cursor: Option<&Cursor>) -> Option<(i64, EventKey)> {
    let (at, key) = view::name(cursor)?.split_once('/')?;
    Some((at.parse().ok()?, key.parse().ok()?))
}

pub(crate) fn event_cursor(event: &Event) -> Cursor {
    Cursor::Name(format!("{}/{}", event.created_at.as_millisecond(), event.status.key))
}
