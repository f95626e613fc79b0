//! Incidents: written in the turn that begins or ends them, read by key, and removed when they are
//! old.

use engine::IncidentKey;
use engine::incidents::{How, Incident, IncidentEnd};
use engine::turn::{IncidentWrite, Writes};
use rusqlite::{Connection, params};

use crate::failure::Failure;
use crate::rows::{self, Row as _, incident_columns};
use crate::sqlite::connections::query;
use crate::sqlite::transaction::apply::remember_greatest;
use crate::stored::{code, json, ms};

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
    const SQL: &str = concat!("SELECT ", incident_columns!(), " FROM incidents i WHERE i.key = ?1");
    query::one(connection, SQL, [key.0], |row| rows::incident(row))
}

/// Removes up to `limit` incidents that ended before this instant.
pub(crate) fn expire(connection: &Connection, before: i64, limit: usize) -> Result<usize, Failure> {
    let sql = "DELETE FROM incidents WHERE key IN
               (SELECT key FROM incidents WHERE ended_at < ?1 LIMIT ?2) RETURNING key";
    let removed: Vec<i64> =
        query::all(connection, sql, params![before, limit], |row| row.single())?;
    if let Some(greatest) = removed.iter().max() {
        remember_greatest(connection, "greatest_incident", *greatest)?;
    }
    Ok(removed.len())
}
