//! Topics and handlers of the world in memory.

use engine::turn::Damaged;
use std::collections::BTreeMap;

use engine::handlers::{Handler, Mutation};
use engine::run::Part;
use engine::topics::{Event, EventState, EventStatus, Subscriber, Topic};
use engine::turn::{EventWrite, HandlerWrite, TopicWrite, WaitWrite, Writes};
use engine::{EventKey, HandlerId, RunKey, TopicId, WorkflowId};
use jiff::Timestamp;

#[derive(Default)]
pub(crate) struct Topics {
    pub(crate) topics: BTreeMap<TopicId, Topic>,
    pub(crate) events: BTreeMap<EventKey, Event>,
    pub(crate) handlers: BTreeMap<HandlerId, Handler>,
    pub(crate) subscriptions: BTreeMap<WorkflowId, Vec<(TopicId, Subscriber)>>,
    pub(crate) waits: Vec<(TopicId, RunKey, Part)>,
    pub(crate) mutations: BTreeMap<RunKey, Mutation>,
}

type Found<T> = Result<T, Damaged>;

impl Topics {
    pub(crate) fn topic_named(&self, workflow: Option<WorkflowId>, name: &str) -> Option<TopicId> {
        let is_it = |topic: &&Topic| topic.workflow == workflow && topic.name == name;
        self.topics.values().find(is_it).map(|topic| topic.id)
    }

    pub(crate) fn named(&self, topic: TopicId, message_id: &str) -> Option<&Event> {
        let is_it =
            |event: &&Event| event.status.topic == topic && event.message.message_id == message_id;
        self.events.values().find(is_it)
    }

    pub(crate) fn event_statuses(
        &self,
        topic: TopicId,
        ids: &[String],
    ) -> Found<Vec<Option<EventStatus>>> {
        Ok(ids.iter().map(|id| self.named(topic, id).map(|event| event.status.clone())).collect())
    }

    pub(crate) fn pending(&self, topic: TopicId, limit: usize) -> Vec<Event> {
        let is_it = |event: &&Event| {
            event.status.topic == topic && event.status.state == EventState::Pending
        };
        let mut found: Vec<Event> = self.events.values().filter(is_it).cloned().collect();
        found.sort_by_key(|event| (event.created_at, event.status.key));
        found.truncate(limit);
        found
    }

    pub(crate) fn subscribers(&self, topic: TopicId) -> Vec<Subscriber> {
        let all = self.subscriptions.values().flatten();
        all.filter(|(known, _)| *known == topic).map(|(_, who)| *who).collect()
    }

    pub(crate) fn waiting_for(
        &self,
        topic: TopicId,
        after: Option<(RunKey, Part)>,
        limit: usize,
    ) -> Vec<(RunKey, Part)> {
        let all = self.waits.iter().filter(|(known, ..)| *known == topic);
        let mut found: Vec<(RunKey, Part)> = all.map(|(_, run, part)| (*run, *part)).collect();
        found.sort_unstable();
        found.retain(|one| after.is_none_or(|after| *one > after));
        found.truncate(limit);
        found
    }

    pub(crate) fn wakeups(&self) -> impl Iterator<Item = (Timestamp, HandlerId)> + '_ {
        self.handlers.values().filter_map(|handler| Some((handler.due()?, handler.id)))
    }

    pub(crate) fn apply(&mut self, writes: &mut Writes) {
        for write in writes.topics.drain(..) {
            let (TopicWrite::Insert(topic) | TopicWrite::Update(topic)) = write;
            self.topics.insert(topic.id, topic);
        }
        for write in writes.events.drain(..) {
            match write {
                EventWrite::Insert(event) => {
                    let known = self.named(event.status.topic, &event.message.message_id);
                    assert!(known.is_none(), "published twice");
                    self.events.insert(event.status.key, *event);
                }
                EventWrite::Say(key, message) => {
                    self.events.get_mut(&key).unwrap().message = message;
                }
                EventWrite::Move { before, after } => {
                    let event = self.events.get_mut(&after.key).unwrap();
                    assert_eq!(event.status.state, before, "{after:?}");
                    event.status = after;
                }
            }
        }
        for write in writes.handlers.drain(..) {
            match write {
                HandlerWrite::Insert(handler) => drop(self.handlers.insert(handler.id, *handler)),
                HandlerWrite::Update { after, old_due } => {
                    let before = self.handlers.insert(after.id, *after).unwrap();
                    assert_eq!(before.due(), old_due);
                }
                HandlerWrite::Delete { before } => drop(self.handlers.remove(&before.id).unwrap()),
            }
        }
        for (workflow, subscriptions) in writes.subscriptions.drain(..) {
            self.subscriptions.insert(workflow, subscriptions);
        }
        for write in writes.waits.drain(..) {
            match write {
                WaitWrite::Begin(topic, run, part) => self.waits.push((topic, run, part)),
                WaitWrite::End(run, part) => {
                    let before = self.waits.len();
                    self.waits.retain(|(_, r, p)| (*r, *p) != (run, part));
                    assert_eq!(self.waits.len() + 1, before, "nothing waited");
                }
            }
        }
        for mutation in writes.mutations.drain(..) {
            self.mutations.insert(mutation.run, mutation);
        }
        self.check();
    }

    /// Checks that the counts of each topic match its events.
    fn check(&self) {
        for topic in self.topics.values() {
            for state in EventState::ALL {
                let is_it = |e: &&Event| e.status.topic == topic.id && e.status.state == state;
                let count = self.events.values().filter(is_it).count() as u64;
                assert_eq!(topic.counts.of(state), count, "{} {}", topic.name, state.name());
            }
        }
    }
}
