//! Conversion of rows of topics, events, handlers and mutations into the engine's types.

use engine::handlers::{Cause, Handler, Mutation, MutationStatus};
use engine::run::Ending;
use engine::topics::{Counts, Event, EventState, EventStatus, Message, Topic};
use engine::{EventKey, HandlerId, RunKey, TopicId, WorkflowId};
use language::definition::HandlerKind;
use rusqlite::Row;
use serde_json::value::RawValue;

use crate::sqlite::rows::decode::{coded, instant, maybe_instant, maybe_json, raw};

type Read<T> = Result<T, rusqlite::Error>;

fn maybe_coded<T: Copy>(row: &Row<'_>, column: usize, all: &[T]) -> Read<Option<T>> {
    match row.get::<_, Option<i64>>(column)? {
        None => Ok(None),
        Some(_) => coded(row, column, all).map(Some),
    }
}

fn maybe_run(row: &Row<'_>, column: usize) -> Read<Option<RunKey>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(RunKey))
}

pub(crate) const TOPIC: &str = "t.id, t.workflow, t.name, t.max_attempts, t.pending, t.reserved, \
     t.consumed, t.skipped, t.created_at";
/// How many columns a topic has.
pub(crate) const TOPIC_COLUMNS: usize = 9;

pub(crate) fn topic(row: &Row<'_>) -> Read<Topic> {
    Ok(Topic {
        id: TopicId(row.get(0)?),
        workflow: row.get::<_, Option<i64>>(1)?.map(WorkflowId),
        name: row.get(2)?,
        max_attempts: row.get(3)?,
        counts: Counts {
            pending: row.get(4)?,
            reserved: row.get(5)?,
            consumed: row.get(6)?,
            skipped: row.get(7)?,
        },
        created_at: instant(row, 8)?,
    })
}

pub(crate) const FATE: &str = "e.key, e.topic, e.state, e.attempt, e.run, e.reason, e.updated_at, \
     e.hops";

pub(crate) fn fate(row: &Row<'_>) -> Read<EventStatus> {
    Ok(EventStatus {
        key: EventKey(row.get(0)?),
        topic: TopicId(row.get(1)?),
        state: coded(row, 2, &EventState::ALL)?,
        attempt: row.get(3)?,
        run: maybe_run(row, 4)?,
        reason: row.get(5)?,
        updated_at: instant(row, 6)?,
        hops: row.get(7)?,
    })
}

/// Begins with the columns of [`FATE`]; `m` is the row of `messages`.
pub(crate) const EVENT: &str = "e.key, e.topic, e.state, e.attempt, e.run, e.reason, \
     e.updated_at, e.hops, e.created_at, e.message_id, m.title, m.payload, m.causes";
/// How many columns an event has.
pub(crate) const EVENT_COLUMNS: usize = 13;

pub(crate) fn event(row: &Row<'_>) -> Read<Event> {
    Ok(Event {
        message: Message {
            message_id: row.get(9)?,
            title: row.get(10)?,
            payload: raw(row, 11)?.unwrap_or_else(|| RawValue::NULL.to_owned()),
            causes: maybe_json(row, 12)?.unwrap_or_default(),
        },
        fate: fate(row)?,
        created_at: instant(row, 8)?,
    })
}

pub(crate) const HANDLER: &str = "h.id, h.workflow, h.name, h.kind, h.state, h.cause, h.wake_at, \
     h.retry_at, h.failures, h.resumes, h.run, h.last_run_at, h.last_outcome, h.runs";
/// How many columns a handler has.
pub(crate) const HANDLER_COLUMNS: usize = 14;

pub(crate) fn handler(row: &Row<'_>) -> Read<Handler> {
    Ok(Handler {
        id: HandlerId(row.get(0)?),
        workflow: WorkflowId(row.get(1)?),
        name: row.get(2)?,
        kind: coded(row, 3, &HandlerKind::ALL)?,
        state: raw(row, 4)?.unwrap_or_else(|| RawValue::NULL.to_owned()),
        cause: maybe_coded(row, 5, &Cause::ALL)?,
        wake_at: maybe_instant(row, 6)?,
        retry_at: maybe_instant(row, 7)?,
        failures: row.get(8)?,
        resumes: maybe_run(row, 9)?,
        run: maybe_run(row, 10)?,
        last_run_at: maybe_instant(row, 11)?,
        last_outcome: maybe_coded(row, 12, &Ending::ALL)?,
        runs: row.get(13)?,
    })
}

pub(crate) const MUTATION: &str =
    "m.run, m.workflow, m.handler, m.status, m.started_at, m.updated_at, m.said_by, m.note";
/// How many columns a mutation has.
pub(crate) const MUTATION_COLUMNS: usize = 8;

pub(crate) fn mutation(row: &Row<'_>) -> Read<Mutation> {
    Ok(Mutation {
        run: RunKey(row.get(0)?),
        workflow: WorkflowId(row.get(1)?),
        handler: row.get(2)?,
        status: coded(row, 3, &MutationStatus::ALL)?,
        started_at: instant(row, 4)?,
        updated_at: instant(row, 5)?,
        said_by: row.get(6)?,
        note: row.get(7)?,
    })
}
