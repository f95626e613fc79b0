//! Writes the queue entries, approvals, waits for events and alerts that a turn decided.

use std::collections::BTreeMap;

use engine::RunKey;
use engine::run::{Approval, Part, Queueing};
use engine::turn::{AlertWrite, ApprovalWrite, WaitWrite, Writes};
use jiff::Timestamp;
use tokio_postgres::types::ToSql;

use crate::failure::Failure;
use crate::postgres::connections::tx_connection::Query;
use crate::postgres::transaction::apply::{column, owned, try_column};
use crate::stored::{deadline_step, end_name, json, ms};

pub(crate) fn waiting(writes: &Writes, all: &mut Vec<Query>) -> Result<(), Failure> {
    queue(writes, all);
    approvals(writes, all)?;
    alerts(writes, all)
}

/// Deletes rows of parts. Finds each row by its key, whatever the planner estimates.
macro_rules! delete_parts {
    ($table:literal) => {
        concat!(
            "DELETE FROM ",
            $table,
            " WHERE ctid = ANY (ARRAY(
               SELECT p.ctid
               FROM unnest($1::bigint[], $2::integer[], $3::integer[]) AS u (run, step, item)
               CROSS JOIN LATERAL (SELECT ctid FROM ",
            $table,
            " WHERE run = u.run AND step = u.step AND item = u.item FOR UPDATE) p))"
        )
    };
}

const TAKE: &str = delete_parts!("queue");
const PUT: &str = "INSERT INTO queue (run, step, item, queue)
     SELECT * FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::text[])
     ON CONFLICT (run, step, item) DO UPDATE SET queue = excluded.queue";

fn queue(writes: &Writes, all: &mut Vec<Query>) {
    let writes = writes.queueing.iter().map(|(run, queueing)| match queueing {
        Queueing::Put(queue, part) => (*run, *part, Some(queue)),
        Queueing::Take(part) => (*run, *part, None),
    });
    write_parts(writes, |queue| owned(queue), TAKE, PUT, all);
}

const END_WAITS: &str = delete_parts!("waits");
const BEGIN_WAITS: &str = "INSERT INTO waits (run, step, item, topic)
     SELECT * FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::bigint[])
     ON CONFLICT (run, step, item) DO UPDATE SET topic = excluded.topic";

pub(crate) fn waits(writes: &Writes, all: &mut Vec<Query>) {
    let writes = writes.waits.iter().map(|write| match write {
        WaitWrite::Begin(topic, run, part) => (*run, *part, Some(topic)),
        WaitWrite::End(run, part) => (*run, *part, None),
    });
    write_parts(writes, |topic| topic.0, END_WAITS, BEGIN_WAITS, all);
}

/// The run, step and item of a row.
type Key = (i64, i32, i32);

/// Deletes the rows of parts that wait no longer, and puts those of parts that wait for something.
/// Of several writes of one part, the last counts.
fn write_parts<'a, V: 'a, T: ToSql + Sync + Send + 'static>(
    writes: impl Iterator<Item = (RunKey, Part, Option<&'a V>)>,
    value: impl Fn(&V) -> T,
    delete: &'static str,
    put: &'static str,
    all: &mut Vec<Query>,
) {
    let key = |run: RunKey, part: Part| (run.0, part.step.cast_signed(), part.item.number());
    let last: BTreeMap<_, _> = writes.map(|(run, part, to)| (key(run, part), to)).collect();
    let (waiting, ended): (Vec<_>, Vec<_>) = last.into_iter().partition(|(_, to)| to.is_some());
    let keys = |rows: &[(Key, Option<&V>)]| {
        vec![
            column(rows, |((run, _, _), _)| *run),
            column(rows, |((_, step, _), _)| *step),
            column(rows, |((_, _, item), _)| *item),
        ]
    };
    if !ended.is_empty() {
        all.push(Query::new(delete, keys(&ended)));
    }
    if !waiting.is_empty() {
        let mut params = keys(&waiting);
        params.push(column(&waiting, |(_, to)| to.map(&value)));
        all.push(Query::new(put, params));
    }
}

