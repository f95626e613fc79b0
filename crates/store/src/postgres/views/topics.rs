//! Views of topics, events, producers, consumers and mutations.

use deadpool_postgres::Client;
use engine::topics::EventState;
use engine::{RunId, ScheduleId, TopicId, WorkflowId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::failure::Failure;
use crate::postgres::connections::query::{ask, is_storable, many};
use crate::postgres::rows::columns::{of_event, of_handler, of_topic};
use crate::postgres::rows::decode;
use crate::postgres::rows::decode::{get, narrow};
use crate::postgres::rows::topic_rows;
use crate::postgres::rows::topic_rows::{
    EVENT_COLUMNS, HANDLER_COLUMNS, MUTATION_COLUMNS, TOPIC_COLUMNS,
};
use crate::topic_view::{
    EventQuery, EventView, HandlerView, MutationQuery, MutationView, TopicQuery, TopicView,
    after_event, after_topic, event_cursor, topic_cursor,
};
use crate::view::{self, Cursor, Page, Total};

/// The columns that make a run's id, joined to another row.
macro_rules! of_run_id {
    () => {
        "r.key, r.schedule, r.uuid, r.n, r.retry"
    };
}

fn maybe_run_id(row: &Row, first: usize) -> Result<Option<RunId>, Failure> {
    match get::<Option<i64>>(row, first)? {
        None => Ok(None),
        Some(_) => run_id(row, first).map(Some),
    }
}

fn run_id(row: &Row, first: usize) -> Result<RunId, Failure> {
    let schedule = get::<Option<i64>>(row, first + 1)?.map(ScheduleId);
    decode::run_id(row, schedule, [first + 2, first + 3, first + 4])
}

/// An empty page.
fn nothing<T>() -> Page<T> {
    Page { items: Vec::new(), total: Total::Exact(0), next: None }
}

const TOPICS: &str = concat!(
    "SELECT ",
    of_topic!(),
    ", w.name, (SELECT e.created_at FROM events e WHERE e.topic + 0 = t.id AND e.state + 0 = 0
                ORDER BY e.created_at, e.key + 0 LIMIT 1)
     FROM topics t LEFT JOIN workflows w ON w.id = t.workflow
     WHERE (t.name, t.id + 0) > ($1, $2)"
);

pub(crate) async fn topics(client: &Client, query: TopicQuery) -> Result<Page<TopicView>, Failure> {
    let texts = [&query.name, &query.workflow];
    if texts.into_iter().flatten().any(|text| !is_storable(text)) {
        return Ok(nothing());
    }
    let after = after_topic(query.after.as_ref()).filter(|(name, _)| is_storable(name));
    let (name, TopicId(id)) = after.unwrap_or(("", TopicId(0)));
    let limit = many(query.limit.saturating_add(1));
    let mut sql = TOPICS.to_owned();
    let mut params: Vec<&(dyn ToSql + Sync)> = vec![&name, &id, &limit];
    if let Some(TopicId(id)) = &query.id {
        params.push(id);
        sql += &format!(" AND t.id = ${}", params.len());
    }
    if let Some(name) = &query.name {
        params.push(name);
        sql += &format!(" AND t.name = ${}", params.len());
    }
    let of = query.workflow.as_ref().map(|of| (of, of.parse::<WorkflowId>().map(|id| id.0)));
    match &of {
        Some((_, Ok(id))) => {
            params.push(id);
            sql += &format!(" AND t.workflow = ${}", params.len());
        }
        Some((name, Err(()))) => {
            params.push(name);
            let id = format!("(SELECT id FROM workflows WHERE name = ${})", params.len());
            sql += &format!(" AND t.workflow = {id}");
        }
        None => {}
    }
    sql += " ORDER BY t.name, t.id + 0 LIMIT $3";
    let found = ask(client, &sql, &params).await?;
    let items = found.iter().map(read_topic).collect::<Result<Vec<_>, _>>()?;
    let cursor = |view: &TopicView| topic_cursor(&view.topic);
    Ok(view::page(items, query.limit, query.after.is_none(), cursor))
}

fn read_topic(row: &Row) -> Result<TopicView, Failure> {
    Ok(TopicView {
        topic: topic_rows::topic(row)?,
        workflow: get(row, TOPIC_COLUMNS)?,
        oldest_pending_at: decode::maybe_instant(row, TOPIC_COLUMNS + 1)?,
    })
}

macro_rules! events_from {
    () => {
        concat!(
            "SELECT ",
            of_event!(),
            ", ",
            of_run_id!(),
            " FROM {} JOIN messages m ON m.event = e.key LEFT JOIN runs r ON r.key = e.run {}"
        )
    };
}

