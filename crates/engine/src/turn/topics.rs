//! Topics and their events within a turn. The transaction reader holds the state before the turn;
//! this module adds what has changed since.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use language::definition::{Definition, TopicDeclaration};

use super::events::Publisher;
use super::worklist::Work;
use super::{ById, Change, Damaged, EventWrite, Notice, TopicWrite, TransactionReader, Turn};
use crate::ids::{EventKey, RunKey, TopicId, WorkflowId};
use crate::topics::{Event, EventState, EventStatus, Message, Topic};

/// Reading so many events takes as long as one start of a turn.
const MOVED_PER_START: usize = 32;

/// The events that a turn has published or moved to another state.
#[derive(Default)]
pub(super) struct Events {
    /// Events that were published or changed state in this turn.
    statuses: ById<EventKey, EventStatus>,
    /// The keys of new events, by topic and message id.
    new: HashMap<(TopicId, String), EventKey>,
}

/// How many events were published and replaced.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) published: u64,
    pub(super) replaced: u64,
}

impl<B: TransactionReader> Turn<'_, B> {
    pub(super) fn load_topic(&mut self, id: TopicId) -> Result<Option<&Topic>, B::Error> {
        if !self.loaded.topics.contains(id) {
            let Some(topic) = self.reader.topic(id)? else { return Ok(None) };
            self.loaded.topics.insert_stored(topic);
        }
        Ok(self.loaded.topics.get(id))
    }

    /// Loads a topic that must exist.
    pub(super) fn stored_topic(&mut self, id: TopicId) -> Result<&Topic, B::Error> {
        let found = self.load_topic(id)?;
        Ok(found.ok_or_else(|| Damaged(format!("topic {} is not stored", id.0)))?)
    }

    pub(super) fn write_topics(&mut self) {
        for loaded in self.loaded.topics.take_changed() {
            let (topic, count) = (loaded.now.id, loaded.notes.consumed);
            if count > 0 {
                self.output.notices.push(Notice::Consumed { topic, count });
            }
            self.output.writes.topics.push(if loaded.is_new {
                TopicWrite::Insert(loaded.now)
            } else {
                TopicWrite::Update(loaded.now)
            });
        }
    }

    /// The topic that a workflow's definition means by a name.
    pub(super) fn topic_meant(
        &mut self,
        workflow: WorkflowId,
        definition: &Definition,
        name: &str,
    ) -> Result<Option<TopicId>, B::Error> {
        match definition.topic(name) {
            Some(declared) => self.topic_declared(workflow, declared),
            None => Ok(None),
        }
    }

    fn topic_declared(
        &mut self,
        workflow: WorkflowId,
        declared: &TopicDeclaration,
    ) -> Result<Option<TopicId>, B::Error> {
        let owner = (!declared.shared).then_some(workflow);
        let is_it = |topic: &&Topic| topic.workflow == owner && topic.name == declared.name;
        match self.loaded.topics.values().find(is_it) {
            Some(topic) => Ok(Some(topic.id)),
            None => self.reader.topic_named(owner, &declared.name),
        }
    }

    /// Creates the topics that a definition declares, and updates the attempt limits of known ones.
    pub(super) fn declare_topics(
        &mut self,
        workflow: WorkflowId,
        definition: &Definition,
    ) -> Result<(), B::Error> {
        for declared in &definition.topics {
            let known = self.topic_declared(workflow, declared)?;
            let Some(id) = known else {
                let topic = Topic {
                    id: self.reader.new_topic_id(),
                    workflow: (!declared.shared).then_some(workflow),
                    name: declared.name.clone(),
                    max_attempts: declared.max_attempts,
                    counts: crate::topics::Counts::default(),
                    created_at: self.context.moment.now,
                };
                self.loaded.topics.insert_new(topic);
                continue;
            };
            let is_other = |topic: &Topic| topic.max_attempts != declared.max_attempts;
            if self.load_topic(id)?.is_some_and(is_other)
                && let Some(topic) = self.loaded.topics.change(id, Change::Declaration)
            {
                topic.max_attempts = declared.max_attempts;
            }
        }
        Ok(())
    }

    /// Publishes messages to a topic. A message id that already exists gets the new message and
    /// keeps its state.
    pub(super) fn publish_messages(
        &mut self,
        id: TopicId,
        messages: Vec<Message>,
        by: Publisher,
    ) -> Result<Counted, B::Error> {
        let hops = self.hops_of_event(by);
        let mut counted = Counted::default();
        if messages.is_empty() {
            return Ok(counted);
        }
        self.stored_topic(id)?;
        let ids: Vec<String> = messages.iter().map(|message| message.message_id.clone()).collect();
        let known = self.reader.event_statuses(id, &ids)?;
        let listened = self.is_listened_to(id)?;
        let mut heard = Vec::new();
        for ((message, known), message_id) in messages.into_iter().zip(known).zip(ids) {
            let key = (id, message_id);
            let known =
                self.loaded.events.new.get(&key).copied().or(known.map(|status| status.key));
            if let Some(key) = known {
                self.output.writes.events.push(EventWrite::Say(key, message));
                counted.replaced += 1;
                continue;
            }
            let event = self.new_event(key, message, hops);
            if listened {
                heard.push(event.clone());
            }
            self.output.writes.events.push(EventWrite::Insert(Box::new(event)));
            counted.published += 1;
        }
        let count = (counted.published + counted.replaced) as usize;
        self.output.notices.push(Notice::Published { topic: id, count });
        if !heard.is_empty() {
            self.worklist.add(Work::TellListeners(id, heard, by));
        }
        self.worklist.add(Work::TellConsumers(id));
        Ok(counted)
    }

    fn new_event(&mut self, key: (TopicId, String), message: Message, hops: u8) -> Event {
        let now = self.context.moment.now;
        let status = EventStatus {
            key: self.reader.new_event_key(),
            topic: key.0,
            state: EventState::Pending,
            attempt: 0,
            run: None,
            reason: None,
            updated_at: now,
            hops,
        };
        if let Some(loaded) = self.loaded.topics.loaded_mut(key.0) {
            loaded.touch(Change::Progress);
            loaded.now.counts.add(EventState::Pending);
            loaded.notes.first_new.get_or_insert(now);
        }
        self.loaded.events.new.insert(key, status.key);
        self.loaded.events.statuses.insert(status.key, status.clone());
        Event { message, status, created_at: now }
    }

    /// The current state of an event, including changes of this turn.
    pub(super) fn status_now(&self, status: EventStatus) -> EventStatus {
        self.loaded.events.statuses.get(&status.key).cloned().unwrap_or(status)
    }

    /// The current states of the events with these message ids.
    pub(super) fn event_statuses(
        &mut self,
        topic: TopicId,
        message_ids: &[String],
    ) -> Result<Vec<Option<EventStatus>>, B::Error> {
        let known = self.reader.event_statuses(topic, message_ids)?;
        let now = known.into_iter().zip(message_ids).map(|(known, message_id)| {
            let new = self.loaded.events.new.get(&(topic, message_id.clone()));
            let new = new.and_then(|key| self.loaded.events.statuses.get(key)).cloned();
            new.or_else(|| known.map(|status| self.status_now(status)))
        });
        Ok(now.collect())
    }

    /// Moves an event to another state.
    pub(super) fn move_event(
        &mut self,
        before: &EventStatus,
        state: EventState,
        run: Option<RunKey>,
        reason: Option<String>,
    ) -> Result<(), B::Error> {
        let gives_back = before.state == EventState::Reserved
            && matches!(state, EventState::Pending | EventState::Skipped);
        let after = EventStatus {
            state,
            run,
            reason,
            attempt: before.attempt + u32::from(gives_back),
            updated_at: self.context.moment.now,
            ..before.clone()
        };
        self.stored_topic(before.topic)?;
        if let Some(loaded) = self.loaded.topics.loaded_mut(before.topic) {
            loaded.touch(Change::Progress);
            loaded.now.counts.take(before.state);
            loaded.now.counts.add(state);
            loaded.notes.moved += 1;
            loaded.notes.consumed += usize::from(state == EventState::Consumed);
        }
        self.loaded.events.statuses.insert(after.key, after.clone());
        self.output.writes.events.push(EventWrite::Move { before: before.state, after });
        Ok(())
    }

    /// The events that a run has reserved, including changes of this turn.
    pub(super) fn reserved_by(&mut self, run: RunKey) -> Result<Vec<EventStatus>, B::Error> {
        let mut reserved: Vec<EventStatus> = self
            .reader
            .reserved_by(run)?
            .into_iter()
            .map(|status| self.status_now(status))
            .collect();
        let known: HashSet<EventKey> = reserved.iter().map(|status| status.key).collect();
        let new =
            self.loaded.events.statuses.values().filter(|status| !known.contains(&status.key));
        reserved.extend(new.cloned());
        reserved.retain(|status| status.state == EventState::Reserved && status.run == Some(run));
        reserved.sort_by_key(|status| status.key);
        Ok(reserved)
    }

    /// The number of pending events of a topic.
    pub(super) fn pending_in(&mut self, id: TopicId) -> Result<u64, B::Error> {
        Ok(self.stored_topic(id)?.counts.pending)
    }

    /// When the oldest pending event of a topic was published.
    pub(super) fn oldest_pending(&mut self, id: TopicId) -> Result<Option<Timestamp>, B::Error> {
        if self.stored_topic(id)?.counts.pending == 0 {
            return Ok(None);
        }
        let notes = self.loaded.topics.loaded(id).map(|loaded| &loaded.notes);
        let (moved, first_new) = notes.map_or((0, None), |notes| (notes.moved, notes.first_new));
        let found = self.reader.oldest_pending(id, moved + 1)?;
        let is_pending = |(key, _): &(EventKey, Timestamp)| {
            self.loaded
                .events
                .statuses
                .get(key)
                .is_none_or(|status| status.state == EventState::Pending)
        };
        let found = found.into_iter().find(is_pending).map(|(_, at)| at).or(first_new);
        let given_back = self.given_back(id)?.into_iter().map(|event| event.created_at);
        Ok(given_back.chain(found).min())
    }

    /// The oldest pending events of a topic.
    pub(super) fn pending_events(
        &mut self,
        id: TopicId,
        limit: usize,
    ) -> Result<Vec<Event>, B::Error> {
        self.stored_topic(id)?;
        let moved = self.loaded.topics.loaded(id).map_or(0, |loaded| loaded.notes.moved);
        // Events that this turn has moved are read again and passed over.
        let starts_left = &mut self.worklist.starts_left;
        *starts_left = starts_left.saturating_sub(moved / MOVED_PER_START);
        let given_back = self.given_back(id)?;
        let found = self.reader.pending_events(id, limit + moved)?;
        let is_pending = |event: &Event| {
            let now = self.loaded.events.statuses.get(&event.status.key);
            now.is_none_or(|status| status.state == EventState::Pending)
        };
        let new = self.output.writes.events.iter().filter_map(|write| match write {
            EventWrite::Insert(event) if event.status.topic == id => Some((**event).clone()),
            _ => None,
        });
        let mut all: Vec<Event> =
            given_back.into_iter().chain(found).chain(new).filter(is_pending).collect();
        all.sort_by_key(|event| (event.created_at, event.status.key));
        all.dedup_by_key(|event| event.status.key);
        all.truncate(limit);
        Ok(all)
    }

    /// Events of a topic that this turn made pending again. The transaction reader does not know
    /// that yet.
    fn given_back(&mut self, id: TopicId) -> Result<Vec<Event>, B::Error> {
        let is_it = |status: &&EventStatus| {
            status.topic == id && status.state == EventState::Pending && status.attempt > 0
        };
        let mut keys: Vec<EventKey> =
            self.loaded.events.statuses.values().filter(is_it).map(|status| status.key).collect();
        keys.sort_unstable();
        let mut events = Vec::new();
        for key in keys {
            if let Some(mut event) = self.reader.event(key)? {
                event.status = self.status_now(event.status);
                events.push(event);
            }
        }
        Ok(events)
    }

    /// A topic that the turn has loaded.
    pub(super) fn topic(&self, id: TopicId) -> Result<&Topic, B::Error> {
        let found = self.loaded.topics.get(id);
        Ok(found.ok_or_else(|| Damaged(format!("topic {} is not there any more", id.0)))?)
    }
}