const WITHDRAW: &str = "DELETE FROM approvals WHERE ctid = ANY (ARRAY(
       SELECT a.ctid FROM unnest($1::bigint[], $2::integer[]) AS u (run, step)
       CROSS JOIN LATERAL (SELECT ctid FROM approvals
         WHERE run = u.run AND step = u.step FOR UPDATE) a))";
const ASK: &str = "INSERT INTO approvals (run, step, title, description, assignees, asked_at)
     SELECT * FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::text[], $5::text[],
       $6::bigint[])
     ON CONFLICT (run, step) DO UPDATE SET title = excluded.title,
       description = excluded.description, assignees = excluded.assignees,
       asked_at = excluded.asked_at";

fn approvals(writes: &Writes, all: &mut Vec<Query>) -> Result<(), Failure> {
    let mut last: BTreeMap<(i64, i32), Option<(Timestamp, &Approval)>> = BTreeMap::new();
    for write in &writes.approvals {
        match write {
            ApprovalWrite::Ask(run, at, queries) => {
                last.insert((run.0, queries.step.cast_signed()), Some((*at, queries)));
            }
            ApprovalWrite::Withdraw(run, step) => {
                last.insert((run.0, step.cast_signed()), None);
            }
        }
    }
    let gone = last.iter().filter(|(_, queries)| queries.is_none()).map(|(key, _)| *key);
    let gone: Vec<(i64, i32)> = gone.collect();
    if !gone.is_empty() {
        let params = vec![column(&gone, |(run, _)| *run), column(&gone, |(_, step)| *step)];
        all.push(Query::new(WITHDRAW, params));
    }
    let queries =
        last.iter().filter_map(|(key, queries)| queries.map(|(at, queries)| (*key, at, queries)));
    let queries: Vec<_> = queries.collect();
    if !queries.is_empty() {
        let params = vec![
            column(&queries, |((run, _), _, _)| *run),
            column(&queries, |((_, step), _, _)| *step),
            column(&queries, |(_, _, queries)| owned(&queries.title)),
            column(&queries, |(_, _, queries)| queries.description.as_deref().map(owned)),
            try_column(&queries, |(_, _, queries)| json(&queries.assignees))?,
            column(&queries, |(_, at, _)| ms(*at)),
        ];
        all.push(Query::new(ASK, params));
    }
    Ok(())
}

const ALERT: &str = "INSERT INTO alerts
       (run, step, action, at, due, happened_at, ended, started, refused)
     SELECT * FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::bigint[], $5::bigint[],
       $6::bigint[], $7::text[], $8::text[], $9::text[])
     ON CONFLICT (run, step, action, at) DO UPDATE SET due = excluded.due,
       happened_at = excluded.happened_at, ended = excluded.ended, started = excluded.started,
       refused = excluded.refused";

fn alerts(writes: &Writes, all: &mut Vec<Query>) -> Result<(), Failure> {
    let step =
        |write: &AlertWrite| i32::try_from(deadline_step(write.alert.step)).unwrap_or(i32::MAX);
    let key = |write: &AlertWrite| (write.run, step(write), write.alert.action, write.alert.at);
    let last: BTreeMap<_, &AlertWrite> =
        writes.alerts.iter().map(|write| (key(write), write)).collect();
    if last.is_empty() {
        return Ok(());
    }
    let rows: Vec<&AlertWrite> = last.into_values().collect();
    let params = vec![
        column(&rows, |write| write.run.0),
        column(&rows, |write| step(write)),
        column(&rows, |write| write.alert.action.cast_signed()),
        column(&rows, |write| ms(write.alert.at)),
        column(&rows, |write| ms(write.alert.due)),
        column(&rows, |write| ms(write.at)),
        column(&rows, |write| write.end.map(end_name)),
        try_column(&rows, |write| json(&write.started))?,
        column(&rows, |write| write.refused.as_deref().map(owned)),
    ];
    all.push(Query::new(ALERT, params));
    Ok(())
}