pub(crate) async fn events(client: &Client, query: EventQuery) -> Result<Page<EventView>, Failure> {
    let sql = concat!("SELECT ", of_topic!(), " FROM topics t WHERE t.id = $1");
    let known = ask(client, sql, &[&query.topic.0]).await?;
    let Some(row) = known.first() else { return Ok(nothing()) };
    let counts = topic_rows::topic(row)?.counts;
    let start = if query.oldest_first { i64::MIN } else { i64::MAX };
    let after = after_event(query.after.as_ref());
    let (at, key) = after.map_or((start, start), |(at, key)| (at, key.0));
    let limit = many(query.limit.saturating_add(1));
    let states = EventState::ALL.into_iter().filter(|s| query.state.is_none_or(|of| of == *s));
    let states: Vec<EventState> = states.collect();
    let sql = page_sql(&query, &states);
    let found = ask(client, &sql, &[&query.topic.0, &at, &key, &limit]).await?;
    let items = found.iter().map(read_event).collect::<Result<Vec<_>, _>>()?;
    let cursor = |view: &EventView| event_cursor(&view.event);
    let page = view::page(items, query.limit, query.after.is_none(), cursor);
    // The topic's row counts its events by state.
    let total = states.iter().map(|state| counts.of(*state)).sum();
    Ok(Page { total: Total::Exact(total), ..page })
}

/// Reads the first events of each state after the cursor, and takes the first of all. Events beyond
/// them are not read, however many there are.
fn page_sql(query: &EventQuery, states: &[EventState]) -> String {
    let (than, order) = if query.oldest_first { (">", "ASC") } else { ("<", "DESC") };
    let of_state = |state: &EventState| {
        let code = narrow(&EventState::ALL, *state);
        format!(
            "(SELECT * FROM events WHERE topic + 0 = $1 AND state + 0 = {code}
                AND (created_at, key + 0) {than} ($2, $3)
              ORDER BY created_at {order}, key + 0 {order} LIMIT $4)"
        )
    };
    let all: Vec<String> = states.iter().map(of_state).collect();
    let some = format!(
        "(SELECT * FROM ({}) e ORDER BY created_at {order}, key {order} LIMIT $4) e",
        all.join(" UNION ALL ")
    );
    format!(events_from!(), some, format!("ORDER BY e.created_at {order}, e.key {order}"))
}

fn read_event(row: &Row) -> Result<EventView, Failure> {
    let run = maybe_run_id(row, EVENT_COLUMNS)?;
    Ok(EventView { event: topic_rows::event(row)?, run })
}

pub(crate) async fn events_by_id(
    client: &Client,
    topic: TopicId,
    message_ids: Vec<String>,
) -> Result<Vec<EventView>, Failure> {
    let storable: Vec<String> = message_ids.into_iter().filter(|id| is_storable(id)).collect();
    let from = "unnest($2::text[]) WITH ORDINALITY AS u (id, place)
                JOIN events e ON e.topic = $1 AND e.message_id = u.id";
    let sql = format!(events_from!(), from, "ORDER BY u.place");
    let found = ask(client, &sql, &[&topic.0, &storable]).await?;
    found.iter().map(read_event).collect()
}

const HANDLERS: &str = concat!(
    "SELECT ",
    of_handler!(),
    ", ",
    of_run_id!(),
    " FROM handlers h LEFT JOIN runs r ON r.key = h.run WHERE h.workflow = $1 ORDER BY h.name"
);

pub(crate) async fn handlers(
    client: &Client,
    workflow: WorkflowId,
) -> Result<Vec<HandlerView>, Failure> {
    let read = |row: &Row| {
        let run = maybe_run_id(row, HANDLER_COLUMNS)?;
        Ok(HandlerView { handler: topic_rows::handler(row)?, run })
    };
    ask(client, HANDLERS, &[&workflow.0]).await?.iter().map(read).collect()
}

macro_rules! mutations_where {
    ($condition:literal, $order:literal) => {
        concat!(
            "SELECT m.run, m.workflow, m.handler, m.status, m.started_at, m.updated_at, m.said_by,
               m.note, ",
            of_run_id!(),
            " FROM (SELECT * FROM mutations WHERE ",
            $condition,
            " ORDER BY ",
            $order,
            " DESC LIMIT $2) m JOIN runs r ON r.key = m.run ORDER BY m.run DESC"
        )
    };
}

const MUTATIONS: &str = mutations_where!("run < $1", "run");
const OF_WORKFLOW: &str = mutations_where!("workflow = $3 AND run + 0 < $1", "run + 0");

pub(crate) async fn mutations(
    client: &Client,
    query: MutationQuery,
) -> Result<Page<MutationView>, Failure> {
    let before = view::number(query.after.as_ref()).unwrap_or(i64::MAX);
    let limit = many(query.limit.saturating_add(1));
    let found = match query.workflow {
        Some(workflow) => ask(client, OF_WORKFLOW, &[&before, &limit, &workflow.0]).await?,
        None => ask(client, MUTATIONS, &[&before, &limit]).await?,
    };
    let read = |row: &Row| {
        let run = run_id(row, MUTATION_COLUMNS)?;
        Ok(MutationView { mutation: topic_rows::mutation(row)?, run })
    };
    let items = found.iter().map(read).collect::<Result<Vec<_>, Failure>>()?;
    let cursor = |view: &MutationView| Cursor::from(view.mutation.run);
    Ok(view::page(items, query.limit, query.after.is_none(), cursor))
}
