//! A test that decisions and views of topics take as many steps of SQLite with a long history as
//! without.

use engine::topics::EventState;
use engine::{RunKey, TopicId, WorkflowId};
use rusqlite::Connection;

use crate::failure::Failure;
use crate::sqlite::connections::query::answer;
use crate::sqlite::maintenance::topic_expiry::{expire_in, is_needed};
use crate::sqlite::transaction::topic_reader;
use crate::sqlite::views::counted::{Question, steps};
use crate::topic_view::{EventQuery, MutationQuery, TopicQuery};
use crate::view::Cursor;
use crate::views::topics;

const TOPIC: TopicId = TopicId(1);

/// A topic with a few pending and reserved events, after `past` events that were consumed or
/// skipped, each by a run of its own with a mutation.
fn with_history(past: u64) -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch(include_str!("../schema/0001.sql")).unwrap();
    let numbers = |count: u64| {
        format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})")
    };
    let event = |key: &str, state: &str, run: &str| {
        format!(
            "INSERT INTO events (key, topic, message_id, state, attempt, run, hops,
                created_at, updated_at)
             SELECT {key}, 1, 'm' || ({key}), {state}, 0, {run}, 0, {key}, {key} FROM n"
        )
    };
    let (many, few) = (numbers(past), numbers(10));
    connection
        .execute_batch(&format!(
            "INSERT INTO workflows (id, name, status, paused, newest, active, created_at, updated_at)
             VALUES (1, 'w', 1, 0, 1, 0, 0, 0);
             INSERT INTO topics VALUES (1, 1, 't', 10, 10, 10, {past}, {past}, 0);
             INSERT INTO subscriptions VALUES (1, 1, 1);
             INSERT INTO handlers (id, workflow, name, kind, state, failures, runs)
             VALUES (1, 1, 'c', 1, 'null', 0, 0);
             {many} {};
             {many} {};
             {few} {};
             {few} {};
             INSERT INTO messages (event, payload) SELECT key, '1' FROM events;
             {many} INSERT INTO runs (key, uuid, workflow, version, retry, triggered_by, status,
                created_at, state, waits_for_slot, overdue, input)
             SELECT i, CAST(printf('%016d', i) AS BLOB), 1, 1, 0, 0, 4, 0, '', 0, 0, 'null' FROM n;
             {many} INSERT INTO mutations (run, workflow, handler, status, started_at, updated_at)
             SELECT i, 1, 'c', 1, 0, 0 FROM n",
            event("i", "2", "i"),
            event("i + 100000", "3", "NULL"),
            event("i + 200000", "0", "NULL"),
            event("i + 300000", "1", "300000"),
        ))
        .unwrap();
    connection
}

fn page(
    connection: &Connection,
    state: Option<EventState>,
    oldest_first: bool,
    after: Option<Cursor>,
) -> Result<usize, Failure> {
    let query = EventQuery { topic: TOPIC, state, oldest_first, limit: 5, after };
    Ok(answer(topics::events(connection, &query))?.items.len())
}

const QUESTIONS: [(&str, Question); 13] = [
    ("topic", |c| Ok(topic_reader::topic(c, TOPIC)?.iter().len())),
    ("event statuses", |c| {
        let ids = ["m7", "m200001", "nobody"].map(str::to_owned);
        Ok(topic_reader::event_statuses(c, TOPIC, &ids)?.iter().flatten().count())
    }),
    ("reserved", |c| Ok(topic_reader::reserved_by(c, RunKey(300_000))?.len())),
    ("pending", |c| Ok(topic_reader::pending_events(c, TOPIC, 5)?.len())),
    ("oldest pending", |c| Ok(topic_reader::oldest_pending(c, TOPIC, 1)?.len())),
    ("topics", |c| {
        let query = TopicQuery { limit: 5, ..TopicQuery::default() };
        Ok(answer(topics::topics(c, &query))?.items.len())
    }),
    ("handlers", |c| Ok(answer(topics::handlers(c, WorkflowId(1)))?.len())),
    ("all events", |c| Ok(page(c, None, true, None)? + page(c, None, false, None)?)),
    ("events by state", |c| {
        let mut found = 0;
        for state in EventState::ALL {
            found += page(c, Some(state), true, None)? + page(c, Some(state), false, None)?;
        }
        Ok(found)
    }),
    ("a page further on", |c| {
        let after = || Some(Cursor::Name("500/500".to_owned()));
        let consumed = Some(EventState::Consumed);
        Ok(page(c, consumed, true, after())? + page(c, None, false, after())?)
    }),
    ("mutations", |c| {
        let query = |workflow| MutationQuery { workflow, limit: 5, after: None };
        let of_all = answer(topics::mutations(c, &query(None)))?.items.len();
        Ok(of_all + answer(topics::mutations(c, &query(Some(WorkflowId(1)))))?.items.len())
    }),
    ("what has expired", |c| expire_in(c, TOPIC.0, 0, 10)),
    ("whether a run is needed", |c| Ok(usize::from(is_needed(c, 300_000)?))),
];

#[test]
fn history_costs_nothing() {
    let (short, long) =
        (steps(with_history(1_000), &QUESTIONS), steps(with_history(20_000), &QUESTIONS));
    let nothing_expires =
        |(name, found, _): &&(&str, usize, u64)| *found > 0 || *name == "what has expired";
    assert!(short.iter().all(|asked| nothing_expires(&asked)), "{short:?}");
    assert_eq!(short, long);
}
