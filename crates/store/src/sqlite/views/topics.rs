//! Views of topics, events, producers, consumers and mutations.

use engine::topics::EventState;
use engine::{RunId, ScheduleId, TopicId, WorkflowId};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::failure::Failure;
use crate::sqlite::rows::decode;
use crate::sqlite::rows::decode::code;
use crate::sqlite::rows::topic_rows;
use crate::sqlite::transaction::topic_reader;
use crate::sqlite::views::workflows;
use crate::topic_view::{
    EventQuery, EventView, HandlerView, MutationQuery, MutationView, TopicQuery, TopicView,
    after_event, after_topic, event_cursor, topic_cursor,
};
use crate::view::{self, Cursor, Page, Total};

/// The columns that make a run's id, joined to another row.
const RUN_ID: &str = "r.key, r.schedule, r.uuid, r.n, r.retry";

fn maybe_run_id(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<RunId>> {
    match row.get::<_, Option<i64>>(first)? {
        None => Ok(None),
        Some(_) => run_id(row, first).map(Some),
    }
}

fn run_id(row: &Row<'_>, first: usize) -> rusqlite::Result<RunId> {
    let schedule = row.get::<_, Option<i64>>(first + 1)?.map(ScheduleId);
    decode::run_id(row, schedule, [first + 2, first + 3, first + 4])
}

/// An empty page.
fn nothing<T>() -> Page<T> {
    Page { items: Vec::new(), total: Total::Exact(0), next: None }
}

pub(crate) fn topics(
    connection: &Connection,
    query: &TopicQuery,
) -> Result<Page<TopicView>, Failure> {
    let mut of_workflow = None;
    if let Some(id_or_name) = &query.workflow {
        let Some(workflow) = workflows::by_id_or_name(connection, id_or_name)? else {
            return Ok(nothing());
        };
        of_workflow = Some(workflow.id);
    }
    let limit = query.limit.saturating_add(1);
    let cursor = |view: &TopicView| topic_cursor(&view.topic);
    if let Some(id) = query.id {
        let mut found = topics_of(connection, "?1 = '' AND t.id = ?2", of_workflow, "", id, 1)?;
        found.retain(|view| query.name.as_ref().is_none_or(|name| view.topic.name == *name));
        return Ok(view::page(found, query.limit, query.after.is_none(), cursor));
    }
    let (name, id) = after_topic(query.after.as_ref()).unwrap_or(("", TopicId(0)));
    // First topics of the same name, then those of greater names: each query uses an index alone.
    let same = query.name.as_deref().unwrap_or(name);
    let mut found =
        topics_of(connection, "t.name = ?1 AND t.id > ?2", of_workflow, same, id, limit)?;
    if query.name.is_none() {
        let left = limit - found.len();
        let beyond = "t.name > ?1 AND ?2 >= 0";
        found.extend(topics_of(connection, beyond, of_workflow, name, id, left)?);
    }
    Ok(view::page(found, query.limit, query.after.is_none(), cursor))
}

fn topics_of(
    connection: &Connection,
    condition: &str,
    workflow: Option<WorkflowId>,
    name: &str,
    id: TopicId,
    limit: usize,
) -> Result<Vec<TopicView>, Failure> {
    let also = if workflow.is_some() { "t.workflow = ?4" } else { "?4 IS NULL" };
    let sql = format!(
        "SELECT {}, w.name,
           (SELECT e.created_at FROM events e INDEXED BY events_pending
            WHERE e.state = 0 AND e.topic = t.id ORDER BY e.created_at LIMIT 1)
         FROM topics t LEFT JOIN workflows w ON w.id = t.workflow
         WHERE {condition} AND {also} ORDER BY t.name, t.id LIMIT ?3",
        topic_rows::TOPIC
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let params = params![name, id.0, limit, workflow.map(|workflow| workflow.0)];
    Ok(statement.query_map(params, read_topic)?.collect::<Result<_, _>>()?)
}

fn read_topic(row: &Row<'_>) -> rusqlite::Result<TopicView> {
    Ok(TopicView {
        topic: topic_rows::topic(row)?,
        workflow: row.get(topic_rows::TOPIC_COLUMNS)?,
        oldest_pending_at: decode::maybe_instant(row, topic_rows::TOPIC_COLUMNS + 1)?,
    })
}

pub(crate) fn events(
    connection: &Connection,
    query: &EventQuery,
) -> Result<Page<EventView>, Failure> {
    // In one transaction, so that an event that changes its state meanwhile is listed exactly once.
    let connection = &*connection.unchecked_transaction()?;
    let Some(topic) = topic_reader::topic(connection, query.topic)? else { return Ok(nothing()) };
    let limit = query.limit.saturating_add(1);
    let mut capacity = Vec::new();
    for state in EventState::ALL.iter().filter(|state| query.state.is_none_or(|of| of == **state)) {
        capacity.extend(places_of(connection, query, *state, limit)?);
    }
    capacity.sort_unstable();
    if !query.oldest_first {
        capacity.reverse();
    }
    capacity.truncate(limit);
    let mut statement = connection.prepare_cached(&event_sql("e.key = ?1"))?;
    let mut found = Vec::with_capacity(capacity.len());
    for (_, key) in capacity {
        found.push(statement.query_row([key], read_event)?);
    }
    let cursor = |view: &EventView| event_cursor(&view.event);
    let page = view::page(found, query.limit, query.after.is_none(), cursor);
    // The topic's row counts its events by state.
    let total = match query.state {
        Some(state) => topic.counts.of(state),
        None => EventState::ALL.iter().map(|state| topic.counts.of(*state)).sum(),
    };
    Ok(Page { total: Total::Exact(total), ..page })
}

/// The first events of one state after the cursor: when they were published, and their keys. Events
/// beyond them are not read, however many there are.
fn places_of(
    connection: &Connection,
    query: &EventQuery,
    state: EventState,
    limit: usize,
) -> Result<Vec<(i64, i64)>, Failure> {
    let (than, order) = match query.oldest_first {
        true => (">", "created_at, key"),
        false => ("<", "created_at DESC, key DESC"),
    };
    let after = after_event(query.after.as_ref());
    let start = if query.oldest_first { i64::MIN } else { i64::MAX };
    let (at, key) = after.map_or((start, start), |(at, key)| (at, key.0));
    // First events of the same instant, then the others: each query uses an index alone.
    let same = format!("created_at = ?2 AND key {than} ?3");
    let beyond = format!("created_at {than} ?2 AND ?3 IS NOT NULL");
    let mut found: Vec<(i64, i64)> = Vec::new();
    for condition in [same, beyond] {
        let sql = places_sql(state, &condition, order);
        let mut statement = connection.prepare_cached(&sql)?;
        let params = params![query.topic.0, at, key, limit - found.len()];
        for place in statement.query_map(params, |row| Ok((row.get(0)?, row.get(1)?)))? {
            found.push(place?);
        }
    }
    Ok(found)
}

fn places_sql(state: EventState, condition: &str, order: &str) -> String {
    // Repeats the index's own condition: SQLite does not see that it follows.
    let source = match state {
        EventState::Pending => "INDEXED BY events_pending WHERE state = 0".to_owned(),
        other => {
            let code = code(&EventState::ALL, other);
            format!("INDEXED BY events_by_state WHERE state > 0 AND state = {code}")
        }
    };
    format!(
        "SELECT created_at, key FROM events {source} AND topic = ?1 AND {condition}
         ORDER BY {order} LIMIT ?4"
    )
}

fn event_sql(condition: &str) -> String {
    format!(
        "SELECT {}, {RUN_ID} FROM events e JOIN messages m ON m.event = e.key
         LEFT JOIN runs r ON r.key = e.run WHERE {condition}",
        topic_rows::EVENT
    )
}

fn read_event(row: &Row<'_>) -> rusqlite::Result<EventView> {
    let run = maybe_run_id(row, topic_rows::EVENT_COLUMNS)?;
    Ok(EventView { event: topic_rows::event(row)?, run })
}

pub(crate) fn events_by_id(
    connection: &Connection,
    topic: TopicId,
    message_ids: &[String],
) -> Result<Vec<EventView>, Failure> {
    let sql = event_sql("e.topic = ?1 AND e.message_id = ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut found = Vec::new();
    for id in message_ids {
        found.extend(statement.query_row(params![topic.0, id], read_event).optional()?);
    }
    Ok(found)
}

pub(crate) fn handlers(
    connection: &Connection,
    workflow: WorkflowId,
) -> Result<Vec<HandlerView>, Failure> {
    let sql = format!(
        "SELECT {}, {RUN_ID} FROM handlers h LEFT JOIN runs r ON r.key = h.run
         WHERE h.workflow = ?1 ORDER BY h.name",
        topic_rows::HANDLER
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let read = |row: &Row<'_>| {
        let run = maybe_run_id(row, topic_rows::HANDLER_COLUMNS)?;
        Ok(HandlerView { handler: topic_rows::handler(row)?, run })
    };
    Ok(statement.query_map([workflow.0], read)?.collect::<Result<_, _>>()?)
}

pub(crate) fn mutations(
    connection: &Connection,
    query: &MutationQuery,
) -> Result<Page<MutationView>, Failure> {
    let before = view::number(query.after.as_ref()).unwrap_or(i64::MAX);
    let limit = query.limit.saturating_add(1);
    let sql = mutations_sql(query.workflow.is_some());
    let mut statement = connection.prepare_cached(&sql)?;
    let read = |row: &Row<'_>| {
        let run = run_id(row, topic_rows::MUTATION_COLUMNS)?;
        Ok(MutationView { mutation: topic_rows::mutation(row)?, run })
    };
    let found = match query.workflow {
        Some(workflow) => statement.query_map(params![before, limit, workflow.0], read)?,
        None => statement.query_map(params![before, limit], read)?,
    };
    let found = found.collect::<Result<Vec<MutationView>, _>>()?;
    let cursor = |view: &MutationView| Cursor::from(view.mutation.run);
    Ok(view::page(found, query.limit, query.after.is_none(), cursor))
}

fn mutations_sql(of_workflow: bool) -> String {
    let (source, also) = match of_workflow {
        true => ("INDEXED BY mutations_by_workflow", "AND m.workflow = ?3"),
        false => ("NOT INDEXED", ""),
    };
    format!(
        "SELECT {}, {RUN_ID} FROM mutations m {source} CROSS JOIN runs r ON r.key = m.run
         WHERE m.run < ?1 {also} ORDER BY m.run DESC LIMIT ?2",
        topic_rows::MUTATION
    )
}
