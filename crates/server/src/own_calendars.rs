//! The calendars that a workflow definition declares.

use calendar::CalendarSpec;
use engine::WorkflowId;
use language::definition::Definition;
use store::{AuditEntry, Failure, Store};

use crate::hub::Hub;
use crate::maintenance::NextTimes;

/// Stores the calendars of a definition, before its triggers go live. If one of them is refused,
/// the error holds its index.
pub async fn declare_calendars(
    hub: &Hub,
    definition: &Definition,
    audit: impl Fn(&str) -> Option<AuditEntry>,
) -> Result<(), (usize, Failure)> {
    if definition.calendars.is_empty() {
        return Ok(());
    }
    let known = hub.store().calendars().await.map_err(|failure| (0, failure))?;
    for (index, spec) in definition.calendars.iter().enumerate() {
        let spec = with_zone(spec, definition);
        let text = serde_json::to_string(&spec)
            .map_err(|error| (index, Failure::Unavailable(error.to_string())))?;
        if known.iter().any(|view| view.id == spec.id && view.spec == text) {
            continue;
        }
        let put = NextTimes::default().put_calendar(hub, &spec.id, &text, audit(&spec.id)).await;
        put.map_err(|failure| (index, failure))?;
    }
    Ok(())
}

/// Calendars of a definition that are stored with another content and used by schedules of other
/// workflows: their index, the number of those schedules, and names of those workflows.
pub(crate) async fn calendars_of_others(
    store: &dyn Store,
    definition: &Definition,
    workflow: WorkflowId,
) -> Result<Vec<(usize, u64, Vec<String>)>, Failure> {
    let mut found = Vec::new();
    if definition.calendars.is_empty() {
        return Ok(found);
    }
    let known = store.calendars().await?;
    for (index, spec) in definition.calendars.iter().enumerate() {
        let spec = with_zone(spec, definition);
        let text = serde_json::to_string(&spec).unwrap_or_default();
        if !known.iter().any(|view| view.id == spec.id && view.spec != text) {
            continue;
        }
        let (count, names) = store.calendar_users(&spec.id, workflow).await?;
        if count > 0 {
            found.push((index, count, names));
        }
    }
    Ok(found)
}

/// A definition's calendar uses the definition's zone if it names none itself and is not composed
/// of others.
fn with_zone(spec: &CalendarSpec, definition: &Definition) -> CalendarSpec {
    let is_composed =
        spec.base.is_some() || !spec.union.is_empty() || !spec.intersection.is_empty();
    let zone = spec.timezone.clone();
    let timezone = zone.or_else(|| definition.timezone.clone().filter(|_| !is_composed));
    CalendarSpec { timezone, ..spec.clone() }
}
