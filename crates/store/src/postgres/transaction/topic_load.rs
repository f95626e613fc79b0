//! The queries by which a transaction loads topics and handlers in bulk. A workflow's lock covers
//! its handlers; a topic's lock covers its events and the waits for them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use engine::handlers::Handler;
use engine::run::Part;
use engine::topics::{EventStatus, Subscriber, Topic};
use engine::turn::{ById, Wakeup};
use engine::{HandlerId, RunKey, TopicId, WorkflowId};
use tokio_postgres::Row;

use crate::codes::sql;
use crate::failure::Failure;
use crate::postgres::connections::query::is_storable;
use crate::postgres::connections::tx_connection::{Query, TxConnection, param};
use crate::rows::{self, Row as _, columns, event_status_columns, handler_columns, topic_columns};

/// How many parts that wait for a topic are loaded with it.
pub(crate) const WAITING: usize = 1_000;

/// The topics of these workflows, and some others.
macro_rules! these {
    () => {
        "(ARRAY(SELECT topic FROM subscriptions WHERE workflow = ANY($1)
                UNION SELECT id FROM topics WHERE workflow = ANY($1)
                UNION SELECT unnest($2::bigint[])))"
    };
}

macro_rules! locked_topics {
    ($how:literal) => {
        concat!(
            "SELECT ",
            topic_columns!(),
            " FROM topics t WHERE t.id = ANY",
            these!(),
            " ORDER BY t.id FOR UPDATE",
            $how
        )
    };
}

const TOPICS: &str = locked_topics!("");
const FREE_TOPICS: &str = locked_topics!(" SKIP LOCKED");
const SUBSCRIBERS: &str =
    concat!("SELECT topic, workflow, handler FROM subscriptions WHERE topic = ANY", these!());
/// Reads one more than [`WAITING`], which shows that there are more.
const WAITS: &str = sql!(
    "SELECT c.topic, c.run, c.step, c.item FROM unnest",
    these!(),
    " AS t (id) CROSS JOIN LATERAL (SELECT topic, run, step, item FROM waits WHERE topic = t.id AND item {a_part}
       ORDER BY run + 0, step + 0, item + 0 LIMIT 1001) c"
);
const HANDLERS: &str =
    concat!("SELECT ", handler_columns!(), " FROM handlers h WHERE h.workflow = ANY($1)");
const RESERVED: &str = sql!(
    "SELECT ",
    event_status_columns!(),
    " FROM events e WHERE e.run = ANY($1) AND e.state = {event_reserved}"
);
columns! {
    /// An event's status, and the message id by which it was asked for.
    published_columns = event_status_columns, message_id: "u.id"
}

/// Finds each event by its message id, whatever the planner estimates: on a young table it would
/// rather read all events of the topic.
const EVENT_STATUSES: &str = concat!(
    "SELECT ",
    published_columns!(),
    " FROM unnest($2::text[]) AS u (id)
     CROSS JOIN LATERAL (SELECT * FROM events WHERE topic = $1 AND message_id = u.id OFFSET 0) e"
);
/// Without a lock. Once the workflow is locked, it is checked again that the handler is due.
const DUE_HANDLERS: &str = "SELECT id, workflow FROM handlers WHERE due <= $1 AND due >= $3
     ORDER BY due, id + 0 LIMIT $2";
const HEARING: &str = "SELECT workflow, handler FROM subscriptions WHERE topic = ANY($1)";
const WAITING_RUNS: &str = "SELECT c.run FROM unnest($1::bigint[]) AS t (id)
     CROSS JOIN LATERAL (SELECT run FROM waits WHERE topic = t.id
       ORDER BY run + 0, step + 0, item + 0 LIMIT 1000) c";

