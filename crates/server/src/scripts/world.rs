//! What scripts may read from this node while they run: HTTP responses and events of topics.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use engine::TopicId;
use engine::topics::EventState;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use language::definition::Definition;
use runners::Runners;
use runners::script::{FetchAnswer, FetchRequest, ScriptWorld, WorldFailure};
use serde_json::{Value, json};
use store::{EventQuery, EventView, Failure, Store, TopicQuery};

use crate::live::OutputTap;

/// A cache of topic ids by workflow and name. Neither ever changes.
#[derive(Default)]
pub(super) struct Known(Mutex<HashMap<(Option<String>, String), TopicId>>);

/// What one phase of a script may reach.
pub(super) struct World<'a> {
    pub(super) runners: &'a Runners,
    pub(super) store: &'a dyn Store,
    pub(super) definition: &'a Definition,
    pub(super) known: &'a Known,
    pub(super) output_tap: Option<&'a OutputTap>,
}

impl World<'_> {
    async fn topic(&self, name: &str) -> Result<TopicId, WorldFailure> {
        let Some(declared) = self.definition.topic(name) else {
            let name: String = name.chars().take(80).collect();
            return Err(WorldFailure::Logic(format!("the workflow declares no topic {name}")));
        };
        let workflow = (!declared.shared).then(|| self.definition.name.clone());
        let key = (workflow.clone(), name.to_owned());
        let known = self.known.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        if let Some(id) = known {
            return Ok(id);
        }
        let query = TopicQuery {
            name: Some(name.to_owned()),
            workflow,
            limit: 1_000,
            ..TopicQuery::default()
        };
        let found = self.store.topics(query).await.map_err(unavailable)?;
        let is_it = |topic: &&store::TopicView| topic.topic.workflow.is_none() == declared.shared;
        let Some(view) = found.items.iter().find(is_it) else {
            return Err(WorldFailure::Transient(format!("topic {name} is not there yet")));
        };
        let id = view.topic.id;
        self.known.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, id);
        Ok(id)
    }
}

impl ScriptWorld for World<'_> {
    fn says(&self, line: &str) {
        if let Some(output_tap) = self.output_tap {
            output_tap.log_line(line);
        }
    }

    fn masked(&self, text: &str) -> String {
        self.runners.masked(text)
    }

    fn fetch(&self, request: FetchRequest) -> BoxFuture<'_, Result<FetchAnswer, WorldFailure>> {
        self.runners.fetch(request).boxed()
    }

    fn peek(&self, topic: String, limit: u32) -> BoxFuture<'_, Result<Value, WorldFailure>> {
        async move {
            let query = EventQuery {
                topic: self.topic(&topic).await?,
                state: Some(EventState::Pending),
                oldest_first: true,
                limit: limit as usize,
                after: None,
            };
            let found = self.store.events(query).await.map_err(unavailable)?;
            Ok(found.items.iter().filter_map(shown).collect())
        }
        .boxed()
    }

    fn get_by_ids(
        &self,
        topic: String,
        ids: Vec<String>,
    ) -> BoxFuture<'_, Result<Value, WorldFailure>> {
        async move {
            let topic = self.topic(&topic).await?;
            let found = self.store.events_by_id(topic, ids).await.map_err(unavailable)?;
            Ok(found.iter().filter_map(shown).collect())
        }
        .boxed()
    }
}

/// The event for a script; `None` if its message cannot be read.
fn shown(view: &EventView) -> Option<Value> {
    if view.unreadable.is_some() {
        return None;
    }
    let event = &view.event;
    Some(json!({
        "messageId": event.message.message_id,
        "title": event.message.title,
        "payload": event.message.payload,
        "causes": event.message.causes,
        "state": event.status.state.name(),
        "attempt": event.status.attempt,
        "createdAt": event.created_at.to_string(),
    }))
}

fn unavailable(failure: Failure) -> WorldFailure {
    WorldFailure::Transient(format!("the store does not answer: {failure}"))
}
