//! The list of incidents.

use crate::failure::Failure;
use crate::rows::{self, Row as _, columns, declared_name};
use crate::view::{self, Cursor, IncidentQuery, IncidentView, Page};
use crate::views::{Conditions, Reader};

columns! {
    /// An incident, and whose it is.
    incident_view_columns = incident_columns, workflow_name: "w.name", declared: "s.declared"
}

pub(crate) async fn list(
    reader: &impl Reader,
    query: &IncidentQuery,
) -> Result<Page<IncidentView>, Failure> {
    let run = query.run.as_ref().map(ToString::to_string);
    let mut conditions = Conditions::default();
    conditions.add("i.key <", view::number(query.after.as_ref()).unwrap_or(i64::MAX));
    conditions.add_some("i.schedule =", query.schedule);
    conditions.add_some("i.workflow =", query.workflow);
    conditions.add_some("i.run =", run.as_deref());
    if let Some(open) = query.open {
        let condition = if open { "i.ended_at IS NULL" } else { "i.ended_at IS NOT NULL" };
        conditions.add_text(condition);
    }
    let limit = conditions.bind(query.limit.saturating_add(1));
    let sql = format!(
        "SELECT {} FROM incidents i
         LEFT JOIN workflows w ON w.id = i.workflow LEFT JOIN schedules s ON s.id = i.schedule
         WHERE {} ORDER BY i.key DESC LIMIT {limit}",
        incident_view_columns!(),
        conditions.sql
    );
    let found = reader.all(&sql, &conditions.params, |row| {
        let view = || {
            Ok(IncidentView {
                incident: rows::incident(row)?,
                workflow_name: row.read(incident_view_columns::workflow_name)?,
                schedule_name: declared_name(row, incident_view_columns::declared)?,
            })
        };
        Ok(view())
    });
    let cursor = |view: &IncidentView| Cursor::from(view.incident.key);
    view::readable_page(found.await?, query.limit, query.after.is_none(), cursor)
}
