//! The engine's lookups of topics and handlers.
//!
//! Topics come last in the lock order. Once one is locked, nothing is waited for: a run, a workflow
//! or another topic that is not free is noted, and the transaction begins anew with it.

use engine::handlers::Handler;
use engine::run::{Part, Run};
use engine::topics::{Event, EventStatus, Subscriber, Topic};
use engine::{EventKey, HandlerId, RunKey, TopicId, WorkflowId};
use jiff::Timestamp;

use crate::codes::sql;
use crate::failure::Failure;
use crate::postgres::connections::query::{is_storable, row_count};
use crate::postgres::connections::tx_connection::param;
use crate::postgres::transaction::loaded::readable;
use crate::postgres::transaction::reader::PgTransactionReader;
use crate::postgres::transaction::topic_load::{self, WAITING};
use crate::rows::{self, Row as _, event_columns};

const OF_WORKFLOW: &str = "SELECT id FROM topics WHERE workflow = $1 AND name = $2";
const SHARED: &str = "SELECT id FROM topics WHERE workflow IS NULL AND name = $1";
const EVENT: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM events e JOIN messages m ON m.event = e.key WHERE e.key = $1"
);
const PENDING: &str = sql!(
    "SELECT ",
    event_columns!(),
    " FROM (SELECT * FROM events WHERE topic + 0 = $1 AND state + 0 = {event_pending}
              AND created_at {an_instant}
            ORDER BY created_at, key + 0 LIMIT $2) e
     JOIN messages m ON m.event = e.key ORDER BY e.created_at, e.key"
);
const OLDEST: &str = sql!(
    "SELECT key, created_at FROM events WHERE topic + 0 = $1 AND state + 0 = {event_pending}
       AND created_at {an_instant}
     ORDER BY created_at, key + 0 LIMIT $2"
);
const WAITS: &str = sql!(
    "SELECT run, step, item FROM waits
     WHERE topic = $1 AND item {a_part} AND (run + 0, step + 0, item + 0) > ($2, $3, $4)
     ORDER BY run + 0, step + 0, item + 0 LIMIT $5"
);

