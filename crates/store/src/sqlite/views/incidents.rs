//! Incidents: written in the turn that begins or ends them, read by key, listed, and removed when
//! they are old.

use engine::IncidentKey;
use engine::incidents::{How, Incident, IncidentEnd};
use engine::turn::{IncidentWrite, Writes};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params, params_from_iter};

use crate::failure::Failure;
use crate::sqlite::rows::decode;
use crate::sqlite::rows::decode::{code, ms};
use crate::sqlite::transaction::apply::remember_greatest;
use crate::stored::json;
use crate::view::{self, Cursor, IncidentQuery, IncidentView, Page};

pub(crate) fn write(connection: &Connection, writes: &Writes) -> Result<(), Failure> {
    for write in &writes.incidents {
        match write {
            IncidentWrite::Begin(incident) => begin(connection, incident)?,
            IncidentWrite::End(key, end) => finish(connection, *key, end)?,
        }
    }
    Ok(())
}

fn begin(connection: &Connection, incident: &Incident) -> Result<(), Failure> {
    let sql = "INSERT INTO incidents
               (key, workflow, schedule, run, nominal, error, began_at, told)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    connection.prepare_cached(sql)?.execute(params![
        incident.key.0,
        incident.workflow.0,
        incident.schedule.map(|id| id.0),
        incident.run,
        incident.nominal.map(ms),
        incident.error,
        ms(incident.began_at),
        json(&incident.told)?,
    ])?;
    Ok(())
}

fn finish(connection: &Connection, key: IncidentKey, end: &IncidentEnd) -> Result<(), Failure> {
    let sql = "UPDATE incidents SET ending = ?2, ended_at = ?3, ended_by = ?4, ended_told = ?5
               WHERE key = ?1 AND ended_at IS NULL";
    connection.prepare_cached(sql)?.execute(params![
        key.0,
        code(&How::ALL, end.how),
        ms(end.at),
        end.run,
        json(&end.told)?,
    ])?;
    Ok(())
}

pub(crate) fn by_key(
    connection: &Connection,
    key: IncidentKey,
) -> Result<Option<Incident>, Failure> {
    let sql = format!("SELECT {} FROM incidents i WHERE i.key = ?1", decode::INCIDENT);
    Ok(connection.prepare_cached(&sql)?.query_row([key.0], decode::incident).optional()?)
}

pub(crate) fn list(
    connection: &Connection,
    query: &IncidentQuery,
) -> Result<Page<IncidentView>, Failure> {
    let mut conditions = String::from("i.key < ?");
    let before = view::number(query.after.as_ref()).unwrap_or(i64::MAX);
    let mut params: Vec<Value> = vec![before.into()];
    if let Some(schedule) = query.schedule {
        conditions.push_str(" AND i.schedule = ?");
        params.push(schedule.0.into());
    }
    if let Some(workflow) = query.workflow {
        conditions.push_str(" AND i.workflow = ?");
        params.push(workflow.0.into());
    }
    if let Some(run) = &query.run {
        conditions.push_str(" AND i.run = ?");
        params.push(run.to_string().into());
    }
    if query.open {
        conditions.push_str(" AND i.ended_at IS NULL");
    }
    params.push(i64::try_from(query.limit + 1).unwrap_or(i64::MAX).into());
    let sql = format!(
        "SELECT {}, w.name, s.declared ->> 'name' FROM incidents i
         LEFT JOIN workflows w ON w.id = i.workflow LEFT JOIN schedules s ON s.id = i.schedule
         WHERE {conditions} ORDER BY i.key DESC LIMIT ?",
        decode::INCIDENT
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let read = |row: &Row<'_>| {
        Ok(IncidentView {
            incident: decode::incident(row)?,
            workflow_name: row.get(decode::INCIDENT_COLUMNS)?,
            schedule_name: row.get(decode::INCIDENT_COLUMNS + 1)?,
        })
    };
    let found = statement.query_map(params_from_iter(&params), read)?;
    let found = found.map(|view| view.map_err(Failure::from)).collect();
    let cursor = |view: &IncidentView| Cursor::from(view.incident.key);
    view::readable_page(found, query.limit, query.after.is_none(), cursor)
}

/// Removes up to `limit` incidents that ended before this instant.
pub(crate) fn expire(connection: &Connection, before: i64, limit: usize) -> Result<usize, Failure> {
    let sql = "DELETE FROM incidents WHERE key IN
               (SELECT key FROM incidents WHERE ended_at < ?1 LIMIT ?2) RETURNING key";
    let mut statement = connection.prepare_cached(sql)?;
    let removed = statement.query_map(params![before, limit], |row| row.get(0))?;
    let removed = removed.collect::<Result<Vec<i64>, _>>()?;
    if let Some(greatest) = removed.iter().max() {
        remember_greatest(connection, "greatest_incident", *greatest)?;
    }
    Ok(removed.len())
}
