//! Writes what a turn decided about topics, events, handlers, subscriptions and mutations.

use std::collections::BTreeMap;

use engine::handlers::{Cause, Handler, Mutation, MutationStatus};
use engine::run::Ending;
use engine::topics::{Event, EventState, EventStatus, Message, Topic};
use engine::turn::{EventWrite, HandlerWrite, TopicWrite, Writes};
use language::definition::HandlerKind;

use crate::failure::Failure;
use crate::postgres::connections::tx_connection::{Query, param};
use crate::postgres::rows::narrow;
use crate::postgres::transaction::apply::{column, owned, try_column};
use crate::postgres::transaction::apply_waiting::waits;
use crate::rows::stored_subscriber;
use crate::stored::{json, ms};

pub(crate) fn topics(writes: &Writes, all: &mut Vec<Query>) -> Result<(), Failure> {
    put_topics(writes, all);
    events(writes, all)?;
    handlers(writes, all);
    subscriptions(writes, all);
    waits(writes, all);
    mutations(writes, all);
    Ok(())
}

/// Upserts by id, not by name: a topic with the same name may be another topic.
const TOPICS: &str = "INSERT INTO topics
       (id, workflow, name, max_attempts, pending, reserved, consumed, skipped, created_at)
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::integer[], $5::bigint[],
       $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])
     ON CONFLICT (id) DO UPDATE SET max_attempts = excluded.max_attempts,
       pending = excluded.pending, reserved = excluded.reserved, consumed = excluded.consumed,
       skipped = excluded.skipped";

fn put_topics(writes: &Writes, all: &mut Vec<Query>) {
    let topic = |write| match write {
        &TopicWrite::Insert(ref topic) | &TopicWrite::Update(ref topic) => topic,
    };
    let rows: Vec<&Topic> = writes.topics.iter().map(topic).collect();
    if rows.is_empty() {
        return;
    }
    let params = vec![
        column(&rows, |t| t.id.0),
        column(&rows, |t| t.workflow.map(|id| id.0)),
        column(&rows, |t| owned(&t.name)),
        column(&rows, |t| t.max_attempts.cast_signed()),
        column(&rows, |t| t.counts.pending.cast_signed()),
        column(&rows, |t| t.counts.reserved.cast_signed()),
        column(&rows, |t| t.counts.consumed.cast_signed()),
        column(&rows, |t| t.counts.skipped.cast_signed()),
        column(&rows, |t| ms(t.created_at)),
    ];
    all.push(Query::new(TOPICS, params));
}

/// All that a turn writes about one event.
#[derive(Default)]
struct Written<'a> {
    new: Option<&'a Event>,
    message: Option<&'a Message>,
    status: Option<&'a EventStatus>,
}

/// The writes by event. If a turn writes an event more than once, the last version counts.
fn folded(writes: &Writes) -> BTreeMap<i64, Written<'_>> {
    let mut all: BTreeMap<i64, Written<'_>> = BTreeMap::new();
    for write in &writes.events {
        match write {
            EventWrite::Insert(event) => {
                let status = &event.status;
                let (message, status) = (Some(&event.message), Some(status));
                all.insert(event.status.key.0, Written { new: Some(event), message, status });
            }
            EventWrite::Say(key, message) => {
                all.entry(key.0).or_default().message = Some(message);
            }
            EventWrite::Move { after, .. } => {
                all.entry(after.key.0).or_default().status = Some(after);
            }
        }
    }
    all
}

const NEW_EVENTS: &str = "INSERT INTO events
       (key, topic, message_id, state, attempt, run, reason, created_at, updated_at, hops)
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::smallint[], $5::integer[],
       $6::bigint[], $7::text[], $8::bigint[], $9::bigint[], $10::smallint[])";
const NEW_MESSAGES: &str = "INSERT INTO messages (event, title, payload, causes)
     SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[])";
/// An upsert, so that PostgreSQL finds each row by its key. The rows exist, and their topics are
/// locked.
const SAY: &str = "INSERT INTO messages (event, title, payload, causes)
     SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[])
     ON CONFLICT (event) DO UPDATE SET title = excluded.title, payload = excluded.payload,
       causes = excluded.causes";
