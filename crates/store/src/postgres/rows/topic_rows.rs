//! Conversion of rows of topics, events, handlers and mutations into the engine's types.

use engine::handlers::{Cause, Handler, Mutation, MutationStatus};
use engine::run::Ending;
use engine::topics::{Counts, Event, EventState, EventStatus, Message, Subscriber, Topic};
use engine::{EventKey, HandlerId, RunKey, TopicId, WorkflowId};
use language::definition::HandlerKind;
use serde_json::value::RawValue;
use tokio_postgres::Row;

use crate::failure::Failure;
use crate::postgres::rows::decode::{
    coded, damaged, get, instant, maybe_instant, maybe_json, natural, raw, small,
};

type Read<T> = Result<T, Failure>;

/// A member of a fixed set; `None` for NULL.
fn maybe_coded<T: Copy>(row: &Row, column: usize, all: &[T]) -> Read<Option<T>> {
    match get::<Option<i16>>(row, column)? {
        None => Ok(None),
        Some(_) => coded(row, column, all).map(Some),
    }
}

fn maybe_run(row: &Row, column: usize) -> Read<Option<RunKey>> {
    Ok(get::<Option<i64>>(row, column)?.map(RunKey))
}

fn needed(row: &Row, column: usize) -> Read<Box<RawValue>> {
    raw(row, column)?.ok_or_else(|| damaged(column, "nothing"))
}

/// How many columns a topic has.
pub(crate) const TOPIC_COLUMNS: usize = 9;

pub(crate) fn topic(row: &Row) -> Read<Topic> {
    Ok(Topic {
        id: TopicId(get(row, 0)?),
        workflow: get::<Option<i64>>(row, 1)?.map(WorkflowId),
        name: get(row, 2)?,
        max_attempts: small(row, 3)?,
        counts: Counts {
            pending: natural(row, 4)?,
            reserved: natural(row, 5)?,
            consumed: natural(row, 6)?,
            skipped: natural(row, 7)?,
        },
        created_at: instant(row, 8)?,
    })
}

/// How many columns a fate has.
pub(crate) const FATE_COLUMNS: usize = 8;

pub(crate) fn fate(row: &Row) -> Read<EventStatus> {
    Ok(EventStatus {
        key: EventKey(get(row, 0)?),
        topic: TopicId(get(row, 1)?),
        state: coded(row, 2, &EventState::ALL)?,
        attempt: small(row, 3)?,
        run: maybe_run(row, 4)?,
        reason: get(row, 5)?,
        updated_at: instant(row, 6)?,
        hops: hops(row, 7)?,
    })
}

fn hops(row: &Row, column: usize) -> Read<u8> {
    let hops: i16 = get(row, column)?;
    u8::try_from(hops).map_err(|error| damaged(column, error))
}

/// How many columns an event has.
pub(crate) const EVENT_COLUMNS: usize = 13;

pub(crate) fn event(row: &Row) -> Read<Event> {
    Ok(Event {
        fate: fate(row)?,
        created_at: instant(row, 8)?,
        message: Message {
            message_id: get(row, 9)?,
            title: get(row, 10)?,
            payload: needed(row, 11)?,
            causes: maybe_json(row, 12)?.unwrap_or_default(),
        },
    })
}

/// How many columns a handler has.
pub(crate) const HANDLER_COLUMNS: usize = 14;

pub(crate) fn handler(row: &Row) -> Read<Handler> {
    Ok(Handler {
        id: HandlerId(get(row, 0)?),
        workflow: WorkflowId(get(row, 1)?),
        name: get(row, 2)?,
        kind: coded(row, 3, &HandlerKind::ALL)?,
        state: needed(row, 4)?,
        cause: maybe_coded(row, 5, &Cause::ALL)?,
        wake_at: maybe_instant(row, 6)?,
        retry_at: maybe_instant(row, 7)?,
        failures: small(row, 8)?,
        resumes: maybe_run(row, 9)?,
        run: maybe_run(row, 10)?,
        last_run_at: maybe_instant(row, 11)?,
        last_outcome: maybe_coded(row, 12, &Ending::ALL)?,
        runs: natural(row, 13)?,
    })
}

/// The handler id that stands for a workflow's triggers.
const TRIGGERS: i64 = 0;

/// A subscriber, from the columns `workflow` and `handler` at these indexes.
pub(crate) fn subscriber(row: &Row, [workflow, handler]: [usize; 2]) -> Read<Subscriber> {
    let workflow = WorkflowId(get(row, workflow)?);
    Ok(match get(row, handler)? {
        TRIGGERS => Subscriber::Triggers(workflow),
        id => Subscriber::Consumer(workflow, HandlerId(id)),
    })
}

/// The stored workflow and handler ids of a subscriber.
pub(crate) fn stored_subscriber(subscriber: Subscriber) -> (i64, i64) {
    match subscriber {
        Subscriber::Consumer(workflow, handler) => (workflow.0, handler.0),
        Subscriber::Triggers(workflow) => (workflow.0, TRIGGERS),
    }
}

/// How many columns a mutation has.
pub(crate) const MUTATION_COLUMNS: usize = 8;

pub(crate) fn mutation(row: &Row) -> Read<Mutation> {
    Ok(Mutation {
        run: RunKey(get(row, 0)?),
        workflow: WorkflowId(get(row, 1)?),
        handler: get(row, 2)?,
        status: coded(row, 3, &MutationStatus::ALL)?,
        started_at: instant(row, 4)?,
        updated_at: instant(row, 5)?,
        said_by: get(row, 6)?,
        note: get(row, 7)?,
    })
}
