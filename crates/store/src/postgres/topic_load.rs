//! What a transaction loads of topics and handlers, in bulk. The lock of a workflow is that of its handlers; the lock
//! of a topic is that of its events, and of what waits for them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use engine::handlers::Handler;
use engine::run::Part;
use engine::topics::{Fate, Subscriber, Topic};
use engine::turn::{ById, Wakeup};
use engine::{HandlerId, RunKey, TopicId, WorkflowId};
use tokio_postgres::Row;

use super::columns::{of_fate, of_handler, of_topic};
use super::link::{Asked, Link, param};
use super::reader::is_storable;
use super::rows::{get, small};
use super::topic_rows::{self, FATE_COLUMNS};
use crate::failure::Failure;

/// So many parts that wait for a topic are loaded with it.
pub(super) const WAITING: usize = 1_000;

/// The topics of some workflows, and others.
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
            of_topic!(),
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
/// One more than are kept.
const WAITS: &str = concat!(
    "SELECT c.topic, c.run, c.step, c.item FROM unnest",
    these!(),
    " AS t (id) CROSS JOIN LATERAL (SELECT topic, run, step, item FROM waits WHERE topic = t.id
       ORDER BY run + 0, step + 0, item + 0 LIMIT 1001) c"
);
const HANDLERS: &str =
    concat!("SELECT ", of_handler!(), " FROM handlers h WHERE h.workflow = ANY($1)");
const RESERVED: &str =
    concat!("SELECT ", of_fate!(), " FROM events e WHERE e.run = ANY($1) AND e.state = 1");
/// One by one by its id, whatever the planner believes: of a young table it believes that reading all events of the
/// topic costs less.
const FATES: &str = concat!(
    "SELECT ",
    of_fate!(),
    ", u.id FROM unnest($2::text[]) AS u (id)
     CROSS JOIN LATERAL (SELECT * FROM events WHERE topic = $1 AND message_id = u.id OFFSET 0) e"
);
/// Without a lock: what has changed when its workflow is locked is not due any more.
const DUE_HANDLERS: &str = "SELECT id, workflow FROM handlers WHERE due <= $1 AND due >= $3
     ORDER BY due, id + 0 LIMIT $2";
const HEARING: &str = "SELECT workflow, handler FROM subscriptions WHERE topic = ANY($1)";
const WAITING_RUNS: &str = "SELECT c.run FROM unnest($1::bigint[]) AS t (id)
     CROSS JOIN LATERAL (SELECT run FROM waits WHERE topic = t.id
       ORDER BY run + 0, step + 0, item + 0 LIMIT 1000) c";

/// What has been loaded.
#[derive(Default)]
pub(super) struct LoadedTopics {
    /// What is passed over if it cannot be read.
    pub(super) set_aside: Arc<HashSet<Wakeup>>,
    /// Topics whose lock is ours.
    pub(super) topics: ById<TopicId, Topic>,
    /// The same, by workflow and name.
    named: HashMap<(Option<WorkflowId>, String), TopicId>,
    /// Who hears of these, in order.
    pub(super) subscribers: ById<TopicId, Vec<Subscriber>>,
    /// What waits for these, the oldest run first: all of it, or the first and one more.
    pub(super) waits: ById<TopicId, Vec<(RunKey, Part)>>,
    /// What runs have reserved.
    pub(super) reserved: ById<RunKey, Vec<Fate>>,
    /// What has become of the events that a command publishes.
    pub(super) fates: Option<(TopicId, HashMap<String, Fate>)>,
    /// Handlers whose workflows' locks are ours.
    pub(super) handlers: ById<HandlerId, Handler>,
    /// All of a workflow, by id.
    pub(super) handlers_of: ById<WorkflowId, Vec<HandlerId>>,
}

impl LoadedTopics {
    /// The topic of this name, if its lock is ours.
    pub(super) fn named(&self, workflow: Option<WorkflowId>, name: &str) -> Option<TopicId> {
        self.named.get(&(workflow, name.to_owned())).copied()
    }

