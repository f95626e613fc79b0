//! Loads and locks the workflows of a transaction's schedules and runs, and the topics of workflows
//! with handlers. These locks come after those of schedules and runs.

use std::collections::BTreeSet;

use engine::turn::Wakeup;
use engine::{HandlerId, ScheduleId, TopicId, WorkflowId};
use tokio_postgres::Row;

use crate::failure::Failure;
use crate::postgres::connections::transaction_connection::{Asked, param};
use crate::postgres::rows::decode::get;
use crate::postgres::transaction::load;
use crate::postgres::transaction::reader::{PgBook, ask_event_block, first};
use crate::postgres::transaction::topic_load::{self, Around, Hearing};
use crate::stored::ms;

/// The table is nearly always empty; the first condition then saves the lookup of each schedule.
const OUTDATED: &str = "SELECT schedule FROM outdated
     WHERE EXISTS (SELECT 1 FROM outdated) AND schedule = ANY($1) ORDER BY schedule";

/// What a transaction needs besides schedules and runs.
#[derive(Default)]
pub(crate) struct About {
    /// Handlers that may be due, with their workflows.
    pub(crate) handlers: Vec<(HandlerId, WorkflowId)>,
    /// The topic that events are published to, and their message ids.
    pub(crate) published: Option<(TopicId, Vec<String>)>,
    /// The subscribers of the topics that are needed.
    pub(crate) hearing: Hearing,
    /// Workflows of which a pending run may begin.
    pub(crate) pending: Vec<i64>,
}

impl About {
    /// Keeps the answer to [`topic_load::ask_due_handlers`].
    pub(crate) fn keep_due(&mut self, found: &[Row]) -> Result<(), Failure> {
        let handler = |row: &Row| Ok((HandlerId(get(row, 0)?), WorkflowId(get(row, 1)?)));
        self.handlers = found.iter().map(handler).collect::<Result<_, Failure>>()?;
        Ok(())
    }

    /// The handlers that are still due, now that they are locked.
    pub(crate) fn still_due(&self, book: &PgBook<'_>, now: i64) -> Vec<(i64, Wakeup)> {
        let due = |(id, _): &(HandlerId, WorkflowId)| {
            let due = ms(book.loaded.topics.handlers.get(id)?.due()?);
            (due <= now).then_some((due, Wakeup::Handler(*id)))
        };
        self.handlers.iter().filter_map(due).collect()
    }
}

/// Loads and locks workflows and topics, and loads the overrides of the loaded schedules.
pub(crate) fn prefetch_around(book: &mut PgBook<'_>, about: &About) -> Result<(), Failure> {
    let handling = handling(book, about);
    let hearing = &about.hearing;
    let loaded = &book.loaded;
    let mut workflows: BTreeSet<i64> = loaded.schedules.values().map(|s| s.workflow.0).collect();
    workflows.extend(loaded.runs.values().map(|run| run.workflow.0));
    workflows.extend(handling.iter().chain(&hearing.consuming).chain(&hearing.triggered));
    workflows.extend(book.needs.workflows.iter().chain(&book.needs.own).chain(&about.pending));
    let of_handlers = loaded.runs.values().filter(|run| run.handler.is_some());
    let around = Around {
        runs: of_handlers.map(|run| run.key.0).collect(),
        topics: book.needs.topics.iter().copied().collect(),
        workflows: handling.union(&hearing.consuming).copied().collect(),
    };
    if workflows.is_empty() && around.is_empty() {
        return Ok(());
    }
    let mut overridden: Vec<i64> = loaded
        .schedules
        .values()
        .filter(|schedule| schedule.progress.has_overrides)
        .map(|schedule| schedule.id.0)
        .collect();
    overridden.sort_unstable();
    let is_alone = !book.needs.own.is_empty();
    let ids: Vec<i64> = workflows.iter().copied().collect();
    let mut asked: Vec<Asked> = load::ask_workflows(ids, is_alone).into();
    asked.push(load::ask_overrides(overridden.clone()));
    asked.push(Asked::new(
        OUTDATED,
        vec![param(book.loaded.locked.iter().map(|id| id.0).collect::<Vec<i64>>())],
    ));
    let topics_at = asked.len();
    if !around.is_empty() {
        asked.extend(around.ask());
    }
    let events_at = asked.len();
    if let Some((topic, message_ids)) = &about.published {
        // Asked after the topic is locked, so that event keys increase in the order of commits.
        asked.extend([topic_load::ask_fates(*topic, message_ids), ask_event_block()]);
    }
    let found = book.link.ask(asked)?;
    match is_alone {
        false => load::keep_workflows(&mut book.loaded, &found[0], &found[1])?,
        true => found[..2]
            .iter()
            .try_for_each(|owned| load::keep_workflows(&mut book.loaded, &[], owned))?,
    }
    let is_unknown = |id: &i64| !book.loaded.workflows.contains_key(&WorkflowId(*id));
    let unknown: Vec<i64> = workflows.into_iter().filter(is_unknown).collect();
    if !unknown.is_empty() {
        // A workflow gained or lost its concurrency limit between the two statements, so neither
        // returned it.
        load::own_workflows(book.link, &mut book.loaded, unknown)?;
    }
    load::keep_overrides(&mut book.loaded, &overridden, &found[2])?;
    for row in &found[3] {
        book.loaded.outdated.push(ScheduleId(get(row, 0)?));
    }
    if !around.is_empty() {
        around.keep(&mut book.loaded.topics, &found[topics_at..events_at])?;
        book.loaded.forget_others_handlers(&around.workflows);
    }
    if let Some((topic, _)) = &about.published {
        book.loaded.topics.fates = Some((*topic, topic_load::fates(&found[events_at])?));
        let block = first(&found[events_at + 1])?;
        book.take_event_block(block.unwrap_or_default());
    }
    Ok(())
}

/// The subscribers that must be locked before the topics that are needed. Their runs are added to
/// the needs, so that they are locked with the other runs.
pub(crate) fn hear(book: &mut PgBook<'_>) -> Result<Hearing, Failure> {
    if book.needs.topics.is_empty() {
        return Ok(Hearing::default());
    }
    let topics = book.needs.topics.iter().copied().collect();
    let hearing = topic_load::hearing(book.link, topics)?;
    book.needs.runs.extend(&hearing.runs);
    Ok(hearing)
}

/// The workflows whose handlers the engine will look at.
fn handling(book: &PgBook<'_>, about: &About) -> BTreeSet<i64> {
    let loaded = &book.loaded;
    let runs = loaded.runs.values().filter(|run| run.handler.is_some());
    let produces = |trigger: &String| trigger.starts_with("producers.");
    let schedules = loaded.schedules.values().filter(|s| s.trigger.as_ref().is_some_and(produces));
    let due = about.handlers.iter().map(|(_, workflow)| workflow.0);
    let runs = runs.map(|run| run.workflow.0);
    runs.chain(schedules.map(|schedule| schedule.workflow.0)).chain(due).collect()
}
