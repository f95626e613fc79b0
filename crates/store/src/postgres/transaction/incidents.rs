//! Incidents: written in the turn that begins or ends them, read by key, and removed when they are
//! old.

use engine::IncidentKey;
use engine::incidents::{How, Incident, IncidentEnd};
use engine::turn::{IncidentWrite, Writes};

use crate::failure::Failure;
use crate::postgres::connections::query::row_count;
use crate::postgres::connections::tx_connection::{Query, TxConnection, param};
use crate::postgres::rows::narrow;
use crate::postgres::transaction::apply::{column, owned, try_column};
use crate::rows::{self, incident_columns};
use crate::stored::{json, ms};

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

const BY_KEY: &str = concat!("SELECT ", incident_columns!(), " FROM incidents i WHERE i.key = $1");

/// Reads an incident within a transaction.
pub(crate) fn by_key(tx: &mut TxConnection, key: IncidentKey) -> Result<Option<Incident>, Failure> {
    tx.one(BY_KEY, vec![param(key.0)])?.first().map(rows::incident).transpose()
}

/// The statement that removes up to `limit` incidents that ended before this instant. It returns a
/// row for each.
pub(crate) fn ask_expire(before: i64, limit: usize) -> Query {
    let sql = "DELETE FROM incidents WHERE key IN
               (SELECT key FROM incidents WHERE ended_at < $1 ORDER BY ended_at LIMIT $2)
               RETURNING key";
    Query::new(sql, vec![param(before), param(row_count(limit))])
}
