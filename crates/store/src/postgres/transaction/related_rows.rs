//! Loads and locks the workflows of a transaction's schedules and runs, and the topics of workflows
//! with handlers. These locks come after those of schedules and runs.

use std::collections::BTreeSet;

use engine::turn::Wakeup;
use engine::{HandlerId, TopicId, WorkflowId};
use tokio_postgres::Row;

use crate::failure::Failure;
use crate::postgres::connections::tx_connection::{Query, param};
use crate::postgres::transaction::load;
use crate::postgres::transaction::reader::{PgTransactionReader, ask_event_block, first};
use crate::postgres::transaction::topic_load::{self, RelatedTopics, Subscribers};
use crate::rows::Row as _;
use crate::stored::ms;

/// The table is nearly always empty; the first condition then saves the lookup of each schedule.
const OUTDATED: &str = "SELECT schedule FROM outdated
     WHERE EXISTS (SELECT 1 FROM outdated) AND schedule = ANY($1) ORDER BY schedule";

/// What a transaction needs besides schedules and runs.
#[derive(Default)]
pub(crate) struct Related {
    /// Handlers that may be due, with their workflows.
    pub(crate) handlers: Vec<(HandlerId, WorkflowId)>,
    /// The topic that events are published to, and their message ids.
    pub(crate) published: Option<(TopicId, Vec<String>)>,
    /// The subscribers of the topics that are needed.
    pub(crate) listeners: Subscribers,
    /// Workflows of which a pending run may begin.
    pub(crate) pending: Vec<i64>,
}

impl Related {
    /// Keeps the answer to [`topic_load::ask_due_handlers`].
    pub(crate) fn keep_due(&mut self, found: &[Row]) -> Result<(), Failure> {
        self.handlers = found.iter().map(|row| row.tuple()).collect::<Result<_, Failure>>()?;
        Ok(())
    }

    /// The handlers that are still due, now that they are locked.
    pub(crate) fn still_due(
        &self,
        reader: &PgTransactionReader<'_>,
        now: i64,
    ) -> Vec<(i64, Wakeup)> {
        let due = |(id, _): &(HandlerId, WorkflowId)| {
            let due = ms(reader.loaded.topics.handlers.get(id)?.due()?);
            (due <= now).then_some((due, Wakeup::Handler(*id)))
        };
        self.handlers.iter().filter_map(due).collect()
    }
}

/// Loads and locks workflows and topics, and loads the overrides of the loaded schedules.
pub(crate) fn prefetch_related(
    reader: &mut PgTransactionReader<'_>,
    about: &Related,
) -> Result<(), Failure> {
    let handling = handling(reader, about);
    let listeners = &about.listeners;
    let loaded = &reader.loaded;
    let mut workflows: BTreeSet<i64> = loaded.schedules.values().map(|s| s.workflow.0).collect();
    workflows.extend(loaded.runs.values().map(|run| run.workflow.0));
    workflows.extend(handling.iter().chain(&listeners.consuming).chain(&listeners.triggered));
    workflows.extend(reader.needs.workflows.iter().chain(&reader.needs.own).chain(&about.pending));
    let of_handlers = loaded.runs.values().filter(|run| run.handler.is_some());
    let related = RelatedTopics {
        runs: of_handlers.map(|run| run.key.0).collect(),
        topics: reader.needs.topics.iter().copied().collect(),
        workflows: handling.union(&listeners.consuming).copied().collect(),
    };
    if workflows.is_empty() && related.is_empty() {
        return Ok(());
    }
    let mut overridden: Vec<i64> = loaded
        .schedules
        .values()
        .filter(|schedule| schedule.progress.has_overrides)
        .map(|schedule| schedule.id.0)
        .collect();
    overridden.sort_unstable();
    let is_alone = !reader.needs.own.is_empty();
    let ids: Vec<i64> = workflows.iter().copied().collect();
    let mut queries: Vec<Query> = load::ask_workflows(ids, is_alone).into();
    queries.push(load::ask_overrides(overridden.clone()));
    queries.push(Query::new(
        OUTDATED,
        vec![param(reader.loaded.locked.iter().map(|id| id.0).collect::<Vec<i64>>())],
    ));
    if !related.is_empty() {
        queries.extend(related.ask());
    }
    if let Some((topic, message_ids)) = &about.published {
        // Asked after the topic is locked, so that event keys increase in the order of commits.
        queries.extend([topic_load::ask_event_statuses(*topic, message_ids), ask_event_block()]);
    }
    let found = reader.tx.ask(queries)?;
    let [unlimited, limited, overrides, outdated, others @ ..] = &found[..] else {
        return Err(Failure::Damaged("an answer is missing".to_owned()));
    };
    if is_alone {
        load::keep_workflows(&mut reader.loaded, &[], unlimited)?;
        load::keep_workflows(&mut reader.loaded, &[], limited)?;
    } else {
        load::keep_workflows(&mut reader.loaded, unlimited, limited)?;
    }
    let is_unknown = |id: &i64| !reader.loaded.workflows.contains_key(&WorkflowId(*id));
    let unknown: Vec<i64> = workflows.into_iter().filter(is_unknown).collect();
    if !unknown.is_empty() {
        // A workflow gained or lost its concurrency limit between the two statements, so neither
        // returned it.
        load::own_workflows(reader.tx, &mut reader.loaded, unknown)?;
    }
    load::keep_overrides(&mut reader.loaded, &overridden, overrides)?;
    for row in outdated {
        reader.loaded.outdated.push(row.single()?);
    }
    let (topics, events) = match (&about.published, others) {
        (Some((topic, _)), [topics @ .., statuses, block]) => {
            (topics, Some((*topic, statuses, block)))
        }
        _ => (others, None),
    };
    if !related.is_empty() {
        related.keep(&mut reader.loaded.topics, topics)?;
        reader.loaded.forget_others_handlers(&related.workflows);
    }
    if let Some((topic, statuses, block)) = events {
        let statuses = topic_load::event_statuses(statuses)?;
        reader.loaded.topics.event_statuses = Some((topic, statuses));
        reader.take_event_block(first(block)?.unwrap_or_default());
    }
    Ok(())
}

/// The subscribers that must be locked before the topics that are needed. Their runs are added to
/// the needs, so that they are locked with the other runs.
pub(crate) fn find_listeners(reader: &mut PgTransactionReader<'_>) -> Result<Subscribers, Failure> {
    if reader.needs.topics.is_empty() {
        return Ok(Subscribers::default());
    }
    let topics = reader.needs.topics.iter().copied().collect();
    let listeners = topic_load::listeners(reader.tx, topics)?;
    reader.needs.runs.extend(&listeners.runs);
    Ok(listeners)
}

/// The workflows whose handlers the engine will look at.
fn handling(reader: &PgTransactionReader<'_>, about: &Related) -> BTreeSet<i64> {
    let loaded = &reader.loaded;
    let runs = loaded.runs.values().filter(|run| run.handler.is_some());
    let schedules = loaded.schedules.values().filter(|schedule| schedule.producer().is_some());
    let due = about.handlers.iter().map(|(_, workflow)| workflow.0);
    let runs = runs.map(|run| run.workflow.0);
    runs.chain(schedules.map(|schedule| schedule.workflow.0)).chain(due).collect()
}
