//! The stored rows of topics, events and handlers.

use std::collections::HashMap;
use std::sync::Arc;

use engine::handlers::{Cause, MutationStatus};
use engine::topics::EventState;
use language::definition::Definition;
use language::definition::HandlerKind;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::generate::PREFIX;
use crate::watch::json;

type Read<T> = rusqlite::Result<T>;

#[derive(Clone, Debug)]
pub(crate) struct TopicRow {
    pub(crate) id: i64,
    pub(crate) workflow: Option<i64>,
    pub(crate) name: String,
    pub(crate) max_attempts: u32,
    /// Pending, reserved, consumed, skipped.
    pub(crate) counts: [u64; 4],
}

#[derive(Clone, Debug)]
pub(crate) struct EventRow {
    pub(crate) key: i64,
    pub(crate) topic: i64,
    pub(crate) message_id: String,
    pub(crate) state: EventState,
    pub(crate) attempt: u32,
    pub(crate) run: Option<i64>,
    pub(crate) reason: Option<String>,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct HandlerRow {
    pub(crate) id: i64,
    pub(crate) workflow: i64,
    pub(crate) name: String,
    pub(crate) kind: HandlerKind,
    pub(crate) state: String,
    pub(crate) cause: Option<Cause>,
    pub(crate) wake_at: Option<i64>,
    pub(crate) retry_at: Option<i64>,
    pub(crate) failures: u32,
    pub(crate) resumes: Option<i64>,
    pub(crate) run: Option<i64>,
}

/// What one commit has changed in these tables.
#[derive(Debug, Default)]
pub(crate) struct Handled {
    pub(crate) topics: Vec<TopicRow>,
    /// `None` if the row is gone, as with the others below.
    pub(crate) events: Vec<(i64, Option<EventRow>)>,
    pub(crate) handlers: Vec<(i64, Option<HandlerRow>)>,
    pub(crate) mutations: Vec<(i64, Option<MutationStatus>)>,
    /// All consumers of the topics whose subscriptions have changed.
    pub(crate) subscriptions: Vec<(i64, Vec<i64>)>,
}

impl Handled {
    pub(crate) fn is_empty(&self) -> bool {
        self.topics.is_empty()
            && self.events.is_empty()
            && self.handlers.is_empty()
            && self.mutations.is_empty()
            && self.subscriptions.is_empty()
    }

    /// Reads one changed row, if it is of one of these tables.
    pub(crate) fn note(&mut self, db: &Connection, kind: i64, id: i64) -> Read<()> {
        match kind {
            5 => self.topics.extend(topic(db, id)?),
            6 => self.events.push((id, event(db, id)?)),
            7 => self.handlers.push((id, handler(db, id)?)),
            8 => self.mutations.push((id, mutation(db, id)?)),
            _ => self.subscriptions.push((id, consumers(db, id)?)),
        }
        Ok(())
    }
}

fn one<T>(
    db: &Connection,
    sql: &str,
    id: i64,
    read: impl FnOnce(&Row<'_>) -> Read<T>,
) -> Read<Option<T>> {
    db.prepare_cached(sql)?.query_row([id], read).optional()
}

fn topic(db: &Connection, id: i64) -> Read<Option<TopicRow>> {
    let sql = "SELECT id, workflow, name, max_attempts, pending, reserved, consumed, skipped
               FROM topics WHERE id = ?1";
    one(db, sql, id, |row| {
        Ok(TopicRow {
            id: row.get(0)?,
            workflow: row.get(1)?,
            name: row.get(2)?,
            max_attempts: row.get(3)?,
            counts: [row.get(4)?, row.get(5)?, row.get(6)?, row.get(7)?],
        })
    })
}

fn event(db: &Connection, key: i64) -> Read<Option<EventRow>> {
    let sql = "SELECT key, topic, message_id, state, attempt, run, reason, created_at, updated_at
               FROM events WHERE key = ?1";
    one(db, sql, key, |row| {
        Ok(EventRow {
            key: row.get(0)?,
            topic: row.get(1)?,
            message_id: row.get(2)?,
            state: EventState::ALL[row.get::<_, usize>(3)?],
            attempt: row.get(4)?,
            run: row.get(5)?,
            reason: row.get(6)?,
            created_at: row.get(7)?,
            updated_at: row.get(8)?,
        })
    })
}

fn handler(db: &Connection, id: i64) -> Read<Option<HandlerRow>> {
    let sql = "SELECT id, workflow, name, kind, state, cause, wake_at, retry_at, failures, resumes,
                run FROM handlers WHERE id = ?1";
    one(db, sql, id, |row| {
        let cause: Option<usize> = row.get(5)?;
        Ok(HandlerRow {
            id: row.get(0)?,
            workflow: row.get(1)?,
            name: row.get(2)?,
            kind: HandlerKind::ALL[row.get::<_, usize>(3)?],
            state: row.get(4)?,
            cause: cause.map(|cause| Cause::ALL[cause]),
            wake_at: row.get(6)?,
            retry_at: row.get(7)?,
            failures: row.get(8)?,
            resumes: row.get(9)?,
            run: row.get(10)?,
        })
    })
}

fn mutation(db: &Connection, run: i64) -> Read<Option<MutationStatus>> {
    let sql = "SELECT status FROM mutations WHERE run = ?1";
    one(db, sql, run, |row| Ok(MutationStatus::ALL[row.get::<_, usize>(0)?]))
}

fn consumers(db: &Connection, topic: i64) -> Read<Vec<i64>> {
    let sql = "SELECT handler FROM subscriptions WHERE topic = ?1 AND handler <> 0";
    db.prepare_cached(sql)?.query_map([topic], |row| row.get(0))?.collect()
}

/// Definitions of workflows with handlers, each read once; `None` for other workflows.
#[derive(Default)]
pub(crate) struct Definitions(HashMap<(i64, u32), Option<Arc<Definition>>>);

impl Definitions {
    pub(crate) fn get(&mut self, db: &Connection, of: (i64, u32)) -> Read<Option<Arc<Definition>>> {
        if let Some(known) = self.0.get(&of) {
            return Ok(known.clone());
        }
        let sql = "SELECT definition FROM revisions WHERE workflow = ?1 AND revision = ?2";
        let mut statement = db.prepare_cached(sql)?;
        let found = statement.query_row(params![of.0, of.1], |row| json::<Definition>(row, 0));
        let found = found.optional()?.filter(|found| found.name.starts_with(PREFIX)).map(Arc::new);
        self.0.insert(of, found.clone());
        Ok(found)
    }
}
