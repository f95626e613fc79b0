//! Incidents: written in the turn that begins or ends them, read by key, listed, and removed when
//! they are old.

use std::fmt::Write as _;

use deadpool_postgres::Client;
use engine::IncidentKey;
use engine::incidents::{How, Incident, IncidentEnd};
use engine::turn::{IncidentWrite, Writes};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::failure::Failure;
use crate::postgres::connections::query::{ask, many};
use crate::postgres::connections::tx_connection::{Query, TxConnection, param};
use crate::postgres::rows::columns::of_incident;
use crate::postgres::rows::decode;
use crate::postgres::rows::decode::{INCIDENT_COLUMNS, get, narrow};
use crate::postgres::transaction::apply::{column, owned, try_column};
use crate::stored::{json, ms};
use crate::view::{self, Cursor, IncidentQuery, IncidentView, Page};

const BEGIN: &str = "INSERT INTO incidents
       (key, workflow, schedule, run, nominal, error, began_at, told)
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[],
       $6::text[], $7::bigint[], $8::text[])";
const END: &str = "UPDATE incidents i SET ending = u.ending, ended_at = u.at, ended_by = u.run,
       ended_told = u.told
     FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::text[], $5::text[])
       AS u (key, ending, at, run, told)
     WHERE i.key = u.key AND i.ended_at IS NULL";

/// Begins are written before ends: an incident may begin and end in one turn.
pub(crate) fn write(writes: &Writes, all: &mut Vec<Query>) -> Result<(), Failure> {
    let (mut begun, mut ended) = (Vec::new(), Vec::new());
    for write in &writes.incidents {
        match write {
            IncidentWrite::Begin(incident) => begun.push(&**incident),
            IncidentWrite::End(key, end) => ended.push((*key, &**end)),
        }
    }
    if !begun.is_empty() {
        let params = vec![
            column(&begun, |incident: &&Incident| incident.key.0),
            column(&begun, |incident| incident.workflow.0),
            column(&begun, |incident| incident.schedule.map(|id| id.0)),
            column(&begun, |incident| incident.run.as_deref().map(owned)),
            column(&begun, |incident| incident.nominal.map(ms)),
            column(&begun, |incident| owned(&incident.error)),
            column(&begun, |incident| ms(incident.began_at)),
            try_column(&begun, |incident| json(&incident.told))?,
        ];
        all.push(Query::new(BEGIN, params));
    }
    if !ended.is_empty() {
        let params = vec![
            column(&ended, |(key, _): &(IncidentKey, &IncidentEnd)| key.0),
            column(&ended, |(_, end)| narrow(&How::ALL, end.how)),
            column(&ended, |(_, end)| ms(end.at)),
            column(&ended, |(_, end)| end.run.as_deref().map(owned)),
            try_column(&ended, |(_, end)| json(&end.told))?,
        ];
        all.push(Query::new(END, params));
    }
    Ok(())
}

const BY_KEY: &str = concat!("SELECT ", of_incident!(), " FROM incidents i WHERE i.key = $1");

/// Reads an incident within a transaction.
pub(crate) fn by_key(tx: &mut TxConnection, key: IncidentKey) -> Result<Option<Incident>, Failure> {
    tx.one(BY_KEY, vec![param(key.0)])?.first().map(decode::incident).transpose()
}

const LIST: &str = concat!(
    "SELECT ",
    of_incident!(),
    ", w.name, s.declared::json ->> 'name' FROM incidents i
     LEFT JOIN workflows w ON w.id = i.workflow LEFT JOIN schedules s ON s.id = i.schedule
     WHERE i.key < $1"
);

pub(crate) async fn list(
    client: &Client,
    query: IncidentQuery,
) -> Result<Page<IncidentView>, Failure> {
    let before = view::number(query.after.as_ref()).unwrap_or(i64::MAX);
    let limit = many(query.limit.saturating_add(1));
    let mut sql = LIST.to_owned();
    let mut params: Vec<Box<dyn ToSql + Sync + Send>> = vec![Box::new(before), Box::new(limit)];
    let mut also = |condition: &str, value: Box<dyn ToSql + Sync + Send>| {
        params.push(value);
        // Writing to a string does not fail.
        let _ = write!(sql, " AND {condition} ${}", params.len());
    };
    if let Some(schedule) = query.schedule {
        also("i.schedule =", Box::new(schedule.0));
    }
    if let Some(workflow) = query.workflow {
        also("i.workflow =", Box::new(workflow.0));
    }
    if let Some(run) = &query.run {
        also("i.run =", Box::new(run.to_string()));
    }
    if query.open {
        sql.push_str(" AND i.ended_at IS NULL");
    }
    sql.push_str(" ORDER BY i.key DESC LIMIT $2");
    let params: Vec<&(dyn ToSql + Sync)> =
        params.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect();
    let found = ask(client, &sql, &params).await?.iter().map(read_view).collect();
    let cursor = |view: &IncidentView| Cursor::from(view.incident.key);
    view::readable_page(found, query.limit, query.after.is_none(), cursor)
}

fn read_view(row: &Row) -> Result<IncidentView, Failure> {
    Ok(IncidentView {
        incident: decode::incident(row)?,
        workflow_name: get(row, INCIDENT_COLUMNS)?,
        schedule_name: get(row, INCIDENT_COLUMNS + 1)?,
    })
}

/// The statement that removes up to `limit` incidents that ended before this instant. It returns a
/// row for each.
pub(crate) fn ask_expire(before: i64, limit: usize) -> Query {
    let sql = "DELETE FROM incidents WHERE key IN
               (SELECT key FROM incidents WHERE ended_at < $1 ORDER BY ended_at LIMIT $2)
               RETURNING key";
    Query::new(sql, vec![param(before), param(many(limit))])
}
