//! Views of topics, events, producers, consumers and mutations.

use engine::topics::EventState;
use engine::{TopicId, WorkflowId};

use crate::codes::{EVENT_IN_NO_STATE, EVENT_NOT_PENDING, sql};
use crate::failure::Failure;
use crate::rows::{
    self, Row as _, columns, event_view_columns, handler_view_columns, mutation_view_columns,
    topic_columns,
};
use crate::set_aside::if_readable;
use crate::stored::code;
use crate::topic_view::{
    EventQuery, EventView, HandlerView, MutationQuery, MutationView, TopicQuery, TopicView,
    after_event, after_topic, event_cursor, topic_cursor,
};
use crate::view::{self, Cursor, Page, Total};
use crate::views::{Conditions, Reader, params};

columns! {
    /// A topic, its workflow's name, and when its oldest pending event was published.
    topic_view_columns = topic_columns, workflow_name: "w.name", oldest_pending_at: "{oldest}"
}

const OLDEST_SQLITE: &str = sql!(
    "(SELECT e.created_at FROM events e INDEXED BY events_pending
      WHERE e.state = {event_pending} AND e.topic = t.id AND e.created_at {an_instant}
      ORDER BY e.created_at LIMIT 1)"
);
const OLDEST_POSTGRES: &str = sql!(
    "(SELECT e.created_at FROM events e
      WHERE e.topic + 0 = t.id AND e.state + 0 = {event_pending} AND e.created_at {an_instant}
      ORDER BY e.created_at, e.key + 0 LIMIT 1)"
);

pub(crate) async fn topics<R: Reader>(
    reader: &R,
    query: &TopicQuery,
) -> Result<Page<TopicView>, Failure> {
    let (name, TopicId(id)) = after_topic(query.after.as_ref()).unwrap_or(("", TopicId(0)));
    // PostgreSQL has the sum in its index.
    let key = R::either("(t.name, t.id)", "(t.name, t.id + 0)");
    let mut conditions = Conditions::default();
    let (name, id) = (conditions.bind(name), conditions.bind(id));
    conditions.add_text(&format!("{key} > ({name}, {id})"));
    conditions.add_some("t.id =", query.id);
    conditions.add_some("t.name =", query.name.as_deref());
    if let Some(id_or_name) = &query.workflow {
        match id_or_name.parse::<WorkflowId>() {
            Ok(id) => conditions.add("t.workflow =", id),
            Err(()) => {
                let name = conditions.bind(id_or_name);
                let id = format!("(SELECT id FROM workflows WHERE name = {name})");
                conditions.add_text(&format!("t.workflow = {id}"));
            }
        }
    }
    let limit = conditions.bind(query.limit.saturating_add(1));
    let columns =
        topic_view_columns!().replace("{oldest}", R::either(OLDEST_SQLITE, OLDEST_POSTGRES));
    let sql = format!(
        "SELECT {columns} FROM topics t LEFT JOIN workflows w ON w.id = t.workflow
         WHERE {} ORDER BY {} LIMIT {limit}",
        conditions.sql,
        R::either("t.name, t.id", "t.name, t.id + 0")
    );
    let found = reader.all(&sql, &conditions.params, |row| {
        Ok(TopicView {
            topic: rows::topic(row)?,
            workflow: row.read(topic_view_columns::workflow_name)?,
            oldest_pending_at: row.read(topic_view_columns::oldest_pending_at)?,
        })
    });
    let cursor = |view: &TopicView| topic_cursor(&view.topic);
    Ok(view::page(found.await?, query.limit, query.after.is_none(), cursor))
}

fn events_from(events: &str, order: &str) -> String {
    format!(
        "SELECT {} FROM {events} JOIN messages m ON m.event = e.key
         LEFT JOIN runs r ON r.key = e.run ORDER BY {order}",
        event_view_columns!()
    )
}

pub(crate) async fn events<R: Reader>(
    reader: &R,
    query: &EventQuery,
) -> Result<Page<EventView>, Failure> {
    let sql = concat!("SELECT ", topic_columns!(), " FROM topics t WHERE t.id = $1");
    let topic = reader.one(sql, &params![query.topic], |row| rows::topic(row)).await?;
    let Some(topic) = topic else { return Ok(Page::empty()) };
    let start = if query.oldest_first { i64::MIN } else { i64::MAX };
    let after = after_event(query.after.as_ref());
    let (at, key) = after.map_or((start, start), |(at, key)| (at, key.0));
    let states = EventState::ALL.into_iter().filter(|s| query.state.is_none_or(|of| of == *s));
    let states: Vec<EventState> = states.collect();
    let sql = page_sql::<R>(query, &states);
    let params = params![query.topic, at, key, query.limit.saturating_add(1)];
    let found = reader.all(&sql, &params, |row| Ok(rows::event_view(row))).await?;
    let cursor = |view: &EventView| event_cursor(&view.event);
    let page = view::readable_page(found, query.limit, query.after.is_none(), cursor)?;
    // The topic's row counts its events by state.
    let total = states.iter().map(|state| topic.counts.of(*state)).sum();
    Ok(Page { total: Total::Exact(total), ..page })
}

