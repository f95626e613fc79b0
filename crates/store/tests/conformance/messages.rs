//! Helpers that build topics and handlers, and work with them.

use std::sync::Arc;

use engine::handlers::Handler;
use engine::run::AttemptEnd;
use engine::topics::{EventState, Message};
use engine::turn::{Answer, Command, Perform};
use engine::{RunId, TopicId, WorkflowId};
use language::definition::Definition;
use serde_json::{Value, json};
use store::{EventQuery, EventView, Failure, MutationQuery, Report, TopicQuery, TopicView, Turned};

use crate::process::noop;
use crate::world::{World, performs, raw};

/// A topic whose events are given up after this many attempts.
pub(crate) fn topic(name: &str, max_attempts: u32) -> Value {
    json!({"name": name, "max_attempts": max_attempts})
}

pub(crate) fn shared(name: &str) -> Value {
    json!({"name": name, "max_attempts": 10, "shared": true})
}

/// A consumer with all its phases: `prepare`, `mutation`, `next`.
pub(crate) fn consumer(name: &str, topics: &[&str]) -> Value {
    json!({"name": name, "subscribe": topics, "prepare": noop(), "mutate": noop(), "next": noop()})
}

/// A workflow with the topic `t` and the consumer `c`.
pub(crate) fn plain(name: &str) -> Value {
    json!({"name": name, "topics": [topic("t", 10)], "consumers": [consumer("c", &["t"])]})
}

pub(crate) fn message(id: &str, payload: &str) -> Message {
    Message { message_id: id.to_owned(), title: None, payload: raw(payload), causes: Vec::new() }
}

/// The report that a phase returned `output`.
pub(crate) fn gave(perform: &Perform, output: &Value) -> Report {
    let end = AttemptEnd::Succeeded { output: raw(&output.to_string()) };
    Report { run: perform.run, token: perform.token, end }
}

/// The report that the first phase reserves these events of topic `t`.
pub(crate) fn reserves(perform: &Perform, ids: &[&str]) -> Report {
    gave(perform, &json!({"reservations": [{"topic": "t", "ids": ids}]}))
}

/// The input of an attempt.
pub(crate) fn input(perform: &Perform) -> Value {
    serde_json::from_str(&perform.input).unwrap()
}

/// The phases that a turn hands out: handler and phase.
pub(crate) fn phases(turned: &Turned) -> Vec<String> {
    let phase = |perform: &Perform| {
        format!("{} {}", perform.handler.as_deref().unwrap_or("-"), perform.step().id)
    };
    performs(turned).iter().map(phase).collect()
}

/// The only attempt that a turn hands out.
pub(crate) fn only(turned: &Turned) -> Perform {
    let mut all = performs(turned);
    assert_eq!(all.len(), 1, "{:?}", phases(turned));
    all.remove(0)
}

impl World {
    /// Saves a definition, and publishes it.
    pub(crate) async fn deploy(&self, at: i64, mut definition: Value) -> WorkflowId {
        definition["version"] = json!("1");
        let source = definition.to_string();
        let definition: Arc<Definition> = Arc::new(serde_json::from_value(definition).unwrap());
        let command = Command::SaveWorkflow { source, definition, publish: true, folder: None };
        match self.command(at, command).await {
            Answer::Workflow { id, .. } => id,
            other => panic!("{other:?}"),
        }
    }

    /// The topics with this name.
    pub(crate) async fn topics_named(&self, name: &str) -> Vec<TopicView> {
        let query = TopicQuery { name: Some(name.to_owned()), limit: 100, ..TopicQuery::default() };
        self.store().topics(query).await.unwrap().items
    }

