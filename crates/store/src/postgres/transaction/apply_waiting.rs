//! Writes the queue entries, approvals and alerts that a turn decided.

use std::collections::BTreeMap;

use engine::run::{Approval, Queueing};
use engine::turn::{AlertWrite, ApprovalWrite, Writes};
use jiff::Timestamp;

use crate::failure::Failure;
use crate::postgres::connections::tx_connection::Query;
use crate::postgres::transaction::apply::{column, owned, try_column};
use crate::stored::{deadline_step, end_name, json, ms};

pub(crate) fn waiting(writes: &Writes, all: &mut Vec<Query>) -> Result<(), Failure> {
    queue(writes, all);
    approvals(writes, all)?;
    alerts(writes, all)
}

/// Finds each row by its key, whatever the planner estimates.
const TAKE: &str = "DELETE FROM queue WHERE ctid = ANY (ARRAY(
       SELECT q.ctid FROM unnest($1::bigint[], $2::integer[], $3::integer[]) AS u (run, step, item)
       CROSS JOIN LATERAL (SELECT ctid FROM queue
         WHERE run = u.run AND step = u.step AND item = u.item FOR UPDATE) q))";
const PUT: &str = "INSERT INTO queue (run, step, item, queue)
     SELECT * FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::text[])
     ON CONFLICT (run, step, item) DO UPDATE SET queue = excluded.queue";

/// Run, step and item.
type Key = (i64, i32, i32);

fn queue(writes: &Writes, all: &mut Vec<Query>) {
    // If a turn puts and takes the same part, the last write counts.
    let mut last: BTreeMap<Key, Option<&str>> = BTreeMap::new();
    for (run, queueing) in &writes.queueing {
        let (part, queue) = match queueing {
            Queueing::Put(queue, part) => (part, Some(queue.as_str())),
            Queueing::Take(part) => (part, None),
        };
        last.insert((run.0, part.step.cast_signed(), part.item.number()), queue);
    }
    let (put, taken): (Vec<_>, Vec<_>) = last.into_iter().partition(|(_, queue)| queue.is_some());
    let key = |rows: &[(Key, Option<&str>)]| {
        vec![
            column(rows, |((run, _, _), _)| *run),
            column(rows, |((_, step, _), _)| *step),
            column(rows, |((_, _, item), _)| *item),
        ]
    };
    if !taken.is_empty() {
        all.push(Query::new(TAKE, key(&taken)));
    }
    if !put.is_empty() {
        let mut params = key(&put);
        params.push(column(&put, |(_, queue)| queue.map(owned)));
        all.push(Query::new(PUT, params));
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
