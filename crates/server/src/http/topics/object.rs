//! Topics and events in API responses.

use engine::topics::{Event, EventStatus, Message};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use store::{EventView, TopicView};
use utoipa::ToSchema;

use crate::http::shapes;

/// A topic.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TopicObject {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The workflow it belongs to; null if it is shared.
    pub(crate) workflow_id: Option<String>,
    /// The workflow's name.
    pub(crate) workflow: Option<String>,
    /// Whether all workflows share it.
    pub(crate) shared: bool,
    /// How many events are pending: no run works on them.
    pub(crate) pending: u64,
    /// How many events are reserved: a run works on them.
    pub(crate) reserved: u64,
    /// How many events are consumed, and not expired yet.
    pub(crate) consumed: u64,
    /// How many events are skipped: no run will work on them.
    pub(crate) skipped: u64,
    /// When the oldest pending event was published.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) oldest_pending_at: Option<Timestamp>,
    /// An event that runs have given back this many times is skipped.
    pub(crate) max_attempts: u32,
    #[schema(value_type = String, format = DateTime)]
    pub(crate) created_at: Timestamp,
}

impl From<TopicView> for TopicObject {
    fn from(view: TopicView) -> TopicObject {
        let TopicView { topic, workflow, oldest_pending_at } = view;
        TopicObject {
            id: topic.id.to_string(),
            name: topic.name,
            workflow_id: topic.workflow.map(|id| id.to_string()),
            workflow,
            shared: topic.workflow.is_none(),
            pending: topic.counts.pending,
            reserved: topic.counts.reserved,
            consumed: topic.counts.consumed,
            skipped: topic.counts.skipped,
            oldest_pending_at,
            max_attempts: topic.max_attempts,
            created_at: topic.created_at,
        }
    }
}

/// A message in a topic.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EventObject {
    /// The id of the event, unique in its topic.
    message_id: String,
    /// A line for people.
    title: Option<String>,
    /// `pending`, `reserved`, `consumed` or `skipped`.
    #[schema(value_type = shapes::EventState)]
    state: &'static str,
    /// How often a run has given it back.
    attempt: u32,
    /// The content, for programs.
    #[schema(value_type = Value)]
    payload: Box<RawValue>,
    /// Ids of the inputs or events that caused it.
    causes: Vec<String>,
    /// When it was first published.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it reached this state.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// The run that works on it, or has worked on it.
    run_id: Option<String>,
    /// Why it was skipped.
    reason: Option<String>,
    /// Why its content cannot be read, if the store is damaged: `payload` is then null, and
    /// consumers pass over it until it is published again or skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
}

impl From<EventView> for EventObject {
    fn from(EventView { event, run, unreadable }: EventView) -> EventObject {
        let Event { message, status, created_at } = event;
        let Message { message_id, title, payload, causes } = message;
        let EventStatus { state, attempt, reason, updated_at, .. } = status;
        EventObject {
            message_id,
            title,
            state: state.name(),
            attempt,
            payload,
            causes,
            created_at,
            updated_at,
            run_id: run.map(|id| id.to_string()),
            reason,
            unreadable,
        }
    }
}