/// Reads the first events of each state after the cursor, and takes the first of all. Events beyond
/// them are not read, however many there are.
fn page_sql<R: Reader>(query: &EventQuery, states: &[EventState]) -> String {
    let (than, order) = if query.oldest_first { (">", "ASC") } else { ("<", "DESC") };
    let key = R::either("key", "key + 0");
    let of_state = |state: &EventState| {
        let code = code(&EventState::ALL, *state);
        // Repeats the condition of SQLite's index, which does not see that it follows.
        let of_sqlite = match state {
            EventState::Pending => {
                format!("INDEXED BY events_pending WHERE state = {code} AND topic = $1")
            }
            _ => format!(
                "INDEXED BY events_by_state WHERE state {EVENT_NOT_PENDING} AND state = {code}
                   AND topic = $1"
            ),
        };
        R::either(of_sqlite, format!("WHERE topic + 0 = $1 AND state + 0 = {code}"))
    };
    // SQLite compares a row with the columns of its index, but not with the key behind them: events
    // of the cursor's own instant are a branch of their own.
    let after = R::either(
        vec![format!("created_at = $2 AND key {than} $3"), format!("created_at {than} $2")],
        vec![format!("(created_at, key + 0) {than} ($2, $3)")],
    );
    let branch = |of: &String, after: &String| {
        let order = format!("created_at {order}, {key} {order}");
        R::branch(&format!("SELECT * FROM events {of} AND {after} ORDER BY {order} LIMIT $4"))
    };
    // A list of all states has those that are in none, too: their topic counts them.
    // SQLite searches the index by the first of the two conditions, so the narrower one is first.
    let in_no_state = query.state.is_none().then(|| {
        R::either(
            format!(
                "INDEXED BY events_by_state WHERE topic = $1 AND state {EVENT_IN_NO_STATE}
                   AND state {EVENT_NOT_PENDING}"
            ),
            format!("WHERE topic + 0 = $1 AND state + 0 {EVENT_IN_NO_STATE}"),
        )
    });
    let states = states.iter().map(of_state).chain(in_no_state);
    let all: Vec<String> =
        states.flat_map(|of| after.iter().map(move |after| branch(&of, after))).collect();
    let first = format!(
        "(SELECT * FROM ({}) e ORDER BY created_at {order}, key {order} LIMIT $4) e",
        all.join(" UNION ALL ")
    );
    events_from(&first, &format!("e.created_at {order}, e.key {order}"))
}

/// Without events that cannot be read: they hide no others.
pub(crate) async fn events_by_id<R: Reader>(
    reader: &R,
    topic: TopicId,
    message_ids: &[String],
) -> Result<Vec<EventView>, Failure> {
    let (from, order) = R::either(
        ("json_each($2) u CROSS JOIN events e ON e.topic = $1 AND e.message_id = u.value", "u.key"),
        (
            "unnest($2::text[]) WITH ORDINALITY AS u (id, position)
             JOIN events e ON e.topic = $1 AND e.message_id = u.id",
            "u.position",
        ),
    );
    let sql = events_from(from, order);
    let params = params![topic, message_ids];
    let found = reader.all(&sql, &params, |row| if_readable(rows::event_view(row))).await?;
    Ok(found.into_iter().flatten().collect())
}

pub(crate) async fn handlers(
    reader: &impl Reader,
    workflow: WorkflowId,
) -> Result<Vec<HandlerView>, Failure> {
    let sql = concat!(
        "SELECT ",
        handler_view_columns!(),
        " FROM handlers h LEFT JOIN runs r ON r.key = h.run WHERE h.workflow = $1 ORDER BY h.name"
    );
    reader.all(sql, &params![workflow], |row| rows::handler_view(row)).await
}

pub(crate) async fn mutations<R: Reader>(
    reader: &R,
    query: &MutationQuery,
) -> Result<Page<MutationView>, Failure> {
    let (source, run) = match query.workflow {
        // PostgreSQL has the sum in the index of workflows.
        Some(_) => (R::indexed_by("mutations_by_workflow"), R::either("run", "run + 0")),
        None => (R::either("NOT INDEXED", "").to_owned(), "run"),
    };
    let mut conditions = Conditions::default();
    let before = view::number(query.after.as_ref()).unwrap_or(i64::MAX);
    conditions.add(&format!("{run} <"), before);
    conditions.add_some("workflow =", query.workflow);
    let limit = conditions.bind(query.limit.saturating_add(1));
    let sql = format!(
        "SELECT {} FROM (SELECT * FROM mutations {source} WHERE {}
                         ORDER BY {run} DESC LIMIT {limit}) m
         JOIN runs r ON r.key = m.run ORDER BY m.run DESC",
        mutation_view_columns!(),
        conditions.sql
    );
    let found = reader.all(&sql, &conditions.params, |row| rows::mutation_view(row)).await?;
    let cursor = |view: &MutationView| Cursor::from(view.mutation.run);
    Ok(view::page(found, query.limit, query.after.is_none(), cursor))
}
