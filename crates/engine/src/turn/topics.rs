//! Topics and their events within a turn. The book knows what was there before; what has changed since is kept here.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;

use super::events::Publisher;
use super::{Book, ById, EventWrite, Notice, TopicWrite, Turn};
use crate::definition::{Definition, TopicDeclaration};
use crate::ids::{EventKey, RunKey, TopicId, WorkflowId};
use crate::topics::{Event, EventState, Fate, Message, Topic};

/// What a turn knows of topics.
#[derive(Default)]
pub(super) struct Topics {
    slots: ById<TopicId, TopicSlot>,
    order: Vec<TopicId>,
    /// Events that were published or moved in this turn.
    fates: ById<EventKey, Fate>,
    /// Where the new ones are.
    new: HashMap<(TopicId, String), EventKey>,
}

pub(super) struct TopicSlot {
    pub(super) topic: Topic,
    is_new: bool,
    is_changed: bool,
    /// How many of its events have moved in this turn.
    moved: usize,
    /// How many of them are done with.
    consumed: usize,
    /// When its first event of this turn was published.
    first_new: Option<Timestamp>,
}

/// What was published.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) published: u64,
    pub(super) replaced: u64,
}

impl<B: Book> Turn<'_, B> {
    pub(super) fn load_topic(&mut self, id: TopicId) -> Result<Option<&mut TopicSlot>, B::Error> {
        if !self.topics.slots.contains_key(&id) {
            let Some(topic) = self.book.topic(id)? else { return Ok(None) };
            self.keep_topic(topic, false);
        }
        Ok(self.topics.slots.get_mut(&id))
    }

    fn keep_topic(&mut self, topic: Topic, is_new: bool) {
        let id = topic.id;
        self.topics.order.push(id);
        let slot =
            TopicSlot { topic, is_new, is_changed: is_new, moved: 0, consumed: 0, first_new: None };
        self.topics.slots.insert(id, slot);
    }

    pub(super) fn write_topics(&mut self) {
        for id in std::mem::take(&mut self.topics.order) {
            let slot = self.topics.slots.remove(&id).filter(|slot| slot.is_changed);
            if let Some(count) = slot.as_ref().map(|slot| slot.consumed).filter(|count| *count > 0)
            {
                self.notices.push(Notice::Consumed { topic: id, count });
            }
            self.writes.topics.extend(slot.map(|slot| match slot.is_new {
                true => TopicWrite::Insert(slot.topic),
                false => TopicWrite::Update(slot.topic),
            }));
        }
    }

    /// The topic that a workflow means by a name.
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
        let is_it =
            |slot: &&TopicSlot| slot.topic.workflow == owner && slot.topic.name == declared.name;
        match self.topics.slots.values().find(is_it) {
            Some(slot) => Ok(Some(slot.topic.id)),
            None => self.book.topic_named(owner, &declared.name),
        }
    }

    /// The topics of a definition are there from now on.
    pub(super) fn declare_topics(
        &mut self,
        workflow: WorkflowId,
        definition: &Definition,
    ) -> Result<(), B::Error> {
        for declared in &definition.topics {
            let known = self.topic_declared(workflow, declared)?;
            let Some(id) = known else {
                let topic = Topic {
                    id: self.book.new_topic_id(),
                    workflow: (!declared.shared).then_some(workflow),
                    name: declared.name.clone(),
                    max_attempts: declared.max_attempts,
                    counts: crate::topics::Counts::default(),
                    created_at: self.moment.now,
                };
                self.keep_topic(topic, true);
                continue;
            };
            if let Some(slot) = self.load_topic(id)?
                && slot.topic.max_attempts != declared.max_attempts
            {
                slot.topic.max_attempts = declared.max_attempts;
                slot.is_changed = true;
            }
        }
        Ok(())
    }

    /// Publishes to a topic. An event that is there already says something else from now on, and stays where it
    /// stands.
    pub(super) fn publish_messages(
        &mut self,
        id: TopicId,
        messages: Vec<Message>,
        by: Publisher,
    ) -> Result<Counted, B::Error> {
        let hops = self.hops_of_event(by);
        let mut counted = Counted::default();
        if messages.is_empty() || self.load_topic(id)?.is_none() {
            return Ok(counted);
        }
        let ids: Vec<String> = messages.iter().map(|message| message.message_id.clone()).collect();
        let known = self.book.fates(id, &ids)?;
        let listened = self.is_listened_to(id)?;
        let mut heard = Vec::new();
        for ((message, known), message_id) in messages.into_iter().zip(known).zip(ids) {
            let place = (id, message_id);
            let known = self.topics.new.get(&place).copied().or(known.map(|fate| fate.key));
            if let Some(key) = known {
                self.writes.events.push(EventWrite::Say(key, message));
                counted.replaced += 1;
                continue;
            }
            let event = self.new_event(place, message, hops);
            if listened {
                heard.push(event.clone());
            }
            self.writes.events.push(EventWrite::Insert(Box::new(event)));
            counted.published += 1;
        }
        let count = (counted.published + counted.replaced) as usize;
        self.notices.push(Notice::Published { topic: id, count });
        self.tell_listeners(id, &heard, by)?;
        self.tell_consumers(id)?;
        Ok(counted)
    }

    fn new_event(&mut self, place: (TopicId, String), message: Message, hops: u8) -> Event {
        let now = self.moment.now;
        let fate = Fate {
            key: self.book.new_event_key(),
            topic: place.0,
            state: EventState::Pending,
            attempt: 0,
            run: None,
            reason: None,
            updated_at: now,
            hops,
        };
        if let Some(slot) = self.topics.slots.get_mut(&place.0) {
            slot.topic.counts.add(EventState::Pending);
            slot.first_new.get_or_insert(now);
            slot.is_changed = true;
        }
        self.topics.new.insert(place, fate.key);
        self.topics.fates.insert(fate.key, fate.clone());
        Event { message, fate, created_at: now }
    }

    /// What has become of an event, this turn included.
    pub(super) fn fate_now(&self, fate: Fate) -> Fate {
        self.topics.fates.get(&fate.key).cloned().unwrap_or(fate)
    }

    /// What has become of the events with these message ids.
    pub(super) fn fates(
        &mut self,
        topic: TopicId,
        message_ids: &[String],
    ) -> Result<Vec<Option<Fate>>, B::Error> {
        let known = self.book.fates(topic, message_ids)?;
        let now = known.into_iter().zip(message_ids).map(|(known, message_id)| {
            let new = self.topics.new.get(&(topic, message_id.clone()));
            let new = new.and_then(|key| self.topics.fates.get(key)).cloned();
            new.or_else(|| known.map(|fate| self.fate_now(fate)))
        });
        Ok(now.collect())
    }

    /// An event comes to another state.
    pub(super) fn move_event(
        &mut self,
        before: &Fate,
        state: EventState,
        run: Option<RunKey>,
        reason: Option<String>,
    ) -> Result<(), B::Error> {
        let gives_back = before.state == EventState::Reserved
            && matches!(state, EventState::Pending | EventState::Skipped);
        let after = Fate {
            state,
            run,
            reason,
            attempt: before.attempt + u32::from(gives_back),
            updated_at: self.moment.now,
            ..before.clone()
        };
        if let Some(slot) = self.load_topic(before.topic)? {
            slot.topic.counts.take(before.state);
            slot.topic.counts.add(state);
            slot.moved += 1;
            slot.consumed += usize::from(state == EventState::Consumed);
            slot.is_changed = true;
        }
        self.topics.fates.insert(after.key, after.clone());
        self.writes.events.push(EventWrite::Move { before: before.state, after });
        Ok(())
    }

    /// The events that a run has reserved, this turn included.
    pub(super) fn reserved_by(&mut self, run: RunKey) -> Result<Vec<Fate>, B::Error> {
        let mut reserved: Vec<Fate> =
            self.book.reserved_by(run)?.into_iter().map(|fate| self.fate_now(fate)).collect();
        let known: HashSet<EventKey> = reserved.iter().map(|fate| fate.key).collect();
        let new = self.topics.fates.values().filter(|fate| !known.contains(&fate.key));
        reserved.extend(new.cloned());
        reserved.retain(|fate| fate.state == EventState::Reserved && fate.run == Some(run));
        reserved.sort_by_key(|fate| fate.key);
        Ok(reserved)
    }

    /// How many events of a topic nobody works on.
    pub(super) fn pending_in(&mut self, id: TopicId) -> Result<u64, B::Error> {
        Ok(self.load_topic(id)?.map_or(0, |slot| slot.topic.counts.pending))
    }

    /// When the oldest event of a topic was published that nobody works on.
    pub(super) fn oldest_pending(&mut self, id: TopicId) -> Result<Option<Timestamp>, B::Error> {
        let Some(slot) = self.load_topic(id)? else { return Ok(None) };
        if slot.topic.counts.pending == 0 {
            return Ok(None);
        }
        let (moved, first_new) = (slot.moved, slot.first_new);
        let found = self.book.oldest_pending(id, moved + 1)?;
        let is_pending = |(key, _): &(EventKey, Timestamp)| {
            self.topics.fates.get(key).is_none_or(|fate| fate.state == EventState::Pending)
        };
        let found = found.into_iter().find(is_pending).map(|(_, at)| at).or(first_new);
        let given_back = self.given_back(id)?.into_iter().map(|event| event.created_at);
        Ok(given_back.chain(found).min())
    }

    /// The oldest events of a topic that nobody works on.
    pub(super) fn pending_events(
        &mut self,
        id: TopicId,
        limit: usize,
    ) -> Result<Vec<Event>, B::Error> {
        let moved = self.load_topic(id)?.map_or(0, |slot| slot.moved);
        let given_back = self.given_back(id)?;
        let found = self.book.pending_events(id, limit + moved)?;
        let is_pending = |event: &Event| {
            let now = self.topics.fates.get(&event.fate.key);
            now.is_none_or(|fate| fate.state == EventState::Pending)
        };
        let new = self.writes.events.iter().filter_map(|write| match write {
            EventWrite::Insert(event) if event.fate.topic == id => Some((**event).clone()),
            _ => None,
        });
        let mut all: Vec<Event> =
            given_back.into_iter().chain(found).chain(new).filter(is_pending).collect();
        all.sort_by_key(|event| (event.created_at, event.fate.key));
        all.dedup_by_key(|event| event.fate.key);
        all.truncate(limit);
        Ok(all)
    }

    /// Events of a topic that are pending since this turn, and were not before: the book does not know yet.
    fn given_back(&mut self, id: TopicId) -> Result<Vec<Event>, B::Error> {
        let is_it = |fate: &&Fate| {
            fate.topic == id && fate.state == EventState::Pending && fate.attempt > 0
        };
        let mut keys: Vec<EventKey> =
            self.topics.fates.values().filter(is_it).map(|fate| fate.key).collect();
        keys.sort_unstable();
        let mut events = Vec::new();
        for key in keys {
            if let Some(mut event) = self.book.event(key)? {
                event.fate = self.fate_now(event.fate);
                events.push(event);
            }
        }
        Ok(events)
    }

    /// A topic's name and limit.
    pub(super) fn topic(&self, id: TopicId) -> Option<&Topic> {
        self.topics.slots.get(&id).map(|slot| &slot.topic)
    }
}
