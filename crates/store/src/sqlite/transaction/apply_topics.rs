//! Writes the topics, events, handlers, subscriptions, waits and mutations that a turn decided.

use engine::WorkflowId;
use engine::handlers::{Cause, Handler, Mutation, MutationStatus};
use engine::run::Ending;
use engine::topics::{Event, EventState, EventStatus, Message, Subscriber, Topic};
use engine::turn::{EventWrite, HandlerWrite, TopicWrite, WaitWrite, Writes};
use engine::{EventKey, TopicId};
use language::definition::HandlerKind;
use rusqlite::{CachedStatement, Connection, Statement, params};

use crate::codes::WAKE_HANDLER;
use crate::failure::Failure;
use crate::rows::stored_subscriber;
use crate::sqlite::transaction::apply::{PreparedStatements, remember_greatest};
use crate::stored::{code, json, ms};

pub(crate) fn apply(pen: &mut PreparedStatements<'_>, writes: &Writes) -> Result<(), Failure> {
    let connection = pen.connection;
    for write in &writes.topics {
        topic(connection, write)?;
    }
    if !writes.events.is_empty() {
        let mut events = Events::new(connection)?;
        for write in &writes.events {
            events.write(write)?;
        }
    }
    for write in &writes.handlers {
        handler(pen, write)?;
    }
    for (workflow, heard) in &writes.subscriptions {
        subscriptions(connection, *workflow, heard)?;
    }
    for write in &writes.waits {
        wait(connection, write)?;
    }
    for write in &writes.mutations {
        mutation(connection, write)?;
    }
    Ok(())
}

fn topic(connection: &Connection, write: &TopicWrite) -> Result<(), Failure> {
    match write {
        TopicWrite::Insert(new) => insert_topic(connection, new),
        TopicWrite::Update(after) => update_topic(connection, after),
    }
}

fn insert_topic(connection: &Connection, topic: &Topic) -> Result<(), Failure> {
    let sql = "INSERT INTO topics
               (id, workflow, name, max_attempts, pending, reserved, consumed, skipped, created_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    let counts = &topic.counts;
    connection.prepare_cached(sql)?.execute(params![
        topic.id.0,
        topic.workflow.map(|workflow| workflow.0),
        topic.name,
        topic.max_attempts,
        counts.pending,
        counts.reserved,
        counts.consumed,
        counts.skipped,
        ms(topic.created_at),
    ])?;
    Ok(())
}

fn update_topic(connection: &Connection, topic: &Topic) -> Result<(), Failure> {
    let sql = "UPDATE topics SET max_attempts = ?2, pending = ?3, reserved = ?4, consumed = ?5,
                skipped = ?6 WHERE id = ?1";
    let counts = &topic.counts;
    connection.prepare_cached(sql)?.execute(params![
        topic.id.0,
        topic.max_attempts,
        counts.pending,
        counts.reserved,
        counts.consumed,
        counts.skipped,
    ])?;
    Ok(())
}

/// The statements for events, prepared once for the whole batch.
struct Events<'c> {
    insert: CachedStatement<'c>,
    insert_message: CachedStatement<'c>,
    say: CachedStatement<'c>,
    move_on: CachedStatement<'c>,
}

