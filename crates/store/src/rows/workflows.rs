//! Workflows and their incidents.

use engine::incidents::{Incident, IncidentEnd};
use engine::turn::Workflow;

use crate::rows::{Read, Row, columns};

columns! {
    workflow_columns = w workflows: id, name, status, paused, newest, live, concurrency, active,
        retention, created_at, updated_at, paused_reason, paused_by, handling, incident;
}

pub(crate) fn workflow(row: &impl Row) -> Read<Workflow> {
    use workflow_columns as column;
    Ok(Workflow {
        id: row.read(column::id)?,
        name: row.read(column::name)?,
        status: row.read(column::status)?,
        paused: row.read(column::paused)?,
        paused_reason: row.read(column::paused_reason)?,
        paused_by: row.read(column::paused_by)?,
        handling: row.read(column::handling)?,
        newest: row.read(column::newest)?,
        live: row.read(column::live)?,
        concurrency: row.read(column::concurrency)?,
        active: row.read(column::active)?,
        retention: row.read(column::retention)?,
        incident: row.read(column::incident)?,
        created_at: row.read(column::created_at)?,
        updated_at: row.read(column::updated_at)?,
    })
}

columns! {
    incident_columns = i incidents: key, workflow, schedule, run, nominal, error, began_at, told,
        ending, ended_at, ended_by, ended_told;
}

pub(crate) fn incident(row: &impl Row) -> Read<Incident> {
    use incident_columns as column;
    let end = match row.read(column::ended_at)? {
        None => None,
        Some(at) => Some(IncidentEnd {
            how: row.read(column::ending)?,
            at,
            run: row.read(column::ended_by)?,
            told: row.maybe_json(column::ended_told)?.unwrap_or_default(),
        }),
    };
    Ok(Incident {
        key: row.read(column::key)?,
        workflow: row.read(column::workflow)?,
        schedule: row.read(column::schedule)?,
        run: row.read(column::run)?,
        nominal: row.read(column::nominal)?,
        error: row.read(column::error)?,
        began_at: row.read(column::began_at)?,
        told: row.json(column::told)?,
        end,
    })
}
