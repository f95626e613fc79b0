//! Topics and events as they are shown.

use engine::topics::{Event, Fate, Message};
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
    /// Whose it is; nobody's, if it is shared.
    pub(crate) workflow_id: Option<String>,
    /// The workflow's name.
    pub(crate) workflow: Option<String>,
    /// Whether it is everyone's.
    pub(crate) shared: bool,
    /// Events that nobody works on.
    pub(crate) pending: u64,
    /// Events that a run works on.
    pub(crate) reserved: u64,
    /// Events that are done with, and not expired yet.
    pub(crate) consumed: u64,
    /// Events that nobody will work on.
    pub(crate) skipped: u64,
    /// When the oldest pending event was published.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) oldest_pending_at: Option<Timestamp>,
    /// An event that was given back so often is skipped.
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
    /// Unique in its topic.
    message_id: String,
    /// In a line, for people.
    title: Option<String>,
    /// `pending`, `reserved`, `consumed` or `skipped`.
    #[schema(value_type = shapes::EventState)]
    state: &'static str,
    /// How often it was given back.
    attempt: u32,
    /// For programs.
    #[schema(value_type = Value)]
    payload: Box<RawValue>,
    /// What brought it about.
    causes: Vec<String>,
    /// When it was first published.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it came to this state.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// The run that works on it, or has.
    run_id: Option<String>,
    /// Why it was skipped.
    reason: Option<String>,
}

impl From<EventView> for EventObject {
    fn from(EventView { event, run }: EventView) -> EventObject {
        let Event { message, fate, created_at } = event;
        let Message { message_id, title, payload, causes } = message;
        let Fate { state, attempt, reason, updated_at, .. } = fate;
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
        }
    }
}