const MOVE: &str = "INSERT INTO events
       (key, topic, state, attempt, run, reason, updated_at, message_id, created_at, hops)
     SELECT *, '', 0, 0 FROM unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::integer[],
       $5::bigint[], $6::text[], $7::bigint[])
     ON CONFLICT (key) DO UPDATE SET state = excluded.state, attempt = excluded.attempt,
       run = excluded.run, reason = excluded.reason, updated_at = excluded.updated_at";

fn events(writes: &Writes, all: &mut Vec<Query>) -> Result<(), Failure> {
    if writes.events.is_empty() {
        return Ok(());
    }
    let (mut new, mut said, mut new_messages, mut moved) = (vec![], vec![], vec![], vec![]);
    for (key, written) in &folded(writes) {
        match (written.new, written.status) {
            (Some(event), Some(status)) => new.push((event, status)),
            (_, Some(status)) => moved.push(status),
            _ => {}
        }
        if let Some(message) = written.message {
            let says = if written.new.is_some() { &mut new_messages } else { &mut said };
            says.push((*key, message));
        }
    }
    insert(&new, all);
    say(NEW_MESSAGES, &new_messages, all)?;
    say(SAY, &said, all)?;
    move_events(&moved, all);
    Ok(())
}

fn insert(new: &[(&Event, &EventStatus)], all: &mut Vec<Query>) {
    if new.is_empty() {
        return;
    }
    let params = vec![
        column(new, |(_, status)| status.key.0),
        column(new, |(_, status)| status.topic.0),
        column(new, |(event, _)| owned(&event.message.message_id)),
        column(new, |(_, status)| narrow(&EventState::ALL, status.state)),
        column(new, |(_, status)| status.attempt.cast_signed()),
        column(new, |(_, status)| status.run.map(|run| run.0)),
        column(new, |(_, status)| status.reason.as_deref().map(owned)),
        column(new, |(event, _)| ms(event.created_at)),
        column(new, |(_, status)| ms(status.updated_at)),
        column(new, |(_, status)| i16::from(status.hops)),
    ];
    all.push(Query::new(NEW_EVENTS, params));
}

fn say(sql: &'static str, said: &[(i64, &Message)], all: &mut Vec<Query>) -> Result<(), Failure> {
    if said.is_empty() {
        return Ok(());
    }
    let params = vec![
        column(said, |(key, _)| *key),
        column(said, |(_, message)| message.title.as_deref().map(owned)),
        column(said, |(_, message)| message.payload.get().to_owned()),
        try_column(said, |(_, message)| {
            (!message.causes.is_empty()).then(|| json(&message.causes)).transpose()
        })?,
    ];
    all.push(Query::new(sql, params));
    Ok(())
}

fn move_events(moved: &[&EventStatus], all: &mut Vec<Query>) {
    if moved.is_empty() {
        return;
    }
    let params = vec![
        column(moved, |status| status.key.0),
        column(moved, |status| status.topic.0),
        column(moved, |status| narrow(&EventState::ALL, status.state)),
        column(moved, |status| status.attempt.cast_signed()),
        column(moved, |status| status.run.map(|run| run.0)),
        column(moved, |status| status.reason.as_deref().map(owned)),
        column(moved, |status| ms(status.updated_at)),
    ];
    all.push(Query::new(MOVE, params));
}

const HANDLERS: &str = "INSERT INTO handlers (id, workflow, name, kind, state, cause, wake_at,
       retry_at, failures, resumes, run, last_run_at, last_outcome, runs, due)
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::smallint[], $5::text[],
       $6::smallint[], $7::bigint[], $8::bigint[], $9::integer[], $10::bigint[], $11::bigint[],
       $12::bigint[], $13::smallint[], $14::bigint[], $15::bigint[])
     ON CONFLICT (id) DO UPDATE SET state = excluded.state, cause = excluded.cause,
       wake_at = excluded.wake_at, retry_at = excluded.retry_at, failures = excluded.failures,
       resumes = excluded.resumes, run = excluded.run, last_run_at = excluded.last_run_at,
       last_outcome = excluded.last_outcome, runs = excluded.runs, due = excluded.due";