/// The topics and handlers that were loaded.
#[derive(Default)]
pub(crate) struct LoadedTopics {
    /// Set-aside handlers: skipped if they cannot be read.
    pub(crate) set_aside: Arc<HashSet<Wakeup>>,
    /// Topics that this transaction has locked, or why they cannot be read.
    pub(crate) topics: ById<TopicId, Result<Topic, String>>,
    /// The same topics, by workflow and name.
    named: HashMap<(Option<WorkflowId>, String), TopicId>,
    /// The subscribers of these topics, in order.
    pub(crate) subscribers: ById<TopicId, Vec<Subscriber>>,
    /// The parts that wait for these topics, oldest run first: all of them, or the first ones and
    /// one more.
    pub(crate) waits: ById<TopicId, Vec<(RunKey, Part)>>,
    /// The events that runs have reserved, or why they cannot be read.
    pub(crate) reserved: ById<RunKey, Result<Vec<EventStatus>, String>>,
    /// The statuses of the events that a command publishes, by message id.
    pub(crate) event_statuses: Option<(TopicId, HashMap<String, EventStatus>)>,
    /// Handlers whose workflows this transaction has locked.
    pub(crate) handlers: ById<HandlerId, Handler>,
    /// All handlers of a workflow, by id.
    pub(crate) handlers_of: ById<WorkflowId, Vec<HandlerId>>,
}

impl LoadedTopics {
    /// The topic of this name, if it is locked.
    pub(crate) fn named(&self, workflow: Option<WorkflowId>, name: &str) -> Option<TopicId> {
        self.named.get(&(workflow, name.to_owned())).copied()
    }

    pub(crate) fn keep_handlers(
        &mut self,
        workflows: &[i64],
        found: &[Row],
    ) -> Result<(), Failure> {
        for workflow in workflows {
            self.handlers_of.insert(WorkflowId(*workflow), Vec::new());
        }
        for row in found {
            let what = Wakeup::Handler(row.read(handler_columns::id)?);
            let handler = match rows::handler(row) {
                Ok(handler) => handler,
                Err(_) if self.set_aside.contains(&what) => continue,
                Err(failure) => return Err(failure.about(Some(what))),
            };
            self.handlers_of.entry(handler.workflow).or_default().push(handler.id);
            self.handlers.insert(handler.id, handler);
        }
        for workflow in workflows {
            self.handlers_of.entry(WorkflowId(*workflow)).or_default().sort_unstable();
        }
        Ok(())
    }

    pub(crate) fn keep_reserved(&mut self, runs: &[i64], found: &[Row]) -> Result<(), Failure> {
        for run in runs {
            self.reserved.insert(RunKey(*run), Ok(Vec::new()));
        }
        for row in found {
            let Some(run) = row.read(event_status_columns::run)? else { continue };
            let reserved = self.reserved.entry(run).or_insert_with(|| Ok(Vec::new()));
            match rows::or_why(rows::event_status(row))? {
                Ok(status) => reserved.iter_mut().for_each(|known| known.push(status.clone())),
                Err(why) => *reserved = Err(why),
            }
        }
        Ok(())
    }

    /// Keeps topics that are locked, with their subscribers and waits.
    fn keep_topics(
        &mut self,
        topics: &[Row],
        subscribers: &[Row],
        waits: &[Row],
    ) -> Result<(), Failure> {
        for row in topics {
            let id = row.read(topic_columns::id)?;
            self.subscribers.insert(id, Vec::new());
            self.waits.insert(id, Vec::new());
            let topic = rows::or_why(rows::topic(row))?;
            if let Ok(topic) = &topic {
                self.named.insert((topic.workflow, topic.name.clone()), id);
            }
            self.topics.insert(id, topic);
        }
        for row in subscribers {
            let (topic, workflow, handler): (TopicId, _, _) = row.tuple()?;
            if let Some(known) = self.subscribers.get_mut(&topic) {
                known.push(rows::subscriber(workflow, handler));
            }
        }
        for row in waits {
            let (topic, run, step, item): (TopicId, _, _, _) = row.tuple()?;
            if let Some(known) = self.waits.get_mut(&topic) {
                known.push((run, Part { step, item }));
            }
        }
        for row in topics {
            let id: TopicId = row.read(topic_columns::id)?;
            self.subscribers.entry(id).or_default().sort_unstable();
            self.waits.entry(id).or_default().sort_unstable();
        }
        Ok(())
    }
}

/// What is loaded in one round trip, after the workflows are locked.
#[derive(Default)]
pub(crate) struct RelatedTopics {
    /// Their handlers and topics are loaded.
    pub(crate) workflows: Vec<i64>,
    pub(crate) topics: Vec<i64>,
    /// The events that these runs have reserved are loaded.
    pub(crate) runs: Vec<i64>,
}

impl RelatedTopics {
    pub(crate) fn is_empty(&self) -> bool {
        self.workflows.is_empty() && self.topics.is_empty() && self.runs.is_empty()
    }