impl<'c> Events<'c> {
    fn new(connection: &'c Connection) -> Result<Events<'c>, Failure> {
        Ok(Events {
            insert: connection.prepare_cached(
                "INSERT INTO events
                 (key, topic, message_id, state, attempt, run, reason, created_at, updated_at, hops)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?,
            insert_message: connection.prepare_cached(
                "INSERT INTO messages (event, title, payload, causes) VALUES (?1, ?2, ?3, ?4)",
            )?,
            say: connection.prepare_cached(
                "UPDATE messages SET title = ?2, payload = ?3, causes = ?4 WHERE event = ?1",
            )?,
            move_on: connection.prepare_cached(
                "UPDATE events SET state = ?2, attempt = ?3, run = ?4, reason = ?5, updated_at = ?6
                 WHERE key = ?1",
            )?,
        })
    }

    fn write(&mut self, write: &EventWrite) -> Result<(), Failure> {
        match write {
            EventWrite::Insert(event) => {
                self.insert_event(event)?;
                put_message(&mut self.insert_message, event.status.key, &event.message)
            }
            EventWrite::Say(key, message) => put_message(&mut self.say, *key, message),
            EventWrite::Move { after, .. } => self.move_event(after),
        }
    }

    fn insert_event(&mut self, event: &Event) -> Result<(), Failure> {
        let status = &event.status;
        self.insert.execute(params![
            status.key.0,
            status.topic.0,
            event.message.message_id,
            code(&EventState::ALL, status.state),
            status.attempt,
            status.run.map(|run| run.0),
            status.reason,
            ms(event.created_at),
            ms(status.updated_at),
            status.hops,
        ])?;
        Ok(())
    }

    fn move_event(&mut self, status: &EventStatus) -> Result<(), Failure> {
        self.move_on.execute(params![
            status.key.0,
            code(&EventState::ALL, status.state),
            status.attempt,
            status.run.map(|run| run.0),
            status.reason,
            ms(status.updated_at),
        ])?;
        Ok(())
    }
}

fn put_message(
    statement: &mut Statement<'_>,
    key: EventKey,
    message: &Message,
) -> Result<(), Failure> {
    let causes = (!message.causes.is_empty()).then(|| json(&message.causes)).transpose()?;
    statement.execute(params![key.0, message.title, message.payload.get(), causes])?;
    Ok(())
}

fn handler(pen: &mut PreparedStatements<'_>, write: &HandlerWrite) -> Result<(), Failure> {
    match write {
        HandlerWrite::Insert(new) => {
            put_handler(pen.connection, INSERT_HANDLER, new)?;
            pen.wake(WAKE_HANDLER, new.id.0, None, new.due())
        }
        HandlerWrite::Update { after, old_due } => {
            put_handler(pen.connection, UPDATE_HANDLER, after)?;
            pen.wake(WAKE_HANDLER, after.id.0, *old_due, after.due())
        }
        HandlerWrite::Delete { before } => {
            let id = before.id.0;
            let sql = "DELETE FROM handlers WHERE id = ?1";
            pen.connection.prepare_cached(sql)?.execute([id])?;
            remember_greatest(pen.connection, "greatest_handler", id)?;
            pen.wake(WAKE_HANDLER, id, before.due(), None)
        }
    }
}

const INSERT_HANDLER: &str = "INSERT INTO handlers
    (id, workflow, name, kind, state, cause, wake_at, retry_at, failures, resumes, run, last_run_at,
     last_outcome, runs)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";

const UPDATE_HANDLER: &str = "UPDATE handlers SET workflow = ?2, name = ?3, kind = ?4, state = ?5,
    cause = ?6, wake_at = ?7, retry_at = ?8, failures = ?9, resumes = ?10, run = ?11,
    last_run_at = ?12, last_outcome = ?13, runs = ?14
    WHERE id = ?1";

fn put_handler(connection: &Connection, sql: &str, handler: &Handler) -> Result<(), Failure> {
    connection.prepare_cached(sql)?.execute(params![
        handler.id.0,
        handler.workflow.0,
        handler.name,
        code(&HandlerKind::ALL, handler.kind),
        handler.state.get(),
        handler.cause.map(|cause| code(&Cause::ALL, cause)),
        handler.wake_at.map(ms),
        handler.retry_at.map(ms),
        handler.failures,
        handler.resumes.map(|run| run.0),
        handler.run.map(|run| run.0),
        handler.last_run_at.map(ms),
        handler.last_outcome.map(|ending| code(&Ending::ALL, ending)),
        handler.runs,
    ])?;
    Ok(())
}

fn subscriptions(
    connection: &Connection,
    workflow: WorkflowId,
    heard: &[(TopicId, Subscriber)],
) -> Result<(), Failure> {
    let sql = "DELETE FROM subscriptions WHERE workflow = ?1";
    connection.prepare_cached(sql)?.execute([workflow.0])?;
    let sql = "INSERT OR IGNORE INTO subscriptions (topic, workflow, handler) VALUES (?1, ?2, ?3)";
    let mut statement = connection.prepare_cached(sql)?;
    for (topic, subscriber) in heard {
        let (workflow, handler) = stored_subscriber(*subscriber);
        statement.execute([topic.0, workflow, handler])?;
    }
    Ok(())
}

fn wait(connection: &Connection, write: &WaitWrite) -> Result<(), Failure> {
    match write {
        WaitWrite::Begin(topic, run, part) => {
            let sql = "INSERT OR REPLACE INTO waits (run, step, item, topic)
                       VALUES (?1, ?2, ?3, ?4)";
            let params = params![run.0, part.step, part.item.number(), topic.0];
            connection.prepare_cached(sql)?.execute(params)?;
        }
        WaitWrite::End(run, part) => {
            let sql = "DELETE FROM waits WHERE run = ?1 AND step = ?2 AND item = ?3";
            connection.prepare_cached(sql)?.execute(params![
                run.0,
                part.step,
                part.item.number()
            ])?;
        }
    }
    Ok(())
}

fn mutation(connection: &Connection, mutation: &Mutation) -> Result<(), Failure> {
    let sql = "INSERT OR REPLACE INTO mutations
               (run, workflow, handler, status, started_at, updated_at, said_by, note)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    connection.prepare_cached(sql)?.execute(params![
        mutation.run.0,
        mutation.workflow.0,
        mutation.handler,
        code(&MutationStatus::ALL, mutation.status),
        ms(mutation.started_at),
        ms(mutation.updated_at),
        mutation.said_by,
        mutation.note,
    ])?;
    Ok(())
}
