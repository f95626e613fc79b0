//! What the declared calendars make, in every store alike.

use std::sync::Arc;

use calendar::{CalendarSpec, Zones};
use engine::Rules;
use engine::turn::Refused;

use crate::failure::Failure;
use crate::view::CalendarView;

/// The rules that these calendars make. A calendar may be composed of others, in any order.
pub(crate) fn load(calendars: &[CalendarView], zones: Arc<Zones>) -> Result<Rules, Failure> {
    let (rules, broken) = build(calendars, zones)?;
    if !broken.is_empty() {
        let names: Vec<&str> = broken.iter().map(|spec| spec.id.as_str()).collect();
        tracing::error!(calendars = names.join(", "), "calendars cannot be built any more");
    }
    Ok(rules)
}

/// The rules, and the calendars that cannot be built.
fn build(
    calendars: &[CalendarView],
    zones: Arc<Zones>,
) -> Result<(Rules, Vec<CalendarSpec>), Failure> {
    let mut rules = Rules::new(zones);
    let mut left = Vec::new();
    for view in calendars {
        let spec: CalendarSpec = serde_json::from_str(&view.spec)
            .map_err(|error| Failure::Damaged(format!("calendar {}: {error}", view.id)))?;
        left.push(CalendarSpec { id: view.id.clone(), ..spec });
    }
    loop {
        let before = left.len();
        left.retain(|spec| match rules.build_calendar(spec) {
            Ok(calendar) => {
                rules.declare(calendar);
                false
            }
            Err(_) => true,
        });
        if left.len() == before {
            return Ok((rules, left));
        }
    }
}

/// What changes with the calendars.
pub(crate) enum Change<'a> {
    /// This one is put.
    Put(&'a str),
    /// This one is deleted.
    Deleted(&'a str),
}

/// The rules after a change. Calendars that were known stay known, or it is refused with the first that
/// would not.
pub(crate) fn changed(
    before: &Rules,
    calendars: &[CalendarView],
    change: &Change<'_>,
) -> Result<Rules, Failure> {
    let (rules, broken) = build(calendars, before.zones().clone())?;
    // Others have been broken for long, by a new program or zone database.
    let is_lost = |spec: &&CalendarSpec| {
        matches!(change, Change::Put(id) if *id == spec.id) || before.calendar(&spec.id).is_some()
    };
    match broken.iter().find(is_lost) {
        Some(lost) => Err(Failure::Refused(refused(before, change, lost))),
        None => Ok(rules),
    }
}

fn refused(before: &Rules, change: &Change<'_>, lost: &CalendarSpec) -> Refused {
    match change {
        Change::Put(id) if *id == lost.id => match before.build_calendar(lost) {
            Err(mistakes) => Refused::Invalid(vec![(0, mistakes)]),
            Ok(_) => Refused::Conflict(format!("Calendar {id} would be made of itself.")),
        },
        Change::Put(id) => Refused::Conflict(format!(
            "Calendar {} could not be made any more with this calendar {id}.",
            lost.id
        )),
        Change::Deleted(id) => {
            Refused::Conflict(format!("Calendar {id} is used by calendar {}.", lost.id))
        }
    }
}