    /// The queries. They wait for the topics' locks.
    pub(crate) fn ask(&self) -> Vec<Query> {
        let these = || vec![param(self.workflows.clone()), param(self.topics.clone())];
        vec![
            Query::new(TOPICS, these()),
            Query::new(SUBSCRIBERS, these()),
            Query::new(WAITS, these()),
            Query::new(HANDLERS, vec![param(self.workflows.clone())]),
            Query::new(RESERVED, vec![param(self.runs.clone())]),
        ]
    }

    pub(crate) fn keep(
        &self,
        loaded: &mut LoadedTopics,
        found: &[Vec<Row>],
    ) -> Result<(), Failure> {
        let [topics, subscribers, waits, handlers, reserved] = found else {
            return Err(Failure::Damaged("an answer is missing".to_owned()));
        };
        loaded.keep_topics(topics, subscribers, waits)?;
        loaded.keep_handlers(&self.workflows, handlers)?;
        loaded.keep_reserved(&self.runs, reserved)
    }
}

/// Loads and locks a topic if it is free. Returns whether it was.
pub(crate) fn free_topic(
    tx: &mut TxConnection,
    loaded: &mut LoadedTopics,
    id: TopicId,
) -> Result<bool, Failure> {
    let this = || vec![param(Vec::<i64>::new()), param(vec![id.0])];
    let found = tx.ask(vec![
        Query::new(FREE_TOPICS, this()),
        Query::new(SUBSCRIBERS, this()),
        Query::new(WAITS, this()),
    ])?;
    loaded.keep_topics(&found[0], &found[1], &found[2])?;
    Ok(!found[0].is_empty())
}

/// Loads the handlers of a workflow that is locked.
pub(crate) fn handlers(
    tx: &mut TxConnection,
    loaded: &mut LoadedTopics,
    workflow: WorkflowId,
) -> Result<(), Failure> {
    let found = tx.one(HANDLERS, vec![param(vec![workflow.0])])?;
    loaded.keep_handlers(&[workflow.0], &found)
}

pub(crate) fn reserved(
    tx: &mut TxConnection,
    loaded: &mut LoadedTopics,
    run: RunKey,
) -> Result<(), Failure> {
    let found = tx.one(RESERVED, vec![param(vec![run.0])])?;
    loaded.keep_reserved(&[run.0], &found)
}

/// The query for the statuses of the events with these message ids.
pub(crate) fn ask_event_statuses(topic: TopicId, message_ids: &[String]) -> Query {
    let storable = message_ids.iter().filter(|id| is_storable(id)).cloned();
    Query::new(EVENT_STATUSES, vec![param(topic.0), param(storable.collect::<Vec<String>>())])
}

/// The statuses of the events that were found, by message id.
pub(crate) fn event_statuses(answer: &[Row]) -> Result<HashMap<String, EventStatus>, Failure> {
    let status =
        |row: &Row| Ok((row.read(published_columns::message_id)?, rows::event_status(row)?));
    answer.iter().map(status).collect()
}

/// The query for due handlers and their workflows.
pub(crate) fn ask_due_handlers(now: i64, limit: i64, low: i64) -> Query {
    Query::new(DUE_HANDLERS, vec![param(now), param(limit), param(low)])
}

/// Workflows and runs that must be locked before these topics.
#[derive(Default)]
pub(crate) struct Subscribers {
    /// Workflows with a consumer of one of the topics.
    pub(crate) consuming: BTreeSet<i64>,
    /// Workflows with a trigger on one of the topics.
    pub(crate) triggered: BTreeSet<i64>,
    /// Runs with a step that waits for one of the topics.
    pub(crate) runs: BTreeSet<i64>,
}

pub(crate) fn listeners(tx: &mut TxConnection, topics: Vec<i64>) -> Result<Subscribers, Failure> {
    let found = tx.ask(vec![
        Query::new(HEARING, vec![param(topics.clone())]),
        Query::new(WAITING_RUNS, vec![param(topics)]),
    ])?;
    let mut listeners = Subscribers::default();
    for row in &found[0] {
        let (workflow, handler) = row.tuple()?;
        match rows::subscriber(workflow, handler) {
            Subscriber::Consumer(workflow, _) => listeners.consuming.insert(workflow.0),
            Subscriber::Triggers(workflow) => listeners.triggered.insert(workflow.0),
        };
    }
    for row in &found[1] {
        listeners.runs.insert(row.single()?);
    }
    Ok(listeners)
}