    pub(super) fn keep_handlers(
        &mut self,
        workflows: &[i64],
        found: &[Row],
    ) -> Result<(), Failure> {
        for workflow in workflows {
            self.handlers_of.insert(WorkflowId(*workflow), Vec::new());
        }
        for row in found {
            let what = Wakeup::Handler(HandlerId(get(row, 0)?));
            let handler = match topic_rows::handler(row) {
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

    pub(super) fn keep_reserved(&mut self, runs: &[i64], found: &[Row]) -> Result<(), Failure> {
        for run in runs {
            self.reserved.insert(RunKey(*run), Vec::new());
        }
        for row in found {
            let fate = topic_rows::fate(row)?;
            if let Some(run) = fate.run {
                self.reserved.entry(run).or_default().push(fate);
            }
        }
        Ok(())
    }

    /// Topics with their locks, who hears of them, and what waits for them.
    fn keep_topics(
        &mut self,
        topics: &[Row],
        subscribers: &[Row],
        waits: &[Row],
    ) -> Result<(), Failure> {
        for row in topics {
            let topic = topic_rows::topic(row)?;
            self.subscribers.insert(topic.id, Vec::new());
            self.waits.insert(topic.id, Vec::new());
            self.named.insert((topic.workflow, topic.name.clone()), topic.id);
            self.topics.insert(topic.id, topic);
        }
        for row in subscribers {
            if let Some(known) = self.subscribers.get_mut(&TopicId(get(row, 0)?)) {
                known.push(topic_rows::subscriber(row, [1, 2])?);
            }
        }
        for row in waits {
            if let Some(known) = self.waits.get_mut(&TopicId(get(row, 0)?)) {
                let part = Part { step: small(row, 2)?, item: get::<i32>(row, 3)?.into() };
                known.push((RunKey(get(row, 1)?), part));
            }
        }
        for row in topics {
            let id = TopicId(get(row, 0)?);
            self.subscribers.entry(id).or_default().sort_unstable();
            self.waits.entry(id).or_default().sort_unstable();
        }
        Ok(())
    }
}

/// What is loaded in one go, after the workflows' locks.
#[derive(Default)]
pub(super) struct Around {
    /// The handlers of these, and their topics.
    pub(super) workflows: Vec<i64>,
    /// Other topics.
    pub(super) topics: Vec<i64>,
    /// What these have reserved.
    pub(super) runs: Vec<i64>,
}

impl Around {
    pub(super) fn is_empty(&self) -> bool {
        self.workflows.is_empty() && self.topics.is_empty() && self.runs.is_empty()
    }

    /// Waits for the topics.
    pub(super) fn ask(&self) -> Vec<Asked> {
        let these = || vec![param(self.workflows.clone()), param(self.topics.clone())];
        vec![
            Asked::new(TOPICS, these()),
            Asked::new(SUBSCRIBERS, these()),
            Asked::new(WAITS, these()),
            Asked::new(HANDLERS, vec![param(self.workflows.clone())]),
            Asked::new(RESERVED, vec![param(self.runs.clone())]),
        ]
    }

    pub(super) fn keep(
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

/// A topic, if it is free.
pub(super) fn free_topic(
    link: &mut Link,
    loaded: &mut LoadedTopics,
    id: TopicId,
) -> Result<bool, Failure> {
    let this = || vec![param(Vec::<i64>::new()), param(vec![id.0])];
    let found = link.ask(vec![
        Asked::new(FREE_TOPICS, this()),
        Asked::new(SUBSCRIBERS, this()),
        Asked::new(WAITS, this()),
    ])?;
    loaded.keep_topics(&found[0], &found[1], &found[2])?;
    Ok(!found[0].is_empty())
}

/// Handlers of workflows whose locks are ours.
pub(super) fn handlers(
    link: &mut Link,
    loaded: &mut LoadedTopics,
    workflow: WorkflowId,
) -> Result<(), Failure> {
    let found = link.one(HANDLERS, vec![param(vec![workflow.0])])?;
    loaded.keep_handlers(&[workflow.0], &found)
}

pub(super) fn reserved(
    link: &mut Link,
    loaded: &mut LoadedTopics,
    run: RunKey,
) -> Result<(), Failure> {
    let found = link.one(RESERVED, vec![param(vec![run.0])])?;
    loaded.keep_reserved(&[run.0], &found)
}

/// What has become of the events with these message ids is asked for.
pub(super) fn ask_fates(topic: TopicId, message_ids: &[String]) -> Asked {
    let storable = message_ids.iter().filter(|id| is_storable(id)).cloned();
    Asked::new(FATES, vec![param(topic.0), param(storable.collect::<Vec<String>>())])
}

pub(super) fn fates(found: &[Row]) -> Result<HashMap<String, Fate>, Failure> {
    let fate = |row: &Row| Ok((get(row, FATE_COLUMNS)?, topic_rows::fate(row)?));
    found.iter().map(fate).collect()
}

/// Handlers that are due are asked for: which, and of which workflow.
pub(super) fn ask_due_handlers(now: i64, limit: i64, low: i64) -> Asked {
    Asked::new(DUE_HANDLERS, vec![param(now), param(limit), param(low)])
}

/// Who is to be locked before these topics.
#[derive(Default)]
pub(super) struct Hearing {
    /// Workflows with a consumer.
    pub(super) consuming: BTreeSet<i64>,
    /// Workflows with a trigger.
    pub(super) triggered: BTreeSet<i64>,
    /// Runs with a step that waits.
    pub(super) runs: BTreeSet<i64>,
}

pub(super) fn hearing(link: &mut Link, topics: Vec<i64>) -> Result<Hearing, Failure> {
    let found = link.ask(vec![
        Asked::new(HEARING, vec![param(topics.clone())]),
        Asked::new(WAITING_RUNS, vec![param(topics)]),
    ])?;
    let mut hearing = Hearing::default();
    for row in &found[0] {
        match topic_rows::subscriber(row, [0, 1])? {
            Subscriber::Consumer(workflow, _) => hearing.consuming.insert(workflow.0),
            Subscriber::Triggers(workflow) => hearing.triggered.insert(workflow.0),
        };
    }
    for row in &found[1] {
        hearing.runs.insert(get(row, 0)?);
    }
    Ok(hearing)
}
