//! Topics, their events and subscribers, handlers and their mutations.

use engine::handlers::{Handler, Mutation};
use engine::topics::{Counts, Event, EventState, EventStatus, Message, Subscriber, Topic};
use engine::{HandlerId, WorkflowId};

use crate::rows::{Read, Row, columns};
use crate::set_aside::if_readable;

columns! {
    topic_columns = t topics: id, workflow, name, max_attempts, pending, reserved, consumed,
        skipped, created_at;
}

pub(crate) fn topic(row: &impl Row) -> Read<Topic> {
    use topic_columns as column;
    Ok(Topic {
        id: row.read(column::id)?,
        workflow: row.read(column::workflow)?,
        name: row.read(column::name)?,
        max_attempts: row.read(column::max_attempts)?,
        counts: Counts {
            pending: row.read(column::pending)?,
            reserved: row.read(column::reserved)?,
            consumed: row.read(column::consumed)?,
            skipped: row.read(column::skipped)?,
        },
        created_at: row.read(column::created_at)?,
    })
}

columns! {
    /// The state of an event.
    event_status_columns = e events: key, topic, state, attempt, run, reason, updated_at, hops;
}

pub(crate) fn event_status(row: &impl Row) -> Read<EventStatus> {
    event_status_in(row, row.read(event_status_columns::state)?)
}

/// The status of an event that is in this state, whatever its row says.
pub(crate) fn event_status_in(row: &impl Row, state: EventState) -> Read<EventStatus> {
    use event_status_columns as column;
    Ok(EventStatus {
        key: row.read(column::key)?,
        topic: row.read(column::topic)?,
        state,
        attempt: row.read(column::attempt)?,
        run: row.read(column::run)?,
        reason: row.read(column::reason)?,
        updated_at: row.read(column::updated_at)?,
        hops: row.read(column::hops)?,
    })
}

columns! {
    /// An event's status, then its message.
    event_columns = event_status_columns,
        created_at: "e.created_at",
        message_id: "e.message_id",
        title: "m.title",
        payload: "m.payload",
        causes: "m.causes",
}

pub(crate) fn event(row: &impl Row) -> Read<Event> {
    let created_at = row.read(event_columns::created_at)?;
    Ok(Event { status: event_status(row)?, created_at, message: message(row)? })
}

/// As [`event`]; `None` if it cannot be read. Consumers pass over such an event, and work on the
/// others.
pub(crate) fn readable_event(row: &impl Row) -> Read<Option<Event>> {
    if_readable(event(row))
}

/// The message in a row of `event_columns`.
pub(crate) fn message(row: &impl Row) -> Read<Message> {
    use event_columns as column;
    Ok(Message {
        message_id: row.read(column::message_id)?,
        title: row.read(column::title)?,
        payload: row.read(column::payload)?,
        causes: row.maybe_json(column::causes)?.unwrap_or_default(),
    })
}

columns! {
    handler_columns = h handlers: id, workflow, name, kind, state, cause, wake_at, retry_at,
        failures, resumes, run, last_run_at, last_outcome, runs;
}

pub(crate) fn handler(row: &impl Row) -> Read<Handler> {
    use handler_columns as column;
    Ok(Handler {
        id: row.read(column::id)?,
        workflow: row.read(column::workflow)?,
        name: row.read(column::name)?,
        kind: row.read(column::kind)?,
        state: row.read(column::state)?,
        cause: row.read(column::cause)?,
        wake_at: row.read(column::wake_at)?,
        retry_at: row.read(column::retry_at)?,
        failures: row.read(column::failures)?,
        resumes: row.read(column::resumes)?,
        run: row.read(column::run)?,
        last_run_at: row.read(column::last_run_at)?,
        last_outcome: row.read(column::last_outcome)?,
        runs: row.read(column::runs)?,
    })
}

/// The handler id that stands for a workflow's triggers.
const TRIGGERS: i64 = 0;

/// The subscriber with this workflow and this stored handler id.
pub(crate) fn subscriber(workflow: WorkflowId, handler: i64) -> Subscriber {
    match handler {
        TRIGGERS => Subscriber::Triggers(workflow),
        id => Subscriber::Consumer(workflow, HandlerId(id)),
    }
}

/// The stored workflow and handler ids of a subscriber.
pub(crate) fn stored_subscriber(subscriber: Subscriber) -> (i64, i64) {
    match subscriber {
        Subscriber::Consumer(workflow, handler) => (workflow.0, handler.0),
        Subscriber::Triggers(workflow) => (workflow.0, TRIGGERS),
    }
}

columns! {
    mutation_columns = m mutations: run, workflow, handler, status, started_at, updated_at,
        said_by, note;
}

pub(crate) fn mutation(row: &impl Row) -> Read<Mutation> {
    use mutation_columns as column;
    Ok(Mutation {
        run: row.read(column::run)?,
        workflow: row.read(column::workflow)?,
        handler: row.read(column::handler)?,
        status: row.read(column::status)?,
        started_at: row.read(column::started_at)?,
        updated_at: row.read(column::updated_at)?,
        said_by: row.read(column::said_by)?,
        note: row.read(column::note)?,
    })
}