impl PgTransactionReader<'_> {
    /// Locks a topic, after the workflows that subscribe to it. Returns whether the topic exists.
    fn take_topic(&mut self, id: TopicId) -> Result<bool, Failure> {
        if self.loaded.topics.topics.contains_key(&id) {
            return Ok(true);
        }
        if self.needs.topics.contains(&id.0) {
            // The transaction tried to lock it at its beginning, and it was not there.
            return Ok(false);
        }
        let listeners = topic_load::listeners(self.tx, vec![id.0])?;
        for workflow in listeners.consuming {
            self.own_workflow(WorkflowId(workflow))?;
        }
        for workflow in listeners.triggered {
            self.free_workflow(WorkflowId(workflow))?;
        }
        if topic_load::free_topic(self.tx, &mut self.loaded.topics, id)? {
            return Ok(true);
        }
        self.needs.topics.insert(id.0);
        Err(self.begin_anew("a topic is in use"))
    }

    /// Loads a run and locks it with its schedule.
    pub(crate) fn locked_run(&mut self, key: RunKey) -> Result<Option<Box<Run>>, Failure> {
        if !self.loaded.has_run(key) {
            self.take_runs(vec![key.0])?;
        }
        match self.loaded.unreadable.get(&key).cloned() {
            Some(why) => {
                Err(Failure::Undecidable { what: Some(engine::turn::Wakeup::Run(key)), why })
            }
            None => Ok(self.loaded.runs.remove(&key)),
        }
    }

    pub(crate) fn locked_topic(&mut self, id: TopicId) -> Result<Option<Topic>, Failure> {
        self.take_topic(id)?;
        readable(self.loaded.topics.topics.get(&id))
    }

    pub(crate) fn find_topic(
        &mut self,
        workflow: Option<WorkflowId>,
        name: &str,
    ) -> Result<Option<TopicId>, Failure> {
        if let Some(id) = self.loaded.topics.named(workflow, name) {
            return Ok(Some(id));
        }
        if !is_storable(name) {
            return Ok(None);
        }
        let name = param(name.to_owned());
        let ids = match workflow {
            Some(workflow) => self.keys(OF_WORKFLOW, vec![param(workflow.0), name])?,
            None => self.keys(SHARED, vec![name])?,
        };
        Ok(ids.first().copied().map(TopicId))
    }

    pub(crate) fn event_statuses(
        &mut self,
        topic: TopicId,
        message_ids: &[String],
    ) -> Result<Vec<Option<EventStatus>>, Failure> {
        if !self.take_topic(topic)? {
            return Ok(vec![None; message_ids.len()]);
        }
        let statuses = match self.loaded.topics.event_statuses.take() {
            Some((of, statuses)) if of == topic => statuses,
            _ => {
                let query = topic_load::ask_event_statuses(topic, message_ids);
                let answer = self.tx.ask(vec![query])?.pop().unwrap_or_default();
                topic_load::event_statuses(&answer)?
            }
        };
        Ok(message_ids.iter().map(|id| statuses.get(id).cloned()).collect())
    }

    pub(crate) fn reserved_events(&mut self, run: RunKey) -> Result<Vec<EventStatus>, Failure> {
        if !self.loaded.topics.reserved.contains_key(&run) {
            topic_load::reserved(self.tx, &mut self.loaded.topics, run)?;
        }
        let reserved = |reader: &Self| {
            readable(reader.loaded.topics.reserved.get(&run)).map(Option::unwrap_or_default)
        };
        let mut statuses = reserved(self)?;
        let is_free = |status: &EventStatus| !self.loaded.topics.topics.contains_key(&status.topic);
        let mut unlocked: Vec<TopicId> =
            statuses.iter().filter(|status| is_free(status)).map(|status| status.topic).collect();
        unlocked.sort_unstable();
        unlocked.dedup();
        if !unlocked.is_empty() {
            for topic in unlocked {
                self.take_topic(topic)?;
            }
            // Read again, now that no other transaction can change them.
            topic_load::reserved(self.tx, &mut self.loaded.topics, run)?;
            statuses = reserved(self)?;
        }
        Ok(statuses)
    }

    pub(crate) fn one_event(&mut self, key: EventKey) -> Result<Option<Event>, Failure> {
        let found = self.tx.one(EVENT, vec![param(key.0)])?;
        Ok(found.first().map(rows::readable_event).transpose()?.flatten())
    }

    /// Locks the topic, so that a run that begins to wait for an event is seen by everyone who
    /// publishes later.
    pub(crate) fn oldest_events(
        &mut self,
        topic: TopicId,
        limit: usize,
    ) -> Result<Vec<Event>, Failure> {
        if !self.take_topic(topic)? {
            return Ok(Vec::new());
        }
        let found = self.tx.one(PENDING, vec![param(topic.0), param(row_count(limit))])?;
        found.iter().filter_map(|row| rows::readable_event(row).transpose()).collect()
    }

    pub(crate) fn oldest_pending_keys(
        &mut self,
        topic: TopicId,
        limit: usize,
    ) -> Result<Vec<(EventKey, Timestamp)>, Failure> {
        let found = self.tx.one(OLDEST, vec![param(topic.0), param(row_count(limit))])?;
        found.iter().map(|row| row.tuple()).collect()
    }

    pub(crate) fn listeners_of(&mut self, topic: TopicId) -> Result<Vec<Subscriber>, Failure> {
        self.take_topic(topic)?;
        Ok(self.loaded.topics.subscribers.get(&topic).cloned().unwrap_or_default())
    }

    /// The parts that wait for a topic. Their runs are locked, unless the caller only asks whether
    /// there are any.
    pub(crate) fn waiting_parts(
        &mut self,
        topic: TopicId,
        after: Option<(RunKey, Part)>,
        limit: usize,
    ) -> Result<Vec<(RunKey, Part)>, Failure> {
        self.take_topic(topic)?;
        let known = self.loaded.topics.waits.get(&topic).map(Vec::as_slice).unwrap_or_default();
        let is_whole = known.len() <= WAITING;
        let later = known.iter().filter(|part| after.is_none_or(|after| **part > after));
        let mut found: Vec<(RunKey, Part)> = later.take(limit).copied().collect();
        if found.len() < limit && !is_whole {
            found = self.parts_after(topic, after, limit)?;
        }
        if limit > 1 {
            let is_new = |key: &i64| !self.loaded.locked_runs.contains(&RunKey(*key));
            let mut keys: Vec<i64> = found.iter().map(|(run, _)| run.0).filter(is_new).collect();
            keys.sort_unstable();
            keys.dedup();
            if !keys.is_empty() {
                self.take_runs(keys)?;
            }
        }
        Ok(found)
    }

    fn parts_after(
        &mut self,
        topic: TopicId,
        after: Option<(RunKey, Part)>,
        limit: usize,
    ) -> Result<Vec<(RunKey, Part)>, Failure> {
        let (run, step, item) = match after {
            Some((run, part)) => (run.0, part.step.cast_signed(), part.item.number()),
            None => (i64::MIN, i32::MIN, i32::MIN),
        };
        let params =
            vec![param(topic.0), param(run), param(step), param(item), param(row_count(limit))];
        self.tx.one(WAITS, params)?.iter().map(rows::run_part).collect()
    }

    pub(crate) fn locked_handler(&mut self, id: HandlerId) -> Result<Option<Handler>, Failure> {
        if let Some(handler) = self.loaded.topics.handlers.remove(&id) {
            return Ok(Some(handler));
        }
        let workflows =
            self.keys("SELECT workflow FROM handlers WHERE id = $1", vec![param(id.0)])?;
        let Some(workflow) = workflows.first().copied().map(WorkflowId) else { return Ok(None) };
        self.own_workflow(workflow)?;
        topic_load::handlers(self.tx, &mut self.loaded.topics, workflow)?;
        Ok(self.loaded.topics.handlers.remove(&id))
    }

    pub(crate) fn locked_handlers(&mut self, id: WorkflowId) -> Result<Vec<HandlerId>, Failure> {
        if !self.loaded.topics.handlers_of.contains_key(&id) {
            topic_load::handlers(self.tx, &mut self.loaded.topics, id)?;
        }
        let known = self.loaded.topics.handlers_of.get(&id).cloned().unwrap_or_default();
        if !known.is_empty() && !self.loaded.owned_workflows.contains(&id) {
            self.own_workflow(id)?;
            topic_load::handlers(self.tx, &mut self.loaded.topics, id)?;
            return Ok(self.loaded.topics.handlers_of.get(&id).cloned().unwrap_or_default());
        }
        Ok(known)
    }
}