    /// The only topic with this name.
    pub(crate) async fn topic(&self, name: &str) -> TopicView {
        let mut found = self.topics_named(name).await;
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    pub(crate) async fn topic_id(&self, name: &str) -> TopicId {
        self.topic(name).await.topic.id
    }

    /// How many events are pending, reserved, consumed, skipped.
    pub(crate) async fn counts(&self, name: &str) -> [u64; 4] {
        let counts = self.topic(name).await.topic.counts;
        EventState::ALL.map(|state| counts.of(state))
    }

    pub(crate) async fn try_tell(
        &self,
        at: i64,
        topic: TopicId,
        events: Vec<Message>,
    ) -> Result<(u64, u64), Failure> {
        match self.try_command(at, Command::PublishEvents { topic, events }).await? {
            Answer::Published { published, replaced } => Ok((published, replaced)),
            other => panic!("{other:?}"),
        }
    }

    /// Publishes events with these ids to a topic. Returns how many are new, and how many existed.
    pub(crate) async fn tell(&self, at: i64, name: &str, ids: &[&str]) -> (u64, u64) {
        let topic = self.topic_id(name).await;
        let events = ids.iter().map(|id| message(id, "{}")).collect();
        self.try_tell(at, topic, events).await.unwrap()
    }

    pub(crate) async fn skip(&self, at: i64, name: &str, id: &str) -> Result<Answer, Failure> {
        let topic = self.topic_id(name).await;
        let (message_id, by) = (id.to_owned(), "ada".to_owned());
        self.try_command(at, Command::SkipEvent { topic, message_id, by }).await
    }

    pub(crate) async fn event_views(&self, name: &str) -> Vec<EventView> {
        let topic = self.topic_id(name).await;
        let query =
            EventQuery { topic, state: None, oldest_first: true, limit: 1_000, after: None };
        self.store().events(query).await.unwrap().items
    }

    /// The events of a topic, oldest first: id, state, how often it was given back.
    pub(crate) async fn events(&self, name: &str) -> Vec<String> {
        let line = |view: &EventView| {
            let status = &view.event.status;
            format!("{} {} {}", view.event.message.message_id, status.state.name(), status.attempt)
        };
        self.event_views(name).await.iter().map(line).collect()
    }

    pub(crate) async fn event(&self, name: &str, id: &str) -> EventView {
        let topic = self.topic_id(name).await;
        let found = self.store().events_by_id(topic, vec![id.to_owned()]).await.unwrap();
        found.into_iter().next().unwrap()
    }

    pub(crate) async fn handler(&self, workflow: WorkflowId, name: &str) -> Handler {
        let found = self.store().handlers(workflow).await.unwrap();
        found.into_iter().map(|view| view.handler).find(|known| known.name == name).unwrap()
    }

    /// Mutations, latest first: handler and status.
    pub(crate) async fn mutations(&self) -> Vec<String> {
        let query = MutationQuery { limit: 100, ..MutationQuery::default() };
        let found = self.store().mutations(query).await.unwrap().items;
        let line = |view: &store::MutationView| {
            format!("{} {}", view.mutation.handler, view.mutation.status.name())
        };
        found.iter().map(line).collect()
    }

    /// Starts a handler by hand. Returns its run, if it begins at once.
    pub(crate) async fn start_handler(
        &mut self,
        at: i64,
        id: WorkflowId,
        handler: &str,
    ) -> Result<Option<RunId>, Failure> {
        let run = self.new_run();
        let handler = handler.to_owned();
        match self.try_command(at, Command::StartHandler { id, handler, run }).await? {
            Answer::Run(run) => Ok(Some(run.parse().unwrap())),
            Answer::Called(_) => Ok(None),
            other => panic!("{other:?}"),
        }
    }

    /// The consumer `c` works on these events of topic `t`, up to its mutation, which is returned.
    pub(crate) async fn up_to_mutation(&self, at: i64, ids: &[&str]) -> Perform {
        let turned = self.turn(at).await;
        assert_eq!(phases(&turned), ["c prepare"]);
        let turned = self.turn_with(at, vec![reserves(&only(&turned), ids)]).await;
        assert_eq!(phases(&turned), ["c mutation"]);
        only(&turned)
    }

    /// As [`World::up_to_mutation`], up to its last phase.
    pub(crate) async fn up_to_next(&self, at: i64, ids: &[&str]) -> Perform {
        let mutation = self.up_to_mutation(at, ids).await;
        let turned = self.turn_with(at, vec![gave(&mutation, &json!({"sent": true}))]).await;
        assert_eq!(phases(&turned), ["c next"]);
        only(&turned)
    }

    /// The consumer `c` consumes these events.
    pub(crate) async fn consume(&self, at: i64, ids: &[&str]) -> Turned {
        let next = self.up_to_next(at, ids).await;
        self.turn_with(at, vec![gave(&next, &Value::Null)]).await
    }
}
