//! The engine's lookups of topics, events and handlers inside the transaction.

use engine::handlers::Handler;
use engine::run::Part;
use engine::topics::{Event, EventStatus, Subscriber, Topic};
use engine::{EventKey, HandlerId, RunKey, TopicId, WorkflowId};
use jiff::Timestamp;
use rusqlite::{Connection, Row, params};

use crate::codes::sql;
use crate::failure::Failure;
use crate::rows::{
    self, Row as _, event_columns, event_status_columns, handler_columns, topic_columns,
};
use crate::sqlite::connections::query::{all, first, one};

pub(crate) const HANDLER_BY_ID: &str =
    concat!("SELECT ", handler_columns!(), " FROM handlers h WHERE h.id = ?1");

pub(crate) fn topic(connection: &Connection, id: TopicId) -> Result<Option<Topic>, Failure> {
    const SQL: &str = concat!("SELECT ", topic_columns!(), " FROM topics t WHERE t.id = ?1");
    one(connection, SQL, [id.0], |row| rows::topic(row))
}

pub(crate) fn topic_named(
    connection: &Connection,
    workflow: Option<WorkflowId>,
    name: &str,
) -> Result<Option<TopicId>, Failure> {
    let read = |row: &Row<'_>| row.single();
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

pub(crate) fn event_statuses(
    connection: &Connection,
    topic: TopicId,
    message_ids: &[String],
) -> Result<Vec<Option<EventStatus>>, Failure> {
    const SQL: &str = concat!(
        "SELECT ",
        event_status_columns!(),
        " FROM events e INDEXED BY events_by_message WHERE e.topic = ?1 AND e.message_id = ?2"
    );
    let mut statement = connection.prepare_cached(SQL)?;
    let status = |id| first(&mut statement, params![topic.0, id], |row| rows::event_status(row));
    message_ids.iter().map(status).collect()
}

pub(crate) fn reserved_by(
    connection: &Connection,
    run: RunKey,
) -> Result<Vec<EventStatus>, Failure> {
    const SQL: &str = sql!(
        "SELECT ",
        event_status_columns!(),
        " FROM events e INDEXED BY events_reserved
         WHERE e.state = {event_reserved} AND e.run = ?1 ORDER BY e.key"
    );
    all(connection, SQL, [run.0], |row| rows::event_status(row))
}

pub(crate) fn event(connection: &Connection, key: EventKey) -> Result<Option<Event>, Failure> {
    const SQL: &str = concat!(
        "SELECT ",
        event_columns!(),
        " FROM events e JOIN messages m ON m.event = e.key WHERE e.key = ?1"
    );
    Ok(one(connection, SQL, [key.0], |row| rows::readable_event(row))?.flatten())
}

pub(crate) fn pending_events(
    connection: &Connection,
    topic: TopicId,
    limit: usize,
) -> Result<Vec<Event>, Failure> {
    const SQL: &str = sql!(
        "SELECT ",
        event_columns!(),
        " FROM events e INDEXED BY events_pending JOIN messages m ON m.event = e.key
         WHERE e.state = {event_pending} AND e.topic = ?1 AND e.created_at {an_instant}
         ORDER BY e.created_at, e.key LIMIT ?2"
    );
    let found = all(connection, SQL, params![topic.0, limit], |row| rows::readable_event(row))?;
    Ok(found.into_iter().flatten().collect())
}

pub(crate) fn oldest_pending(
    connection: &Connection,
    topic: TopicId,
    limit: usize,
) -> Result<Vec<(EventKey, Timestamp)>, Failure> {
    let sql = sql!(
        "SELECT key, created_at FROM events INDEXED BY events_pending
         WHERE state = {event_pending} AND topic = ?1 AND created_at {an_instant}
         ORDER BY created_at, key LIMIT ?2"
    );
    all(connection, sql, params![topic.0, limit], |row| row.tuple())
}

pub(crate) fn subscribers(
    connection: &Connection,
    topic: TopicId,
) -> Result<Vec<Subscriber>, Failure> {
    let sql = "SELECT workflow, handler FROM subscriptions WHERE topic = ?1
               ORDER BY workflow, handler";
    all(connection, sql, [topic.0], |row| {
        let (workflow, handler) = row.tuple()?;
        Ok(rows::subscriber(workflow, handler))
    })
}

pub(crate) fn waiting_for(
    connection: &Connection,
    topic: TopicId,
    after: Option<(RunKey, Part)>,
    limit: usize,
) -> Result<Vec<(RunKey, Part)>, Failure> {
    let sql = sql!(
        "SELECT run, step, item FROM waits INDEXED BY waits_by_topic
         WHERE topic = ?1 AND item {a_part} AND (run, step, item) > (?2, ?3, ?4)
         ORDER BY run, step, item LIMIT ?5"
    );
    let (run, step, item) = match after {
        Some((run, part)) => (run.0, i64::from(part.step), part.item.number()),
        None => (i64::MIN, 0, 0),
    };
    all(connection, sql, params![topic.0, run, step, item, limit], |row| rows::run_part(row))
}

pub(crate) fn handler(connection: &Connection, id: HandlerId) -> Result<Option<Handler>, Failure> {
    one(connection, HANDLER_BY_ID, [id.0], |row| rows::handler(row))
}