fn handlers(writes: &Writes, all: &mut Vec<Query>) {
    let (mut rows, mut gone): (Vec<&Handler>, Vec<i64>) = (vec![], vec![]);
    for write in &writes.handlers {
        match write {
            HandlerWrite::Insert(handler) => rows.push(handler),
            HandlerWrite::Update { after, .. } => rows.push(after),
            HandlerWrite::Delete { before } => gone.push(before.id.0),
        }
    }
    // Deletes come first, so that a new handler may reuse a name.
    if !gone.is_empty() {
        all.push(Query::new("DELETE FROM handlers WHERE id = ANY($1)", vec![param(gone)]));
    }
    if rows.is_empty() {
        return;
    }
    let params = vec![
        column(&rows, |h| h.id.0),
        column(&rows, |h| h.workflow.0),
        column(&rows, |h| owned(&h.name)),
        column(&rows, |h| narrow(&HandlerKind::ALL, h.kind)),
        column(&rows, |h| h.state.get().to_owned()),
        column(&rows, |h| h.cause.map(|cause| narrow(&Cause::ALL, cause))),
        column(&rows, |h| h.wake_at.map(ms)),
        column(&rows, |h| h.retry_at.map(ms)),
        column(&rows, |h| h.failures.cast_signed()),
        column(&rows, |h| h.resumes.map(|run| run.0)),
        column(&rows, |h| h.run.map(|run| run.0)),
        column(&rows, |h| h.last_run_at.map(ms)),
        column(&rows, |h| h.last_outcome.map(|ending| narrow(&Ending::ALL, ending))),
        column(&rows, |h| h.runs.cast_signed()),
        column(&rows, |h| h.due().map(ms)),
    ];
    all.push(Query::new(HANDLERS, params));
}

fn subscriptions(writes: &Writes, all: &mut Vec<Query>) {
    // If a turn sets a workflow's subscriptions more than once, the last set counts.
    let last: BTreeMap<i64, &Vec<_>> =
        writes.subscriptions.iter().map(|(workflow, heard)| (workflow.0, heard)).collect();
    if last.is_empty() {
        return;
    }
    let workflows: Vec<i64> = last.keys().copied().collect();
    let forget = "DELETE FROM subscriptions WHERE workflow = ANY($1)";
    all.push(Query::new(forget, vec![param(workflows)]));
    let rows: Vec<(i64, (i64, i64))> = last
        .into_values()
        .flatten()
        .map(|(topic, subscriber)| (topic.0, stored_subscriber(*subscriber)))
        .collect();
    let sql = "INSERT INTO subscriptions (topic, workflow, handler)
               SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[])";
    let params = vec![
        column(&rows, |(topic, _)| *topic),
        column(&rows, |(_, (workflow, _))| *workflow),
        column(&rows, |(_, (_, handler))| *handler),
    ];
    all.push(Query::new(sql, params));
}

const MUTATIONS: &str = "INSERT INTO mutations
       (run, workflow, handler, status, started_at, updated_at, said_by, note)
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::smallint[], $5::bigint[],
       $6::bigint[], $7::text[], $8::text[])
     ON CONFLICT (run) DO UPDATE SET status = excluded.status, started_at = excluded.started_at,
       updated_at = excluded.updated_at, said_by = excluded.said_by, note = excluded.note";

fn mutations(writes: &Writes, all: &mut Vec<Query>) {
    let last: BTreeMap<_, &Mutation> =
        writes.mutations.iter().map(|mutation| (mutation.run, mutation)).collect();
    if last.is_empty() {
        return;
    }
    let rows: Vec<&Mutation> = last.into_values().collect();
    let params = vec![
        column(&rows, |m| m.run.0),
        column(&rows, |m| m.workflow.0),
        column(&rows, |m| owned(&m.handler)),
        column(&rows, |m| narrow(&MutationStatus::ALL, m.status)),
        column(&rows, |m| ms(m.started_at)),
        column(&rows, |m| ms(m.updated_at)),
        column(&rows, |m| m.said_by.as_deref().map(owned)),
        column(&rows, |m| m.note.as_deref().map(owned)),
    ];
    all.push(Query::new(MUTATIONS, params));
}
