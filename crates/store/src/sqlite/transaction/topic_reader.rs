//! The engine's lookups of topics, events and handlers inside the transaction.

use engine::handlers::Handler;
use engine::run::Part;
use engine::topics::{Event, EventStatus, Subscriber, Topic};
use engine::{EventKey, HandlerId, RunKey, TopicId, WorkflowId};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};

use crate::failure::Failure;
use crate::sqlite::rows::{decode, topic_rows};

fn one<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>, Failure> {
    Ok(connection.prepare_cached(sql)?.query_row(params, read).optional()?)
}

fn all<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Failure> {
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_map(params, read)?.collect::<Result<_, _>>()?)
}

pub(crate) fn topic(connection: &Connection, id: TopicId) -> Result<Option<Topic>, Failure> {
    let sql = format!("SELECT {} FROM topics t WHERE t.id = ?1", topic_rows::TOPIC);
    one(connection, &sql, [id.0], topic_rows::topic)
}

pub(crate) fn topic_named(
    connection: &Connection,
    workflow: Option<WorkflowId>,
    name: &str,
) -> Result<Option<TopicId>, Failure> {
    let read = |row: &Row<'_>| row.get(0).map(TopicId);
    match workflow {
        Some(workflow) => {
            let sql = "SELECT id FROM topics WHERE workflow = ?1 AND name = ?2";
            one(connection, sql, params![workflow.0, name], read)
        }
        None => {
            let sql = "SELECT id FROM topics WHERE workflow IS NULL AND name = ?1";
            one(connection, sql, [name], read)
        }
    }
}

pub(crate) fn fates(
    connection: &Connection,
    topic: TopicId,
    message_ids: &[String],
) -> Result<Vec<Option<EventStatus>>, Failure> {
    let sql = format!(
        "SELECT {} FROM events e INDEXED BY events_by_message
         WHERE e.topic = ?1 AND e.message_id = ?2",
        topic_rows::FATE
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut found = Vec::with_capacity(message_ids.len());
    for id in message_ids {
        found.push(statement.query_row(params![topic.0, id], topic_rows::fate).optional()?);
    }
    Ok(found)
}

pub(crate) fn reserved_by(
    connection: &Connection,
    run: RunKey,
) -> Result<Vec<EventStatus>, Failure> {
    let sql = format!(
        "SELECT {} FROM events e INDEXED BY events_reserved
         WHERE e.state = 1 AND e.run = ?1 ORDER BY e.key",
        topic_rows::FATE
    );
    all(connection, &sql, [run.0], topic_rows::fate)
}

pub(crate) fn event(connection: &Connection, key: EventKey) -> Result<Option<Event>, Failure> {
    let sql = format!(
        "SELECT {} FROM events e JOIN messages m ON m.event = e.key WHERE e.key = ?1",
        topic_rows::EVENT
    );
    Ok(all(connection, &sql, params![key.0], topic_rows::event)?.pop())
}

pub(crate) fn pending_events(
    connection: &Connection,
    topic: TopicId,
    limit: usize,
) -> Result<Vec<Event>, Failure> {
    let sql = format!(
        "SELECT {} FROM events e INDEXED BY events_pending JOIN messages m ON m.event = e.key
         WHERE e.state = 0 AND e.topic = ?1 ORDER BY e.created_at, e.key LIMIT ?2",
        topic_rows::EVENT
    );
    all(connection, &sql, params![topic.0, limit], topic_rows::event)
}

pub(crate) fn oldest_pending(
    connection: &Connection,
    topic: TopicId,
    limit: usize,
) -> Result<Vec<(EventKey, Timestamp)>, Failure> {
    let sql = "SELECT key, created_at FROM events INDEXED BY events_pending
               WHERE state = 0 AND topic = ?1 ORDER BY created_at, key LIMIT ?2";
    let read = |row: &Row<'_>| Ok((EventKey(row.get(0)?), decode::instant(row, 1)?));
    all(connection, sql, params![topic.0, limit], read)
}

/// The handler id that stands for a workflow's triggers.
pub(crate) const TRIGGERS: i64 = 0;

pub(crate) fn subscribers(
    connection: &Connection,
    topic: TopicId,
) -> Result<Vec<Subscriber>, Failure> {
    let sql = "SELECT workflow, handler FROM subscriptions WHERE topic = ?1
               ORDER BY workflow, handler";
    let read = |row: &Row<'_>| {
        let workflow = WorkflowId(row.get(0)?);
        Ok(match row.get(1)? {
            TRIGGERS => Subscriber::Triggers(workflow),
            handler => Subscriber::Consumer(workflow, HandlerId(handler)),
        })
    };
    all(connection, sql, [topic.0], read)
}

pub(crate) fn waiting_for(
    connection: &Connection,
    topic: TopicId,
    after: Option<(RunKey, Part)>,
    limit: usize,
) -> Result<Vec<(RunKey, Part)>, Failure> {
    let sql = "SELECT run, step, item FROM waits INDEXED BY waits_by_topic
               WHERE topic = ?1 AND item >= -2 AND (run, step, item) > (?2, ?3, ?4)
               ORDER BY run, step, item LIMIT ?5";
    let (run, step, item) = match after {
        Some((run, part)) => (run.0, i64::from(part.step), part.item.number()),
        None => (i64::MIN, 0, 0),
    };
    let read = |row: &Row<'_>| {
        Ok((RunKey(row.get(0)?), Part { step: row.get(1)?, item: decode::item(row, 2)? }))
    };
    all(connection, sql, params![topic.0, run, step, item, limit], read)
}

pub(crate) fn handler(connection: &Connection, id: HandlerId) -> Result<Option<Handler>, Failure> {
    let sql = format!("SELECT {} FROM handlers h WHERE h.id = ?1", topic_rows::HANDLER);
    one(connection, &sql, [id.0], topic_rows::handler)
}
